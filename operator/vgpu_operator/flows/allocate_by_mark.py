"""One Allocate call of a plugin that knows nothing of phases and locks with a name.

Cambricon's, Enflame's and AWS Neuron's plugins look for a pod of their node
that the scheduler has marked as not served yet::

    ListNodePods: first Pending pod whose mark is "false"
      ─► PatchPod (the container's entry filled, the mark "true") ─► PatchNode (own lock gone)

A pod has one mark. Where there is an entry for each container (Enflame), the
mark follows the last of them; else the first call serves the whole pod. The
lock is removed whatever it says, so it must be this vendor's alone. A fault
writes nothing: the kubelet alone knows of it. Sources: HAMi v2.10.0
(``pkg/device/cambricon``, ``pkg/device/enflame``, ``pkg/device/awsneuron``) for
what is found, the vendors' documents for what is left.
"""

import json
import uuid
from dataclasses import dataclass

from vgpu_operator.flows import allocate, effects, effects_agent
from vgpu_operator.model import errors
from vgpu_operator.wire import keys, shape

UNSERVED = "false"
SERVED = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCall:
    """What the kubelet's call and the plugin's configuration say.

    Attributes:
        node: name of the node that the plugin runs on.
        container: the container's name.
        mark_key: the pod annotation that is the mark.
        entries_key: the pod annotation with an entry for each container; empty
            where the plugin has none.
        lock_key: the plugin's own lock; empty when it has none.
        breakdown: what goes wrong in the plugin; empty when nothing does.
    """

    node: str
    container: str
    mark_key: str
    entries_key: str = ""
    lock_key: str = ""
    breakdown: str = ""


class _Refused(errors.VgpuError):
    """The plugin cannot serve; the text is for the kubelet."""


def allocate_by_mark(call: MarkCall) -> effects_agent.Steps[allocate.AllocateResult]:
    """Serve one container; the generator's value is the answer to the kubelet."""
    try:
        pod = yield from _find_pod(call)
        pod = yield from effects_agent.annotate_pod(pod, _written(call, pod))
    except (effects.EffectFailed, _Refused) as fault:
        return allocate.AllocateResult(error=str(fault))
    if call.lock_key and pod.annotations.get(call.mark_key) == SERVED:
        yield from _release(call)
    return allocate.AllocateResult(pod=pod)


def _find_pod(call: MarkCall) -> effects_agent.Steps[effects_agent.PodSeen]:
    """Return the first pod that waits for this plugin."""
    for pod in (yield from effects_agent.list_node_pods(call.node)):
        notes = pod.annotations
        if (
            pod.phase == "Pending"
            and notes.get(call.mark_key) == UNSERVED
            and notes.get(keys.ASSIGNED_NODE) == call.node
        ):
            return pod
    raise _Refused(f"no pod on node {call.node} has {call.mark_key} {UNSERVED}")


def _written(call: MarkCall, pod: effects_agent.PodSeen) -> dict[str, str]:
    """Return the annotations that say that the container is served.

    Raises:
        _Refused: something goes wrong in the plugin.
    """
    if call.breakdown:
        raise _Refused(call.breakdown)
    if not call.entries_key:
        return {call.mark_key: SERVED}
    try:
        entries = dict(json.loads(pod.annotations.get(call.entries_key, "")))
    except (ValueError, TypeError) as fault:
        raise _Refused(f"{call.entries_key} cannot be read") from fault
    if call.container not in entries:
        raise _Refused(f"{call.entries_key} has no container {call.container}")
    instance = f"{pod}/{call.container}"
    entries[call.container] = {
        **shape.mapping(entries[call.container]),
        "allocated": True,
        "instanceID": str(sorted(entries).index(call.container)),
        "instanceUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, instance)),
    }
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    if all(shape.mapping(entry).get("allocated") is True for entry in entries.values()):
        return {call.entries_key: text, call.mark_key: SERVED}
    return {call.entries_key: text}


def _release(call: MarkCall) -> effects_agent.Steps[None]:
    """Remove the lock whatever it says; read again on every conflict.

    A plugin only logs what goes wrong here, so nothing is raised.
    """
    while True:
        try:
            node = yield from effects_agent.read_node(call.node)
            if call.lock_key not in node.annotations:
                return
            yield effects_agent.PatchNode(
                name=node.name,
                resource_version=node.resource_version,
                annotations={call.lock_key: None},
            )
        except effects.Conflict:
            continue
        except effects.EffectFailed:
            return
        return
