"""A namespace's quota in the walk: what is left decides card by card."""

import dataclasses

from support import clusters, toy_vendors
from vgpu_operator.ledger import ledger
from vgpu_operator.model import allocation, quota, request
from vgpu_operator.scheduling import choose, fit

KINDS = request.ContainerKind


def books(*, memory_mib: int = 24576, vendor: str = clusters.VENDOR) -> ledger.Ledger:
    cards = tuple(
        clusters.card(f"GPU-{n}", index=n, memory_mib=memory_mib, card_type=vendor)
        for n in range(2)
    )
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={"node-a": clusters.Node(cards={vendor: cards}, allocatable={vendor: 8})},
            vendors=(vendor,),
        )
    )


def answer(
    held: ledger.Ledger,
    wish: request.PodRequest,
    *,
    memory_mib: int | None = None,
    cores: int | None = None,
    defaults: fit.Defaults | None = None,
) -> str:
    allowances = dict.fromkeys(wish.vendors, quota.Allowance(memory_mib=memory_mib, cores=cores))
    found = choose.choose(
        held.snapshot(), "node-a", wish, defaults or fit.Defaults(), allowances=allowances
    )
    if isinstance(found, allocation.Allocation):
        return "fits"
    assert not found.resolvable
    return found.text


def test_a_whole_card_beyond_the_quota_counts_every_card() -> None:
    """Recorded: nvidia/quota/bare-count."""
    wish = clusters.wish(clusters.asks(percent=100, cores_percent=100))

    assert answer(books(), wish, memory_mib=10000) == "2/2 ResourceQuotaNotFit"


def test_two_cards_of_which_the_quota_covers_one() -> None:
    """Recorded: cambricon-mlu/quota/quota-two-cards-fit, a limit of 100 x 256 MiB."""
    wish = clusters.wish(clusters.asks(2, vendor="MLU", percent=100, cores_percent=100))

    text = answer(books(vendor="MLU"), wish, memory_mib=25600)

    assert text == "1/2 AllocatedCardsInsufficientRequest, 1/2 ResourceQuotaNotFit"


def test_containers_share_what_is_left() -> None:
    """Case 132."""
    wish = clusters.wish(clusters.asks(memory_mib=1024), clusters.asks(memory_mib=1024))

    assert answer(books(), wish, memory_mib=2000) == "2/2 ResourceQuotaNotFit"
    assert answer(books(), wish, memory_mib=2048) == "fits"


def test_every_card_counts() -> None:
    """Case 131."""
    wish = clusters.wish(clusters.asks(2, memory_mib=2048, cores_percent=20))

    assert answer(books(), wish, memory_mib=4096, cores=40) == "fits"
    assert "Quota" in answer(books(), wish, memory_mib=4095)
    assert "Quota" in answer(books(), wish, cores=39)


def test_init_containers_count_by_the_largest_and_sidecars_are_added() -> None:
    wish = clusters.wish(
        clusters.container(clusters.asks(memory_mib=1000), kind=KINDS.SIDECAR),
        clusters.container(clusters.asks(memory_mib=3000), kind=KINDS.INIT),
        clusters.container(clusters.asks(memory_mib=2500), kind=KINDS.INIT),
        clusters.container(clusters.asks(memory_mib=2000)),
    )

    assert answer(books(), wish, memory_mib=4000) == "fits"
    assert answer(books(), wish, memory_mib=3999) == "2/2 ResourceQuotaNotFit"


def test_a_limit_of_nothing_lets_nothing_in_but_what_asks_for_nothing() -> None:
    """Case 136."""
    assert answer(books(), clusters.wish(clusters.asks(memory_mib=1)), memory_mib=0) == (
        "2/2 ResourceQuotaNotFit"
    )
    assert answer(books(), clusters.wish(clusters.asks(memory_mib=1)), cores=0) == "fits"


def test_the_quota_is_named_before_memory_and_after_slots() -> None:
    full = dataclasses.replace(clusters.card("GPU-0"), slots=0)
    held = clusters.build_ledger(clusters.Cluster(nodes={"node-a": clusters.node(full)}))
    wish = clusters.wish(clusters.asks(memory_mib=99999))

    assert answer(held, wish, memory_mib=10) == "1/1 CardTimeSlicingExhausted"
    assert answer(books(), wish, memory_mib=10) == "2/2 ResourceQuotaNotFit"
    assert answer(books(), wish, memory_mib=99999) == "2/2 CardInsufficientMemory"


def test_a_vendor_with_rules_of_its_own_is_refused_for_the_node_with_a_sentence() -> None:
    vendor = toy_vendors.ByHand(clusters.VENDOR)
    wish = clusters.wish(clusters.asks(2, memory_mib=2048))
    defaults = fit.Defaults(vendors={clusters.VENDOR: vendor})

    assert answer(books(), wish, memory_mib=4096, defaults=defaults) == "fits"
    assert answer(books(), wish, memory_mib=4000, defaults=defaults) == (
        "ResourceQuotaNotFit: 4096 MiB of NVIDIA memory are needed, "
        "the namespace's quota leaves 4000"
    )


def test_an_absurd_number_of_cards_is_refused_in_no_time() -> None:
    wish = clusters.wish(clusters.asks(2**31 - 1, memory_mib=2**30))

    assert answer(books(), wish, memory_mib=1) == "NodeInsufficientDevice"
