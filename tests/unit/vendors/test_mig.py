"""NVIDIA cards in MIG mode: which instance a share gets, and how that is written."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from support import vendor_values
from vgpu_operator.flows import admit
from vgpu_operator.model import device, errors, fitting, policy, request, settings
from vgpu_operator.model.vendor_settings import nvidia as nvidia_settings
from vgpu_operator.vendors import base, mig, nvidia, registry

NVIDIA = nvidia.Nvidia(nvidia_settings.NvidiaSettings())
A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"


def places(*starts: int, size: int) -> tuple[device.MigPlacement, ...]:
    return tuple(device.MigPlacement(start=start, size=size) for start in starts)


def profile(
    name: str, memory_mib: int, cores: int, where: tuple[device.MigPlacement, ...]
) -> device.MigProfile:
    return device.MigProfile(
        name=name,
        memory_mib=memory_mib,
        cores_percent=cores,
        slice_count=int(name[0]),
        placements=where,
    )


ONE = profile("1g.5gb", 5120, 14, places(*range(7), size=1))
TWO = profile("2g.10gb", 9856, 28, places(0, 2, 4, size=2))
THREE = profile("3g.20gb", 19968, 42, places(0, 4, size=4))
SEVEN = profile("7g.40gb", 40192, 100, places(0, size=8))


def card(name: str = "GPU-a0", **fields: Any) -> device.Device:
    usual: dict[str, Any] = {
        "slots": 7,
        "memory_mib": 40960,
        "mode": mig.MODE,
        "mig_profiles": (SEVEN, THREE, TWO, ONE),
    }
    return vendor_values.card(name, A100, **(usual | fields))


def wish(count: int = 1, memory_mib: int = 5120, cores: int = 0) -> request.DeviceRequest:
    return request.DeviceRequest(
        vendor="NVIDIA", count=count, memory_mib=memory_mib, cores_percent=cores
    )


def tenant(
    text: str,
    *,
    pod: str = "u1",
    container: int = 0,
    memory_mib: int = 5120,
    card_id: str = "GPU-a0",
) -> fitting.Tenant:
    return fitting.Tenant(
        pod=request.PodKey(namespace="team-a", name=pod, uid=pod),
        container=container,
        share=vendor_values.share(card_id, memory_mib, 14),
        notes={mig.ALLOCATIONS_KEY: text} if text else {},
    )


def entry(start: int, *, container: int = 0, index: int = 0, card_id: str = "GPU-a0") -> str:
    return mig.encode_allocations(
        [
            mig.Instance(
                container=container,
                share=index,
                device_id=card_id,
                profile="1g.5gb",
                placement=device.MigPlacement(start=start, size=1),
            )
        ]
    )


def held(*tenants: fitting.Tenant, one: device.Device | None = None) -> fitting.CardState:
    return fitting.CardState(
        device=one or card(),
        used_slots=len(tenants),
        used_memory_mib=sum(each.share.memory_mib for each in tenants),
        tenants=tenants,
    )


def choose(cards: Sequence[fitting.CardState], asked: request.DeviceRequest, **ask: Any) -> Any:
    return vendor_values.choose(NVIDIA, cards, asked, **ask)


# --- which profile, and where ------------------------------------------------------------


def test_case_57_a_request_of_exactly_the_profiles_memory_fits_it() -> None:
    assert choose([held()], wish(memory_mib=5120)) == [("GPU-a0", 5120, 14, 1)]
    assert choose([held()], wish(memory_mib=5121)) == [("GPU-a0", 9856, 28, 1)]


def test_case_n12_what_is_charged_is_the_profile_so_the_quota_sees_it() -> None:
    (pick,) = NVIDIA.choose(
        fitting.NodeState(name="n1", cards=(held(),)), fitting.Ask(wish=wish(memory_mib=4000))
    )
    share = vendor_values.share("GPU-a0", pick.memory_mib, pick.cores)

    assert NVIDIA.quota_amount(share, card()).memory_mib == 5120
    assert NVIDIA.cap(wish(memory_mib=4000), share, card()) == share


@pytest.mark.parametrize(
    ("profiles", "start"), [([ONE], 6), ([THREE], 4), ([TWO], 0), ([SEVEN], 0)]
)
def test_odd_small_profiles_lie_at_the_end_and_others_at_the_start(
    profiles: list[device.MigProfile], start: int
) -> None:
    found = mig.pick(profiles, [], memory_mib=1, cores_percent=0)

    assert found is not None
    assert found[1].start == start


def test_an_instance_has_as_many_cores_as_are_asked() -> None:
    assert choose([held()], wish(memory_mib=4000, cores=40)) == [("GPU-a0", 19968, 42, 1)]


def test_one_card_serves_several_shares_of_a_container() -> None:
    assert choose([held()], wish(count=2, memory_mib=15000)) == [("GPU-a0", 19968, 42, 1)] * 2


def test_a_container_never_gets_more_shares_than_the_card_has_slots() -> None:
    few = held(one=card(slots=3))

    assert choose([few], wish(count=3)) == [("GPU-a0", 5120, 14, 1)] * 3
    assert choose([few], wish(count=4)) == {
        "CardTimeSlicingExhausted": 1,
        "AllocatedCardsInsufficientRequest": 3,
    }


def test_what_no_profile_reaches_is_refused() -> None:
    assert choose([held()], wish(memory_mib=40193)) == {"CardMigTopologyInfeasible": 1}


def test_a_later_container_lies_beside_the_earlier_ones() -> None:
    earlier = ((vendor_values.share("GPU-a0", 19968, 42),),)
    one = dataclasses.replace(held(), used_slots=1, used_memory_mib=19968)

    assert choose([one], wish(memory_mib=15000), earlier=earlier) == [("GPU-a0", 19968, 42, 1)]
    twice = ((*earlier[0], *earlier[0]),)
    assert choose([one], wish(memory_mib=4000), earlier=twice) == {"CardMigTopologyInfeasible": 1}


def test_other_pods_placements_are_kept_free_of() -> None:
    pods = [tenant(entry(start), pod=f"u{start}") for start in (6, 5)]

    assert mig.held_by_others([held(*pods)], held(*pods)) == [*places(6, 5, size=1)]
    assert choose([held(*pods)], wish(memory_mib=15000)) == [("GPU-a0", 19968, 42, 1)]
    assert choose([held(*pods)], wish(count=2, memory_mib=15000)) == {
        "CardMigTopologyInfeasible": 1,
        "AllocatedCardsInsufficientRequest": 1,
    }


# --- the allow list ----------------------------------------------------------------------


def test_only_allowed_profiles_are_used_and_an_unknown_model_may_use_all() -> None:
    allow_list = [(("A100-SXM4-40GB",), ("2g.10gb",)), (("A100",), ("7g.40gb",))]

    assert mig.allowed(card(), allow_list) == (TWO,)
    assert len(mig.allowed(dataclasses.replace(card(), type="H800"), allow_list)) == 4


def test_the_default_list_is_the_charts() -> None:
    listed = nvidia_settings.NvidiaSettings().mig_profile_allowlist

    assert len(listed) == 9
    assert listed[2].profiles == ("1g.10gb", "2g.20gb", "3g.40gb", "7g.79gb")
    assert listed[5].models == ("H20", "H100 on GH200")


def test_a_list_of_ones_own_replaces_it() -> None:
    values = {"migProfileAllowlist": [{"models": ["A100"], "profiles": ["7g.40gb"]}]}
    vendor = nvidia.Nvidia(nvidia_settings.NvidiaSettings.model_validate(values))

    assert vendor_values.choose(vendor, [held()], wish()) == [("GPU-a0", 40192, 100, 1)]


# --- cards of which it cannot be known ---------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[7]",
        entry(0, container=1),
        entry(0, card_id="GPU-elsewhere"),
    ],
)
def test_a_mig_card_takes_nobody_while_a_pod_there_does_not_say_where_it_lies(text: str) -> None:
    one = held(tenant(text))

    assert choose([one], wish()) == {"CardNotHealth": 1}


def test_case_61_a_card_in_plain_mode_that_a_pod_holds_as_mig_takes_nobody() -> None:
    plain = held(tenant(entry(0)), one=card(mode="hami-core", mig_profiles=()))

    assert choose([plain], wish()) == {"CardNotHealth": 1}
    assert plain.used_memory_mib == 5120  # still charged


def test_a_text_on_a_card_in_plain_mode_that_cannot_be_read_harms_nobody() -> None:
    plain = held(tenant("{"), one=card(mode="hami-core", mig_profiles=()))

    assert choose([plain], wish()) == [("GPU-a0", 5120, 0, 1)]


def test_case_62_a_pod_that_asks_for_a_profiles_own_resource_stays_untouched() -> None:
    everything = settings.Settings()
    pod = {
        "metadata": {"name": "p1"},
        "spec": {"containers": [vendor_values.container({"nvidia.com/mig-1g.5gb": "1"})]},
    }

    verdict = admit.admit(pod, settings=everything, vendors=registry.build(everything))

    assert (verdict.allowed, verdict.patch) == (True, ())


# --- the vendor's look, and what is written ----------------------------------------------


def test_nodes_with_a_mig_card_and_pods_that_want_links_are_looked_at_card_by_card() -> None:
    plain = card(mode="hami-core")

    assert NVIDIA.needs_choosing([plain, card()], (policy.CardPolicy.SPREAD,))
    assert not NVIDIA.needs_choosing([plain], (policy.CardPolicy.SPREAD,))
    assert NVIDIA.needs_choosing([plain], (policy.CardPolicy.TOPOLOGY_AWARE,))


def test_scores_that_cannot_be_read_cost_the_preference_and_nothing_else() -> None:
    cards = tuple(held(one=card(f"GPU-a{i}", mode="hami-core")) for i in (2, 1, 0))
    notes = {"hami.io/node-nvidia-score": "{"}
    answer = NVIDIA.choose(
        fitting.NodeState(name="n1", cards=cards, notes=notes),
        fitting.Ask(wish=wish(count=2), policies=(policy.CardPolicy.TOPOLOGY_AWARE,)),
    )

    assert [pick.card for pick in answer] == [0, 1]


def granted(*shares: Any, kinds: Sequence[request.ContainerKind], cards: Any) -> base.Grant:
    plain = vendor_values.grant([state.device for state in cards], *shares)
    containers = tuple(
        dataclasses.replace(container, kind=kind)
        for container, kind in zip(plain.request.containers, kinds, strict=True)
    )
    return dataclasses.replace(
        plain,
        request=dataclasses.replace(plain.request, containers=containers),
        cards=tuple(cards),
    )


INIT, SIDECAR, APP = (request.ContainerKind(word) for word in ("init", "sidecar", "app"))


def test_what_is_written_lies_beside_others_and_init_containers_lie_where_apps_may() -> None:
    small = vendor_values.share("GPU-a0", 5120, 14)
    grant = granted(
        (small,),
        (small,),
        (small, small),
        kinds=(SIDECAR, INIT, APP),
        cards=[held(tenant(entry(6)))],
    )

    text = NVIDIA.more_annotations(grant, vendor_values.NOW)[mig.ALLOCATIONS_KEY]

    assert [
        (one.container, one.share, one.placement.start) for one in mig.decode_allocations(text)
    ] == [(0, 0, 5), (1, 0, 4), (2, 0, 4), (2, 1, 3)]


def test_nothing_is_written_of_cards_in_plain_mode() -> None:
    plain = held(one=card(mode="hami-core"))
    grant = granted((vendor_values.share("GPU-a0", 5120, 14),), kinds=(APP,), cards=[plain])

    assert NVIDIA.more_annotations(grant, vendor_values.NOW) == {}


def test_the_text_is_written_as_hami_writes_it_and_read_back() -> None:
    served = mig.Instance(
        container=1,
        share=0,
        device_id="GPU-a",
        profile="2g.10gb",
        placement=device.MigPlacement(start=0, size=2),
        identity=("MIG-1", 9, 0),
    )

    text = mig.encode_allocations([served])

    assert text == (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb",'
        '"placement":{"start":0,"size":2},"migUUID":"MIG-1","gpuInstanceID":9,'
        '"computeInstanceID":0}]'
    )
    assert mig.decode_allocations(text) == (served,)


@pytest.mark.parametrize(
    "element",
    [
        '{"gpuUUID":"a","profile":"1g.5gb","placement":{"start":6,"size":0}}',
        '{"profile":"1g.5gb","placement":{"start":6,"size":1}}',
        '{"gpuUUID":"a","placement":{"start":6,"size":1}}',
        '{"gpuUUID":"a","profile":"1g.5gb"}',
        '{"gpuUUID":"a","profile":"1g.5gb","placement":{"size":1},"containerIndex":-1}',
        '{"gpuUUID":"a","profile":"1g.5gb","placement":{"size":1},"migUUID":"MIG-1"}',
        "null",
    ],
)
def test_a_layout_that_is_not_whole_is_none(element: str) -> None:
    with pytest.raises(errors.DecodeError, match=r"segment 0"):
        mig.decode_allocations(f"[{element}]")


def test_the_same_share_twice_is_refused() -> None:
    one = entry(0)[1:-1]

    with pytest.raises(errors.DecodeError, match=r"segment 1.*came before"):
        mig.decode_allocations(f"[{one},{one}]")
