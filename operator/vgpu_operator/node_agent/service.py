"""The device plugin that the kubelet calls: ``v1beta1.DevicePlugin`` over gRPC.

Allocate goes on when the kubelet hangs up: a pod whose entry is taken also gets its
end. Before an entry is taken, a kubelet that is gone changes nothing any more.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
import structlog

from vgpu_operator.agent import tasks
from vgpu_operator.flows import effects, effects_agent, serve
from vgpu_operator.model import device, errors
from vgpu_operator.node_agent import (
    backend,
    board,
    configuration,
    desk,
    device_list,
    pod_resources,
    start_check,
)
from vgpu_operator.node_agent.api import device_plugin_pb2 as api
from vgpu_operator.node_agent.api import device_plugin_pb2_grpc
from vgpu_operator.wire import keys

ALLOCATE_LIMIT_S = 25.0
"""How long one Allocate call may take, its wait for the turn and the API server included."""

PREFERENCE_LIMIT_S = 3.0
"""How long it may take to tell which cards are wanted; any ids do where it does not."""

START_LIMIT_S = 20.0
"""How long a start may be checked; the kubelet waits 30 s."""

SUSPECT_LIMIT_S = 5.0
"""How long a start waits for a pod whose own call is yet to come, and which may hold its ids."""

SUSPECT_PAUSE_S = 0.5
"""Before the pods are looked at again for that."""

SETTLE_LIMIT_S = 5.0
"""How long an agent that was asked to stop goes on with what it has begun."""

LONGEST_SENTENCE = 2000
"""Letters of what the kubelet is told, and shows on the pod; a quoted annotation may be long."""

CRASHED = 70
"""Exit code of an agent that was told to die."""

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the service works with.

    Attributes:
        plugin: what the agent is to the node.
        backend: what makes grants of slices.
        board: the cards as they are now.
        desk: the API server.
        pod_resources: asks the kubelet who holds what.
        node: the Node as its watch has it; None while it has not.
        switches: what is to go wrong.
        on_unsure: told when a call ended without the API server's answer.
    """

    plugin: serve.Plugin
    backend: backend.Backend
    board: board.Board
    desk: desk.Desk
    pod_resources: Callable[[], Awaitable[tuple[start_check.Held, ...]]]
    node: Callable[[], effects_agent.NodeSeen | None]
    switches: configuration.Switches
    on_unsure: Callable[[], None]


class BusyError(errors.VgpuError):
    """Another conversation about the node's lock did not end in time."""


@dataclass(slots=True)
class _Session:
    """What one kubelet asked for, from its registration to the next one's.

    Attributes:
        served: by pod UID, the containers of pods that are half served.
    """

    served: dict[str, tuple[str, ...]] = field(default_factory=dict)


class DevicePlugin(device_plugin_pb2_grpc.DevicePluginServicer):
    """Answers one kubelet after another."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._log = structlog.get_logger().bind(node=around.plugin.node)
        self._session = _Session()
        self._calls = 0
        self._working: set[asyncio.Future[Any]] = set()
        """Calls under way; they outlive the kubelet that made them."""
        self._abandoned: set[asyncio.Future[Any]] = set()
        """Those of them that nobody waits for any more."""
        self._turn = asyncio.Lock()
        """One conversation about the node's lock at a time."""
        self.followers = 0
        """How many kubelets follow the list of devices: one, or none."""

    def begin_session(self) -> None:
        """Forget what an earlier kubelet asked for: a new one may ask for it again."""
        self._session = _Session()

    async def settle(self) -> None:
        """Let calls end whose entry is taken already; the others end by themselves."""
        if self._working:
            await asyncio.wait(self._working, timeout=SETTLE_LIMIT_S)

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._around.plugin.node

    # What the kubelet calls. The names are the API's.

    async def GetDevicePluginOptions(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> api.DevicePluginOptions:
        """Say which of the further calls are wanted."""
        del request, context
        return options()

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Tell all devices, again after every change."""
        del request, context
        self.followers += 1
        try:
            async for cards in self._around.board.follow():
                devices = [
                    api.Device(ID=one, health="Healthy" if card.healthy else "Unhealthy")
                    for card in cards
                    for one in device_list.ids_of(card)
                ]
                self._log.info(
                    "listed devices to the kubelet",
                    devices=len(devices),
                    healthy=sum(1 for one in devices if one.health == "Healthy"),
                )
                yield api.ListAndWatchResponse(devices=devices)
        finally:
            self.followers -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """Choose ids of the cards that the next entry names, so that both views agree."""
        del context
        answer = api.PreferredAllocationResponse()
        for asked in request.container_requests:
            size = asked.allocation_size
            cards = await self._wanted_cards(size)
            chosen = device_list.preferred(
                asked.available_deviceIDs,
                must=asked.must_include_deviceIDs,
                size=size,
                cards=cards,
            )
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: Context
    ) -> api.AllocateResponse:
        """Give the container that the call must be for its slices."""
        if self._around.switches.never:
            self._log.info("took a call, and was told never to answer")
            await asyncio.Event().wait()
        if self._around.switches.slow_s:
            self._log.info("took a call, and was told to be slow about it")
            await asyncio.sleep(self._around.switches.slow_s)
        answer = api.AllocateResponse()
        for asked in request.container_requests:
            work = asyncio.ensure_future(self._allocate(tuple(asked.devices_ids)))
            self._working.add(work)
            work.add_done_callback(self._working.discard)
            work.add_done_callback(self._abandoned.discard)
            work.add_done_callback(tasks.look_at_end)
            try:
                granted = await asyncio.shield(work)
            except asyncio.CancelledError:
                self._abandoned.add(work)
                raise
            except BusyError as fault:
                # The kubelet fails the pod, whose lock stands.
                self._around.on_unsure()
                await _refuse(context, str(fault))
            except errors.VgpuError as fault:
                await _refuse(context, str(fault))
            answer.container_responses.append(granted)
        return answer

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Let a container start only with what was served to it."""
        ids = tuple(request.devices_ids)
        try:
            async with asyncio.timeout(START_LIMIT_S):
                why = await self._why_not_start(frozenset(ids))
        except TimeoutError:
            why = f"whose devices {', '.join(ids)} are could not be told in {START_LIMIT_S:.0f} s"
        except (effects.EffectFailed, pod_resources.UnknownError) as fault:
            why = f"whose devices {', '.join(ids)} are cannot be told: {fault}"
        why = _short(why)
        if why:
            self._log.warning("refused a start", ids=",".join(ids), why=why)
            await _refuse(context, why)
        return api.PreStartContainerResponse()

    # How it is done.

    async def _wanted_cards(self, count: int) -> tuple[str, ...]:
        around = self._around
        try:
            async with self.my_turn(PREFERENCE_LIMIT_S) as left_s:
                return await around.desk.run(
                    serve.wanted_cards(around.plugin, count),
                    within_s=left_s,
                    node=self._locked_node(),
                )
        except BusyError:
            return ()

    def _locked_node(self) -> effects_agent.NodeSeen | None:
        """Return the Node as the watch has it, if that shows a lock."""
        seen = self._around.node()
        return seen if seen and self._around.plugin.lock_key in seen.annotations else None

    async def _allocate(self, ids: tuple[str, ...]) -> api.ContainerAllocateResponse:
        """Serve one container.

        Raises:
            VgpuError: it cannot be served; the text is for the kubelet.
        """
        around, switches = self._around, self._around.switches
        me, session = asyncio.current_task(), self._session
        made: list[backend.Grant] = []
        async with self.my_turn(ALLOCATE_LIMIT_S) as left_s:
            self._calls += 1
            call = serve.ServeCall(
                plugin=around.plugin,
                ids=ids,
                cards=around.board.by_id,
                served=dict(session.served),
                miscounted=int(switches.wrong_count),
                breakdown="the agent was told to fail" if switches.fail else "",
            )

            async def prepare(effect: serve.Prepare) -> None:
                made[:] = [await self._make(effect, call.cards)]

            result = await around.desk.run(
                serve.serve(call),
                within_s=left_s,
                is_wanted=lambda: me not in self._abandoned and session is self._session,
                prepare=prepare,
                on_pod_written=self._maybe_crash,
            )
            self._note(result, ids, session)
        if result.error:
            raise errors.VgpuError(_short(result.error))
        return _answered(made[0])

    @contextlib.asynccontextmanager
    async def my_turn(self, limit_s: float) -> AsyncIterator[float]:
        """Wait for the turn, and hold it; yields how much of the time is left.

        Raises:
            BusyError: another conversation took all of it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        try:
            async with asyncio.timeout_at(end):
                await self._turn.acquire()
        except TimeoutError:
            raise BusyError(
                "the container cannot be served: the agent still waits for the API server's "
                "answer about the pod before"
            ) from None
        try:
            yield end - loop.time()
        finally:
            self._turn.release()

    def _note(self, result: serve.ServeResult, ids: tuple[str, ...], session: "_Session") -> None:
        """Take a call's end to the books of its session and to the log."""
        if result.unsure:
            self._around.on_unsure()
        pod = result.pod
        if pod is not None:
            before = session.served.pop(pod.uid, ())
            if not result.error and not result.is_last:
                session.served[pod.uid] = (*before, result.container)
        if result.error:
            failed = {"pod": str(result.pod)} if result.pod else {"ids": ",".join(ids)}
            event = "failed" if result.pod else "refused a call"
            self._log.warning(event, why=_short(result.error), **failed)
        elif result.pod is not None:
            self._log.info(
                "served",
                pod=str(result.pod),
                container=result.container,
                cards=",".join(share.device_id for share in result.shares),
                ids=",".join(ids),
            )

    async def _make(
        self, effect: serve.Prepare, cards: Mapping[str, device.Device]
    ) -> backend.Grant:
        """Have the back end make what the container is given for its shares.

        Raises:
            effects.Denied: it cannot.
        """
        pod = effect.pod
        holder = backend.Holder(
            namespace=pod.namespace, pod=pod.name, uid=pod.uid, container=effect.container
        )
        slices = tuple(
            backend.Slice(
                card=cards[share.card_id],
                memory_mib=share.memory_mib,
                cores_percent=share.cores_percent,
            )
            for share in effect.shares
        )
        try:
            return await asyncio.to_thread(self._around.backend.grant, holder, slices)
        except OSError as fault:
            raise effects.Denied(f"its files cannot be made on the node: {fault}") from fault

    def _maybe_crash(self, written: effects_agent.PatchPod) -> None:
        """End the process here and now, once the call that it shall die in has taken its entry."""
        if (
            self._calls == self._around.switches.crash_after
            and keys.DEVICE_IDS in written.annotations
        ):
            self._log.warning("was told to die inside this call")
            os._exit(CRASHED)

    async def _why_not_start(self, ids: frozenset[str]) -> str:
        """Return why no container may start with these ids; empty when one may."""
        around = self._around
        held = await around.pod_resources()
        found = start_check.holder_of(ids, held)
        if found is not None:
            steps = effects_agent.read_pod(*found, fresh=True)
            pod = await around.desk.run(steps, within_s=START_LIMIT_S)
            return start_check.refusal(pod, ids, held)
        return await self._why_not_start_unlisted(ids)

    async def _why_not_start_unlisted(self, ids: frozenset[str]) -> str:
        """Return the same for ids that the kubelet lists for nobody.

        A pod that was bound just now, and whose own call is yet to come, is waited for.
        """
        around, loop = self._around, asyncio.get_running_loop()
        end = loop.time() + SUSPECT_LIMIT_S
        while True:
            listed = effects_agent.list_node_pods(around.plugin.node)
            pods = await around.desk.run(listed, within_s=START_LIMIT_S)
            why = start_check.refusal_of_unlisted(pods, ids)
            if not why or loop.time() + SUSPECT_PAUSE_S > end:
                return why
            await asyncio.sleep(SUSPECT_PAUSE_S)


def _answered(grant: backend.Grant) -> api.ContainerAllocateResponse:
    """Return what a container is given, in the API's words."""
    return api.ContainerAllocateResponse(
        envs=grant.envs,
        mounts=[
            api.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.read_only,
            )
            for mount in grant.mounts
        ],
        devices=[
            api.DeviceSpec(
                container_path=node.container_path,
                host_path=node.host_path,
                permissions=node.permissions,
            )
            for node in grant.devices
        ],
    )


def _short(sentence: str) -> str:
    """Return a sentence without the middle of what is far too long."""
    half = LONGEST_SENTENCE // 2
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    return f"{sentence[:half]} … {sentence[-half:]}"


def options() -> api.DevicePluginOptions:
    """Return which of the further calls are wanted: both."""
    return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


async def _refuse(context: Context, why: str) -> NoReturn:
    """End a call with an error; the kubelet shows its text on the pod."""
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
    raise AssertionError("unreachable: abort raises")
