"""What must hold for every text and every value of the protocol."""

import contextlib
import json
import string
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vgpu_operator.model import allocation, device, errors
from vgpu_operator.wire import (
    bind_phase,
    clock_text,
    handshake,
    node_lock,
    node_register,
    pod_devices,
    quantity,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
COUNTED = st.integers(0, 2**31 - 1)
ODD_WORDS = st.text(max_size=20).filter(lambda word: not set(word) & set(",:;"))
IDS = st.text(string.ascii_letters + string.digits + "-._[]é😀", min_size=1, max_size=40)
MODES = st.sampled_from(["hami-core", "mig", "mps", ""])
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda now: now.replace(microsecond=0))
NAMES = st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=253)

SHARES = st.builds(
    allocation.DeviceShare,
    device_id=IDS,
    vendor_word=ODD_WORDS,
    memory_mib=COUNTED,
    cores_percent=COUNTED,
)
PODS = st.lists(st.lists(SHARES, max_size=4).map(tuple), max_size=6).map(tuple)

PLACEMENTS = st.builds(device.MigPlacement, start=COUNTED, size=COUNTED)
PROFILES = st.builds(
    device.MigProfile,
    name=st.text(max_size=10),
    memory_mib=INT32,
    cores_percent=INT32,
    slice_count=INT32,
    placements=st.lists(PLACEMENTS, max_size=3).map(tuple),
)


def cards(types: st.SearchStrategy[str], **others: Any) -> st.SearchStrategy[list[device.Device]]:
    return st.lists(
        st.builds(
            device.Device,
            id=IDS,
            index=COUNTED,
            slots=INT32,
            memory_mib=INT32,
            cores_percent=INT32,
            type=types,
            numa=INT32,
            healthy=st.booleans(),
            mode=MODES,
            **others,
        ),
        max_size=5,
        unique_by=lambda card: card.id,
    )


@given(cards(st.text(max_size=20), mig_profiles=st.lists(PROFILES, max_size=2).map(tuple)))
def test_cards_survive_the_json_form(written: list[device.Device]) -> None:
    read = node_register.decode_register(node_register.encode_register(written))

    assert read == node_register.RegisterText(devices=tuple(written))


@given(cards(ODD_WORDS).filter(lambda written: written and written[0].id[0] != "["))
def test_cards_survive_the_colon_form(written: list[device.Device]) -> None:
    read = node_register.decode_register(node_register.encode_register_colon(written))

    assert read == node_register.RegisterText(devices=tuple(written))


@given(PODS)
def test_shares_survive_their_annotation(written: allocation.PodShares) -> None:
    read = pod_devices.decode_pod_devices(pod_devices.encode_pod_devices(written))

    assert read == pod_devices.PodDevices(shares=written)


@given(
    PODS.map(pod_devices.encode_pod_devices) | st.text(alphabet="GPUa0-,:;[]9 _", max_size=60),
    st.none() | st.integers(0, 4),
)
def test_a_text_in_our_own_form_is_read_as_the_long_way_reads_it(
    text: str, containers: int | None
) -> None:
    short = pod_devices._decode_plain(text, containers)
    segments = pod_devices._container_segments(text, containers)
    long = pod_devices.decode_entries([pod_devices._placed(at, part) for at, part in segments])

    assert short is None or pod_devices.PodDevices(shares=short) == long


@given(PODS)
def test_a_plugin_takes_every_container_once_and_in_order(written: allocation.PodShares) -> None:
    text = pod_devices.encode_pod_devices(written)
    taken = []
    for _ in written:
        step = pod_devices.take_first(text)
        if step is not None:
            index, shares, text = step
            taken.append((index, shares))

    assert taken == [(index, shares) for index, shares in enumerate(written) if shares]
    assert pod_devices.is_served(text)


@given(PODS, st.integers(0, 20))
def test_text_that_grew_under_the_plugin_still_has_the_pods_containers(
    written: allocation.PodShares, surplus: int
) -> None:
    grown = pod_devices.encode_pod_devices(written) + ";" * surplus

    read = pod_devices.decode_pod_devices(grown, containers=len(written))

    assert read.shares == written


@given(TIMES, NAMES, NAMES)
def test_a_lock_survives_its_annotation(now: datetime, namespace: str, pod: str) -> None:
    text = node_lock.encode_lock(now, namespace=namespace, pod=pod)

    assert node_lock.decode_lock(text) == node_lock.LockText(time=now, namespace=namespace, pod=pod)


@given(TIMES)
def test_times_survive_all_forms(now: datetime) -> None:
    assert clock_text.decode_time(clock_text.encode_datetime(now)) == now
    assert clock_text.decode_time(clock_text.encode_rfc3339(now)) == now
    assert handshake.decode_handshake(handshake.encode_requesting(now)).time == now
    assert handshake.decode_handshake(handshake.encode_reported(now)).time == now
    assert handshake.decode_handshake(handshake.encode_deleted(now)).time == now


@given(st.integers(0, 253_402_300_799))
def test_unix_seconds_survive(seconds: int) -> None:
    now = datetime.fromtimestamp(seconds, tz=UTC)

    assert clock_text.decode_unix_s(clock_text.encode_unix_s(now)) == seconds


@given(st.integers(-(10**40), 10**40))
def test_integers_survive_as_quantities(value: int) -> None:
    assert quantity.decode_integer(str(value)) == value
    assert quantity.decode_integer(f"{value}k") == 1000 * value
    assert quantity.decode_integer(f"{value}Ki") == 1024 * value
    assert quantity.decode_integer(f"{value}000m") == value
    assert quantity.is_plain_integer(str(value))


READERS: dict[str, Callable[[str], object]] = {
    "node register": node_register.decode_register,
    "pod devices": pod_devices.decode_pod_devices,
    "served": pod_devices.is_served,
    "take first": pod_devices.take_first,
    "node lock": node_lock.decode_lock,
    "handshake": handshake.decode_handshake,
    "bind phase": bind_phase.decode_bind_phase,
    "time": clock_text.decode_time,
    "unix time": clock_text.decode_unix_s,
    "quantity": quantity.decode_integer,
    "plain quantity": quantity.is_plain_integer,
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)

# Pieces that steer random text past the first test of each reader.
PIECES = st.sampled_from(
    [
        *'[]{}",:;_.+-eEkmKi0129Z',
        *("null", "true", '"id"', '"count"', '"\\ud800"', "1e9", "9" * 30),
        *("Requesting", "2026-01-15", "T10:00:00", " 10:00:00", " +0000", " m=+1"),
    ]
)
JUNK = st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join))
JSON_ELEMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "ID", "count", "numa", "type", "health", "migProfiles", "custominfo"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@every_reader
@given(text=JUNK)
@example(text="0000-00-00 00:00:00")
@example(text="1e" + "9" * 20)
@example(text="[" * 2000)
def test_no_text_raises_anything_but_a_decode_error(
    read: Callable[[str], object], text: str
) -> None:
    with contextlib.suppress(errors.DecodeError):
        read(text)


@given(st.lists(JSON_ELEMENTS, max_size=4))
def test_no_json_list_raises_anything_but_a_decode_error(elements: list[object]) -> None:
    try:
        read = node_register.decode_register(json.dumps(elements))
    except errors.DecodeError:
        return
    assert len(read.devices) + len(read.faults) == len(elements)


@given(JUNK)
def test_a_fault_points_into_the_text(text: str) -> None:
    for fault in pod_devices.decode_pod_devices(text).faults:
        assert fault.segment is not None
        assert text[: fault.offset].count(";") == fault.segment


@every_reader
@pytest.mark.parametrize(
    "unit",
    [*'[{",:;_.0-', "a,", ",,0,0:", "a,b:", "x,", "9", "[{", '{"a":', "[],", "2026-01-15 ", "é"],
)
def test_junk_of_100_kilobytes_ends_soon(read: Callable[[str], object], unit: str) -> None:
    start = time.perf_counter()
    for text in (unit * (100_000 // len(unit)), "[" + unit * (100_000 // len(unit))):
        with contextlib.suppress(errors.DecodeError):
            read(text)

    assert time.perf_counter() - start < 5
