"""The note of the device ids that a pod was served."""

import pytest

from vgpu_operator.model import errors
from vgpu_operator.wire import device_ids

KEY = "vgpu-operator.io/device-ids"
TEXT = '{"uid":"b3e1","containers":{"init":["GPU-a-0"],"main":["GPU-a-0","GPU-b-3"]}}'
NOTE = device_ids.ServedIds(
    uid="b3e1", containers={"init": ("GPU-a-0",), "main": ("GPU-a-0", "GPU-b-3")}
)


def test_a_note_is_read_as_it_was_written() -> None:
    assert device_ids.encode_device_ids(NOTE) == TEXT
    assert device_ids.decode_device_ids(TEXT) == NOTE


def test_the_order_of_the_containers_is_that_in_which_they_were_served() -> None:
    assert list(device_ids.decode_device_ids(TEXT).containers) == ["init", "main"]


def test_a_pod_was_served_what_a_note_with_its_uid_says() -> None:
    assert device_ids.served_to("b3e1", TEXT) == NOTE.containers


@pytest.mark.parametrize(
    ("uid", "text"),
    [
        pytest.param("77aa", TEXT, id="another pod's, as in a copied manifest"),
        pytest.param("b3e1", None, id="no note"),
        pytest.param("", '{"uid":"","containers":{"main":["GPU-a-0"]}}', id="no UID is known"),
    ],
)
def test_any_other_pod_was_served_nothing(uid: str, text: str | None) -> None:
    assert device_ids.served_to(uid, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '{"main":["GPU-a-0"]}',
        '{"uid":"b3e1"}',
        '{"uid":7,"containers":{}}',
        '{"uid":"b3e1","containers":[]}',
        '{"uid":"b3e1","containers":{"main":"GPU-a-0"}}',
        '{"uid":"b3e1","containers":{"main":[0]}}',
        '{"uid":"b3e1","containers":{},"more":1}',
        "[" * 100_000,
    ],
)
def test_a_text_of_another_form_is_refused_in_one_short_sentence(text: str) -> None:
    with pytest.raises(errors.DecodeError, match=rf"^{KEY}: ") as fault:
        device_ids.served_to("b3e1", text, key=KEY)

    assert len(str(fault.value)) < 200
