"""One Allocate call, as our node agent answers it: strictly, where HAMi's plugin believes.

The kubelet names neither pod nor container in the call: the node's lock does, and
nothing else may. ::

    GetNode ── lock names a pod ──► GetPod ── it is due here ──► its next entry
       │                                                            │
       └─ no lock, or a pod whose call this cannot be: an error, nothing is written
                                                                    │
      entry right ──► Prepare ──► PatchPod (entry blank, ids noted, ``success`` ────┐
                                           with the last)                           │
      entry wrong, or nothing can be prepared ──► PatchPod (``failed``) ────────────┤
                                                                                    ▼
                                           PatchNode (lock gone, unless more is to come)

``success`` comes before the lock goes, as schedulers expect. It and the lock are
left to the plugin of another vendor while that one still owes the pod its part.

A call whose pod is certain and whose entry is wrong fails that pod. A call that may
be another pod's never does: a pod that came past the scheduler must not harm the one
whose turn it is.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from vgpu_operator.flows import effects, effects_agent
from vgpu_operator.model import allocation, device, errors, records
from vgpu_operator.vendors import base
from vgpu_operator.wire import bind_phase, device_ids, keys, node_lock, pod_devices

MOST_TRIES: Final = 5
"""How often a write that met another's is tried."""

LOCK_RETURN_S: Final = 4.0
"""How long the scheduler may take to put the lock of a half-served pod back."""

_LOOK_AGAIN_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What the agent is to the node, whatever the call.

    Attributes:
        node: name of its node.
        spec: the vendor's names.
        resource: what the kubelet counts.
        others: to-allocate keys of other vendors' plugins that go by the same lock.
    """

    node: str
    spec: base.VendorSpec
    resource: str
    others: tuple[str, ...] = ()

    @property
    def lock_key(self) -> str:
        """The node annotation that names the pod."""
        return self.spec.lock_key or ""

    @property
    def to_allocate_key(self) -> str:
        """The pod annotation with an entry for each container."""
        return self.spec.to_allocate_key or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeCall:
    """One call.

    Attributes:
        ids: the device ids that the kubelet sent.
        cards: the node's cards by id.
        served: by pod UID, the containers that were served since the kubelet started.
        miscounted: how many devices are counted beyond ``ids``; only a switch sets it.
        breakdown: what goes wrong once the pod is found; only a switch sets it.
    """

    plugin: Plugin
    ids: tuple[str, ...]
    cards: Mapping[str, device.Device]
    served: Mapping[str, tuple[str, ...]]
    miscounted: int = 0
    breakdown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeResult:
    """The answer to one call.

    Attributes:
        pod: whom the call served or failed, as last seen; None when it wrote nothing.
        container: name of the container that was served.
        shares: what it was given; empty with an error.
        is_last: the pod has got everything of this vendor.
        error: the sentence that the kubelet gets; empty when all is well.
        unsure: the API server did not do all that was asked: what is left of the pod's
            turn has to be looked after.
    """

    pod: effects_agent.PodSeen | None = None
    container: str = ""
    shares: allocation.ContainerShares = ()
    is_last: bool = False
    error: str = ""
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Make ready what the container is given, while nothing is taken yet.

    Answer: None, or ``effects.Denied`` where it cannot be made.
    """

    pod: effects_agent.PodSeen
    container: str
    shares: allocation.ContainerShares


Effect: TypeAlias = effects_agent.Effect | Prepare

_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[Effect, effects_agent.Answer, _Result]
"""A conversation with the API server and the back end that ends in a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What the container that is asked for shall get."""

    container: str
    segment: pod_devices.Segment


class _NobodysError(errors.VgpuError):
    """Whose call it is cannot be told; the text is for the kubelet."""


class _WrongError(errors.VgpuError):
    """It is the pod's call, and the pod cannot be served; the text is for the kubelet."""


def serve(call: ServeCall) -> Steps[ServeResult]:
    """Serve one container; the generator's value is the answer to the kubelet."""
    try:
        node, pod, part = yield from _find(call)
        for left in reversed(range(MOST_TRIES)):
            try:
                return (yield from _serve(call, node, pod, part))
            except effects.Conflict:
                if not left:
                    raise
            pod = yield from effects_agent.read_pod(pod.namespace, pod.name, fresh=True)
            if _is_written(call, pod, part):
                return (yield from _served(call, node, pod, part))
            part = _part_of(call.plugin, pod, len(call.ids))
    except (_NobodysError, errors.DecodeError) as fault:
        return ServeResult(error=str(fault))
    except effects.EffectFailed as fault:
        return ServeResult(error=f"the container cannot be served: {fault}", unsure=True)
    raise AssertionError("unreachable: the last try returns or raises")


def _serve(
    call: ServeCall, node: effects_agent.NodeSeen, pod: effects_agent.PodSeen, part: _Part
) -> Steps[ServeResult]:
    """Give the container its part, or fail the pod."""
    try:
        _refuse_wrong(call, pod, part)
        noted = _noted(call, pod, part)
        yield from _prepare(pod, part)
    except (_WrongError, errors.DecodeError) as fault:
        return (yield from _fail(call, node, pod, f"container {part.container}: {fault}"))
    note = device_ids.ServedIds(uid=pod.uid, containers=noted)
    changes = {
        call.plugin.to_allocate_key: part.segment.rest,
        keys.DEVICE_IDS: device_ids.encode_device_ids(note),
    }
    if _ends(call, pod, part):
        changes[keys.BIND_PHASE] = records.BindPhase.SUCCESS.value
    pod = yield from effects_agent.change_pod(pod, changes)
    return (yield from _served(call, node, pod, part))


def _prepare(pod: effects_agent.PodSeen, part: _Part) -> Steps[None]:
    """Have made ready what the container is given.

    Raises:
        _WrongError: it cannot be made.
    """
    try:
        yield Prepare(pod=pod, container=part.container, shares=part.segment.decode())
    except effects.Denied as fault:
        raise _WrongError(str(fault)) from fault


def _fail(
    call: ServeCall, node: effects_agent.NodeSeen, pod: effects_agent.PodSeen, why: str
) -> effects_agent.Steps[ServeResult]:
    """Fail the pod and end its turn."""
    try:
        failed = yield from effects_agent.change_pod(
            pod, {keys.BIND_PHASE: records.BindPhase.FAILED.value}
        )
    except effects.Conflict:
        failed = yield from effects_agent.read_pod(pod.namespace, pod.name, fresh=True)
        if not _is_failed(call.plugin, failed, before=pod):
            raise
        # Our own write, whose answer was lost.
    freed = yield from _release(call.plugin, node)
    return ServeResult(pod=failed, error=f"pod {pod}, {why}", unsure=not freed)


def _is_failed(
    plugin: Plugin, pod: effects_agent.PodSeen, *, before: effects_agent.PodSeen
) -> bool:
    """Whether the same pod, with the same left to allocate, is failed now."""
    key = plugin.to_allocate_key
    return (
        pod.uid == before.uid
        and pod.annotations.get(keys.BIND_PHASE) == records.BindPhase.FAILED.value
        and pod.annotations.get(key) == before.annotations.get(key)
    )


def _served(
    call: ServeCall, node: effects_agent.NodeSeen, pod: effects_agent.PodSeen, part: _Part
) -> effects_agent.Steps[ServeResult]:
    """End the pod's turn when this was its last part, and answer."""
    freed = True
    if _ends(call, pod, part):
        freed = yield from _release(call.plugin, node)
    return ServeResult(
        pod=pod,
        container=part.container,
        shares=part.segment.decode(),
        is_last=part.segment.left == 1,
        unsure=not freed,
    )


def _ends(call: ServeCall, pod: effects_agent.PodSeen, part: _Part) -> bool:
    """Whether the pod's turn ends with this part."""
    return part.segment.left == 1 and not _is_owed_by_others(call.plugin, pod)


def wanted_cards(plugin: Plugin, count: int) -> effects_agent.Steps[tuple[str, ...]]:
    """Return the cards of the next entry, so that the kubelet's ids may speak of them.

    Empty where it cannot be told: any ids do then. What is known may be a moment old,
    and name the pod before, so what makes no sense is read once more.
    """
    for fresh in (False, True):
        try:
            node = yield from effects_agent.read_node(plugin.node)
            pod = yield from _holder(plugin, node, fresh=fresh)
            shares = _part_of(plugin, pod, count).segment.decode()
        except _NobodysError:
            continue
        except (errors.DecodeError, effects.EffectFailed):
            return ()
        return tuple(share.card_id for share in shares)
    return ()


def tidy(plugin: Plugin) -> effects_agent.Steps[str]:
    """Finish what an agent that died, or an answer that was lost, has left half done.

    Returns what was done, as a log line; empty when there was nothing to do. A pod that
    is owed a container is left as it is: the kubelet has yet to call, or to fail it.
    """
    node = yield from effects_agent.read_node(plugin.node)
    try:
        pod = yield from _holder(plugin, node, fresh=True)
    except (_NobodysError, errors.DecodeError):
        # The scheduler takes back a lock that names nobody, or a pod that is gone.
        return ""
    if pod.phase in records.FINISHED:
        yield from _release(plugin, node)
        return f"freed the lock of {pod}, which has ended"
    text = pod.annotations.get(plugin.to_allocate_key)
    phase = bind_phase.decode_bind_phase(pod.annotations.get(keys.BIND_PHASE))
    if pod.node != plugin.node or text is None or phase is None:
        return ""
    if phase is not records.BindPhase.FAILED:
        if not pod_devices.is_served(text) or _is_owed_by_others(plugin, pod):
            return ""
        if phase is records.BindPhase.ALLOCATING:
            pod = yield from effects_agent.change_pod(
                pod, {keys.BIND_PHASE: records.BindPhase.SUCCESS.value}
            )
    yield from _release(plugin, node)
    return f"ended the turn of {pod}: {pod.annotations.get(keys.BIND_PHASE)}"


# Whose call it is.


def _find(
    call: ServeCall,
) -> effects_agent.Steps[tuple[effects_agent.NodeSeen, effects_agent.PodSeen, _Part]]:
    """Return the node, the pod that its lock names, and the part that the call must be for.

    What somebody remembers of the pod is enough to serve it, as the write is
    conditioned on it; before the call is refused, the pod is read.

    Another vendor's plugin frees the lock when its own part is done; the scheduler puts
    it back for a pod that is half served, which takes a moment.
    """
    waited_s = 0.0
    while True:
        node = yield from effects_agent.read_node(call.plugin.node)
        try:
            pod = yield from _holder(call.plugin, node)
            try:
                return node, pod, _part_of(call.plugin, pod, len(call.ids))
            except _NobodysError:
                pod = yield from _holder(call.plugin, node, fresh=True)
                return node, pod, _part_of(call.plugin, pod, len(call.ids))
        except _NobodysError:
            if waited_s >= LOCK_RETURN_S or not (yield from _lock_will_return(call)):
                raise
        yield effects_agent.Pause(seconds=_LOOK_AGAIN_S)
        waited_s += _LOOK_AGAIN_S


def _holder(
    plugin: Plugin, node: effects_agent.NodeSeen, *, fresh: bool = False
) -> effects_agent.Steps[effects_agent.PodSeen]:
    """Return the pod that the node's lock names."""
    text = node.annotations.get(plugin.lock_key)
    if text is None:
        raise _NobodysError(
            f"no pod holds the lock {plugin.lock_key} of node {plugin.node}, so nobody knows "
            "whose devices these are: the pod came past the scheduler, or it was served before; "
            "create it again and let the scheduler place it"
        )
    owner = node_lock.decode_lock(text, key=f"node {plugin.node}, {plugin.lock_key}")
    if not owner.owned:
        raise _NobodysError(
            f"the lock {plugin.lock_key} of node {plugin.node} names no pod: "
            "remove it and create the pod again"
        )
    try:
        return (yield from effects_agent.read_pod(owner.namespace, owner.pod, fresh=fresh))
    except effects.Missing:
        raise _NobodysError(
            f"the lock of node {plugin.node} names pod {owner.namespace}/{owner.pod}, which is "
            f"gone: this call must be another pod's, {_BY_PASSED}"
        ) from None


def _lock_will_return(call: ServeCall) -> effects_agent.Steps[bool]:
    """Whether a pod of this node waits for us whose lock another vendor's plugin has freed."""
    if not call.plugin.others:
        return False
    pods = yield from effects_agent.list_node_pods(call.plugin.node)
    for pod in pods:
        try:
            _part_of(call.plugin, pod, len(call.ids))
        except (_NobodysError, errors.DecodeError):
            continue
        if _has_others_devices(call.plugin, pod):
            return True
    return False


def _part_of(plugin: Plugin, pod: effects_agent.PodSeen, count: int) -> _Part:
    """Return the pod's next part, if a call for so many devices can be the one for it.

    Raises:
        _NobodysError: it cannot.
    """
    named = f"the lock of node {plugin.node} names pod {pod}"
    why = _not_due(plugin, pod)
    if why:
        raise _NobodysError(f"{named}, {why}: this call must be another pod's, {_BY_PASSED}")
    segment = pod_devices.next_segment(pod.annotations.get(plugin.to_allocate_key, ""))
    asking = _asking(pod)
    if segment is None or not asking:
        raise _NobodysError(
            f"{named}, whose annotation {plugin.to_allocate_key} has nothing left to allocate: "
            f"this call must be another pod's, or the kubelet repeats one, {_BY_PASSED}"
        )
    # More entries than containers that ask: whichever comes first is the one asked for.
    container = asking[max(0, len(asking) - segment.left)]
    if container.asked != count:
        raise _NobodysError(
            f"{named}, whose container {container.name} asks for {container.asked} of "
            f"{plugin.resource}, not {count}: this call must be another pod's, "
            f"{_BY_PASSED}"
        )
    return _Part(container=container.name, segment=segment)


_BY_PASSED: Final = "which came past the scheduler; create that one again"


def _not_due(plugin: Plugin, pod: effects_agent.PodSeen) -> str:
    """Return why no Allocate call can come for the pod now; empty when one can."""
    if pod.node != plugin.node:
        return f"which is bound to {pod.node or 'no node'}"
    if pod.phase != "Pending":
        return f"which is {pod.phase}"
    if pod.admitted:
        return "which the kubelet has taken in already"
    promised = pod.annotations.get(keys.ASSIGNED_NODE, "")
    if promised != plugin.node:
        return f"whose devices are promised on {promised or 'no node'}"
    said = pod.annotations.get(keys.BIND_PHASE)
    phase = bind_phase.decode_bind_phase(said)
    if phase is records.BindPhase.ALLOCATING:
        return ""
    if phase is records.BindPhase.SUCCESS and _has_others_devices(plugin, pod):
        # Another vendor's plugin knows its own part only.
        return ""
    return f"whose {keys.BIND_PHASE} is {said or 'not set'}"


def _asking(pod: effects_agent.PodSeen) -> list[effects_agent.ContainerSeen]:
    """Return the containers that ask for devices."""
    return [container for container in pod.containers if container.asked > 0]


def _has_others_devices(plugin: Plugin, pod: effects_agent.PodSeen) -> bool:
    """Whether the pod was promised devices that another vendor's plugin hands out."""
    return any(pod.annotations.get(key) for key in plugin.others)


def _is_owed_by_others(plugin: Plugin, pod: effects_agent.PodSeen) -> bool:
    """Whether another vendor's plugin, which goes by the same lock, still owes the pod its part."""
    return any(not pod_devices.is_served(pod.annotations.get(key, "")) for key in plugin.others)


# What it gets.


def _refuse_wrong(call: ServeCall, pod: effects_agent.PodSeen, part: _Part) -> None:
    """Refuse an entry that nothing, or another thing, can be handed out for.

    Raises:
        _WrongError, DecodeError: the entry cannot be what was meant.
    """
    if call.breakdown:
        raise _WrongError(call.breakdown)
    key, segment = call.plugin.to_allocate_key, part.segment
    if segment.left > len(_asking(pod)):
        raise _WrongError(f"{key} has more entries left than containers that ask for devices")
    if segment.of == len(pod.containers):
        place = pod.containers[segment.index].name
        if place != part.container:
            raise _WrongError(f"the next entry of {key} stands at the place of container {place}")
    shares = segment.decode(key=key)
    counted = len(call.ids) + call.miscounted
    if len(shares) != counted:
        raise _WrongError(f"{key} names {len(shares)} devices, and the kubelet asks for {counted}")
    for share in shares:
        _refuse_unusable(call.cards.get(share.card_id), share)


def _refuse_unusable(card: device.Device | None, share: allocation.DeviceShare) -> None:
    """Refuse a card that is not there, not healthy, or of which no slice can be made.

    Raises:
        _WrongError: one sentence.
    """
    if card is None:
        raise _WrongError(f"card {share.card_id} is not on this node")
    if not card.healthy:
        raise _WrongError(f"card {share.card_id} is not healthy")
    if card.mig_profiles or share.names_instance:
        raise _WrongError(
            f"card {share.card_id} is cut in MIG instances, which this agent does not make"
        )
    if share.memory_mib > card.memory_mib or share.cores_percent > card.cores_percent:
        raise _WrongError(
            f"card {share.card_id} has {card.memory_mib} MiB and {card.cores_percent} % of its "
            f"cores to give, less than the {share.memory_mib} MiB and {share.cores_percent} % "
            "of the entry"
        )


def _noted(
    call: ServeCall, pod: effects_agent.PodSeen, part: _Part
) -> Mapping[str, tuple[str, ...]]:
    """Return the ids of every container that is served, this one included.

    A kubelet that was restarted begins again with the first container; one that was not
    goes on. Where both can be, no entry is handed out.

    Raises:
        _WrongError, DecodeError: which container is asked for cannot be told.
    """
    asking = [container.name for container in _asking(pod)]
    before = tuple(asking[: max(0, len(asking) - part.segment.left)])
    if not before:
        return {part.container: call.ids}
    noted = _own_note(pod)
    if call.served.get(pod.uid) != before or tuple(noted) != before:
        raise _WrongError(
            "the pod was half served when kubelet or agent were restarted, and which container "
            "is asked for now cannot be told; create the pod again"
        )
    return {**noted, part.container: call.ids}


def _is_written(call: ServeCall, pod: effects_agent.PodSeen, part: _Part) -> bool:
    """Whether the pod shows our own write, whose answer was lost."""
    if pod.annotations.get(call.plugin.to_allocate_key) != part.segment.rest:
        return False
    return _own_note(pod).get(part.container) == call.ids


def _own_note(pod: effects_agent.PodSeen) -> Mapping[str, tuple[str, ...]]:
    """Return the ids by container that the pod was served."""
    text = pod.annotations.get(keys.DEVICE_IDS)
    return device_ids.served_to(pod.uid, text, key=keys.DEVICE_IDS) or {}


# How it ends.


def _release(plugin: Plugin, node: effects_agent.NodeSeen) -> effects_agent.Steps[bool]:
    """Remove the lock while it is the one that was seen; read the Node again on a conflict.

    Returns whether that lock is known to be gone. Nothing is raised, as the pod has got
    its answer: ``tidy``, or else the scheduler, takes back what could not be removed here.
    """
    text = node.annotations.get(plugin.lock_key)
    try:
        for _ in range(MOST_TRIES):
            if node.annotations.get(plugin.lock_key) != text:
                return True
            try:
                yield effects_agent.PatchNode(
                    name=node.name,
                    resource_version=node.resource_version,
                    annotations={plugin.lock_key: None},
                )
            except effects.Conflict:
                node = yield from effects_agent.read_node(node.name)
            else:
                return True
    except effects.EffectFailed:
        return False
    return False
