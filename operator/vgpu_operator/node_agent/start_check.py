"""Whether a container may start with the devices that the kubelet gives it.

Allocate names no pod, so a pod that came past the scheduler can be given the slice
of the one whose turn it was. Before the start the kubelet knows whose devices these
are: its pod resources API tells who holds them, and the pod's own annotation which
were served to it. Where both do not agree the container does not start.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_operator.flows import effects_agent
from vgpu_operator.model import errors, records
from vgpu_operator.wire import device_ids, keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The devices of one resource that one container holds, as the kubelet tells.

    It does not list init containers that end before the others start: these
    share their devices with the others.
    """

    namespace: str
    pod: str
    container: str
    ids: frozenset[str]


def holder_of(ids: frozenset[str], held: Iterable[Held]) -> tuple[str, str] | None:
    """Return namespace and name of the pod that holds any of the ids; None when none does."""
    return next(((one.namespace, one.pod) for one in held if one.ids & ids), None)


def refusal(pod: effects_agent.PodSeen, ids: frozenset[str], held: Sequence[Held]) -> str:
    """Return why no container of that pod may start with these ids; empty when one may."""
    exactly = {
        one.container
        for one in held
        if (one.namespace, one.pod) == (pod.namespace, pod.name) and one.ids == ids
    }
    passing = {container.name for container in pod.containers if container.passing}
    ran = {container.name for container in pod.containers if container.ran}
    text = pod.annotations.get(keys.DEVICE_IDS)
    if text is None:
        # Another plugin served it, before this agent came.
        return "" if exactly & ran else _unknown(pod, "it was never served")
    try:
        noted = _noted(text)
    except errors.DecodeError as fault:
        return _unknown(pod, str(fault))
    if any(noted.get(container) == ids for container in exactly | passing):
        return ""
    return _unknown(pod, f"its annotation {keys.DEVICE_IDS} names others")


def refusal_of_unlisted(pods: Iterable[effects_agent.PodSeen], ids: frozenset[str]) -> str:
    """Return why nobody may start with ids that the kubelet lists for nobody; empty if one may.

    They are those of an init container, of the pod that was served them: unless a pod
    that came past the scheduler may have got them as well.

    Args:
        pods: all of the node.
        ids: what the container starts with.
    """
    served = False
    for pod in pods:
        passing = [one for one in pod.containers if one.passing and one.asked == len(ids)]
        if not passing or pod.phase in records.FINISHED:
            continue
        if keys.BIND_PHASE not in pod.annotations:
            return _unknown(pod, "it was never served")
        text = pod.annotations.get(keys.DEVICE_IDS)
        if text is None:
            # Another plugin served it, before this agent came.
            served |= any(one.ran for one in passing)
            continue
        with contextlib.suppress(errors.DecodeError):
            noted = _noted(text)
            served |= any(noted.get(one.name) == ids for one in passing)
    if served:
        return ""
    return f"no pod of this node was served the devices {', '.join(sorted(ids))}"


def _noted(text: str) -> Mapping[str, frozenset[str]]:
    noted = device_ids.decode_device_ids(text, key=keys.DEVICE_IDS)
    return {container: frozenset(ids) for container, ids in noted.items()}


def _unknown(pod: effects_agent.PodSeen, why: str) -> str:
    return (
        f"pod {pod} may not use the devices that it holds: {why}; it came past the scheduler, "
        "or its annotations were changed: delete it and let the scheduler place it again"
    )
