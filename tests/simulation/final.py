"""The last checks: once nothing goes wrong any more, is everything in order?

Compared is what the operators have in their books with books that a new
process would make from the API alone.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from simulation import invariants, oracle, preemption, schedulers
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import pod_events, reading, reconcile, register
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.vendors import registry

if TYPE_CHECKING:
    from simulation.world import World

Books = flow_books.Books


def cards(books: Books) -> frozenset[oracle.Card]:
    """Return every card in the ledger."""
    return frozenset(
        (node, vendor, card.id)
        for node in books.ledger.node_names
        for vendor in oracle.VENDORS
        for card in books.ledger.devices(node, vendor)
    )


def books_from_api(world: "World") -> Books:
    """Return what a new operator would know after its first lists."""
    books = flow_books.open_books(world.settings, registry.build(world.settings))
    now = world.clock.now()
    for raw in oracle.nodes(world.api.objects):
        register.node_seen(books, vendor_records.node_record(raw, books.vendors), now)
    for raw in oracle.pods(world.api.objects):
        pod_events.pod_seen(books, reading.decode_pod(books, raw))
    reconcile.synced(books)
    return books


def fingerprint(books: Books) -> dict[str, Any]:
    """Return what two ledgers must have in common: cards, what is used of them, and by whom."""
    ledger = books.ledger
    found: dict[str, Any] = {}
    for node in ledger.node_names:
        for vendor in oracle.VENDORS:
            for usage in ledger.usage(node, vendor):
                found[f"{usage.device.id} of {node}"] = str(usage)
            found[f"unreadable {vendor} on {node}"] = ledger.blocked(node, vendor)
    for record in ledger.records():
        held = ledger.holding(record.key.uid)
        if not ledger.assumed(record.key.uid):
            found[f"{record.key.name} ({record.key.uid})"] = held and (held.node, str(held.charges))
    for node in sorted(books.nodes):
        found[f"locks of {node}"] = {key: sight.text for key, sight in books.locks.on(node)}
        found[f"awaited on {node}"] = sorted(books.awaited.get(node, ()))
    return found


def unsettled(world: "World") -> list[tuple[int, str]]:
    """Return what is not in order, with the invariant that wants it so."""
    return list(_unsettled(world))


def _unsettled(world: "World") -> Iterator[tuple[int, str]]:
    fresh = books_from_api(world)
    yield from _pods_served(world)
    yield from _locks_left(world)
    leaders = [r for r in world.replicas.values() if r.operator and r.operator.books.leader]
    if len(leaders) != 1:
        yield 0, f"{len(leaders)} operators lead"
    for replica in world.replicas.values():
        operator = replica.operator
        if operator is None:
            yield 0, f"operator {replica.name} does not run"
            continue
        books = operator.books
        expected, found = fingerprint(fresh), fingerprint(books)
        if expected != found:
            wrong = [
                f"{key}: {found.get(key)} instead of {expected.get(key)}"
                for key in sorted({*expected, *found})
                if expected.get(key) != found.get(key)
            ]
            number = 3 if not world.weather.fired else 8
            yield number, f"operator {replica.name} believes {'; '.join(wrong[:3])}"
        for text in _miscounted(world, books):
            yield 1, f"operator {replica.name} counts {text}"
        if books.leader:
            yield from _left_over(replica.name, books)
            for text in preemption.unended(world.api.objects, books):
                yield 11, text
    yield from _waiting_in_vain(world, fresh)
    for text in preemption.idle(fresh, world.api.objects, world.clock.now()):
        yield 11, text


def _miscounted(world: "World", books: Books) -> Iterator[str]:
    """Yield the cards of which a ledger counts something else as used than the texts say."""
    used: dict[oracle.Card, oracle.Amount] = {}
    for pod in oracle.pods(world.api.objects):
        for card, amount in oracle.held(pod).items():
            used[card] = used.get(card, oracle.Amount()) + amount
    if any(books.ledger.assumed(record.key.uid) for record in books.ledger.records()):
        return
    for node in books.ledger.node_names:
        for vendor in oracle.VENDORS:
            for usage in books.ledger.usage(node, vendor):
                counted = oracle.Amount(
                    slots=usage.used_slots,
                    memory=usage.used_memory_mib,
                    cores=usage.used_cores_percent,
                )
                held = used.get((node, vendor, usage.device.id), oracle.Amount())
                if counted != held:
                    yield f"{counted} of {usage.device.id} of {node}, and pods hold {held}"


def _left_over(name: str, books: Books) -> Iterator[tuple[int, str]]:
    left = {
        "waits in line": len(books.turns),
        "binds under way": len(books.binding),
        "binds not seen": len(books.bound),
        "binds in doubt": len(books.in_doubt),
        "reserved": sum(books.ledger.assumed(r.key.uid) for r in books.ledger.records()),
    }
    for word, number in left.items():
        if number:
            yield 6, f"operator {name} still has {number} pods: {word}"


def _pods_served(world: "World") -> Iterator[tuple[int, str]]:
    for pod in oracle.pods(world.api.objects):
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            yield 0, f"{name} is still being deleted"
        elif oracle.node_of(pod) and pod["status"].get("phase") == "Pending":
            yield 6, f"{name} is bound to {oracle.node_of(pod)} and not served"


def _locks_left(world: "World") -> Iterator[tuple[int, str]]:
    for node in oracle.nodes(world.api.objects):
        lock = oracle.notes(node).get(oracle.LOCK)
        if lock is not None:
            yield 6, f"the lock of {node['metadata']['name']} is left: {lock}"


def _waiting_in_vain(world: "World", fresh: Books) -> Iterator[tuple[int, str]]:
    """7: yield pods that are not bound and fit, and those that nobody was told about."""
    told = {
        raw["involvedObject"].get("uid")
        for path, raw in world.api.objects.items()
        if "/events/" in path
    }
    lost = world.facts.get("kill", 0) + world.facts.get("outage", 0) or any(
        "/events" in name for name in world.weather.fired
    )
    for pod in oracle.pods(world.api.objects):
        if (
            oracle.node_of(pod)
            or oracle.ended(pod)
            or pod["spec"].get("schedulerName") != schedulers.SCHEDULER_NAME
        ):
            continue
        record = reading.decode_pod(fresh, pod)
        names = sorted(fresh.nodes)
        answer = flow_filter.filter_nodes(fresh, record, names, world.clock.now())
        name = pod["metadata"]["name"]
        if answer.fitting:
            yield 7, f"{name} is refused although it fits on {', '.join(answer.fitting)}"
            fresh.ledger.drop_claim(record.key.uid)
            continue
        for text in invariants.unexplained(pod, tuple(names), _as_answer(answer)):
            yield 7, text
        if names and not lost and record.key.uid not in told:
            yield 7, f"{name} is refused and no event says why"


def _as_answer(result: flow_filter.FilterResult) -> dict[str, Any]:
    return {
        "NodeNames": list(result.fitting),
        "FailedNodes": {node: why.text for node, why in result.rejections.items()},
    }
