"""The fast core and the slow twin must say the same of any cluster."""

import dataclasses
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from support import clusters, slow_twin, toy_vendors
from vgpu_operator.model import allocation, device, policy, quota, reason, records, request
from vgpu_operator.scheduling import choose, fit, near_miss

KINDS = tuple(request.ContainerKind)
CARD_POLICIES = st.lists(st.sampled_from(list(policy.CardPolicy)), min_size=1, max_size=3)
TYPES = ("NVIDIA-NVIDIA A10", "NVIDIA-NVIDIA A100", "nvidia-Tesla P4", "NVIDIA", "MLU-370", "MLU")
VENDORS = ("NVIDIA", "MLU")
NAMES = ("node-a", "node-b", "node-c")


@st.composite
def cards(draw: st.DrawFn, node: str, vendor: str) -> tuple[device.Device, ...]:
    """Few sizes and types, so that ties and every kind of refusal are common."""
    return tuple(
        clusters.card(
            f"{vendor}-{node}-{number}",
            index=draw(st.integers(0, 2)),
            slots=draw(st.sampled_from([0, 1, 2, 3])),
            memory_mib=draw(st.sampled_from([0, 100, 100, 100, 200])),
            cores_percent=draw(st.sampled_from([0, 100, 100, 100, 200])),
            card_type=draw(st.sampled_from(TYPES)),
            numa=draw(st.integers(-1, 2)),
            mode=draw(st.sampled_from(["", "hami-core", "mps"])),
            healthy=draw(st.sampled_from([True, True, True, False])),
        )
        for number in range(draw(st.integers(0, 5)))
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> clusters.Node:
    """Return a node that may lack anything."""
    held = {vendor: draw(cards(name, vendor)) for vendor in VENDORS}
    ids = [card.id for of_vendor in held.values() for card in of_vendor]
    return clusters.Node(
        cards=held,
        allocatable={vendor: draw(st.sampled_from([8, 8, 8, 0, None])) for vendor in VENDORS},
        cordoned=frozenset(draw(st.lists(st.sampled_from(ids), max_size=2)) if ids else ()),
    )


@st.composite
def asks(draw: st.DrawFn, vendor: str) -> request.DeviceRequest:
    """Return amounts around the cards' sizes."""
    return clusters.asks(
        draw(st.sampled_from([1, 1, 2, 3])),
        vendor=vendor,
        memory_mib=draw(st.sampled_from([0, 0, 30, 100, 150])),
        percent=draw(st.sampled_from([None, 30, 50, 100])),
        cores_percent=draw(st.sampled_from([0, 0, 30, 100, 150])),
    )


@st.composite
def containers(draw: st.DrawFn, most: int = 4) -> tuple[request.ContainerRequest, ...]:
    """Return init containers and sidecars mixed, then apps; some without devices."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most))
    kinds.sort(key=lambda kind: kind is request.ContainerKind.APP)
    return tuple(
        clusters.container(
            *(
                draw(asks(vendor))
                for vendor in VENDORS
                if draw(st.booleans() if vendor == "NVIDIA" else st.sampled_from([0, 0, 0, 1]))
            ),
            kind=kind,
        )
        for kind in kinds
    )


@st.composite
def selections(draw: st.DrawFn, ids: Sequence[str]) -> request.CardSelection:
    """Return rules of which most are empty."""
    words = st.lists(st.sampled_from(["a10", "A100", "tesla p4", "H20"]), max_size=2)
    some_ids = st.lists(st.sampled_from([*ids, "GPU-zz"]), max_size=4)
    rarely = st.sampled_from([False, False, False, True])
    return request.CardSelection(
        use_types=tuple(draw(words) if draw(rarely) else ()),
        avoid_types=tuple(draw(words) if draw(rarely) else ()),
        use_ids=tuple(draw(some_ids) if draw(rarely) else ()),
        avoid_ids=tuple(draw(some_ids) if draw(rarely) else ()),
        mode=draw(st.sampled_from([None, None, None, "hami-core,x", "", "mps"])),
        numa_bind=draw(rarely),
    )


@st.composite
def pods(draw: st.DrawFn, number: int, held: clusters.Cluster) -> records.PodRecord:
    """Return a pod whose annotation may name any card, more than it asked for too."""
    node = draw(st.sampled_from([*NAMES, "node-z"]))
    known = held.nodes.get(node)
    wanted = clusters.wish(*draw(containers()), uid=f"u-{number}", name=f"held-{number}")
    promised: dict[str, allocation.PodShares] = {}
    for vendor in VENDORS:
        ids = [card.id for card in known.cards[vendor]] if known else []
        shares = st.builds(
            clusters.share,
            st.sampled_from([*ids, "GPU-zz"]),
            st.sampled_from([0, 20, 60, 300]),
            st.sampled_from([0, 30, 60, 100]),
        )
        promised[vendor] = tuple(
            tuple(draw(st.lists(shares, max_size=2))) for _ in wanted.containers
        )
    record = clusters.pod(
        wanted,
        allocation.Allocation(node=node, shares=promised),
        phase=draw(st.sampled_from(["Running", "Pending", "Running", "Succeeded", "Failed"])),
        deleting=draw(st.booleans()),
        init_done=draw(st.booleans()),
        faults=draw(st.sampled_from([(), (), (), (), ("NVIDIA",), ("MLU",)])),
    )
    where = draw(st.sampled_from([node, node, node, "", "node-b"]))
    return dataclasses.replace(record, node=where)


@st.composite
def questions(draw: st.DrawFn) -> tuple[clusters.Cluster, request.PodRequest, fit.Defaults]:
    """Return a cluster, a pod to place there, and the configured policies."""
    cluster = clusters.Cluster(
        nodes={name: draw(nodes(name)) for name in NAMES[: draw(st.integers(0, 3))]},
        vendors=VENDORS,
    )
    cluster.pods = [draw(pods(number, cluster)) for number in range(draw(st.integers(0, 4)))]
    wish = draw(wishes(cluster, containers()))
    return cluster, wish, fit.Defaults(card_policies=tuple(draw(CARD_POLICIES)))


@st.composite
def wishes(
    draw: st.DrawFn,
    cluster: clusters.Cluster,
    wanted: st.SearchStrategy[tuple[request.ContainerRequest, ...]],
) -> request.PodRequest:
    """Return the pod to place."""
    ids = [
        card.id for node in cluster.nodes.values() for held in node.cards.values() for card in held
    ]
    weights = st.builds(policy.ScoringWeights, slot=st.integers(0, 3), memory=st.integers(0, 3))
    return request.PodRequest(
        pod=request.PodKey(namespace="team-a", name="p1", uid="u1"),
        containers=draw(wanted),
        selections={"NVIDIA": draw(selections(ids))},
        node_policy=draw(st.sampled_from([None, *policy.NodePolicy])),
        card_policies=tuple(draw(CARD_POLICIES)) if draw(st.booleans()) else (),
        weights=draw(st.none() | weights),
    )


@st.composite
def roomy(draw: st.DrawFn) -> tuple[clusters.Cluster, request.PodRequest, fit.Defaults]:
    """Return a question where most cards serve, so that it is decided late in the walk."""
    held = {
        vendor: tuple(
            clusters.card(
                f"{vendor}-{number}",
                index=draw(st.integers(0, 2)),
                slots=draw(st.sampled_from([2, 3, 4])),
                memory_mib=draw(st.sampled_from([100, 100, 200])),
                cores_percent=draw(st.sampled_from([100, 200])),
                card_type=vendor,
                numa=draw(st.integers(0, 1)),
                healthy=draw(st.sampled_from([True, True, True, True, False])),
            )
            for number in range(draw(st.integers(2, 6)))
        )
        for vendor in VENDORS
    }
    node = clusters.Node(cards=held, allocatable=dict.fromkeys(VENDORS, 8))
    cluster = clusters.Cluster(nodes={"node-a": node}, vendors=VENDORS)
    cluster.pods = [draw(pods(number, cluster)) for number in range(draw(st.integers(0, 2)))]
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
    kinds.sort(key=lambda kind: kind is request.ContainerKind.APP)
    wanted = tuple(
        clusters.container(
            clusters.asks(
                draw(st.sampled_from([1, 1, 2])),
                vendor=draw(st.sampled_from(["NVIDIA", "NVIDIA", "MLU"])),
                memory_mib=draw(st.sampled_from([0, 30, 60])),
                percent=draw(st.sampled_from([None, 30, 50])),
                cores_percent=draw(st.sampled_from([0, 30, 60])),
            ),
            kind=kind,
        )
        for kind in kinds
    )
    rules = request.CardSelection(numa_bind=draw(st.booleans()))
    wish = dataclasses.replace(draw(wishes(cluster, st.just(wanted))), selections={"NVIDIA": rules})
    return cluster, wish, fit.Defaults(card_policies=tuple(draw(CARD_POLICIES)))


AMOUNTS = st.sampled_from([None, 60, 90, 120, 150, 30, 0])
ALLOWANCES = st.fixed_dictionaries(
    dict.fromkeys(VENDORS, st.builds(quota.Allowance, memory_mib=AMOUNTS, cores=AMOUNTS))
)


@settings(max_examples=120, deadline=None)
@given(questions() | roomy(), st.permutations([*NAMES, "node-z"]))
def test_place_says_of_every_node_what_the_slow_twin_says(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
    names: list[str],
) -> None:
    cluster, wish, defaults = question
    books = clusters.build_ledger(cluster)

    found = fit.place(books.snapshot(), names, wish, defaults)

    twin = slow_twin.Twin(cluster)
    expected = {name: twin.judge(name, wish, defaults.card_policies) for name in names}
    assert_same(found, expected, names)


@settings(max_examples=200, deadline=None)
@given(roomy(), ALLOWANCES)
def test_under_a_quota_place_and_choose_say_what_the_slow_twin_says(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
    allowances: dict[str, quota.Allowance],
) -> None:
    cluster, wish, defaults = question
    view = clusters.build_ledger(cluster).snapshot()
    names = list(cluster.nodes)

    found = fit.place(view, names, wish, defaults, allowances=allowances)

    twin = slow_twin.Twin(cluster)
    expected = {name: twin.judge(name, wish, defaults.card_policies, allowances) for name in names}
    assert_same(found, expected, names)
    for name in names:
        chosen = choose.choose(view, name, wish, defaults, allowances=allowances)
        assert_chosen(chosen, expected[name], found.rejections.get(name))


@settings(max_examples=120, deadline=None)
@given(questions() | roomy(), st.permutations([*NAMES, "node-z"]), toy_vendors.COMMON_BY_HAND)
def test_a_vendor_that_applies_the_common_rules_by_hand_says_what_the_slow_twin_says(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
    names: list[str],
    vendors: dict[str, toy_vendors.ByHand],
) -> None:
    cluster, wish, defaults = without_numa_bind(question)
    defaults = dataclasses.replace(defaults, vendors=vendors)
    view = clusters.build_ledger(cluster).snapshot()

    found = fit.place(view, names, wish, defaults)

    twin = slow_twin.Twin(cluster)
    expected = {name: twin.judge(name, wish, defaults.card_policies) for name in names}
    assert_same(found, expected, names)
    for name in cluster.nodes:
        chosen = choose.choose(view, name, wish, defaults)
        assert_chosen(chosen, expected[name], found.rejections.get(name))


@settings(max_examples=120, deadline=None)
@given(roomy(), toy_vendors.COMMON_BY_HAND, ALLOWANCES)
def test_choose_keeps_to_the_quota_and_agrees_with_place(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
    vendors: dict[str, toy_vendors.ByHand],
    allowances: dict[str, quota.Allowance],
) -> None:
    cluster, wish, defaults = without_numa_bind(question)
    defaults = dataclasses.replace(defaults, vendors=vendors)
    books = clusters.build_ledger(cluster)
    view = books.snapshot()

    placed = fit.place(view, list(cluster.nodes), wish, defaults, allowances=allowances)
    answers = {
        name: choose.choose(view, name, wish, defaults, allowances=allowances)
        for name in cluster.nodes
    }

    for name, chosen in answers.items():
        if isinstance(chosen, reason.NodeRejection):
            assert chosen == placed.rejections[name]
            continue
        assert name in placed.fitting
        before = books.quota_standing(wish.pod.namespace).used
        books.assume(wish, chosen)
        after = books.quota_standing(wish.pod.namespace).used
        for vendor, allowance in allowances.items():
            taken = after.get(vendor, quota.NOTHING) - before.get(vendor, quota.NOTHING)
            assert allowance.covers(taken)
        books.unassume(wish.pod.uid)
        assert books.quota_standing(wish.pod.namespace).used == before


def without_numa_bind(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
) -> tuple[clusters.Cluster, request.PodRequest, fit.Defaults]:
    """Return the question for a vendor that knows no NUMA rule."""
    cluster, wish, defaults = question
    selections = {
        vendor: dataclasses.replace(rules, numa_bind=False)
        for vendor, rules in wish.selections.items()
    }
    return cluster, dataclasses.replace(wish, selections=selections), defaults


def assert_same(
    found: fit.Placement, expected: dict[str, slow_twin.NodeAnswer], names: Sequence[str]
) -> None:
    assert found.fitting == tuple(name for name in names if expected[name].fits)
    assert found.raw_scores.tolist() == [expected[name].score for name in found.fitting]
    refused = {name: answer for name, answer in expected.items() if not answer.fits}
    assert list(found.rejections) == list(refused)
    for name, answer in refused.items():
        rejection = found.rejections[name]
        words = rejection.text
        if answer.unregistered:
            words, _, condition = words.partition(": ")
            assert condition
        assert words == answer.text()
        assert rejection.resolvable == answer.resolvable


@settings(max_examples=120, deadline=None)
@given(questions() | roomy())
def test_choose_takes_the_cards_that_the_slow_twin_takes(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
) -> None:
    cluster, wish, defaults = question
    view = clusters.build_ledger(cluster).snapshot()
    twin = slow_twin.Twin(cluster)

    for name in cluster.nodes:
        chosen = choose.choose(view, name, wish, defaults)

        expected = twin.judge(name, wish, defaults.card_policies)
        placed = fit.place(view, [name], wish, defaults)
        assert_chosen(chosen, expected, placed.rejections.get(name))
        if isinstance(chosen, allocation.Allocation):
            assert chosen.node == name
            assert set(chosen.shares) == set(wish.vendors)


def assert_chosen(
    chosen: allocation.Allocation | reason.NodeRejection,
    expected: slow_twin.NodeAnswer,
    placed: reason.NodeRejection | None,
) -> None:
    if not expected.fits:
        assert isinstance(chosen, reason.NodeRejection)
        assert chosen == placed
        return
    assert isinstance(chosen, allocation.Allocation)
    for vendor, entries in chosen.shares.items():
        assert [
            [(share.device_id, share.memory_mib, share.cores_percent) for share in entry]
            for entry in entries
        ] == expected.shares[vendor]
        assert {share.vendor_word for entry in entries for share in entry} <= {vendor}


@settings(max_examples=120, deadline=None)
@given(questions() | roomy())
def test_what_is_chosen_never_promises_a_card_beyond_its_totals(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
) -> None:
    cluster, wish, defaults = question
    books = clusters.build_ledger(cluster)

    for name in cluster.nodes:
        before = {vendor: books.usage(name, vendor) for vendor in VENDORS}
        chosen = choose.choose(books.snapshot(), name, wish, defaults)
        if isinstance(chosen, reason.NodeRejection):
            continue
        books.assume(wish, chosen)

        for vendor in VENDORS:
            for old, new in zip(before[vendor], books.usage(name, vendor), strict=True):
                if new == old:
                    continue
                assert new.used_slots <= new.device.slots
                assert new.used_memory_mib <= new.device.memory_mib
                assert new.used_cores_percent <= new.device.cores_percent
        books.unassume(wish.pod.uid)
        assert {vendor: books.usage(name, vendor) for vendor in VENDORS} == before


@settings(max_examples=120, deadline=None)
@given(questions() | roomy(), st.permutations([*NAMES, "node-z"]), toy_vendors.COMMON_BY_HAND)
def test_what_comes_closest_is_a_node_that_was_refused_for_what_is_told(
    question: tuple[clusters.Cluster, request.PodRequest, fit.Defaults],
    names: list[str],
    vendors: dict[str, toy_vendors.ByHand],
) -> None:
    cluster, wish, defaults = question
    defaults = dataclasses.replace(defaults, vendors=vendors)
    view = clusters.build_ledger(cluster).snapshot()
    placement = fit.place(view, names, wish, defaults)

    miss = near_miss.find(view, names, wish, defaults)

    if miss is None:
        # It fits somewhere, or the cards are not what keeps it off, or a vendor judges alone.
        plain = not vendors and not placement.fitting and wish.wants_devices
        assert not plain or not any(
            count.candidates for why in placement.rejections.values() for count in why.counts
        )
        return
    assert placement.fitting == ()
    counted = {count.reason for count in placement.rejections[miss.node].counts}
    assert miss.facts[0] in counted
    if miss.card is not None:
        held = {card.id for cards in cluster.nodes[miss.node].cards.values() for card in cards}
        assert miss.card.device.id in held
        assert miss.able < miss.wish.count
        short = miss.card.asked_memory_mib > miss.card.free_memory_mib
        assert short == (reason.Reason.INSUFFICIENT_MEMORY in miss.facts) or (
            miss.card.device.memory_mib == 0
        )
