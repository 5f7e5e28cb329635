"""Devices texts of the forerunner's dialect: one for all vendors, in two forms."""

import pytest

from vgpu_operator.model import allocation
from vgpu_operator.wire import shared_devices

KEY = "4pd.io/vgpu-ids-new"
A = "GPU-a,NVIDIA,3000,0:"
B = "GPU-b,NVIDIA,5000,0:"
WALK_THROUGH = (
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,3000,0:"
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,5000,0:"
)


def cards(
    text: str, asked: tuple[int, ...] | None = None, n_init: int = 0
) -> list[list[tuple[str, int]]]:
    """Return id and MiB of every device by container."""
    read = shared_devices.decode(text, asked=asked, n_init=n_init)
    assert read.faults == ()
    return [[(share.device_id, share.memory_mib) for share in shares] for shares in read.shares]


def share(
    device_id: str, memory_mib: int, *, word: str = "NVIDIA", cores: int = 0
) -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id=device_id, vendor_word=word, memory_mib=memory_mib, cores_percent=cores
    )


def test_the_walk_throughs_two_containers_are_told_apart_by_what_they_ask_for() -> None:
    card = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"

    assert cards(WALK_THROUGH, (1, 1)) == [[(card, 3000)], [(card, 5000)]]
    assert cards(WALK_THROUGH, (2,)) == [[(card, 3000), (card, 5000)]]


@pytest.mark.parametrize(
    ("text", "asked", "n_init", "expected"),
    [
        (A, (1,), 0, [["GPU-a"]]),
        (f"{A};", (1,), 0, [["GPU-a"]]),
        (f"{A};{B}", (1, 1), 0, [["GPU-a"], ["GPU-b"]]),
        (f"{A};{B};", (1, 1), 0, [["GPU-a"], ["GPU-b"]]),
        (f"{A}{B};", (1, 1), 0, [["GPU-a"], ["GPU-b"]]),
        (f"{A}{B}", (0, 1, 1), 0, [[], ["GPU-a"], ["GPU-b"]]),
        (f"{A}:{B}:", (1, 1), 0, [["GPU-a"], ["GPU-b"]]),
        (f";{A}", (0, 1), 0, [[], ["GPU-a"]]),
        (f"{A};", (1, 0), 0, [["GPU-a"], []]),
        (f"{A}{B};{A}", (2, 1), 0, [["GPU-a", "GPU-b"], ["GPU-a"]]),
        (f"{A}{B}{A}", (2, 1), 0, [["GPU-a", "GPU-b"], ["GPU-a"]]),
        ("", (1,), 0, [[]]),
        (";", (1, 1), 0, [[], []]),
    ],
)
def test_the_reading_that_gives_each_container_what_it_asks_for_is_meant(
    text: str, asked: tuple[int, ...], n_init: int, expected: list[list[str]]
) -> None:
    assert [[card for card, _ in c] for c in cards(text, asked, n_init)] == expected


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        (f"{A};{B}", (0, 1, 1), [[], ["GPU-a"], ["GPU-b"]]),
        (A, (0, 1), [[], ["GPU-a"]]),
        (A, (1, 1), [[], ["GPU-a"]]),
        (f"{A};{B}", (1, 1), [["GPU-a"], ["GPU-b"]]),
        (f";{A}", (0, 1), [[], ["GPU-a"]]),
    ],
)
def test_a_text_without_the_init_container_begins_with_the_first_app_container(
    text: str, asked: tuple[int, ...], expected: list[list[str]]
) -> None:
    assert [[card for card, _ in c] for c in cards(text, asked, 1)] == expected


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        (f"{A}{B}", (1, 2), [["GPU-a"], ["GPU-b"]]),
        (f"{A}{B}{A}", (1, 1), [["GPU-a"], ["GPU-b", "GPU-a"]]),
        (f"{A};{B}{A}", (1, 1), [["GPU-a"], ["GPU-b", "GPU-a"]]),
        (A, (0,), [["GPU-a"]]),
    ],
)
def test_a_text_that_holds_something_else_than_is_asked_for_loses_nothing(
    text: str, asked: tuple[int, ...], expected: list[list[str]]
) -> None:
    assert [[card for card, _ in c] for c in cards(text, asked)] == expected


def test_without_the_pod_the_joined_form_is_believed() -> None:
    assert cards(f"{A};{B}") == [[("GPU-a", 3000)], [("GPU-b", 5000)]]
    assert cards(WALK_THROUGH) == [
        [
            ("GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448", 3000),
            ("GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448", 5000),
        ]
    ]


def test_a_bad_entry_keeps_its_place_and_costs_nothing_else() -> None:
    read = shared_devices.decode(f"GPU-a,NVIDIA,lots,0:{B}", key=KEY, asked=(1, 1))

    assert [[share.device_id for share in shares] for shares in read.shares] == [[], ["GPU-b"]]
    assert [str(fault) for fault in read.faults] == [
        f"{KEY}, segment 0 at offset 0: memory must be an integer, got 'lots'"
    ]


def test_devices_end_with_a_colon_and_containers_are_joined_with_a_semicolon() -> None:
    two = ((share("GPU-a", 3000),), (share("GPU-b", 5000, cores=30), share("GPU-c", 1)))

    assert shared_devices.encode(two) == (
        "GPU-a,NVIDIA,3000,0:;GPU-b,NVIDIA,5000,30:GPU-c,NVIDIA,1,0:"
    )
    assert shared_devices.encode(((), *two[:1], ())) == ";GPU-a,NVIDIA,3000,0:;"
    assert shared_devices.encode(two[:1]) == "GPU-a,NVIDIA,3000,0:"


def test_the_walk_throughs_text_is_written_with_its_separator() -> None:
    card = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
    two = ((share(card, 3000),), (share(card, 5000),))

    assert shared_devices.encode(two, separator=":") == WALK_THROUGH


def test_init_containers_are_written_only_where_one_has_a_device() -> None:
    one = (share("GPU-a", 3000),)

    assert shared_devices.encode(((), one), n_init=1) == A
    assert shared_devices.encode((one, one), n_init=1) == f"{A};{A}"
