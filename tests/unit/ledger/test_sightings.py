"""Which nodes look different since a revision, and which pods have no node."""

from support import clusters, operator_books
from vgpu_operator.flows import pod_events
from vgpu_operator.ledger import sightings


def test_what_changed_since_a_revision_comes_newest_first() -> None:
    log = sightings.NodeLog()
    for node in ("a", "b", "a", "c"):
        log.note(node)

    assert log.since(0) == ("c", "a", "b")
    assert log.since(2) == ("c", "a")
    assert log.since(4) == ()


def test_what_is_forgotten_is_not_called_unchanged() -> None:
    log = sightings.NodeLog(most=2)
    for node in ("a", "b", "c"):
        log.note(node)

    assert log.since(0) is None
    assert log.since(1) == ("c", "b")


def test_a_revision_of_another_process_is_not_known() -> None:
    assert sightings.NodeLog().since(1) is None
    assert sightings.NodeLog().since(-1) is None


def test_a_claim_is_no_news_and_a_pod_that_comes_or_goes_is() -> None:
    books = operator_books.open_books()
    operator_books.put_node(books)
    operator_books.put_node(books, "node-b", register=operator_books.register_text(("B", 100)))
    before = books.ledger.revision
    pod = operator_books.pending()
    books.ledger.claim(
        pod.request,
        clusters.promise("node-a", (clusters.share("GPU-a0", 1000),)),
        operator_books.later(5),
    )
    assert books.ledger.seen_since(before) == ()

    pod_events.pod_seen(books, operator_books.bound(pod))
    assert books.ledger.seen_since(before) == ("node-a",)

    before = books.ledger.revision
    pod_events.pod_gone(books, pod.key)
    assert books.ledger.seen_since(before) == ("node-a",)


def test_a_binding_that_the_watch_confirms_is_news_though_no_answer_changes() -> None:
    books = operator_books.open_books()
    operator_books.put_node(books)
    pod = operator_books.pending()
    chosen = clusters.promise("node-a", (clusters.share("GPU-a0", 1000),))
    books.ledger.assume(pod.request, chosen)
    generation, revision = books.ledger.generation, books.ledger.revision

    pod_events.pod_seen(books, operator_books.bound(pod))

    assert books.ledger.generation == generation
    assert books.ledger.seen_since(revision) == ("node-a",)


def test_a_pod_waits_from_its_coming_until_it_has_a_node_or_is_gone() -> None:
    books = operator_books.open_books()
    operator_books.put_node(books)
    first, second = operator_books.pending("p1"), operator_books.pending("p2")
    for pod in (first, second, operator_books.plain("p3")):
        pod_events.pod_seen(books, pod)
    assert list(books.ledger.unbound) == [first.key.uid, second.key.uid]

    pod_events.pod_seen(books, operator_books.bound(first))
    assert list(books.ledger.unbound) == [second.key.uid]

    pod_events.pod_gone(books, second.key)
    assert list(books.ledger.unbound) == []
