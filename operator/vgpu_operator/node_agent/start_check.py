"""Whether a container may start with the devices that the kubelet gives it.

Allocate names no pod, so a pod that came past the scheduler can be given the slice
of the one whose turn it was. Before the start the kubelet knows whose devices these
are: its pod resources API tells who holds them, and the pod's own annotation which
were served to it. Where both do not agree the container does not start.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    try:
        noted = _noted(pod)
    except errors.DecodeError as fault:
        return _unknown(pod, str(fault))
    if noted is None:
        # Another plugin served it, before this agent came.
        return "" if exactly & ran else _unknown(pod, "it was never served")
    if any(noted.get(container) == ids for container in exactly | passing):
        return ""
    return _unknown(pod, f"its annotation {keys.DEVICE_IDS} names others")


def refusal_of_unlisted(pods: Iterable[effects_agent.PodSeen], ids: frozenset[str]) -> str:
    """Return why nobody may start with ids that the kubelet lists for nobody; empty if one may.

    They are those of an init container, of the pod that was served them: unless another
    pod, which was not served and has not run, may have got them as well.

    Args:
        pods: all of the node.
        ids: what the container starts with.
    """
    served: effects_agent.PodSeen | None = None
    suspect: effects_agent.PodSeen | None = None
    for pod, container in _passing(pods, count=len(ids)):
        noted = _noted_or_nothing(pod)
        # Without a note another plugin served what ran before, before this agent came.
        if container.ran if noted is None else noted.get(container.name) == ids:
            served = pod
        elif container.name not in (noted or {}):
            suspect = pod
    listed = ", ".join(sorted(ids))
    if served is None:
        return f"no pod of this node was served the devices {listed}"
    if suspect is not None:
        return (
            f"whether the devices {listed} are pod {served}'s or pod {suspect}'s cannot be told: "
            "the kubelet does not say who holds an init container's, and the latter was not "
            f"served yet; if it stays Pending, delete {suspect} and let the scheduler place it "
            "again"
        )
    return ""


def _passing(
    pods: Iterable[effects_agent.PodSeen], *, count: int
) -> Iterator[tuple[effects_agent.PodSeen, effects_agent.ContainerSeen]]:
    """Yield the init containers that the kubelet does not list, of pods that have not ended."""
    for pod in pods:
        if pod.phase not in records.FINISHED:
            for container in pod.containers:
                if container.passing and container.asked == count:
                    yield pod, container


def _noted(pod: effects_agent.PodSeen) -> Mapping[str, frozenset[str]] | None:
    """Return what that very pod was served, by container; None when nothing ever was.

    Raises:
        DecodeError: its annotation cannot be read.
    """
    text = pod.annotations.get(keys.DEVICE_IDS)
    noted = device_ids.served_to(pod.uid, text, key=keys.DEVICE_IDS)
    if noted is None:
        return None
    return {container: frozenset(ids) for container, ids in noted.items()}


def _noted_or_nothing(pod: effects_agent.PodSeen) -> Mapping[str, frozenset[str]] | None:
    """Return the same; no container where it cannot be read, as nobody was served that."""
    try:
        return _noted(pod)
    except errors.DecodeError:
        return {}


def _unknown(pod: effects_agent.PodSeen, why: str) -> str:
    return (
        f"pod {pod} may not use the devices that it holds: {why}; it came past the scheduler, "
        "or its annotations were changed: delete it and let the scheduler place it again"
    )
