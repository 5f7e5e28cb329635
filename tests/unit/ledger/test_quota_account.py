"""What a namespace holds of a vendor (cases 131 to 143)."""

import pytest

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import quota, records, request

INIT, SIDECAR = request.ContainerKind.INIT, request.ContainerKind.SIDECAR
NVIDIA = clusters.VENDOR
LIMITS = {NVIDIA: quota.Allowance(memory_mib=4096)}


def one_node() -> ledger.Ledger:
    cards = (clusters.card("GPU-a0"), clusters.card("GPU-a1", index=1))
    return clusters.build_ledger(clusters.Cluster(nodes={"node-a": clusters.node(*cards)}))


def used(books: ledger.Ledger, namespace: str = "team-a") -> tuple[int, int]:
    amount = books.quota_standing(namespace).used.get(NVIDIA, quota.NOTHING)
    return amount.memory_mib, amount.cores


def two_cards(**changes: object) -> records.PodRecord:
    wanted = clusters.wish(clusters.asks(2, memory_mib=2048, cores_percent=20))
    shares = [clusters.share("GPU-a0", 2048, 20), clusters.share("GPU-a1", 2048, 20)]
    return clusters.pod(wanted, clusters.promise("node-a", shares), **changes)  # type: ignore[arg-type]


def test_every_card_of_a_container_counts() -> None:
    books = one_node()
    books.observe(two_cards())

    assert used(books) == (4096, 40)
    assert books.quota_standing("team-b") == quota.UNBOUNDED


def test_an_ended_pod_frees_its_share_and_says_where() -> None:
    books = one_node()
    books.set_limits("team-a", LIMITS)
    books.observe(two_cards())
    before = books.generation
    assert books.quota_freed_since(before) == frozenset()

    books.observe(two_cards(phase="Succeeded", version="2"))

    assert used(books) == (0, 0)
    assert books.quota_freed_since(before) == {"team-a"}


def test_a_pod_that_is_gone_frees_its_share() -> None:
    books = one_node()
    books.observe(two_cards())

    books.forget("u1")

    assert used(books) == (0, 0)


def test_an_assumed_pod_counts_until_it_is_given_up() -> None:
    """Case 138: the reservation and the quota roll back together."""
    books = one_node()
    wanted = clusters.wish(clusters.asks(memory_mib=1000))

    books.assume(wanted, clusters.promise("node-a", [clusters.share("GPU-a0", 1000)]))
    assert used(books) == (1000, 0)
    assert books.quota_standing("team-a", without="u1").used == {NVIDIA: quota.NOTHING}

    books.unassume("u1")
    assert used(books) == (0, 0)


def test_init_containers_count_by_the_largest_until_they_are_done() -> None:
    """Case 143: init 8000, app 2000."""
    wanted = clusters.wish(
        clusters.container(clusters.asks(memory_mib=8000), kind=INIT),
        clusters.container(clusters.asks(memory_mib=2000)),
    )
    promised = clusters.promise(
        "node-a", [clusters.share("GPU-a0", 8000)], [clusters.share("GPU-a1", 2000)]
    )
    books = one_node()

    books.observe(clusters.pod(wanted, promised, init_done=False))
    assert used(books) == (8000, 0)

    books.observe(clusters.pod(wanted, promised, init_done=True, version="2"))
    assert used(books) == (2000, 0)


def test_a_share_of_a_card_that_is_absent_counts() -> None:
    """Recorded: nvidia/quota/unknown-card-counted."""
    books = one_node()
    books.observe(clusters.holder("u2", "node-a", "GPU-zz", 4096))

    assert used(books) == (4096, 0)


def test_what_a_pod_did_not_ask_for_is_not_counted() -> None:
    wanted = clusters.wish(clusters.asks(memory_mib=1000, cores_percent=10))
    books = one_node()

    books.observe(
        clusters.pod(wanted, clusters.promise("node-a", [clusters.share("GPU-a0", 9000, 90)]))
    )

    assert used(books) == (1000, 10)


def test_a_percentage_counts_anew_when_the_card_changes() -> None:
    wanted = clusters.wish(clusters.asks(percent=50))
    books = one_node()
    books.observe(
        clusters.pod(wanted, clusters.promise("node-a", [clusters.share("GPU-a0", 12288)]))
    )
    assert used(books) == (12288, 0)

    books.set_devices("node-a", NVIDIA, (clusters.card("GPU-a0", memory_mib=10000),))
    assert used(books) == (5000, 0)

    books.forget_node("node-a")
    assert used(books) == (12288, 0)


def test_where_nothing_is_limited_nobody_waits_for_a_share() -> None:
    books = one_node()
    books.observe(two_cards())
    before = books.generation

    books.observe(two_cards(phase="Succeeded", version="2"))

    assert books.quota_freed_since(before) == frozenset()


@pytest.mark.parametrize(
    ("first", "then", "frees"),
    [
        pytest.param({}, LIMITS, False, id="the first limit"),
        pytest.param(LIMITS, {NVIDIA: quota.Allowance(memory_mib=4095)}, False, id="lowered"),
        pytest.param(LIMITS, {NVIDIA: quota.Allowance(memory_mib=4097)}, True, id="raised"),
        pytest.param(LIMITS, {NVIDIA: quota.Allowance(cores=1)}, True, id="memory gone"),
        pytest.param(LIMITS, {}, True, id="all gone"),
    ],
)
def test_new_limits_make_earlier_answers_worthless(
    first: quota.Limits, then: quota.Limits, frees: bool
) -> None:
    books = one_node()
    books.set_limits("team-b", first)
    before = books.generation

    books.set_limits("team-b", then)

    assert books.generation > before
    assert books.quota_freed_since(before) == ({"team-b"} if frees else set())


def test_the_same_limits_again_are_no_news() -> None:
    books = one_node()
    books.set_limits("team-b", LIMITS)
    before = books.generation

    books.set_limits("team-b", dict(LIMITS))

    assert books.generation == before


def test_what_is_left_is_the_limit_less_what_is_held() -> None:
    books = one_node()
    books.set_limits("team-a", {NVIDIA: quota.Allowance(memory_mib=5000)})
    books.observe(two_cards())

    assert books.quota_standing("team-a").allowances == {NVIDIA: quota.Allowance(memory_mib=904)}
