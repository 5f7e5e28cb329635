"""Which pods would have to go so that one of any priority fits. Right sets by hand."""

import pytest

from support.explained import card, node, pod
from support.operator_books import NOW
from vgpu_operator.cli import cluster_books
from vgpu_operator.flows import leaving
from vgpu_operator.model import settings
from vgpu_operator.scheduling import preempt

MANY = 40


def fewest(asked, *nodes, pods=(), may_go=lambda _: True):
    found = cluster_books.Objects(nodes=nodes, pods=pods)
    books = cluster_books.opened(found, settings.build({}), NOW)
    question = leaving.Question(
        wish=cluster_books.pod_record(books, asked).request,
        nodes=[one["metadata"]["name"] for one in nodes],
        may_go=may_go,
        prefer=preempt.Prefer.FEWEST,
    )
    return leaving.cheapest(books, books.ledger.snapshot(), question)


def names(eviction):
    return sorted(one.key.name for one in eviction.pods)


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


def test_among_as_few_pods_the_least_important_ones_go():
    """5,000 asked, 100 free. One small pod and the critical one hold 4,900 too, but the
    critical one is the most important; the pods of priorities 10 and 20 hold 6,000."""
    small = tuple(pod(f"small-{n}", mem=1000, on="n1", cards="a") for n in range(4))
    eviction = fewest(
        pod("new", mem=5000),
        node("n1", card("a", 14_000)),
        pods=(
            *small,
            pod("ten", mem=3000, on="n1", cards="a", priority=10),
            pod("twenty", mem=3000, on="n1", cards="a", priority=20),
            pod("critical", mem=3900, on="n1", cards="a", priority=2_000_001_000),
        ),
    )

    assert names(eviction) == ["ten", "twenty"]
    assert eviction.highest_priority == 20


def test_where_the_most_important_pod_has_to_go_the_least_important_others_do():
    """8,000 asked of a full card: two pods hold 8,000 in three ways, the large one in each."""
    eviction = fewest(
        pod("new", mem=8000),
        node("n1", card("a")),
        pods=(
            pod("large", mem=6000, on="n1", cards="a", priority=50),
            pod("nine", mem=2000, on="n1", cards="a", priority=9),
            pod("one", mem=2000, on="n1", cards="a", priority=1),
        ),
    )

    assert names(eviction) == ["large", "one"]


@pytest.mark.parametrize(
    ("useless", "annotations", "words"),
    [
        (card("c"), {"hami.io/device-cordon": "c"}, {}),
        (card("c", type="NVIDIA-NVIDIA T4"), {}, {"nvidia.com/use-gputype": "A10"}),
        (card("c"), {}, {"nvidia.com/nouse-gpuuuid": "c"}),
    ],
)
def test_a_free_card_that_cannot_serve_does_not_hide_the_node_that_needs_the_fewest(
    useless, annotations, words
):
    """More nodes than are tried have a free card of no use; the last has one pod to end."""
    nodes, pods = [], []
    for number in range(MANY):
        name = f"n{number:02}"
        nodes.append(node(name, useless, card(f"full-{number}"), annotations=annotations))
        pods += [
            pod(f"{name}-{part}", mem=5000, on=name, cards=f"full-{number}") for part in range(2)
        ]
    nodes.append(node("right", card("z")))
    pods.append(pod("only", mem=9000, on="right", cards="z"))

    eviction = fewest(pod("new", mem=9000, annotations=words), *nodes, pods=tuple(pods))

    assert names(eviction) == ["only"]


def test_the_number_is_the_smallest_on_all_nodes_however_many_there_are():
    """Two pods fill each card; on the last node, by name and in the list, one does."""
    nodes = [node(f"n{number:02}", card(f"c{number}")) for number in range(MANY)]
    pods = [
        pod(f"p{number}-{part}", mem=5000, on=f"n{number:02}", cards=f"c{number}")
        for number in range(MANY)
        for part in range(2)
    ]
    nodes.append(node("z", card("z")))
    pods.append(pod("only", mem=9000, on="z", cards="z"))

    eviction = fewest(pod("new", mem=9000), *nodes, pods=tuple(pods))

    assert (names(eviction), eviction.exact) == (["only"], True)


def test_a_card_that_is_wanted_alone_costs_everybody_on_it():
    """All cores of a card are asked: nobody may keep a share, however small."""
    eviction = fewest(
        pod("new", mem=100, cores=100),
        node("n1", card("a"), card("b")),
        pods=(
            pod("p1", mem=10, on="n1", cards="a"),
            pod("p2", mem=10, on="n1", cards="a"),
            pod("p3", mem=9000, on="n1", cards="b"),
        ),
    )

    assert names(eviction) == ["p3"]
