"""Texts that other people's programs wrote, read as they stand (tests/golden)."""

import datetime
import pathlib
from typing import Any

import pytest
import yaml

from vgpu_operator.model import allocation, device, errors
from vgpu_operator.wire import handshake, node_lock, node_register, pod_devices

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "protocol-texts.yaml"


TEXTS: dict[str, list[dict[str, Any]]] = yaml.safe_load(_GOLDEN.read_text(encoding="utf-8"))


def every(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seen", TEXTS[section], ids=lambda seen: seen["name"])


def card(row: list[Any]) -> device.Device:
    id_, slots, memory_mib, cores_percent, type_, numa, healthy, index, mode = row
    return device.Device(
        id=id_,
        slots=slots,
        memory_mib=memory_mib,
        cores_percent=cores_percent,
        type=type_,
        numa=numa,
        healthy=healthy,
        index=index,
        mode=mode,
    )


def shares(rows: list[list[list[Any]]]) -> allocation.PodShares:
    return tuple(
        tuple(
            allocation.DeviceShare(
                device_id=id_, vendor_word=word, memory_mib=memory_mib, cores_percent=cores_percent
            )
            for id_, word, memory_mib, cores_percent in container
        )
        for container in rows
    )


def moment(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)


@every("registers")
def test_a_register_text_gives_its_cards_and_its_faults(seen: dict[str, Any]) -> None:
    read = node_register.decode_register(seen["text"], key=seen["key"])

    assert list(read.devices) == [card(row) for row in seen["cards"]]
    assert [[fault.segment, fault.offset] for fault in read.faults] == seen.get("faults", [])
    assert all(fault.key == seen["key"] for fault in read.faults)


@pytest.mark.parametrize(
    "seen",
    [seen for seen in TEXTS["registers"] if seen.get("written")],
    ids=lambda seen: seen["name"],
)
def test_a_register_text_is_written_as_the_plugin_writes_it(seen: dict[str, Any]) -> None:
    assert node_register.encode_register([card(row) for row in seen["cards"]]) == seen["text"]


@every("unreadable_registers")
def test_a_register_text_without_any_good_card_is_an_error(seen: dict[str, Any]) -> None:
    with pytest.raises(errors.DecodeError, match=seen["key"]):
        node_register.decode_register(seen["text"], key=seen["key"])


@every("pods")
def test_a_pod_text_gives_one_entry_per_container(seen: dict[str, Any]) -> None:
    read = pod_devices.decode_pod_devices(seen["text"])

    assert read == pod_devices.PodDevices(shares=shares(seen["shares"]))


@every("pods")
def test_a_pod_text_is_written_as_it_was_read(seen: dict[str, Any]) -> None:
    assert pod_devices.encode_pod_devices(shares(seen["shares"])) == seen["text"]


@every("taken")
def test_a_simulated_plugin_leaves_the_text_that_the_real_one_left(seen: dict[str, Any]) -> None:
    for before, container, after in seen["calls"]:
        taken = pod_devices.take_first(before)

        assert taken is not None
        assert (taken[0], taken[2]) == (container, after)
    assert pod_devices.is_served(seen["calls"][-1][2])
    assert pod_devices.take_first(seen["calls"][-1][2]) is None


@every("refused_by_the_plugin")
def test_a_simulated_plugin_refuses_what_the_real_one_refused(seen: dict[str, Any]) -> None:
    with pytest.raises(errors.DecodeError):
        pod_devices.take_first(seen["text"])


@every("handshakes")
def test_a_handshake_text_gives_its_state_and_time(seen: dict[str, Any]) -> None:
    read = handshake.decode_handshake(seen["text"])

    assert read == handshake.HandshakeText(
        state=handshake.State(seen["state"]), time=moment(seen["time"])
    )


@every("locks")
def test_a_lock_text_gives_its_time_and_owner(seen: dict[str, Any]) -> None:
    time, namespace, pod = seen["lock"]

    assert node_lock.decode_lock(seen["text"]) == node_lock.LockText(
        time=moment(time), namespace=namespace, pod=pod
    )


@every("malformed_locks")
def test_a_lock_with_the_wrong_number_of_parts_is_called_malformed(seen: dict[str, Any]) -> None:
    with pytest.raises(errors.DecodeError, match="malformed"):
        node_lock.decode_lock(seen["text"])
