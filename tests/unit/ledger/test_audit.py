"""The ledger against a fresh list."""

import dataclasses

from support import clusters
from vgpu_operator.ledger import audit, ledger
from vgpu_operator.model import records

ONE = clusters.holder("u1", "node-a", "GPU-a0", 1000)
TWO = clusters.holder("u2", "node-a", "GPU-a0", 2000)
PLAIN = clusters.pod(
    clusters.wish(clusters.container(), uid="u9", name="nginx"), node_name="node-a"
)


def books_of(*pods: records.PodRecord) -> ledger.Ledger:
    cluster = clusters.Cluster(
        nodes={"node-a": clusters.node(clusters.card("GPU-a0"))}, pods=list(pods)
    )
    return clusters.build_ledger(cluster)


def test_a_ledger_that_agrees_is_clean() -> None:
    assert audit.audit(books_of(ONE, TWO, PLAIN), [TWO, PLAIN, ONE]).clean


def test_a_pod_that_the_ledger_has_not_seen_is_missed() -> None:
    report = audit.audit(books_of(ONE, PLAIN), [ONE, TWO, PLAIN])

    assert report == audit.Report(missed=(TWO.key,), redundant=(), differing=())


def test_a_pod_that_is_gone_from_the_list_is_redundant() -> None:
    report = audit.audit(books_of(ONE, TWO), [ONE])

    assert report == audit.Report(missed=(), redundant=(TWO.key,), differing=())


def test_a_pod_that_has_ended_by_the_list_is_redundant() -> None:
    ended = dataclasses.replace(TWO, phase="Failed", resource_version="2")

    report = audit.audit(books_of(ONE, TWO), [ONE, ended])

    assert report.redundant == (TWO.key,)


def test_other_amounts_differ() -> None:
    bigger = clusters.holder("u2", "node-a", "GPU-a0", 2500)

    report = audit.audit(books_of(ONE, TWO), [ONE, bigger])

    assert report == audit.Report(missed=(), redundant=(), differing=(TWO.key,))


def test_a_list_older_than_what_was_seen_proves_nothing() -> None:
    newer = dataclasses.replace(TWO, phase="Succeeded", resource_version="9")

    assert audit.audit(books_of(ONE, newer), [ONE, TWO]).clean


def test_a_binding_under_way_is_left_out() -> None:
    books = books_of(ONE)
    wish = clusters.wish(clusters.asks(memory_mib=5), uid="u3")
    books.observe(clusters.pod(wish, node_name="", phase="Pending"))
    books.assume(wish, clusters.promise("node-a", [clusters.share("GPU-a0", 5)]))

    assert audit.audit(books, [ONE]).clean
