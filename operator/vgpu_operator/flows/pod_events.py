"""What one Pod's state changes in the books, whoever has shown it: watch, list or read."""

from collections.abc import Generator, Iterator

from vgpu_operator.flows import admit, effects, lock_needs, nominated, reasons
from vgpu_operator.flows.books import Books
from vgpu_operator.ledger import nominations
from vgpu_operator.machines import bind_phase
from vgpu_operator.model import records, request
from vgpu_operator.model.settings import Settings


def pod_seen(books: Books, record: records.PodRecord) -> effects.Reaction:
    """Take in a Pod; seeing the same state twice, or an older one late, changes nothing."""
    pod = record.key
    before = books.ledger.record(pod.uid)
    if before is None and not _concerns_us(books, record):
        return effects.NOTHING
    held = books.ledger.holding(pod.uid)
    newly_bound = bool(record.node) and (before is None or not before.node)
    foreign = newly_bound and not books.ledger.assumed_on(pod.uid, record.node)
    if not books.ledger.observe(record):
        return effects.NOTHING
    if books.in_doubt.get(pod.uid, record.resource_version) != record.resource_version:
        # Whatever Binding was on its way has happened, or fails by its version now.
        del books.in_doubt[pod.uid]
    if record.node:
        books.refused.pop(pod.uid, None)
        books.bound.discard(pod.uid)
        if foreign:
            # Somebody else has bound a pod with devices to that node.
            books.trusted_nodes.discard(record.node)
    elif record.refused:
        books.ledger.drop_claim(pod.uid)
    outdone: tuple[nominations.Nomination, ...] = ()
    holds = books.ledger.holding(pod.uid)
    if holds is not None and (held is None or not held.covers(holds)):
        books.upsets[holds.node] = books.ledger.generation
        outdone = nominated.review(books, (holds.node,))
    lock_needs.note(books, record)
    if record.ended:
        books.stuck.pop(pod.uid, None)
    nodes = {record.node} if record.node else set()
    nodes |= books.locks.nodes_of(pod.namespace, pod.name)
    return effects.Reaction(
        effects=tuple(_complaints(books, before, record)),
        nodes=frozenset(nodes),
        pods=frozenset({pod.uid, *(kept.pod.uid for kept in outdone)}),
    )


def pod_gone(books: Books, pod: request.PodKey) -> effects.Reaction:
    """Forget a Pod: its cards are free, its lock may pass on."""
    before = books.ledger.record(pod.uid)
    nodes = set(books.locks.nodes_of(pod.namespace, pod.name))
    if before is not None and before.node:
        nodes.add(before.node)
    books.ledger.forget(pod.uid)
    books.refused.pop(pod.uid, None)
    books.bound.discard(pod.uid)
    books.in_doubt.pop(pod.uid, None)
    if before is not None:
        lock_needs.forget(books, before)
    books.stuck.pop(pod.uid, None)
    return effects.Reaction(nodes=frozenset(nodes), pods=frozenset({pod.uid}))


def take_in(books: Books, record: records.PodRecord) -> Generator[effects.Effect, None, None]:
    """Take in a Pod that a flow has read, and let others know."""
    news = pod_seen(books, record)
    if news != effects.NOTHING:
        yield effects.Tell(news=news)


def lose(books: Books, pod: request.PodKey) -> Generator[effects.Effect, None, None]:
    """Forget a Pod that a read has not found, and let others know."""
    yield effects.Tell(news=pod_gone(books, pod))


def standing_complaints(books: Books) -> Iterator[tuple[effects.Effect, ...]]:
    """Yield for each Pod the events for what somebody should look at as things stand."""
    for record in books.ledger.records():
        yield tuple(_complaints(books, None, record))


def _concerns_us(books: Books, record: records.PodRecord) -> bool:
    """Whether a pod can ever matter: for its devices, its scheduler, or a lock that names it."""
    return bool(
        record.request.wants_devices
        or record.promised
        or record.faults
        or record.passed_by
        or record.scheduler == books.settings.scheduler_name
        or books.locks.nodes_of(record.key.namespace, record.key.name)
    )


def _complaints(
    books: Books,
    before: records.PodRecord | None,
    record: records.PodRecord,
) -> Iterator[effects.Effect]:
    """Yield an event for everything about the pod that somebody should look at."""
    pod = record.key
    told = before is not None and bypassed(books.settings, before)
    if bypassed(books.settings, record) and record.phase != "Succeeded" and not told:
        yield reasons.on_pod(pod, "WebhookBypassed", _bypass_sentence(books, record))
    if record.ended or not record.node:
        return
    acts = bind_phase.step(bind_phase.state(before), bind_phase.state(record))
    if bind_phase.Effect.WARN_FAILED in acts:
        yield reasons.on_pod(
            pod,
            "AllocationFailed",
            f"the device plugin on {record.node} reports failed; if the pod runs all the same,"
            " the plugin marked the wrong pod: its cards stay charged until it ends",
        )
    seen_here = before if before is not None and before.node else None
    for vendor, fault in record.faults.items():
        if seen_here is None or vendor not in seen_here.faults:
            yield reasons.on_pod(
                pod,
                "AllocationUnreadable",
                f"{fault}; {record.node} takes no new {vendor} pod until this is readable or"
                " this pod ends",
            )
    surplus = books.ledger.surplus(pod.uid)
    if surplus and (seen_here is None or seen_here.promised != record.promised):
        yield reasons.on_pod(
            pod,
            "AllocationSurplus",
            "its annotations promise more than its containers ask for; only what they ask for"
            " is charged",
        )


def _bypass_sentence(books: Books, record: records.PodRecord) -> str:
    """Say what was missed, and what to do: creating it again helps only where it is seen then."""
    ours, namespace = books.settings.scheduler_name, record.key.namespace
    left_out = namespace in books.settings.webhook_leaves_out
    if record.passed_by:
        missed = f"it never passed the webhook, which would have {record.passed_by}"
        if left_out:
            return f"{missed}; it leaves namespace {namespace} out: change the pod itself"
        return (
            f"{missed}; create it again; if that changes nothing, the webhook leaves its"
            " namespace out: change the pod itself"
        )
    missed = (
        f"it asks for devices but its scheduler is {record.scheduler}: it never passed the webhook"
    )
    if left_out:
        return f"{missed}, which leaves namespace {namespace} out; set schedulerName: {ours}"
    return (
        f"{missed}; create it again, or, where the webhook leaves its namespace out, set"
        f" schedulerName: {ours}"
    )


def bypassed(settings: Settings, record: records.PodRecord) -> bool:
    """Whether a pod that asks for devices never passed the webhook, as far as it shows.

    Either it shows on the pod itself, which counts until it is bound: a process that begins
    later could not tell. Or the default scheduler is to place it, or has placed it.
    """
    return bool(record.passed_by and not record.node) or (
        record.request.wants_devices
        and record.scheduler == admit.DEFAULT_SCHEDULER
        and settings.scheduler_name != admit.DEFAULT_SCHEDULER
        and settings.force_overwrite_default_scheduler
        and not record.opted_out
        and not record.promised
    )
