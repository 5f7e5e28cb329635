"""What a flow asks the outside to do, and how that may fail.

A flow that needs no answer returns effects. A flow in which a later step
depends on an earlier answer is a generator: it yields an effect and is sent
the answer, or one of the failures below is thrown at its ``yield``.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from vgpu_operator.model import errors, request


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class EffectFailed(errors.VgpuError):
    """Base of what may be thrown into a flow; the text says what was tried and why it failed."""


class Conflict(EffectFailed):
    """A precondition did not hold: the object has moved on."""


class Missing(EffectFailed):
    """The object is not there."""


class Denied(EffectFailed):
    """The API server refuses for good: rights, admission, or an invalid object."""


class NotLeading(Denied):
    """A write was asked for while this process does not lead, by what it knows: nothing was sent.

    It may lead again in a moment: a Lease that is not seen renewed in time has not ended a term.
    """


class Doubtful(EffectFailed):
    """No answer came: the effect may or may not have happened."""


class GivenUp(EffectFailed):
    """A wait ended without what it waited for; the text says why."""


class NotYet(EffectFailed):
    """The API server refuses for now: a budget forbids it, or it has too much to do.

    Attributes:
        retry_after_s: what the server asks for; None when it does not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchNode:
    """Change annotations of a Node; None removes. Answer: the new resourceVersion.

    ``resource_version`` is a precondition where it is given.
    """

    node: str
    annotations: Mapping[str, str | None]
    resource_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPod:
    """Change annotations and labels of a Pod. Answer: the new resourceVersion.

    The UID is always a precondition.
    """

    pod: request.PodKey
    annotations: Mapping[str, str | None] = field(default_factory=_nothing)
    labels: Mapping[str, str | None] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPod:
    """Create the Binding: node and annotations appear in one step or not at all."""

    pod: request.PodKey
    node: str
    resource_version: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPod:
    """Read one Pod. Answer: its record, or None when there is none of that name."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodePods:
    """List the Pods of a Node, consistently. Answer: a tuple of records."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete one Pod, only if it still has that UID.

    Attributes:
        grace_s: how long its containers get to end; None = what the pod says.
        resource_version: a precondition where it is given.
    """

    pod: request.PodKey
    grace_s: int | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictPod:
    """Evict one Pod, only if it still has that UID: budgets and grace periods are respected.

    ``NotYet`` is thrown where the server refuses for now.
    """

    pod: request.PodKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NominateNode:
    """Write on a Pod that waits where it is to go, or take that off again.

    The UID is always a precondition.

    Attributes:
        node: for ``status.nominatedNodeName``; None = nowhere any more.
        mark: our annotation that goes with it, in the same request; None = none any more.
    """

    pod: request.PodKey
    node: str | None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait so long, and for nothing. Answer: ``now``."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitChange:
    """Wait until something about a node or the pod itself changed. Answer: ``now``.

    ``GivenUp`` is thrown when the wait has lost its sense: the caller hung up,
    the time is over, a newer bind replaced this one, leadership ended.

    With ``at_most_s`` the wait also ends, without a fault, after so long.
    """

    node: str
    pod: request.PodKey
    at_most_s: float | None = None


class EventType(enum.StrEnum):
    """Type of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostEvent:
    """Send a Kubernetes Event; nobody waits for it and its loss harms nothing.

    Exactly one of ``pod`` and ``node`` is set.

    Attributes:
        type, reason: as in Kubernetes.
        message: the sentence; two events that say the same are one.
        pod, node: what it is about.
        closest: what came closest to taking the pod is added when it is sent.
    """

    type: EventType
    reason: str
    message: str
    pod: request.PodKey | None = None
    node: str = ""
    closest: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What an event causes.

    Attributes:
        effects: to be performed in this order; a failure of one stops none.
        nodes: names of nodes about which something changed: waiters look again.
        pods: UIDs of pods about which something changed.
    """

    effects: tuple["Effect", ...] = ()
    nodes: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()

    def __add__(self, other: "Reaction") -> "Reaction":
        """Return both, first this, then the other."""
        return Reaction(
            effects=self.effects + other.effects,
            nodes=self.nodes | other.nodes,
            pods=self.pods | other.pods,
        )


NOTHING = Reaction()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Let others know what a flow has learned in passing, as if a watch had shown it."""

    news: Reaction


Effect = (
    PatchNode
    | PatchPod
    | BindPod
    | ReadPod
    | ListNodePods
    | DeletePod
    | EvictPod
    | NominateNode
    | Pause
    | AwaitChange
    | PostEvent
    | Tell
)
Write = PatchNode | PatchPod | BindPod | DeletePod | EvictPod | NominateNode | PostEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class BindResult:
    """Answer of a bind: an empty error is success."""

    error: str = ""
