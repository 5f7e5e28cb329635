"""Waking pods that were refused and now might fit.

kube-scheduler tries a refused pod again on any change of a Node, and only
then (or after five minutes). It often tries at the very event that frees a
card, before our watch has shown it; then somebody has to cause one more
change. We do, at most once for each change of the ledger. A namespace's quota
that was raised, or is used less, is no change of a Node at all; nor is a lock
that was stuck on a pod that has been served now.
"""

from collections.abc import Generator, Sequence, Set
from typing import Any, TypeAlias

from vgpu_operator.flows import effects, quotas
from vgpu_operator.flows.books import Books, Refusal, alike
from vgpu_operator.ledger import snapshot
from vgpu_operator.model import reason
from vgpu_operator.scheduling import fit
from vgpu_operator.wire import keys

Waking: TypeAlias = Generator[effects.Effect, Any, None]


def is_due(books: Books) -> bool:
    """Whether something became available since the last waking, while pods wait on this leader."""
    freed = books.ledger.newest_freed > books.woken_generation
    return books.leader and bool(books.refused) and (freed or bool(books.opened))


def wake(books: Books) -> Waking:
    """Make kube-scheduler look again by one Node write, if any refused pod might fit.

    Pods that were refused from the present state need no waking: they would
    be refused again. A write that fails is due again: nobody else would make
    one in a quiet cluster.
    """
    if not is_due(books):
        return
    before, generation = books.woken_generation, books.ledger.generation
    opened = books.opened & books.nodes.keys()
    freed = books.ledger.freed_since(before) | opened
    hopeful = _first_that_fits(books, freed, books.ledger.quota_freed_since(before), opened=opened)
    if hopeful is None:
        books.woken_generation = generation
        books.opened.clear()
        return
    target = _unlocked(books, hopeful, freed)
    if target is None:
        # The lock's own coming and going changes the Node; look again then.
        return
    books.woken_generation = generation
    books.opened.clear()
    try:
        yield _write(books, target)
    except effects.EffectFailed:
        books.woken_generation = min(before, books.woken_generation)
        books.opened |= opened


def have_all_asked_again(books: Books, node: str) -> effects.PatchNode | None:
    """Return a write at which kube-scheduler asks for every waiting pod, at that node if it may be.

    For a process that has not heard of their refusals. None where every node is locked: the
    lock's own coming and going does the same.
    """
    target = _unlocked(books, node, frozenset())
    return None if target is None else _write(books, target)


def _write(books: Books, node: str) -> effects.PatchNode:
    text = str(books.ledger.generation)
    if books.nodes[node].woken == text:
        # Left by a process before this one; the same value again would be no change.
        text += "+"
    return effects.PatchNode(node=node, annotations={keys.WAKE: text})


def _first_that_fits(
    books: Books, freed: Set[str], namespaces: frozenset[str], *, opened: Set[str]
) -> str | None:
    """Return a node that some waiting pod, refused from an earlier state, fits on now.

    Looked at are the nodes where something became available; for a pod that a
    quota held back, of which more may be taken now, all that refused it. That a
    lock is stuck no longer is no change of the ledger: a pod that was refused
    from its present state is looked at there all the same.
    """
    tried = set()
    chosen: dict[tuple[int, bool, bool], tuple[str, ...]] = {}
    for refusal in books.refused.values():
        is_earlier = refusal.generation < books.ledger.generation
        if not is_earlier and not opened:
            continue
        wish = refusal.request
        held_back = is_earlier and wish.pod.namespace in namespaces and _by_quota(refusal)
        # Thousands of pods may have been refused on the same list of thousands of nodes.
        whose = id(refusal.nodes), is_earlier, held_back
        candidates = chosen.get(whose)
        if candidates is None:
            hopes = freed if is_earlier else opened
            candidates = tuple(name for name in refusal.nodes if held_back or name in hopes)
            chosen[whose] = candidates
        if not candidates:
            continue
        own = _own_node(books, refusal, candidates)
        if own is not None:
            return own
        asked = alike(wish), books.ledger.kept_from(refusal.priority), candidates
        if asked in tried:
            continue
        tried.add(asked)
        # What is kept for the pod itself is counted here: that alters nothing elsewhere.
        view = books.ledger.snapshot(for_priority=refusal.priority)
        found = _first_fitting(books, refusal, view, candidates)
        if found is not None:
            return found
    return None


def _own_node(books: Books, refusal: Refusal, candidates: Sequence[str]) -> str | None:
    """Return the node where cards are kept for the pod, if it is one of these and the pod fits."""
    uid = refusal.request.pod.uid
    own = books.ledger.nomination(uid)
    if own is None or own.node not in candidates:
        return None
    view = books.ledger.snapshot(
        without_claim_of=uid, for_priority=refusal.priority, kept_on=own.node
    )
    return _first_fitting(books, refusal, view, (own.node,))


def _first_fitting(
    books: Books, refusal: Refusal, view: snapshot.Snapshot, candidates: Sequence[str]
) -> str | None:
    wish = refusal.request
    allowances = quotas.allowances(books, wish.pod)
    fitting = fit.place(view, candidates, wish, books.defaults, allowances=allowances).fitting
    return fitting[0] if fitting else None


def _by_quota(refusal: Refusal) -> bool:
    return any(reason.Reason.QUOTA_NOT_FIT in text for text in refusal.texts)


def _unlocked(books: Books, preferred: str, freed: Set[str]) -> str | None:
    """Return a node that may be written to: the one that fits, else any freed, else any."""
    for name in (preferred, *sorted(freed), *books.nodes):
        record = books.nodes.get(name)
        if record is not None and not record.locks:
            return name
    return None
