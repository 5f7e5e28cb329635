"""What came closest to taking a pod that fits nowhere: worked out by hand."""

import pytest

from support import clusters, toy_vendors
from vgpu_operator.ledger import ledger
from vgpu_operator.model import device, policy, quota, reason, records, request
from vgpu_operator.scheduling import fit, near_miss

Reason = reason.Reason
CARD_MIB = 24576


def books(
    *held: records.PodRecord, cordoned: tuple[str, ...] = (), **nodes: tuple[device.Device, ...]
) -> ledger.Ledger:
    """Return nodes ``a``, ``b``, … with these cards, and what pods hold."""
    made = {name: clusters.node(*cards, cordoned=cordoned) for name, cards in nodes.items()}
    return clusters.build_ledger(clusters.Cluster(nodes=made, pods=list(held)))


def one(name: str, **fields: object) -> tuple[device.Device, ...]:
    return (clusters.card(f"GPU-{name}0", **fields),)


def two(name: str, **fields: object) -> tuple[device.Device, ...]:
    return tuple(clusters.card(f"GPU-{name}{n}", index=n, **fields) for n in range(2))


def closest(
    held: ledger.Ledger,
    wish: request.PodRequest,
    *names: str,
    allowances: quota.Allowances = quota.NO_LIMITS,
    defaults: fit.Defaults | None = None,
) -> near_miss.NearMiss | None:
    return near_miss.find(
        held.snapshot(),
        names or ("a", "b"),
        wish,
        defaults or fit.Defaults(),
        allowances=allowances,
    )


def named(found: near_miss.NearMiss | None) -> str:
    assert found is not None
    assert found.card is not None
    return found.card.device.id


def test_asked_against_free_and_who_holds_the_card() -> None:
    held = books(clusters.holder("h1", "a", "GPU-a0", 20000, 30), a=one("a"))

    found = closest(held, clusters.wish(clusters.asks(memory_mib=6000, cores_percent=80)))

    assert found is not None
    assert (found.node, found.container, found.able) == ("a", 0, 0)
    assert found.facts == (Reason.INSUFFICIENT_MEMORY, Reason.INSUFFICIENT_CORES)
    card = found.card
    assert card is not None
    assert (card.asked_memory_mib, card.free_memory_mib) == (6000, CARD_MIB - 20000)
    assert (card.asked_cores, card.free_cores) == (80, 70)
    assert [(tenant.pod.name, tenant.share.memory_mib) for tenant in card.tenants] == [
        ("h1", 20000)
    ]


def test_the_node_that_is_short_of_less_is_closer() -> None:
    held = books(
        clusters.holder("h1", "a", "GPU-a0", 20000),
        clusters.holder("h2", "b", "GPU-b0", 19000),
        a=one("a"),
        b=one("b"),
    )

    assert named(closest(held, clusters.wish(clusters.asks(memory_mib=6000)))) == "GPU-b0"


def test_shortages_of_memory_and_cores_add_up_as_parts_of_what_is_asked() -> None:
    held = books(
        clusters.holder("h1", "a", "GPU-a0", CARD_MIB - 5000, 50),  # 10 of 60 cores missing: 1/6
        clusters.holder("h2", "b", "GPU-b0", CARD_MIB - 4000, 0),  # 1000 of 5000 MiB: 1/5
        a=one("a"),
        b=one("b"),
    )

    wish = clusters.wish(clusters.asks(memory_mib=5000, cores_percent=60))
    assert named(closest(held, wish)) == "GPU-a0"


def test_a_full_card_is_closer_than_one_that_pods_cannot_free() -> None:
    held = books(
        clusters.holder("h1", "b", "GPU-b0", CARD_MIB),
        a=one("a", healthy=False),
        b=one("b"),
    )

    found = closest(held, clusters.wish(clusters.asks(memory_mib=6000)))

    assert named(found) == "GPU-b0"


@pytest.mark.parametrize(
    ("card", "cordoned", "wish", "facts"),
    [
        pytest.param(
            one("a", healthy=False), (), {}, (Reason.CARD_NOT_HEALTHY,), id="an unhealthy card"
        ),
        pytest.param(one("a"), ("GPU-a0",), {}, (Reason.CARD_CORDONED,), id="a cordoned card"),
        pytest.param(
            one("a", slots=0), (), {}, (Reason.SLOTS_EXHAUSTED,), id="a card without a share"
        ),
        pytest.param(
            one("a"),
            (),
            {"selection": request.CardSelection(use_types=("H100",))},
            (Reason.CARD_TYPE_MISMATCH,),
            id="a card of another type",
        ),
        pytest.param(
            one("a", healthy=False),
            ("GPU-a0",),
            {"selection": request.CardSelection(avoid_ids=("GPU-a0",))},
            (Reason.CARD_NOT_HEALTHY, Reason.CARD_CORDONED, Reason.CARD_UUID_MISMATCH),
            id="every fact, in the order in which they are checked",
        ),
    ],
)
def test_a_card_has_every_fact_that_keeps_it_off(
    card: tuple[device.Device, ...],
    cordoned: tuple[str, ...],
    wish: dict,
    facts: tuple[Reason, ...],
) -> None:
    held = books(a=card, cordoned=cordoned)

    found = closest(held, clusters.wish(clusters.asks(memory_mib=1000), **wish))

    assert found is not None
    assert found.facts == facts


def test_a_card_in_use_that_is_wanted_alone_says_so_once() -> None:
    held = books(clusters.holder("h1", "a", "GPU-a0", 1000), a=one("a"))
    wish = clusters.wish(
        clusters.asks(percent=10, cores_percent=100), card_policies=(policy.CardPolicy.MUTEX,)
    )

    found = closest(held, wish)

    assert found is not None
    assert found.facts == (Reason.EXCLUSIVE_CONFLICT,)


def test_of_several_cards_the_last_one_needed_is_named() -> None:
    held = books(
        clusters.holder("h1", "a", "GPU-a0", 20000),
        clusters.holder("h2", "b", "GPU-b0", 24000),
        clusters.holder("h3", "b", "GPU-b1", 24000),
        a=two("a"),
        b=two("b"),
    )

    found = closest(held, clusters.wish(clusters.asks(2, memory_mib=6000)))

    assert found is not None
    assert (named(found), found.able) == ("GPU-a0", 1)


def test_a_node_is_as_close_as_the_last_card_that_it_needs() -> None:
    held = books(
        clusters.holder("h1", "a", "GPU-a0", 24000),
        clusters.holder("h2", "b", "GPU-b0", 19000),
        clusters.holder("h3", "b", "GPU-b1", 19000),
        a=two("a"),
        b=two("b"),
    )

    found = closest(held, clusters.wish(clusters.asks(2, memory_mib=6000)))

    assert found is not None
    assert (found.node, found.able) == ("b", 0)


def test_a_node_with_too_few_cards_is_named_where_no_other_has_enough() -> None:
    held = books(a=one("a"), b=two("b"))

    found = closest(held, clusters.wish(clusters.asks(3, memory_mib=6000)))

    assert found is not None
    assert (found.node, found.able, found.facts) == ("b", 2, (Reason.TOO_FEW_CARDS,))
    assert found.card is None


def test_what_earlier_containers_would_take_counts() -> None:
    held = books(a=one("a"))
    wish = clusters.wish(clusters.asks(memory_mib=20000), clusters.asks(memory_mib=6000))

    found = closest(held, wish)

    assert found is not None
    assert found.container == 1
    assert found.card is not None
    assert found.card.free_memory_mib == CARD_MIB - 20000


def test_a_node_that_serves_more_of_the_containers_is_closer() -> None:
    held = books(
        clusters.holder("h1", "a", "GPU-a0", 5000),  # 424 MiB short of the first container
        a=one("a"),
        b=one("b"),
    )
    wish = clusters.wish(clusters.asks(memory_mib=20000), clusters.asks(memory_mib=20000))

    found = closest(held, wish)

    assert found is not None
    assert (found.node, found.container) == ("b", 1)


def test_cards_on_different_numa_nodes() -> None:
    held = books(a=(clusters.card("GPU-a0", numa=0), clusters.card("GPU-a1", index=1, numa=1)))
    numa = request.CardSelection(numa_bind=True)

    found = closest(held, clusters.wish(clusters.asks(2, memory_mib=1000), selection=numa))

    assert found is not None
    assert (found.able, found.facts, found.card) == (2, (Reason.NUMA_NOT_FIT,), None)


def test_a_quota_that_is_used_up() -> None:
    held = books(a=one("a"))
    left = {clusters.VENDOR: quota.Allowance(memory_mib=1000, cores=None)}

    found = closest(held, clusters.wish(clusters.asks(memory_mib=2000)), allowances=left)

    assert found is not None
    assert found.facts == (Reason.QUOTA_NOT_FIT,)


def test_among_equals_the_first_by_name_whatever_the_order() -> None:
    held = books(a=one("a"), b=one("b"))
    wish = clusters.wish(clusters.asks(memory_mib=CARD_MIB + 1))

    assert named(closest(held, wish, "b", "a")) == named(closest(held, wish, "a", "b")) == "GPU-a0"


def test_only_nodes_that_were_asked_about_count() -> None:
    held = books(clusters.holder("h1", "b", "GPU-b0", 24000), a=one("a"), b=one("b"))

    assert named(closest(held, clusters.wish(clusters.asks(memory_mib=6000)), "b", "x")) == "GPU-b0"


@pytest.mark.parametrize(
    ("names", "wish"),
    [
        pytest.param(("a",), clusters.wish(clusters.asks(memory_mib=6000)), id="it fits"),
        pytest.param(("x",), clusters.wish(clusters.asks(memory_mib=6000)), id="unknown nodes"),
        pytest.param((), clusters.wish(clusters.container()), id="nothing is asked for"),
        pytest.param(
            ("a",), clusters.wish(clusters.asks(memory_mib=1, vendor="MLU")), id="no such cards"
        ),
    ],
)
def test_there_is_nothing_to_say_where(names: tuple[str, ...], wish: request.PodRequest) -> None:
    assert closest(books(a=one("a")), wish, *names) is None


def test_a_vendor_that_uses_no_common_rule_says_in_its_own_words_what_is_missing() -> None:
    held = books(clusters.holder("h1", "a", "GPU-a0", 24000), a=one("a"))
    toys = {clusters.VENDOR: toy_vendors.ByHand(clusters.VENDOR)}
    wish = clusters.wish(clusters.asks(memory_mib=6000))

    assert closest(held, wish, defaults=fit.Defaults(vendors=toys)) is None


def test_a_node_that_a_vendor_judges_by_itself_is_measured_where_the_others_are() -> None:
    held = books(clusters.holder("h1", "a", "GPU-a0", 24000), a=one("a"), b=two("b", slots=0))
    toys = {clusters.VENDOR: toy_vendors.ByHand(clusters.VENDOR, everywhere=False)}
    wish = clusters.wish(clusters.asks(memory_mib=600))

    found = closest(held, wish, defaults=fit.Defaults(vendors=toys))

    assert named(found) == "GPU-a0"  # 24 of 600 MiB missing, where GPU-b0 has no share at all


def test_a_vendor_that_judges_every_node_by_itself_is_asked_about_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer is known: there is none. To ask costs seconds in a large cluster."""
    held = books(clusters.holder("h1", "a", "GPU-a0", 20000), a=one("a"))
    by_hand = fit.Defaults(vendors={"NVIDIA": toy_vendors.ByHand("NVIDIA")})
    monkeypatch.setattr(near_miss.walk, "walk", None)

    wish = clusters.wish(clusters.asks(memory_mib=6000))
    assert closest(held, wish, defaults=by_hand) is None
