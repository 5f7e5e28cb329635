"""The Kopf handlers.

Only ``kopf.on.event``, on Nodes and ResourceQuotas: change handlers would write
Kopf's own annotations on the objects, timers, daemons and deletion handlers
would add finalizers, and a GPU operator must never be the reason that a node or
a pod cannot be deleted. Pods change too often for it: see ``kube.pod_watch``.
"""

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import kopf

from vgpu_operator.handlers import no_state
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import deliver

LOGIN_LIFETIME = datetime.timedelta(minutes=10)
"""Service account tokens change on the disk; Kopf asks again after so long."""

LIST_CHUNK = 100
"""Objects in one page of Kopf's first list: all at once is a spike on both sides."""

STOP_LIMIT_S = 3.0
"""How long Kopf may take to end; what it then still does is abandoned."""


class Ticker(Protocol):
    """Our own timers, which Kopf starts and stops with the operator."""

    def start(self) -> None:
        """Begin to tick."""

    async def stop(self) -> None:
        """Tick no more."""


class Events(Protocol):
    """Where watch events go."""

    def node_event(self, kind: str | None, raw: dict[str, Any]) -> None:
        """Take in an event of a Node."""

    def quota_event(self, kind: str | None, raw: dict[str, Any]) -> None:
        """Take in an event of a ResourceQuota."""


def register(
    registry: kopf.OperatorRegistry,
    *,
    events: Events,
    ticker: Ticker,
    login: Callable[[], Awaitable[kube_client.Credentials]],
    clock: kube_clock.Clock,
) -> None:
    """Register the handlers with an explicit registry."""

    @kopf.on.login(registry=registry)
    async def on_login(**_: Any) -> kopf.ConnectionInfo:
        found = await login()
        return kopf.ConnectionInfo(
            server=found.server,
            ca_path=found.ca_path,
            insecure=found.insecure,
            certificate_path=found.certificate_path,
            private_key_path=found.key_path,
            token=found.token,
            scheme="Bearer" if found.token else None,
            expiration=clock.now() + LOGIN_LIFETIME if found.token else None,
        )

    @kopf.on.startup(registry=registry)
    async def on_startup(**_: Any) -> None:
        ticker.start()

    @kopf.on.cleanup(registry=registry)
    async def on_cleanup(**_: Any) -> None:
        await ticker.stop()

    @kopf.on.event("", "v1", "nodes", registry=registry)
    async def on_node_event(event: kopf.RawEvent, **_: Any) -> None:
        deliver.deliver(events.node_event, event["type"], event["object"])

    @kopf.on.event("", "v1", "resourcequotas", registry=registry)
    async def on_quota_event(event: kopf.RawEvent, **_: Any) -> None:
        deliver.deliver(events.quota_event, event["type"], event["object"])


async def run(registry: kopf.OperatorRegistry, *, on_started: Callable[[], None]) -> None:
    """Run Kopf until it gives up (then raise why) or this call is cancelled.

    ``kopf.operator`` would end every task of the event loop that began after
    it, our binds and servers included; its root tasks alone are ended here.
    Kopf installs signal handlers of its own; ``on_started`` puts ours back.
    """
    tasks = await kopf.spawn_tasks(registry=registry, settings=settings(), clusterwide=True)
    on_started()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_LIMIT_S)
    for task in done:
        if not task.cancelled():
            await task


def settings() -> kopf.OperatorSettings:
    """Return Kopf's settings: no discovery of CRDs, no events, no peering, no own marks."""
    configured = kopf.OperatorSettings()
    configured.scanning.disabled = True
    configured.posting.enabled = False
    configured.peering.standalone = True
    configured.watching.chunk_size = LIST_CHUNK
    configured.watching.reconnect_backoff = 0.1
    configured.watching.connect_timeout = 5.0
    configured.networking.connect_timeout = 5.0
    configured.networking.error_backoffs = (0.1, 0.5, 1, 2)
    configured.persistence.diffbase_storage = no_state.NoDifferences()
    configured.persistence.progress_storage = no_state.NoProgress()
    configured.queueing.idle_timeout = 1.0
    configured.queueing.exit_timeout = 1.0
    return configured
