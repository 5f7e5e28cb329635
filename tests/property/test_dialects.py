"""What must hold for every text and every pod of the forerunner's dialect."""

import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.pods import container, pod
from vgpu_operator.model import allocation, settings
from vgpu_operator.vendors import records as readers
from vgpu_operator.vendors import registry
from vgpu_operator.wire import dialects, pod_devices, shared_devices

VENDORS = registry.build(settings.Settings())
SHARES = st.builds(
    allocation.DeviceShare,
    device_id=st.text(string.ascii_letters + string.digits + "-[]", min_size=1, max_size=12),
    vendor_word=st.sampled_from(["NVIDIA", "MLU", "DCU"]),
    memory_mib=st.integers(0, 2**31 - 1),
    cores_percent=st.integers(0, 100),
)
PODS = st.lists(st.lists(SHARES, max_size=3).map(tuple), min_size=1, max_size=5).map(tuple)
TEXTS = st.one_of(
    st.text(max_size=80),
    st.text("aN,:;0 ", max_size=60),
    st.lists(st.sampled_from(["a,NVIDIA,1,0:", "b,DCU,2,0:", ";", ":", ",", "x"]), max_size=12).map(
        "".join
    ),
)
ASKED = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@given(PODS, st.data())
def test_what_is_written_joined_is_read_back_whatever_is_known_of_the_pod(
    shares: allocation.PodShares, data: Any
) -> None:
    n_init = data.draw(st.integers(0, len(shares) - 1))
    text = shared_devices.encode(shares, n_init=n_init)

    read = shared_devices.decode(text, asked=[len(c) for c in shares], n_init=n_init)

    assert read == pod_devices.PodDevices(shares=shares)


@given(PODS)
def test_what_is_written_running_on_is_read_back_by_what_the_containers_ask_for(
    shares: allocation.PodShares,
) -> None:
    text = shared_devices.encode(shares, separator=shared_devices.RUNNING)

    read = shared_devices.decode(text, asked=[len(c) for c in shares])

    assert read == pod_devices.PodDevices(shares=shares)


@given(TEXTS, ASKED, st.data())
def test_no_text_crashes_and_every_entry_is_a_share_or_a_fault(
    text: str, asked: list[int], data: Any
) -> None:
    n_init = data.draw(st.integers(0, len(asked) - 1))
    entries = sum(len(segment) for segment in pod_devices.split_entries(text))

    for read in (
        shared_devices.decode(text, asked=asked, n_init=n_init),
        shared_devices.decode(text),
    ):
        assert sum(len(c) for c in read.shares) + len(read.faults) == entries


@given(TEXTS)
def test_what_was_read_without_the_pod_is_written_and_read_alike(text: str) -> None:
    read = shared_devices.decode(text)
    again = shared_devices.decode(shared_devices.encode(read.shares))

    assert [c for c in again.shares if c] == [c for c in read.shares if c]


@given(
    st.dictionaries(st.sampled_from(dialects.POD_KEYS), TEXTS),
    st.sampled_from(["", "node-a"]),
)
def test_no_annotation_of_any_dialect_stops_the_reading_of_a_pod(
    texts: dict[str, str], node: str
) -> None:
    raw = pod(container(gpu=1, mem=1), annotations=texts, nodeName=node)

    record = readers.pod_record(raw, VENDORS, aliases={})

    assert record.carried == {key for key, text in texts.items() if text}


@given(
    st.dictionaries(
        st.sampled_from(
            [
                key
                for every in dialects.FORERUNNER.node_keys.values()
                for places in every
                for key in (places.register, places.handshake)
            ]
            + ["hami.io/node-nvidia-register", "hami.io/node-handshake"]
        ),
        st.text(max_size=40),
    )
)
def test_todays_register_key_always_wins(texts: dict[str, str]) -> None:
    record = readers.node_record({"metadata": {"name": "n", "annotations": texts}}, VENDORS)

    today = texts.get("hami.io/node-nvidia-register")
    if today is not None:
        assert record.registers["NVIDIA"] == today
        assert "NVIDIA" not in record.older
    assert {key for key in record.older if key not in record.registers} <= {
        word
        for word, every in dialects.FORERUNNER.node_keys.items()
        if any(places.handshake in texts for places in every)
    }
