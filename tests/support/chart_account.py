"""The operator's account in end-to-end tests: the chart's, with what ``helm install`` gave it."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support import chart_cluster, rights_used
from support.helm import CHART, NAMESPACE, RELEASE, Helm, program
from vgpu_operator.cli import grounds
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.kube import client

LEASE = (NAMESPACE, "hami-scheduler")
"""The one Lease that the chart lets the operator read: its name is the scheduler's."""


class ChartGround(grounds.LocalGround):
    """A control plane on which the chart is installed; the operator is its ServiceAccount."""

    def operator_kubeconfig(self) -> Path:
        return chart_cluster.service_account(self.plane, chart_cluster.SCHEDULER)

    def rights(self) -> Sequence[dict[str, Any]]:
        """Return nothing: Helm has made them."""
        return ()


@contextlib.asynccontextmanager
async def installed(
    plane: ControlPlane,
    kube: client.KubeClient,
    *,
    configured: Mapping[str, Any] | None = None,
    refused_in: str = "",
    restarted_in: str = "",
    chart: Mapping[str, Any] | None = None,
) -> AsyncIterator[ChartGround]:
    """Install the chart, and look at what its accounts have asked for when the test is over.

    Its Deployment starts nothing, as no controller runs: tests start the operator. The
    webhook is theirs too, with an address that the API server reaches.

    Args:
        plane: with an audit log.
        kube: may do everything.
        configured: the operator's settings; some of them need further rights.
        refused_in, restarted_in: where requests are refused on purpose: see ``rights_used``.
        chart: further values, for the rights that come with them.
    """
    values = {
        "settings": {part: (configured or {}).get(part, {}) for part in ("bind", "preemption")},
        "scheduler": {"admissionWebhook": {"enabled": False}},
        "admissionPolicy": {"enabled": False},
        "devicePlugin": {"enabled": False},
        **(chart or {}),
    }
    with tempfile.TemporaryDirectory(prefix="vgpu-helm-") as home:
        helm = Helm(program=program(), home=Path(home), kubeconfig=plane.kubeconfig)
        answer = await asyncio.to_thread(
            helm.run,
            *("install", RELEASE, str(CHART), "-n", NAMESPACE, "--create-namespace"),
            values=values,
        )
    assert answer.code == 0, answer.complaint
    observer = rights_used.Observer(kube, plane.audit_log, restarted_in=restarted_in)
    await observer.note_rights()
    try:
        yield ChartGround(plane)
    finally:
        observer.note_use()
    observer.judge(refused_in)
