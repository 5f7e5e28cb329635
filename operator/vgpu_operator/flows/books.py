"""Everything that the operator knows: one value that all flows read and write.

One owner, the event loop; no flow awaits between reading and writing it.
"""

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from vgpu_operator.flows import unregistered
from vgpu_operator.flows.lock_sights import LockSights
from vgpu_operator.flows.preemption.attempts import Preemptions
from vgpu_operator.flows.tallies import Tallies
from vgpu_operator.flows.turns import Turns
from vgpu_operator.ledger.ledger import Ledger
from vgpu_operator.model import policy, reason, records, request
from vgpu_operator.model.settings import Settings
from vgpu_operator.scheduling import explain, fit
from vgpu_operator.vendors import base, roster
from vgpu_operator.wire import dialects, lock_kinds

MOST_ANSWERS = 32
"""Different questions whose refusals are kept: each may be 0.6 MiB at 5,000 nodes."""

MOST_LISTS = 8
"""Different lists of nodes of which one object is kept for all who were refused on them."""

MOST_GROUPS = 32
"""Different reasons that are kept of one refusal with their numbers of nodes."""

NOT_CLOSED: Mapping[str, reason.NodeRejection] = MappingProxyType({})

SHORTEST_GRACE_S = 0.05
"""With requests to spare a plugin takes about 10 ms to remove its lock (recorded);
handing the lock over in that time would only be a conflict, for it and for us."""


@dataclass(slots=True, kw_only=True)
class Registration:
    """What one vendor's plugin has registered on one node.

    Attributes:
        text: the register text last looked at; None while the key is absent.
        reported_fault: the sentence that an event was sent with, so that it is sent
            once; empty when all could be read.
        unreadable: what is wrong with a text that could not be read at all; empty when it could.
        expired: the cards left because the handshake had expired.
        handshake: handshake text last seen, None = absent.
        handshake_seen_at: when this process first saw that text.
        changed: the register text changed since the handshake was last stepped.
        stamped_at: when we last asked for a stamp.
        text_seen_at: when this process first saw that register text.
        older: the keys that it registers under, where they are an older
            dialect's; as when the register text was last there.
    """

    text: str | None = None
    reported_fault: str = ""
    unreadable: str = ""
    expired: bool = False
    handshake: str | None = None
    handshake_seen_at: datetime.datetime
    changed: bool = False
    stamped_at: datetime.datetime | None = None
    text_seen_at: datetime.datetime | None = None
    older: records.OlderKeys | None = None

    def handshake_key(self, spec: base.VendorSpec) -> str | None:
        """Return the handshake annotation, in the dialect that it registers in."""
        return spec.handshake_key if self.older is None else self.older.handshake

    def register_key(self, spec: base.VendorSpec) -> str | None:
        """Return the register annotation, in the dialect that it registers in."""
        return spec.register_key if self.older is None else self.older.register


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pod that fitted nowhere when it was last filtered.

    Thousands of pods may wait in a cluster of thousands of nodes: the names are
    shared among refusals, and the answer itself is kept by ``Answers``.

    Attributes:
        request: what it asked for.
        nodes: the names that kube-scheduler offered.
        generation: the ledger's generation that the answer was given from.
        texts: the different reasons that the answer gave.
        groups: the first of them, most nodes first, and how many nodes each kept off.
        priority: of the pod.
        told: no event about it was dropped or lost.
        asked_alone: the node that it is nominated for was asked for alone since.
    """

    request: request.PodRequest
    nodes: tuple[str, ...]
    generation: int
    texts: frozenset[str]
    groups: tuple[explain.Group, ...] = ()
    priority: int = 0
    told: bool = True
    asked_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a pod fits on none of the nodes: the different reasons, and the commonest counted.

    Attributes:
        rejections: the reason of each node.
        texts: the different reasons.
        groups: the first of them, most nodes first, and how many nodes each kept off.
        nodes: all that were asked for, once it is kept: one object for many pods.
    """

    rejections: Mapping[str, reason.NodeRejection]
    texts: frozenset[str]
    groups: tuple[explain.Group, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Answers:
    """Refusals given from one state of the ledger, by question and list of nodes.

    Valid for every pod that asks alike, claims nothing, holds nothing and has no cards
    kept for it. A page of reasons for thousands of nodes is large, so only the last few
    are kept. The order in which the nodes are asked for differs each time.

    Attributes:
        closed: which nodes took nobody, whatever their cards, and why.
    """

    closed: Mapping[str, reason.NodeRejection] = field(default_factory=dict)
    _generation: int = -1
    _by_question: dict[object, Answer] = field(default_factory=dict)
    _lists: dict[frozenset[str], tuple[str, ...]] = field(default_factory=dict)

    def find(
        self,
        question: object,
        nodes: Sequence[str],
        generation: int,
        *,
        closed: Mapping[str, reason.NodeRejection] = NOT_CLOSED,
    ) -> Answer | None:
        """Return the answer that a pod asking alike was given from this very state.

        Args:
            question: as ``Books.question`` puts it.
            nodes: names.
            generation: of the ledger.
            closed: as the attribute.
        """
        if generation != self._generation or closed != self.closed:
            return None
        return self._by_question.get((question, frozenset(nodes)))

    def keep(
        self,
        question: object,
        nodes: Sequence[str],
        generation: int,
        answer: Answer,
        *,
        closed: Mapping[str, reason.NodeRejection] = NOT_CLOSED,
    ) -> Answer:
        """Keep an answer and return it as it is kept; those from another state are dropped."""
        if generation != self._generation or closed != self.closed:
            self._by_question.clear()
        self.closed = closed
        self._generation = generation
        while len(self._by_question) >= MOST_ANSWERS:
            del self._by_question[next(iter(self._by_question))]
        names = frozenset(nodes)
        kept = dataclasses.replace(answer, nodes=self._shared(names, nodes))
        self._by_question[question, names] = kept
        return kept

    def shared(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return these names, the object that others have been refused on where there is one."""
        return self._lists.get(frozenset(nodes)) or tuple(nodes)

    def _shared(self, names: frozenset[str], nodes: Sequence[str]) -> tuple[str, ...]:
        """Return one object for these names; of too many lists the shortest is kept least."""
        known = self._lists.pop(names, None) or tuple(nodes)
        while len(self._lists) >= MOST_LISTS:
            del self._lists[min(self._lists, key=len)]
        self._lists[names] = known
        return known


def answer_of(rejections: Mapping[str, reason.NodeRejection]) -> Answer:
    """Return an answer with its reasons counted."""
    groups = explain.groups(rejections)
    return Answer(
        rejections=rejections,
        texts=frozenset(group.rejection.text for group in groups),
        groups=groups[:MOST_GROUPS],
    )


def alike(wish: request.PodRequest) -> object:
    """Return what two pods ask alike; ``Books.question`` says what else decides."""
    return (
        tuple((one.kind, one.devices, one.impossible) for one in wish.containers),
        frozenset(wish.selections.items()),
        wish.node_policy,
        wish.card_policies,
        wish.weights,
        frozenset(wish.notes.items()),
        wish.pod.namespace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What the filter found out about one pod's nodes: kube-scheduler asks for it next.

    Attributes:
        pod: the pod as it was read.
        generation: the ledger's generation that it holds for.
        placement: where the pod fits, and how well.
    """

    pod: records.PodRecord
    generation: int
    placement: fit.Placement


@dataclass(slots=True, kw_only=True)
class Books:
    """The operator's whole state.

    Attributes:
        nodes: every Node by name, as last seen.
        gone_nodes: UIDs of Nodes that are gone, oldest first: no late event
            revives one.
        quotas: every ResourceQuota by namespace and name, as last seen.
        gone_quotas: UIDs of ResourceQuotas that are gone, like ``gone_nodes``.
        registrations: by (node, vendor keyword), only where a vendor has
            ever registered.
        forerunners: the nodes on which some plugin has spoken an older dialect.
        locks: the lock annotations of all nodes.
        trusted_nodes: nodes on which, in this term, nobody but us has bound a
            device pod or taken a lock since our last bind: the next bind there
            needs no list.
        turns: who waits for which node's lock.
        refused: pods that fitted nowhere, by UID.
        answers: why, as long as nothing changes.
        scored: how the last pod that fitted was judged.
        woken_generation: the ledger's generation up to which waiting pods
            have been woken.
        binding: UIDs with a bind under way.
        bound: UIDs that we have bound and the watch has not shown bound yet.
        in_doubt: UIDs for which a Binding may still happen, with the pod's version
            that it names: once the pod has another one, it fails.
        allocating: UIDs of bound pods that their plugins have not served, with when a
            tick first found them so.
        awaited: by node, the UIDs of pods bound there whose Allocate may still come.
        stuck_locks: by node and lock key, the bound pods whose locks had expired,
            unseen by any kubelet, when last looked at.
        opened: nodes of which a lock is stuck no longer, and no waiting pod has been
            woken since.
        release_grace_s: how long a plugin that has just reported success is left to
            remove its lock: longer while taking locks over has met with conflicts.
        nominations_reviewed: the ledger's revision up to which nominations have been looked
            at for whether they still make sense.
        upsets: by node, the ledger's generation of the last change there that was
            none of our own reservations: cards, pods that somebody else has bound.
        stuck: UIDs that an event about being stuck was sent for, with its reason.
        preemption: who may evict others, and who does.
        tallies: what is counted for the metrics; nothing is decided on it.
        leader: whether this process may write.
        synced: whether one complete list of nodes, quotas and pods has been taken in.
        label_in_binding: the API server merges a Binding's labels into the pod.
    """

    settings: Settings
    vendors: roster.Roster
    ledger: Ledger
    nodes: dict[str, records.NodeRecord] = field(default_factory=dict)
    gone_nodes: dict[str, None] = field(default_factory=dict)
    quotas: dict[str, dict[str, records.QuotaRecord]] = field(default_factory=dict)
    gone_quotas: dict[str, None] = field(default_factory=dict)
    registrations: dict[tuple[str, str], Registration] = field(default_factory=dict)
    forerunners: set[str] = field(default_factory=set)
    locks: LockSights = field(default_factory=LockSights)
    trusted_nodes: set[str] = field(default_factory=set)
    turns: Turns = field(default_factory=Turns)
    refused: dict[str, Refusal] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    scored: Scored | None = None
    woken_generation: int = 0
    binding: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    in_doubt: dict[str, str] = field(default_factory=dict)
    allocating: dict[str, datetime.datetime | None] = field(default_factory=dict)
    awaited: dict[str, dict[str, None]] = field(default_factory=dict)
    stuck_locks: dict[tuple[str, str], request.PodKey] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    release_grace_s: float = SHORTEST_GRACE_S
    nominations_reviewed: int = 0
    upsets: dict[str, int] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    preemption: Preemptions = field(default_factory=Preemptions)
    tallies: Tallies = field(default_factory=Tallies)
    leader: bool = False
    synced: bool = False
    label_in_binding: bool = True

    @property
    def defaults(self) -> fit.Defaults:
        """Policies for pods that name none, and the vendors' own rules."""
        policies = self.settings.default_scheduler_policy
        return fit.Defaults(
            node_policy=policies.node_scheduler_policy,
            card_policies=policy.chain(policies.gpu_scheduler_policy),
            vendors=self.by_keyword,
            why_no_cards=functools.partial(_why_no_cards, self.registrations, self.by_keyword),
        )

    def question(self, wish: request.PodRequest, priority: int) -> object:
        """Return what two pods have in common that are answered alike at one generation.

        A pod for which cards are kept sees them, so nobody is answered as it is.
        """
        own = wish.pod.uid if self.ledger.nomination(wish.pod.uid) is not None else ""
        return alike(wish), self.ledger.kept_from(priority), own

    @property
    def by_keyword(self) -> Mapping[str, base.Vendor]:
        """The vendors by keyword."""
        return self.vendors.by_keyword

    @property
    def all_lock_keys(self) -> tuple[str, ...]:
        """Every lock annotation that some vendor or dialect uses, sorted."""
        return tuple(self.vendors.locks)

    def lock_kind(self, key: str) -> lock_kinds.LockKind:
        """Return what the lock under that annotation looks like."""
        return self.vendors.locks.get(key) or lock_kinds.LockKind(key=key)

    def dialect_of(self, node: str, vendor: str) -> dialects.Dialect:
        """Return the dialect that a vendor's plugin speaks on that node."""
        registration = self.registrations.get((node, vendor))
        if registration is None or registration.older is None:
            return dialects.HAMI
        return dialects.FORERUNNER

    def lock_of(self, vendor: base.Vendor, node: str) -> str | None:
        """Return the lock annotation that a vendor's plugin uses on that node."""
        return self.dialect_of(node, vendor.spec.keyword).lock_key or vendor.spec.lock_key

    def lock_keys(self, wish: request.PodRequest, node: str) -> tuple[str, ...]:
        """Return the lock annotations that a pod with that request needs there, sorted."""
        return tuple(sorted(self.locks_of(wish.vendors, node)))

    def locks_of(self, vendors: Sequence[str], node: str) -> Set[str]:
        """Return the lock annotations that these vendors' plugins use on that node."""
        if node not in self.forerunners:
            return self.vendors.locks_of(tuple(vendors))
        by_keyword = self.vendors.by_keyword
        found = [self.lock_of(by_keyword[word], node) for word in vendors if word in by_keyword]
        return {key for key in found if key}


def _why_no_cards(
    registrations: Mapping[tuple[str, str], Registration],
    vendors: Mapping[str, base.Vendor],
    node: str,
    keyword: str,
) -> str:
    """Return a sentence on why a node has no cards of a vendor."""
    spec = vendors[keyword].spec
    found = registrations.get((node, keyword))
    if found is None:
        return unregistered.never(spec)
    if found.expired and not found.unreadable:
        return unregistered.expired(found.handshake_key(spec))
    key = found.register_key(spec)
    return unregistered.by_text(spec, key, text=found.text, fault=found.unreadable)


def open_books(configuration: Settings, vendors: Sequence[base.Vendor]) -> Books:
    """Return empty books."""
    served = roster.of(vendors)
    return Books(
        settings=configuration,
        vendors=served,
        ledger=Ledger(
            vendors=tuple(served.by_keyword),
            trust=configuration.ledger.trust,
            rules=served.by_keyword,
        ),
    )
