"""The kubelet of one simulated node: takes bound Pods in, one after another.

    bound ─► queue ─► Allocate per container ─┬─► Running
                      (the plugin's part)     └─► Failed, UnexpectedAdmissionError
    deletionTimestamp ─► object deleted, once the Pod is not being taken in

A real kubelet admits one Pod at a time, so a plugin that never answers holds
up every later Pod of its node. Status is written beside the queue, not in it.
"""

import asyncio
import contextlib
import datetime
import functools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from vgpu_operator.agent import manners as vendor_manners
from vgpu_operator.agent import objects, perform, plugins, switches, tasks
from vgpu_operator.flows import allocate, allocate_by_mark, effects_agent
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths
from vgpu_operator.wire import shape


class Kubelet:
    """Plays the kubelet, and has the plugins play theirs, for one node."""

    def __init__(
        self,
        name: str,
        node_switches: switches.Switches,
        *,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        plugins: Mapping[str, plugins.Plugin],
        running: tasks.Tasks,
        writes_status: bool = True,
        sleep: perform.Sleep = asyncio.sleep,
    ) -> None:
        self._name = name
        self._switches = node_switches
        self._client = client
        self._clock = clock
        self._plugins = plugins
        self._tasks = running
        self._writes_status = writes_status
        self._sleep = sleep
        self._log = structlog.get_logger().bind(node=name)
        self._pods: dict[str, objects.Json] = {}
        """Every Pod of the node by UID, as last seen."""
        self._taken: set[str] = set()
        """UIDs that are or were in the queue."""
        self._leaving: set[str] = set()
        """UIDs whose deletion is under way."""
        self._queue: deque[str] = deque()
        self._admitting = ""
        self._works = False

    # What the watch tells.

    def observe(self, pod: objects.Json) -> None:
        """Take note of a Pod that is bound to this node."""
        uid = objects.uid(pod)
        if not objects.is_newer(pod, self._pods.get(uid)):
            return
        self._pods[uid] = pod
        if objects.is_deleting(pod):
            if uid not in self._leaving:
                self._leaving.add(uid)
                self._tasks.start(self._let_go(uid))
        elif uid not in self._taken and objects.is_new(pod):
            self._taken.add(uid)
            self._queue.append(uid)
            if not self._works:
                self._works = True
                self._tasks.start(self._work())
        self._switches.touch()

    def forget(self, uid: str) -> None:
        """Take note that a Pod is gone."""
        self._pods.pop(uid, None)
        self._taken.discard(uid)
        self._leaving.discard(uid)
        self._switches.touch()

    def known_uids(self) -> frozenset[str]:
        """Return the UIDs of all Pods that are not gone."""
        return frozenset(self._pods)

    # What a conversation with the API server needs.

    def known_pod(self, namespace: str, name: str) -> objects.Json | None:
        """Return the Pod as last seen, if it has a promise to serve."""
        wanted = {plugin.spec.to_allocate_key for plugin in self._plugins.values()}
        for pod in self._pods.values():
            if objects.full_name(pod) == f"{namespace}/{name}":
                return pod if wanted & objects.annotations(pod).keys() else None
        return None

    def remember_pod(self, pod: objects.Json) -> None:
        """Take note of what the API server returned, unless the Pod is gone or not ours.

        It may be ahead of the watch, which then has nothing new to show: a deletion
        that was asked for meanwhile is seen here or never.
        """
        if objects.uid(pod) in self._pods:
            self.observe(pod)

    async def awake(self) -> None:
        """Return once the node is not paused."""
        await self._switches.until(lambda: not self._switches.paused)

    # Admission.

    async def _work(self) -> None:
        """Take the queue's Pods in, each wholly before the next."""
        try:
            while self._queue:
                await self.awake()
                self._admitting = self._queue[0]
                if await self._admit(self._admitting):
                    self._queue.popleft()
                    self._admitting = ""
                    self._switches.touch()
        finally:
            self._works = False

    async def _admit(self, uid: str) -> bool:
        """Bring one Pod to Running or Failed; False when the node fell silent on the way."""
        pod = self._staying(uid)
        if pod is None:
            return True
        for call in objects.owed_calls(pod, self._plugins):
            fault = await self._call(uid, call)
            if self._staying(uid) is None:
                return True
            if fault:
                self._log.info("rejected", pod=objects.full_name(pod), why=fault)
                rejected = functools.partial(objects.rejected_patch, why=fault)
                self._tasks.start(self._write_status(uid, rejected))
                return True
            if self._switches.die_after_first_container:
                self._switches.paused = True
                self._log.info("fell silent")
                return False
        self._tasks.start(self._write_status(uid, objects.running_patch))
        return True

    async def _call(self, uid: str, call: objects.ContainerCall) -> str:
        """Have the plugin serve one container; return why the kubelet rejects, empty if not."""
        switches = self._switches
        if not switches.vanished:
            if switches.delay_s:
                await self._sleep(switches.delay_s)
            await switches.until(
                lambda: not switches.never_answer or switches.vanished or self._staying(uid) is None
            )
            await self.awake()
        if self._staying(uid) is None:
            return ""
        if switches.vanished:
            return (
                "no healthy devices present; "
                f"cannot allocate unhealthy devices {call.plugin.spec.count_resource}"
            )
        result = await perform.perform(
            self._conversation(call),
            client=self._client,
            surroundings=self,
            sleep=self._sleep,
        )
        if result.error:
            return f"rpc error: code = Unknown desc = {result.error}"
        if (served := self._pods.get(uid)) is not None:
            cards = ",".join(share.device_id for share in result.shares)
            name = objects.full_name(served)
            self._log.info("served", pod=name, container=call.container, cards=cards)
        return ""

    def _conversation(
        self, call: objects.ContainerCall
    ) -> effects_agent.Steps[allocate.AllocateResult]:
        """Return what the plugin does about the call, in its vendor's way."""
        spec, manners = call.plugin.spec, call.plugin.manners
        breakdown = "the plugin was told to fail" if self._switches.fail else ""
        match manners.serving:
            case vendor_manners.Serving.ENTRY:
                return allocate.allocate(
                    allocate.AllocateCall(
                        node=self._name,
                        device_count=call.device_count,
                        to_allocate_key=spec.to_allocate_key or "",
                        lock_key=spec.lock_key or "",
                        instances_key=manners.instances,
                        breakdown=breakdown,
                        dialect=call.plugin.dialect,
                    )
                )
            case vendor_manners.Serving.MARK:
                return allocate_by_mark.allocate_by_mark(
                    allocate_by_mark.MarkCall(
                        node=self._name,
                        container=call.container,
                        mark_key=manners.mark,
                        entries_key=manners.entries or "",
                        lock_key=spec.lock_key or "",
                        breakdown=breakdown,
                    )
                )
            case vendor_manners.Serving.NOTHING:
                return _say(allocate.AllocateResult(error=breakdown))

    def _staying(self, uid: str) -> objects.Json | None:
        """Return a Pod that is neither gone nor about to go."""
        pod = self._pods.get(uid)
        return None if pod is None or objects.is_deleting(pod) else pod

    # Writing.

    async def _write_status(
        self, uid: str, make: Callable[[objects.Json, datetime.datetime], objects.Json]
    ) -> None:
        """Write a Pod's status; a Pod that is gone meanwhile needs none."""
        pod = self._pods.get(uid)
        if pod is None or not self._writes_status:
            return
        body = make(pod, self._clock.now())
        path = f"{_path(pod)}/status"
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            written = await perform.patiently(lambda: self._client.patch(path, body), self._sleep)
            self.remember_pod(written)

    async def _let_go(self, uid: str) -> None:
        """Delete a Pod's object for good once nothing here is at work on it."""
        await self._switches.until(lambda: not self._switches.paused and self._admitting != uid)
        pod = self._pods.get(uid)
        if pod is None:
            return
        if stop_s := min(self._switches.stop_s, objects.grace_s(pod)):
            await self._sleep(stop_s)
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await perform.patiently(
                lambda: self._client.delete(_path(pod), grace_s=0, uid=uid), self._sleep
            )
            self._log.info("let go", pod=objects.full_name(pod))


def _say(result: allocate.AllocateResult) -> effects_agent.Steps[allocate.AllocateResult]:
    """Answer without asking the API server anything."""
    yield from ()
    return result


def _path(pod: Mapping[str, Any]) -> str:
    metadata = shape.mapping(pod.get("metadata"))
    return paths.pod(shape.text(metadata.get("namespace")), shape.text(metadata.get("name")))
