"""What is known of preemption: who may evict, who does, and how it ended.

::

     refused by the filter            cards held for it, pods leave
    ----------> Candidate -----------------------> Attempt ----------> Outcome
                  |  ^   begin: a plan that helps     |       settle
                  +--+                                |
        no plan, or a budget forbids it               +--> Candidate, if still refused
"""

import datetime
import enum
from dataclasses import dataclass, field
from typing import Final

from vgpu_operator.model import records, request

RETRY: Final = datetime.timedelta(seconds=5)
"""How long after a look or an attempt without success no look is made for the same pod."""


class Outcome(enum.StrEnum):
    """How an attempt, or a look that brought none, has ended."""

    BOUND = "bound"
    """The pod has got the cards that were held for it."""
    ELSEWHERE = "bound elsewhere"
    """It has found room on another node meanwhile."""
    GONE = "gone"
    """Its object is gone, or on its way."""
    PLANNED = "planned"
    """A dry run: who would be evicted was told."""
    BLOCKED = "blocked"
    """A PodDisruptionBudget forbids every plan that would help."""
    OVERTAKEN = "overtaken"
    """What was held for it has gone to others, or not everybody leaves who was to leave."""
    TIMED_OUT = "timed out"
    """It was not bound within the time limit."""
    FAILED = "failed"
    """The API server refused for good what had to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Whether a pod that asked for that fitted on these nodes, in that generation of the ledger."""

    wish: request.PodRequest
    generation: int
    nodes: tuple[str, ...]
    fits: bool


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A pod that fits nowhere and may evict others.

    Attributes:
        record: as the filter read it last.
        since: when it was refused first.
        look_at: when to look for a plan; None = after its next refusal.
        not_before: no refusal brings a look before that.
        blocked: how many looks in a row have found that a budget forbids every plan.
        claimed: how many looks in a row have found that only claims of others keep it off.
        fitted: whether the pod fitted when that was last looked up.
        lingering: UIDs of pods that an attempt has waited for in vain.
        planned: who would be evicted for it, in a dry run.
        foreign_since: since when kube-scheduler has nominated a node for it; None = it has not.
    """

    record: records.PodRecord
    since: datetime.datetime
    look_at: datetime.datetime | None
    not_before: datetime.datetime
    foreign_since: datetime.datetime | None = None
    blocked: int = 0
    claimed: int = 0
    fitted: Fitted | None = None
    lingering: frozenset[str] = frozenset()
    planned: tuple[request.PodKey, ...] = ()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """Cards are held for a pod on one node, and pods of lower priority leave it.

    Attributes:
        pod: which.
        priority: its priority.
        node: where.
        victims: who leaves; empty where pods are leaving already.
        awaited: who is leaving already.
        since: when the pod was refused first.
        until: when the cards are held no longer.
        evicted: UIDs of victims whose eviction was accepted.
        written: the nomination stands on the pod: a leader after this one finds it.
        marked: something may stand on the pod: it was written, or a write was sent whose outcome
            is not known.
        bound_at: when the pod was seen bound.
        fitted: whether the pod fitted when that was last looked up: its victims are evicted
            side by side.
    """

    pod: request.PodKey
    priority: int
    node: str
    victims: tuple[request.PodKey, ...]
    since: datetime.datetime
    until: datetime.datetime
    awaited: tuple[request.PodKey, ...] = ()
    evicted: set[str] = field(default_factory=set)
    written: bool = False
    marked: bool = False
    bound_at: datetime.datetime | None = None
    fitted: Fitted | None = None

    @property
    def waited_for(self) -> tuple[request.PodKey, ...]:
        """Everybody who is to be gone before the pod is bound."""
        return (*self.victims, *self.awaited)


@dataclass(slots=True)
class Preemptions:
    """Candidates and attempts of this term, by the UID of the pod.

    Attributes:
        hopeless: questions that had no plan, with how the ledger stood then, and when.
        forbidden: questions whose every plan breaks a budget, with how all stood then, and the
            answer.
        reviewed_at: when all that stand refused were last noted anew.
    """

    candidates: dict[str, Candidate] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    hopeless: dict[object, tuple[object, datetime.datetime]] = field(default_factory=dict)
    forbidden: dict[object, tuple[object, object]] = field(default_factory=dict)
    reviewed_at: datetime.datetime | None = None

    def clear(self) -> None:
        """Forget everything: the term is over."""
        self.candidates.clear()
        self.attempts.clear()
        self.hopeless.clear()
        self.forbidden.clear()
        self.reviewed_at = None
