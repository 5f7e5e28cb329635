"""Who has to go where vendors judge a node by rules of their own, and how nodes are surveyed."""

import dataclasses
from collections.abc import Mapping, Sequence
from unittest import mock

import pytest

from support import clusters, toy_vendors
from vgpu_operator.model import allocation, device, records, request, settings
from vgpu_operator.scheduling import fit, preempt, trial, victims
from vgpu_operator.vendors import base, mig, registry

A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"
THREE = device.MigProfile(
    name="3g.20gb",
    memory_mib=19968,
    cores_percent=42,
    slice_count=3,
    placements=(device.MigPlacement(start=0, size=4), device.MigPlacement(start=4, size=4)),
)
SEVEN = device.MigProfile(
    name="7g.40gb",
    memory_mib=40192,
    cores_percent=100,
    slice_count=7,
    placements=(device.MigPlacement(start=0, size=8),),
)
VENDORS = registry.build(settings.Settings()).by_keyword


def asked_of(
    pods: Sequence[records.PodRecord],
    wish: request.PodRequest,
    cards: Sequence[device.Device],
    *,
    vendors: Mapping[str, base.Vendor],
) -> trial.Trial:
    """Return the question about one node with these cards and pods."""
    keyword = wish.vendors[0]
    node = clusters.Node(cards={keyword: tuple(cards)}, allocatable={keyword: 8})
    cluster = clusters.Cluster(nodes={"n1": node}, pods=list(pods), vendors=(keyword,))
    books = clusters.build_ledger(cluster, rules=vendors)
    rules = fit.Defaults(vendors=vendors).rules(wish)
    return trial.Trial(view=books.snapshot(), held=books.stakes, rules=rules, wish=wish)


def going(asked: trial.Trial) -> list[str]:
    """Return the names of the pods that go, all pods being candidates."""
    survey = preempt.survey(asked, ["n1"], highest=0)
    (prospect,) = (*survey.prospects(by_hand=True), *survey.prospects(by_hand=False))
    numbers = sorted(asked.held.on("n1"))
    task = victims.Task(prospect=prospect, numbers=numbers)
    (found,) = victims.smallest(asked, survey, [task])
    assert found is not None
    return sorted(asked.held.uid(numbers[place]) for place in found.places)


def instance(uid: str, start: int) -> records.PodRecord:
    """Return a pod with half of the card, at that slice."""
    share = clusters.share("GPU-a0", 19968, 42)
    record = clusters.pod(
        clusters.wish(clusters.asks(memory_mib=19968, cores_percent=42), uid=uid, name=uid),
        clusters.promise("n1", [share]),
    )
    text = mig.encode_allocations(
        [
            mig.Instance(
                container=0,
                share=0,
                device_id="GPU-a0",
                profile="3g.20gb",
                placement=device.MigPlacement(start=start, size=4),
            )
        ]
    )
    noted = dataclasses.replace(record.request, notes={mig.ALLOCATIONS_KEY: text})
    return dataclasses.replace(record, request=noted)


@pytest.mark.parametrize(("memory_mib", "number"), [(19968, 1), (40192, 2)])
def test_of_a_card_in_mig_mode_as_many_instances_go_as_are_in_the_way(memory_mib, number):
    """The whole card's instance needs every slice, the half one those of one pod."""
    card = dataclasses.replace(
        clusters.card("GPU-a0", slots=7, memory_mib=40960, card_type=A100, mode=mig.MODE),
        mig_profiles=(SEVEN, THREE),
    )
    wish = clusters.wish(clusters.asks(memory_mib=memory_mib), uid="new")

    asked = asked_of([instance("u-0", 0), instance("u-4", 4)], wish, [card], vendors=VENDORS)

    assert len(going(asked)) == number


def masked(uid: str, bits: int) -> records.PodRecord:
    """Return a pod that holds those cores of the card."""
    shares = (
        allocation.DeviceShare(device_id="c", vendor_word="MASK", memory_mib=0, cores_percent=bits),
    )
    asks = clusters.asks(vendor="MASK", cores_percent=bits)
    return clusters.pod(
        clusters.wish(asks, uid=uid, name=uid),
        allocation.Allocation(node="n1", shares={"MASK": (shares,)}),
    )


def test_cores_that_are_handed_out_bit_by_bit_come_back_bit_by_bit():
    """Bits 0 to 3; two are asked. One pod has two of them, the others one each."""
    card = clusters.card("c", cores_percent=0b1111, card_type="MASK", memory_mib=0)
    pods = [masked("two", 0b0011), masked("one", 0b0100), masked("last", 0b1000)]
    wish = clusters.wish(clusters.asks(vendor="MASK", cores_percent=2), uid="new")

    asked = asked_of(pods, wish, [card], vendors={"MASK": toy_vendors.Masks("MASK")})

    assert going(asked) == ["two"]


def test_slots_that_a_vendor_counts_in_its_own_way_come_back_so():
    """A share takes as many of the eight slots as it asks cores; five are asked."""
    card = clusters.card("c", slots=8, card_type="SLICE")
    vendors = {"SLICE": toy_vendors.Slices("SLICE")}

    def sliced(uid: str, slots: int) -> records.PodRecord:
        shares = (
            allocation.DeviceShare(
                device_id="c", vendor_word="SLICE", memory_mib=0, cores_percent=slots
            ),
        )
        asks = clusters.asks(vendor="SLICE", cores_percent=slots)
        return clusters.pod(
            clusters.wish(asks, uid=uid, name=uid),
            allocation.Allocation(node="n1", shares={"SLICE": (shares,)}),
        )

    pods = [sliced("one", 1), sliced("three", 3), sliced("two", 2), sliced("also-two", 2)]
    wish = clusters.wish(clusters.asks(vendor="SLICE", cores_percent=5), uid="new")

    found = going(asked_of(pods, wish, [card], vendors=vendors))

    assert "three" in found
    assert len(found) == 2
    assert "one" not in found


def test_more_lanes_than_are_laid_out_together_are_judged_alike():
    pods = [clusters.holder(f"u{n}", "n1", "c", 1 + n) for n in range(9)]
    card = clusters.card("c", memory_mib=45)
    wish = clusters.wish(clusters.asks(memory_mib=17), uid="new")
    asked = asked_of(pods, wish, [card], vendors={})

    with mock.patch.object(trial, "AT_ONCE", 5):
        found = going(asked)

    assert found == ["u7", "u8"]


def test_the_bounds_say_how_many_have_to_go_and_how_important_the_most_important_is():
    """25 of the card's 45 MiB are asked; the largest pods hold 9, 8 and 7; one is important."""
    pods = [
        dataclasses.replace(clusters.holder(f"u{n}", "n1", "c", 1 + n), priority=-5 if n < 8 else 0)
        for n in range(9)
    ]
    wish = clusters.wish(clusters.asks(memory_mib=25), uid="new")
    asked = asked_of(pods, wish, [clusters.card("c", memory_mib=45)], vendors={})

    (prospect,) = preempt.survey(asked, ["n1"], highest=0).prospects(by_hand=False)

    assert (prospect.fewest, prospect.bound[0], prospect.one_card) == (3, -5, True)


def test_no_node_is_a_prospect_where_nobody_may_go():
    pods = [dataclasses.replace(clusters.holder("u1", "n1", "c", 45), priority=1)]
    wish = clusters.wish(clusters.asks(memory_mib=25), uid="new")
    asked = asked_of(pods, wish, [clusters.card("c", memory_mib=45)], vendors={})

    survey = preempt.survey(asked, ["n1", "unknown"], highest=0)

    assert (survey.fitting, survey.nodes) == ((), ())
