"""Vendors that choose cards by rules of their own, beside those of the common ones."""

import dataclasses
from collections.abc import Sequence

import pytest

from support import clusters, toy_vendors
from vgpu_operator.ledger import ledger
from vgpu_operator.model import allocation, device, fitting, policy, reason, request
from vgpu_operator.scheduling import choose, fit
from vgpu_operator.vendors import base, walk

TOY = "Toy"
INIT, SIDECAR = request.ContainerKind.INIT, request.ContainerKind.SIDECAR


def toy_card(number: int, **changes: object) -> device.Device:
    card = clusters.card(f"toy-{number}", index=number, slots=4, memory_mib=100, card_type="Toy X")
    return dataclasses.replace(card, **changes)  # type: ignore[arg-type]


def books_of(
    vendor: base.Vendor, *cards: device.Device, names: Sequence[str] = ("node-a",)
) -> ledger.Ledger:
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={name: clusters.Node(cards={TOY: cards}, allocatable={TOY: 8}) for name in names},
            vendors=(TOY,),
        ),
        rules={TOY: vendor},
    )


def toy_wish(
    *cores: int,
    kinds: Sequence[request.ContainerKind] = (),
    uid: str = "u1",
    notes: dict[str, str] | None = None,
) -> request.PodRequest:
    kinds = kinds or [request.ContainerKind.APP] * len(cores)
    wish = clusters.wish(
        *(
            clusters.container(clusters.asks(vendor=TOY, cores_percent=one), kind=kind)
            for one, kind in zip(cores, kinds, strict=True)
        ),
        uid=uid,
        name=uid,
    )
    return dataclasses.replace(wish, notes=notes or {})


def granted(
    books: ledger.Ledger, vendor: base.Vendor, wish: request.PodRequest
) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    found = choose.choose(books.snapshot(), "node-a", wish, fit.Defaults(vendors={TOY: vendor}))
    assert isinstance(found, allocation.Allocation), str(found)
    return tuple(
        tuple((one.device_id, one.memory_mib, one.cores_percent) for one in entry)
        for entry in found.shares[TOY]
    )


def rejection(
    books: ledger.Ledger, vendor: base.Vendor, wish: request.PodRequest
) -> reason.NodeRejection:
    defaults = fit.Defaults(vendors={TOY: vendor})
    chosen = choose.choose(books.snapshot(), "node-a", wish, defaults)
    placed = fit.place(books.snapshot(), ["node-a"], wish, defaults).rejections["node-a"]
    assert chosen == placed
    return placed


def take(books: ledger.Ledger, vendor: base.Vendor, wish: request.PodRequest) -> None:
    found = choose.choose(books.snapshot(), "node-a", wish, fit.Defaults(vendors={TOY: vendor}))
    assert isinstance(found, allocation.Allocation)
    books.assume(wish, found)


def test_containers_of_a_pod_get_different_bits_of_one_card() -> None:
    vendor = toy_vendors.Masks(TOY)
    books = books_of(vendor, toy_card(0, cores_percent=0b1111))

    assert granted(books, vendor, toy_wish(1, 2)) == ((("toy-0", 0, 1),), (("toy-0", 0, 0b110),))


def test_an_init_container_gives_its_bits_back_before_the_next_container() -> None:
    vendor = toy_vendors.Masks(TOY)
    books = books_of(vendor, toy_card(0, cores_percent=0b11))
    wish = toy_wish(1, 2, 1, kinds=(SIDECAR, INIT, request.ContainerKind.APP))

    assert rejection(books, vendor, wish).text == "1/1 NoBits"
    fitting_wish = toy_wish(1, 1, 1, kinds=(SIDECAR, INIT, request.ContainerKind.APP))
    assert granted(books, vendor, fitting_wish) == (
        (("toy-0", 0, 1),),
        (("toy-0", 0, 2),),
        (("toy-0", 0, 2),),
    )


def test_bits_that_another_pod_holds_are_taken_whether_assumed_or_read_from_annotations() -> None:
    vendor = toy_vendors.Masks(TOY)
    books = books_of(vendor, toy_card(0, cores_percent=0b11))
    take(books, vendor, toy_wish(1, uid="u9"))
    assert granted(books, vendor, toy_wish(1)) == ((("toy-0", 0, 2),),)

    books.unassume("u9")
    held = toy_wish(1, uid="u8")
    promised = allocation.Allocation(
        node="node-a",
        shares={TOY: ((dataclasses.replace(clusters.share("toy-0", 0, 0b10), vendor_word=TOY),),)},
    )
    books.observe(clusters.pod(held, promised))

    assert granted(books, vendor, toy_wish(1)) == ((("toy-0", 0, 1),),)
    assert books.usage("node-a", TOY)[0].used_cores_percent == 0b10


def test_one_bit_that_two_pods_hold_does_not_carry_into_the_next() -> None:
    """A sum would call bit 0 free and bit 1 taken."""
    vendor = toy_vendors.Masks(TOY)
    books = books_of(vendor, toy_card(0, cores_percent=0b11))
    for uid in ("u8", "u9"):
        share = dataclasses.replace(clusters.share("toy-0", 0, 1), vendor_word=TOY)
        promised = allocation.Allocation(node="node-a", shares={TOY: ((share,),)})
        books.observe(clusters.pod(toy_wish(1, uid=uid), promised))

    assert granted(books, vendor, toy_wish(1)) == ((("toy-0", 0, 2),),)


def test_a_share_of_several_slots_takes_them_in_the_walk_and_from_annotations() -> None:
    vendor = toy_vendors.Slices(TOY)
    books = books_of(vendor, toy_card(0))

    assert granted(books, vendor, toy_wish(3, 1)) == ((("toy-0", 75, 3),), (("toy-0", 25, 1),))
    assert rejection(books, vendor, toy_wish(3, 2)).text == "1/7 ModeNotFit"
    take(books, vendor, toy_wish(3, uid="u9"))

    assert books.usage("node-a", TOY)[0].used_slots == 3
    assert rejection(books, vendor, toy_wish(2)).text == "1/7 ModeNotFit"


def test_what_the_vendor_rounds_up_is_not_cut_from_a_bound_pod() -> None:
    vendor = toy_vendors.Slices(TOY)
    books = books_of(vendor, toy_card(0))
    share = dataclasses.replace(clusters.share("toy-0", 75, 3), vendor_word=TOY)
    promised = allocation.Allocation(node="node-a", shares={TOY: ((share,),)})

    books.observe(clusters.pod(toy_wish(3, uid="u9"), promised))

    used = books.usage("node-a", TOY)[0]
    assert (used.used_slots, used.used_memory_mib, used.used_cores_percent) == (3, 75, 3)
    assert books.surplus("u9") == ()


def test_a_forged_share_is_cut_to_the_whole_card() -> None:
    vendor = toy_vendors.Slices(TOY)
    books = books_of(vendor, toy_card(0))
    share = dataclasses.replace(clusters.share("toy-0", 9999, 9999), vendor_word=TOY)
    promised = allocation.Allocation(node="node-a", shares={TOY: ((share,),)})

    books.observe(clusters.pod(toy_wish(3, uid="u9"), promised))

    used = books.usage("node-a", TOY)[0]
    assert (used.used_memory_mib, used.used_cores_percent) == (100, 100)


class Witness(toy_vendors.ByHand):
    """Remembers what it is shown."""

    def __init__(self) -> None:
        super().__init__(TOY)
        self.seen: list[tuple[fitting.NodeState, fitting.Ask]] = []

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Keep both and apply the common rules."""
        self.seen.append((node, ask))
        return walk.first_fitting(node, ask)

    def share_word(self, card: device.Device) -> str:
        """Return the card's type."""
        return card.type


def test_a_vendor_sees_tenants_with_their_pods_notes_and_the_nodes_notes() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0), toy_card(1))
    books.set_notes("node-a", {"zone": "7"})
    take(books, vendor, toy_wish(10, uid="u9", notes={"class": "offline"}))
    vendor.seen.clear()

    granted(books, vendor, toy_wish(20, notes={"class": "online"}))

    ((node, ask),) = vendor.seen
    assert (node.name, dict(node.notes), dict(ask.notes)) == (
        "node-a",
        {"zone": "7"},
        {"class": "online"},
    )
    by_id = {card.device.id: card for card in node.cards}
    (tenant,) = by_id["toy-1"].tenants
    assert (tenant.pod.uid, tenant.container, dict(tenant.notes)) == (
        "u9",
        0,
        {"class": "offline"},
    )
    assert tenant.share.cores_percent == 10
    assert by_id["toy-0"].tenants == ()


def test_the_first_card_is_the_one_that_the_policy_tries_first() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0), toy_card(1), toy_card(2))
    take(books, vendor, toy_wish(10, uid="u9"))
    vendor.seen.clear()

    for words in ((policy.CardPolicy.SPREAD,), (policy.CardPolicy.BINPACK,)):
        wish = dataclasses.replace(toy_wish(20), card_policies=words)
        granted(books, vendor, wish)

    orders = [[card.device.id for card in node.cards] for node, _ in vendor.seen]
    assert orders == [["toy-1", "toy-0", "toy-2"], ["toy-2", "toy-1", "toy-0"]]


def test_under_numa_bind_the_cards_come_by_numa_node() -> None:
    vendor = Witness()
    numas = (1, 0, 1, 2)
    books = books_of(vendor, *(toy_card(n, numa=numa) for n, numa in enumerate(numas)))
    take(books, vendor, toy_wish(10, uid="u9"))
    vendor.seen.clear()
    rules = {TOY: request.CardSelection(numa_bind=True)}

    for words in ((policy.CardPolicy.SPREAD,), (policy.CardPolicy.BINPACK,)):
        wish = dataclasses.replace(toy_wish(20), card_policies=words, selections=rules)
        granted(books, vendor, wish)

    orders = [[card.device.id for card in node.cards] for node, _ in vendor.seen]
    assert orders == [
        ["toy-3", "toy-2", "toy-0", "toy-1"],
        ["toy-1", "toy-2", "toy-0", "toy-3"],
    ]


def test_under_mutex_the_least_used_card_comes_first() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0), toy_card(1), toy_card(2))
    take(books, vendor, toy_wish(10, uid="u8"))
    take(books, vendor, toy_wish(10, 10, uid="u9"))
    vendor.seen.clear()

    wish = dataclasses.replace(toy_wish(20), card_policies=(policy.CardPolicy.MUTEX,))
    assert rejection(books, vendor, wish).text == "3/3 ExclusiveDeviceAllocateConflict"

    books.unassume("u8")
    vendor.seen.clear()
    granted(books, vendor, wish)
    ((node, ask),) = vendor.seen
    assert [card.device.id for card in node.cards] == ["toy-2", "toy-1", "toy-0"]
    assert ask.unused_only


def test_a_later_container_sees_what_the_earlier_lasting_ones_were_given() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0))
    kinds = (SIDECAR, INIT, request.ContainerKind.APP)

    granted(books, vendor, toy_wish(1, 2, 3, kinds=kinds))

    earlier = [
        [[share.cores_percent for share in entry] for entry in ask.earlier]
        for _, ask in vendor.seen
    ]
    assert earlier == [[], [[1]], [[1], []]]
    assert [node.cards[0].used_slots for node, _ in vendor.seen] == [0, 1, 1]


def test_a_claim_counts_as_a_tenant_for_other_pods_filters_only() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0))
    claimed = toy_wish(10, uid="u9")
    chosen = choose.choose(books.snapshot(), "node-a", claimed, fit.Defaults(vendors={TOY: vendor}))
    assert isinstance(chosen, allocation.Allocation)
    books.claim(claimed, chosen, clusters.LATER)

    def tenants(**asked: object) -> int:
        view = books.snapshot(**asked)  # type: ignore[arg-type]
        return sum(map(len, view.tenants("node-a", TOY).values()))

    assert tenants() == 1
    assert tenants(without_claim_of="u9") == 0
    assert tenants(with_claims=False) == 0


def test_an_init_container_that_is_done_is_no_tenant() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0))
    held = toy_wish(10, 20, kinds=(INIT, request.ContainerKind.APP), uid="u9")
    shares = tuple(
        (dataclasses.replace(clusters.share("toy-0", 0, cores), vendor_word=TOY),)
        for cores in (10, 20)
    )
    promised = allocation.Allocation(node="node-a", shares={TOY: shares})

    def tenants() -> list[int]:
        cards = books.snapshot().tenants("node-a", TOY)
        return [tenant.container for tenant in cards.get("toy-0", ())]

    books.observe(clusters.pod(held, promised, init_done=False))
    assert tenants() == [0, 1]

    books.observe(clusters.pod(held, promised, init_done=True, version="2"))
    assert tenants() == [1]

    books.forget("u9")
    assert tenants() == []


def test_two_shares_of_one_card_in_one_container_are_charged_twice() -> None:
    """A container may hold two MIG instances of a card."""
    vendor = Witness()
    books = books_of(vendor, toy_card(0))
    share = dataclasses.replace(clusters.share("toy-0", 30, 10), vendor_word=TOY)

    books.assume(
        toy_wish(10, uid="u9"),
        allocation.Allocation(node="node-a", shares={TOY: ((share, share),)}),
    )

    used = books.usage("node-a", TOY)[0]
    assert (used.used_slots, used.used_memory_mib, used.used_cores_percent) == (2, 60, 20)


def test_the_type_field_of_a_share_is_the_vendors_word() -> None:
    vendor = Witness()
    books = books_of(vendor, toy_card(0))

    found = choose.choose(
        books.snapshot(), "node-a", toy_wish(10), fit.Defaults(vendors={TOY: vendor})
    )

    assert isinstance(found, allocation.Allocation)
    assert found.shares[TOY][0][0].vendor_word == "Toy X"


class Judge(toy_vendors.ByHand):
    """Refuses with whatever it is told."""

    def __init__(self, answer: fitting.Refused) -> None:
        super().__init__(TOY)
        self.answer = answer

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Refuse."""
        return self.answer


@pytest.mark.parametrize(
    ("counts", "of", "text"),
    [
        ({"NodeInsufficientDevice": 0}, None, "NodeInsufficientDevice"),
        ({"NumaNotFit": 1}, None, "1/2 NumaNotFit"),
        ({"AllocatedCardsInsufficientRequest": 0}, 4, "0/4 AllocatedCardsInsufficientRequest"),
        ({"B": 2, "A": 1}, None, "1/2 A, 2/2 B"),
    ],
)
def test_a_refusal_is_written_in_the_vendors_words(
    counts: dict[str, int], of: int | None, text: str
) -> None:
    vendor = Judge(fitting.Refused(counts=counts, of=of))
    books = books_of(vendor, toy_card(0), toy_card(1))

    assert rejection(books, vendor, toy_wish(1)).text == text


def test_only_nodes_that_need_it_are_looked_at_one_by_one() -> None:
    vendor = toy_vendors.ByHand(TOY, everywhere=False)
    books = books_of(vendor, toy_card(0), toy_card(1), names=("node-a", "node-b"))
    books.set_devices("node-b", TOY, (toy_card(0), toy_card(1), toy_card(2)))
    defaults = fit.Defaults(vendors={TOY: vendor})

    found = fit.place(books.snapshot(), ["node-a", "node-b"], toy_wish(1), defaults)
    assert (found.fitting, vendor.asked) == (("node-a", "node-b"), 1)

    books.set_devices("node-a", TOY, (toy_card(0),))
    fit.place(books.snapshot(), ["node-a", "node-b"], toy_wish(1), defaults)
    assert vendor.asked == 3


def test_a_node_that_nobody_asks_about_is_not_looked_at() -> None:
    vendor = toy_vendors.ByHand(TOY)
    books = books_of(vendor, toy_card(0), names=("node-a", "node-b", "node-c"))

    found = fit.place(
        books.snapshot(),
        ["node-c", "node-a"],
        toy_wish(1),
        fit.Defaults(vendors={TOY: vendor}),
    )

    assert (found.fitting, vendor.asked) == (("node-c", "node-a"), 2)


class Scorer(toy_vendors.ByHand):
    """Adds a number that the node's notes name."""

    def __init__(self, *, neutral: bool = False) -> None:
        super().__init__(TOY)
        self.neutral_score = neutral
        self.grants: list[base.Grant] = []

    def node_score(
        self, node: fitting.NodeState, grant: base.Grant, node_policy: policy.NodePolicy
    ) -> float:
        """Return the note."""
        self.grants.append(grant)
        assert all(card.unused for card in node.cards)
        return float(node.notes.get("score", "0"))


def scored(
    vendor: Scorer, scores: dict[str, str], node_policy: policy.NodePolicy
) -> tuple[list[float], list[int]]:
    books = books_of(vendor, toy_card(0), names=tuple(scores))
    for name, text in scores.items():
        books.set_notes(name, {"score": text})
    found = fit.place(
        books.snapshot(),
        list(scores),
        dataclasses.replace(toy_wish(10), node_policy=node_policy),
        fit.Defaults(vendors={TOY: vendor}),
    )
    return found.raw_scores.tolist(), found.scores(100).tolist()


def test_a_vendors_score_is_added_to_the_nodes() -> None:
    raw, told = scored(
        Scorer(), {"node-a": "5", "node-b": "2000", "node-c": "0"}, policy.NodePolicy.BINPACK
    )

    assert raw == [5.0, 2000.0, 0.0]
    assert told == [50, 100, 0]


def test_under_spread_the_lowest_sum_is_preferred() -> None:
    _, told = scored(
        Scorer(), {"node-a": "5", "node-b": "2000", "node-c": "0"}, policy.NodePolicy.SPREAD
    )

    assert told == [50, 0, 100]


@pytest.mark.parametrize("node_policy", list(policy.NodePolicy))
def test_a_neutral_vendors_best_node_is_preferred_under_either_policy(
    node_policy: policy.NodePolicy,
) -> None:
    raw, told = scored(Scorer(neutral=True), {"node-a": "-3", "node-b": "2"}, node_policy)

    sign = 1 if node_policy is policy.NodePolicy.BINPACK else -1
    assert raw == [sign * -30_000.0, sign * 20_000.0]
    assert told == [0, 100]


def test_many_nodes_share_no_first_place_with_the_best() -> None:
    scores = {f"node-{number:03}": str(number) for number in range(300)}
    _, told = scored(Scorer(), scores, policy.NodePolicy.BINPACK)

    assert told == sorted(told)
    assert (told[0], told[-2], told[-1]) == (0, 99, 100)


def test_a_vendor_that_adds_nothing_leaves_the_scores_as_they_are() -> None:
    raw, told = scored(Scorer(), {"node-a": "0", "node-b": "0"}, policy.NodePolicy.SPREAD)

    assert (raw, told) == ([0.0, 0.0], [100, 100])


def test_a_score_is_given_what_the_pod_would_get() -> None:
    vendor = Scorer()
    scored(vendor, {"node-a": "1"}, policy.NodePolicy.BINPACK)

    (grant,) = vendor.grants
    assert [[share.device_id for share in entry] for entry in grant.shares] == [["toy-0"]]
    assert (grant.node, grant.containers, set(grant.devices)) == ("node-a", ("main",), {"toy-0"})
