"""Which pods would have to go. Right sets by hand."""

from support.explained import card, node, pod
from support.operator_books import NOW
from vgpu_operator.cli import cluster_books
from vgpu_operator.flows import evictions
from vgpu_operator.model import settings


def fewest(asked, *nodes, pods=(), may_go=lambda _: True):
    found = cluster_books.Objects(nodes=nodes, pods=pods)
    books = cluster_books.opened(found, settings.build({}), NOW)
    return evictions.fewest(
        books,
        cluster_books.pod_record(books, asked).request,
        [one["metadata"]["name"] for one in nodes],
        priorities=found.priorities(),
        may_go=may_go,
    )


def names(eviction):
    return sorted(one.name for one in eviction.pods)


def test_the_unimportant_pod_goes_before_the_important_one():
    eviction = fewest(
        pod("new", mem=5000),
        node("n1", card("a")),
        pods=(
            pod("important", mem=5000, on="n1", cards="a", priority=1000),
            pod("idle", mem=5000, on="n1", cards="a"),
        ),
    )

    assert names(eviction) == ["idle"]
    assert eviction.highest_priority == 0


def test_one_pod_goes_where_the_least_important_ones_would_have_been_two():
    """Without the search for smaller sets both small pods would go and the large one stay."""
    eviction = fewest(
        pod("new", mem=5000),
        node("n1", card("a")),
        pods=(
            pod("small-1", mem=2000, on="n1", cards="a"),
            pod("small-2", mem=2000, on="n1", cards="a"),
            pod("large", mem=5000, on="n1", cards="a", priority=10),
        ),
    )

    assert names(eviction) == ["large"]
    assert eviction.exact


def test_pods_on_different_cards_go_where_several_cards_are_asked():
    eviction = fewest(
        pod("new", gpu=2, mem=9000),
        node("n1", card("a"), card("b"), card("c")),
        pods=(
            pod("p1", mem=2000, on="n1", cards="a"),
            pod("p2", mem=2000, on="n1", cards="b"),
            pod("p3", mem=2000, on="n1", cards="b"),
            pod("p4", mem=2000, on="n1", cards="c"),
        ),
    )

    assert names(eviction) == ["p1", "p4"]


def test_nobody_goes_where_all_going_would_not_help():
    assert (
        fewest(
            pod("new", mem=20_000),
            node("n1", card("a")),
            pods=(pod("p1", on="n1", cards="a"),),
        )
        is None
    )


def test_pods_that_may_not_go_stay():
    pods = (
        pod("p1", mem=9000, on="n1", cards="a"),
        pod("p2", mem=9000, on="n2", cards="b"),
    )

    eviction = fewest(
        pod("new", mem=5000),
        node("n1", card("a")),
        node("n2", card("b")),
        pods=pods,
        may_go=lambda record: record.key.name != "p1",
    )

    assert eviction.node == "n2"
