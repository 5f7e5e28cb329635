"""Which cards a pod gets."""

import pytest

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import allocation, device, policy, reason, request
from vgpu_operator.scheduling import choose, fit

BINPACK, SPREAD = policy.CardPolicy.BINPACK, policy.CardPolicy.SPREAD
NUMA, MUTEX, TOPOLOGY = (
    policy.CardPolicy.NUMA,
    policy.CardPolicy.MUTEX,
    policy.CardPolicy.TOPOLOGY_AWARE,
)
IDLE = tuple(clusters.card(f"GPU-a{index}", index=index, numa=index // 2) for index in range(4))


def books_of(*cards: device.Device, **held_mib: int) -> ledger.Ledger:
    """Return node-a; ``a0=500`` is a pod that holds 500 MiB of GPU-a0."""
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={"node-a": clusters.node(*cards)},
            pods=[
                clusters.holder(f"h{card}", "node-a", f"GPU-{card}", memory)
                for card, memory in held_mib.items()
            ],
        )
    )


def cards_of(
    books: ledger.Ledger, wish: request.PodRequest, *policies: policy.CardPolicy
) -> list[str]:
    """Return per container the ids of its cards, joined by a blank."""
    defaults = fit.Defaults(card_policies=policies or (SPREAD,))
    found = choose.choose(books.snapshot(), "node-a", wish, defaults)
    assert isinstance(found, allocation.Allocation), found
    return [
        " ".join(share.device_id.removeprefix("GPU-") for share in entry)
        for entry in found.shares[clusters.VENDOR]
    ]


def small(count: int = 1, *, numa_bind: bool = False) -> request.PodRequest:
    return clusters.wish(
        clusters.asks(count, memory_mib=500),
        selection=request.CardSelection(numa_bind=numa_bind),
    )


def test_of_equal_cards_the_higher_index_is_taken_wherever_it_stands_in_the_text() -> None:
    shuffled = (IDLE[1], IDLE[0])

    assert cards_of(books_of(*shuffled), small(2)) == ["a1 a0"]


def test_of_equal_indices_the_later_in_the_text_is_taken() -> None:
    cards = (clusters.card("GPU-a0"), clusters.card("GPU-a1"))

    assert cards_of(books_of(*cards), small(2)) == ["a1 a0"]


def test_of_equal_scores_the_higher_numa_node_comes_before_the_index() -> None:
    cards = (clusters.card("GPU-a0", numa=1), clusters.card("GPU-a1", index=1))

    assert cards_of(books_of(*cards), small()) == ["a0"]
    assert cards_of(books_of(*cards), small(), SPREAD, BINPACK) == ["a1"], "not in a chain"


@pytest.mark.parametrize(
    ("policies", "first"),
    [
        ((SPREAD,), "a3"),
        ((BINPACK,), "a0"),
        ((BINPACK, NUMA), "a0"),
        ((NUMA, BINPACK), "a2"),
        ((NUMA, SPREAD), "a3"),
        ((TOPOLOGY,), "a3"),
        ((TOPOLOGY, BINPACK), "a0"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else value,
)
def test_the_policy_orders_the_cards(policies: tuple[policy.CardPolicy, ...], first: str) -> None:
    books = books_of(*IDLE, a0=22000, a1=17000, a2=7000, a3=2500)

    assert cards_of(books, small(), *policies) == [first]


def test_score_comes_before_numa() -> None:
    """NUMA 0 is 90 % and 70 % used, NUMA 1 30 % and 10 %."""
    books = books_of(*IDLE, a0=22118, a1=17203, a2=7372, a3=2457)

    assert cards_of(books, small(3), SPREAD) == ["a3 a2 a1"]
    assert cards_of(books, small(3), BINPACK) == ["a0 a1 a2"]


def test_mutex_takes_unused_cards_only() -> None:
    assert cards_of(books_of(*IDLE, a3=1, a2=1), small(2), MUTEX) == ["a1 a0"]


def test_numa_bind_takes_all_cards_from_one_numa_node() -> None:
    assert cards_of(books_of(*IDLE, a3=24576), small(2, numa_bind=True)) == ["a1 a0"]
    assert cards_of(books_of(*IDLE), small(2, numa_bind=True)) == ["a3 a2"]


def test_numa_bind_under_binpack_starts_at_the_lowest_numa_node() -> None:
    assert cards_of(books_of(*IDLE), small(2, numa_bind=True), BINPACK) == ["a1 a0"]


def test_numa_bind_counts_what_a_change_of_numa_node_let_go() -> None:
    books = books_of(*IDLE)

    found = choose.choose(books.snapshot(), "node-a", small(3, numa_bind=True), fit.Defaults())

    assert isinstance(found, reason.NodeRejection)
    assert found.text == "2/4 AllocatedCardsInsufficientRequest, 2/4 NumaNotFit"


def test_numa_bind_lets_go_what_it_held_even_for_cards_that_cannot_serve() -> None:
    books = books_of(*IDLE, a0=24576, a1=24576)

    found = choose.choose(books.snapshot(), "node-a", small(3, numa_bind=True), fit.Defaults())

    assert isinstance(found, reason.NodeRejection)
    assert found.text == "2/4 CardInsufficientMemory, 2/4 NumaNotFit"


def test_the_next_container_is_ordered_by_what_the_first_took() -> None:
    wish = clusters.wish(clusters.asks(memory_mib=1000), clusters.asks(2, memory_mib=1000))

    assert cards_of(books_of(*IDLE[:2]), wish) == ["a1", "a0 a1"]


def test_init_containers_leave_nothing_behind() -> None:
    init = clusters.container(clusters.asks(memory_mib=1000), kind=request.ContainerKind.INIT)
    wish = clusters.wish(init, init, clusters.asks(memory_mib=1000))

    assert cards_of(books_of(*IDLE[:2]), wish) == ["a1", "a1", "a1"]


def test_every_container_has_its_entry() -> None:
    wish = clusters.wish(
        clusters.container(kind=request.ContainerKind.INIT),
        clusters.container(),
        clusters.asks(memory_mib=1000),
        clusters.container(),
    )

    assert cards_of(books_of(IDLE[0]), wish) == ["", "", "a0", ""]


def test_a_share_says_the_vendors_keyword_and_resolved_amounts() -> None:
    wish = clusters.wish(clusters.asks(percent=33, cores_percent=150))

    found = choose.choose(books_of(IDLE[0]).snapshot(), "node-a", wish, fit.Defaults())

    assert isinstance(found, allocation.Allocation)
    assert found.node == "node-a"
    assert found.shares == {"NVIDIA": ((clusters.share("GPU-a0", 8110, 100),),)}


def test_weights_decide_what_full_means() -> None:
    books = books_of(*IDLE[:2], a0=12000)
    for number in range(3):
        books.observe(clusters.holder(f"x{number}", "node-a", "GPU-a1", 10))
    by_memory = policy.ScoringWeights(slot=0, core=0, memory=1)
    by_slots = policy.ScoringWeights(slot=1, core=0, memory=0)

    def best(weights: policy.ScoringWeights) -> str:
        defaults = fit.Defaults(card_policies=(BINPACK,), weights=weights)
        found = choose.choose(books.snapshot(), "node-a", small(), defaults)
        assert isinstance(found, allocation.Allocation)
        return found.shares["NVIDIA"][0][0].device_id

    assert best(by_memory) == "GPU-a0"
    assert best(by_slots) == "GPU-a1"


def test_what_the_pod_asks_counts_on_cards_whose_type_is_the_keyword() -> None:
    """A small card is fuller with the pod on it than a big one."""
    big = clusters.card("GPU-a0", memory_mib=1000, card_type="NVIDIA")
    tiny = clusters.card("GPU-a1", index=1, memory_mib=600, card_type="NVIDIA")

    assert cards_of(books_of(big, tiny), small()) == ["a0"]


def test_two_small_pods_land_on_two_cards_by_default() -> None:
    books = books_of(*IDLE[:2])
    seen = []
    for uid in ("u1", "u2"):
        wish = clusters.wish(clusters.asks(memory_mib=1000), uid=uid, name=uid)
        found = choose.choose(books.snapshot(), "node-a", wish, fit.Defaults())
        assert isinstance(found, allocation.Allocation)
        books.assume(wish, found)
        seen.append(found.shares["NVIDIA"][0][0].device_id)

    assert seen == ["GPU-a1", "GPU-a0"]


def test_choosing_changes_nothing_in_the_ledger() -> None:
    books = books_of(*IDLE)
    before = (books.generation, books.usage("node-a", clusters.VENDOR))

    wish = clusters.wish(clusters.asks(2, memory_mib=9), clusters.asks(2, memory_mib=9))
    cards_of(books, wish)

    assert (books.generation, books.usage("node-a", clusters.VENDOR)) == before


def test_an_unknown_node_is_refused() -> None:
    found = choose.choose(books_of(*IDLE).snapshot(), "node-x", small(), fit.Defaults())

    assert isinstance(found, reason.NodeRejection)
    assert found.text == "node unregistered: the node is not known to the operator"
