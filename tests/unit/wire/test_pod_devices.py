"""Devices annotations of pods."""

import pytest

from vgpu_operator.model import allocation, errors
from vgpu_operator.wire import pod_devices

KEY = "hami.io/vgpu-devices-allocated"


def share(
    device_id: str = "GPU-a0", memory_mib: int = 2000, cores_percent: int = 10
) -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id=device_id,
        vendor_word="NVIDIA",
        memory_mib=memory_mib,
        cores_percent=cores_percent,
    )


@pytest.mark.parametrize(
    ("text", "containers"),
    [
        ("", ()),
        (";", ((),)),
        (";;", ((), ())),
        (":", ((),)),
        (":;", ((),)),
        ("GPU-a0,NVIDIA,2000,10:;", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10:", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10::;", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10:\n;\n", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10,7,x:;", ((share(),),)),
        ("GPU-a0,NVIDIA,2000,10:;;", ((share(),), ())),
        (";GPU-a0,NVIDIA,2000,10:;;;", ((), (share(),), (), ())),
    ],
)
def test_exactly_the_segment_behind_the_last_semicolon_is_no_container(
    text: str, containers: allocation.PodShares
) -> None:
    assert pod_devices.decode_pod_devices(text) == pod_devices.PodDevices(shares=containers)


def test_empty_segments_beyond_the_pods_containers_are_dropped() -> None:
    grown = "GPU-a0,NVIDIA,2000,10:;;;;;"

    assert pod_devices.decode_pod_devices(grown, containers=2).shares == ((share(),), ())
    assert pod_devices.decode_pod_devices(grown, containers=0).shares == ((share(),),)
    assert len(pod_devices.decode_pod_devices(grown, containers=9).shares) == 5


def test_a_segment_with_a_device_is_kept_even_beyond_the_pods_containers() -> None:
    read = pod_devices.decode_pod_devices(";;GPU-a0,NVIDIA,2000,10:;;", containers=1)

    assert read.shares == ((), (), (share(),))


@pytest.mark.parametrize("text", [",,0,0:;", ",,0,0,more:;"])
def test_the_all_zero_entry_of_old_writers_is_no_device(text: str) -> None:
    assert pod_devices.decode_pod_devices(text) == pod_devices.PodDevices(shares=((),))
    assert pod_devices.is_served(text)
    assert pod_devices.take_first(text) is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("garbage", "4 fields are wanted"),
        ("a,b", "4 fields are wanted"),
        ("GPU-a1,NVIDIA,abc,0", "memory must be an integer, got 'abc'"),
        ("GPU-a1,NVIDIA,,0", "memory must be an integer, got ''"),
        ("GPU-a1,NVIDIA,1,abc", "cores must be an integer, got 'abc'"),
        ("GPU-a1,NVIDIA,1_000,0", "memory must be an integer"),
        ("GPU-a1,NVIDIA,5.0,0", "memory must be an integer"),
        ("GPU-a1,NVIDIA,٣,0", "memory must be an integer"),
        ("GPU-a1,NVIDIA,-5,0", "memory must be 0 to 2147483647, got -5"),
        ("GPU-a1,NVIDIA,0,-6", "cores must be 0 to 2147483647, got -6"),
        ("GPU-a1,NVIDIA,2147483648,0", "memory must be 0 to 2147483647"),
        (",NVIDIA,1,1", "the card has no id"),
    ],
)
def test_a_bad_entry_is_a_fault_with_its_place_and_never_a_zero(entry: str, why: str) -> None:
    text = f";GPU-a0,NVIDIA,2000,10:{entry}:;"

    read = pod_devices.decode_pod_devices(text, key=KEY)

    assert read.shares == ((), (share(),))
    (fault,) = read.faults
    assert why in str(fault)
    assert (fault.key, fault.segment, text[fault.offset :]) == (KEY, 1, f"{entry}:;")
    assert not pod_devices.is_served(text)


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("", True),
        (";", True),
        (";;;;", True),
        (" ;:;\n", True),
        ("GPU-a0,NVIDIA,2000,10:;", False),
        (";;GPU-a0,NVIDIA,2000,10:;;", False),
    ],
)
def test_a_text_is_served_when_no_segment_names_a_device(text: str, served: bool) -> None:
    assert pod_devices.is_served(text) is served


def test_the_plugin_passes_over_words_without_a_comma_and_does_not_write_them_back() -> None:
    assert pod_devices.take_first("garbage;") is None
    assert pod_devices.take_first("garbage;GPU-a0,NVIDIA,2000,10:;") == (1, (share(),), ";;;")


def test_the_plugin_stops_at_a_bad_entry_even_behind_the_one_it_would_take() -> None:
    with pytest.raises(errors.DecodeError, match="segment 1 at offset 24"):
        pod_devices.take_first("GPU-a0,NVIDIA,2000,10:; a,b:;".replace(" ", ":"))


def test_a_share_that_would_not_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="a;b"):
        pod_devices.encode_pod_devices(((share("a;b"),),))


def test_what_stands_behind_more_parts_than_any_pod_has_is_one_unreadable_entry() -> None:
    entry = "GPU-a0,NVIDIA,1,0:;"

    read = pod_devices.decode_pod_devices("x:;" + entry * 5000)

    assert len(read.shares) == 2049
    # The first container's, and all containers from the 2,049th on, cut at 2,048 entries.
    assert {fault.segment for fault in read.faults} == {0, 2048}
    assert len(read.faults) <= 2 + 2048


def test_segments_that_mean_nothing_at_the_end_are_no_fault_however_many() -> None:
    text = "GPU-a0,NVIDIA,1,0:;" + ";" * 100_000

    read = pod_devices.decode_pod_devices(text, containers=3)

    assert [len(shares) for shares in read.shares] == [1, 0, 0]
    assert read.faults == ()
