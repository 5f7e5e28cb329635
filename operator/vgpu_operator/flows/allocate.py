"""One Allocate call, as HAMi's NVIDIA device plugin answers it (v2.10.0).

The kubelet names neither pod nor container in the call: the node's lock does.

    GetNode ─ lock names a pod ──────────► GetPod ─┐
            └ no lock, or one without ──► ListNodePods: first Pending pod that
              an owner (old form)          is allocating or success ─┐
                                                                     ▼
      its key's first non-empty entry, of exactly the call's count ──► PatchPod (blank it)
      key empty now ──► PatchPod (success) ──► PatchNode (lock gone, if still the pod's)
      fault          ──► PatchPod (failed)  ──► PatchNode (the same)

Before a pod was found, a fault writes nothing. The plugin believes the lock
whatever node, phase or age its pod has, and the entry whatever card it names.

The real plugin always reads the node again before it frees the lock. Here the
release is conditioned on the version that the call began with, and only a
conflict makes it read again: a request less, and the same in the end.
"""

import contextlib
from dataclasses import dataclass

from vgpu_operator.flows import effects, effects_agent, mig_instances
from vgpu_operator.model import allocation, errors, records
from vgpu_operator.wire import bind_phase, dialects, node_lock, pod_devices, shared_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCall:
    """What the kubelet's call and the plugin's configuration say.

    Attributes:
        node: name of the node that the plugin runs on.
        device_count: how many device ids the kubelet sent.
        to_allocate_key: the plugin's own pod annotation.
        lock_key: the node annotation that names the pod; empty when this
            vendor's plugin uses none.
        instances_key: the pod annotation in which the plugin names the parts of
            cards that it makes; empty where it makes none.
        breakdown: what goes wrong in the plugin once it has found the pod
            (a fault of the driver, say); empty when nothing does.
        dialect: which one the plugin speaks. The forerunner's passes over pods
            that are served, and leaves no ``;`` behind.
    """

    node: str
    device_count: int
    to_allocate_key: str
    lock_key: str
    instances_key: str = ""
    breakdown: str = ""
    dialect: dialects.Dialect = dialects.HAMI


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateResult:
    """The plugin's answer.

    Attributes:
        pod: whom the plugin served or failed, as last seen; None when it found nobody.
        entry: index of the container entry that was served.
        shares: what it was given; empty with an error.
        error: the sentence that the kubelet gets; empty when all is well.
    """

    pod: effects_agent.PodSeen | None = None
    entry: int = -1
    shares: allocation.ContainerShares = ()
    error: str = ""


class _Refused(errors.VgpuError):
    """The plugin cannot serve the pod that it found; the text is for the kubelet."""


def allocate(call: AllocateCall) -> effects_agent.Steps[AllocateResult]:
    """Serve one container; the generator's value is the answer to the kubelet."""
    try:
        node, pod = yield from _find_pod(call)
    except (effects.EffectFailed, errors.DecodeError, _Refused) as fault:
        return AllocateResult(error=str(fault))
    try:
        return (yield from _serve(call, node, pod))
    except (effects.EffectFailed, errors.DecodeError, _Refused) as fault:
        yield from _finish(call, node, pod, records.BindPhase.FAILED)
        return AllocateResult(pod=pod, error=str(fault))


def _find_pod(
    call: AllocateCall,
) -> effects_agent.Steps[tuple[effects_agent.NodeSeen, effects_agent.PodSeen]]:
    """Return the node and the pod that the call must be meant for."""
    node = yield from effects_agent.read_node(call.node)
    text = node.annotations.get(call.lock_key) if call.lock_key else None
    if text is not None:
        owner = node_lock.decode_lock(text)
        if owner.namespace and owner.pod:
            return node, (yield from effects_agent.read_pod(owner.namespace, owner.pod))
    for pod in (yield from effects_agent.list_node_pods(call.node)):
        if _looks_pending(pod, call):
            return node, pod
    raise _Refused(f"no binding pod found on node {call.node}")


def _looks_pending(pod: effects_agent.PodSeen, call: AllocateCall) -> bool:
    """Whether the plugin's fall-back, which has no lock to go by, takes that pod."""
    dialect = call.dialect
    wanted = [records.BindPhase.ALLOCATING]
    if dialect is dialects.HAMI:
        wanted.append(records.BindPhase.SUCCESS)
    return (
        pod.phase == "Pending"
        and dialect.bind_time in pod.annotations
        and bind_phase.decode_bind_phase(pod.annotations.get(dialect.bind_phase, "")) in wanted
        and pod.annotations.get(dialect.assigned_node) == call.node
    )


def _serve(
    call: AllocateCall, node: effects_agent.NodeSeen, pod: effects_agent.PodSeen
) -> effects_agent.Steps[AllocateResult]:
    """Take the pod's next entry, blank it, and end the pod's turn when it was the last."""
    if call.breakdown:
        raise _Refused(call.breakdown)
    text = pod.annotations.get(call.to_allocate_key)
    if text is None:
        raise _Refused("device request not found")
    if call.dialect is dialects.HAMI:
        found = pod_devices.take_first(text)
    else:
        found = shared_devices.take_first(text, call.device_count)
    if found is None:
        raise _Refused("no pending device allocation found")
    entry, shares, rest = found
    if len(shares) != call.device_count:
        raise _Refused("device number not matched")
    changes = {call.to_allocate_key: rest}
    if call.instances_key in pod.annotations:
        layout = pod.annotations[call.instances_key]
        changes[call.instances_key] = mig_instances.made(layout, entry, pod=str(pod))
    served = yield from effects_agent.annotate_pod(pod, changes)
    if pod_devices.is_served(served.annotations.get(call.to_allocate_key, "")):
        served = yield from _finish(call, node, served, records.BindPhase.SUCCESS)
    return AllocateResult(pod=served, entry=entry, shares=shares)


def _finish(
    call: AllocateCall,
    node: effects_agent.NodeSeen,
    pod: effects_agent.PodSeen,
    phase: records.BindPhase,
) -> effects_agent.Steps[effects_agent.PodSeen]:
    """Write the pod's phase, then free the lock; a failure of one does not spare the other.

    A plugin only logs such failures, so nothing is raised.
    """
    with contextlib.suppress(effects.EffectFailed):
        pod = yield from effects_agent.annotate_pod(pod, {call.dialect.bind_phase: phase.value})
    if call.lock_key:
        yield from _release(call.lock_key, node, pod)
    return pod


def _release(
    lock_key: str, node: effects_agent.NodeSeen, pod: effects_agent.PodSeen
) -> effects_agent.Steps[None]:
    """Remove the lock unless it names another pod; read again on every conflict.

    Where the call found no lock, one may have been set since, so that is read again too.
    """
    fresh = lock_key in node.annotations
    try:
        while True:
            if not fresh:
                node = yield from effects_agent.read_node(node.name)
            if not _may_release(node.annotations.get(lock_key), pod):
                return
            try:
                yield effects_agent.PatchNode(
                    name=node.name,
                    resource_version=node.resource_version,
                    annotations={lock_key: None},
                )
            except effects.Conflict:
                fresh = False
            else:
                return
    except effects.EffectFailed:
        return


def _may_release(text: str | None, pod: effects_agent.PodSeen) -> bool:
    """Whether the lock is this pod's, or nobody's by name (the old form)."""
    if text is None:
        return False
    try:
        owner = node_lock.decode_lock(text)
    except errors.DecodeError:
        return False
    if not (owner.namespace and owner.pod):
        return True
    return (owner.namespace, owner.pod) == (pod.namespace, pod.name)
