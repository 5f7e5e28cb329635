"""What must hold for every text that ``vgpu decode`` reads and ``vgpu encode`` writes."""

import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vgpu_operator.cli import annotation_kinds, annotation_writers, forms, render
from vgpu_operator.model import errors

WORDS = st.text(max_size=8)
NUMBERS = st.integers(-(2**32), 2**32).map(str) | st.sampled_from(["0", "007", "+1", "1.5", ""])
TIMES = st.sampled_from(
    [
        "2026-01-15 10:00:00",
        "2026.01.15 10:00:00.5",
        "2026-01-15T17:59:30.000001+08:00",
        "0001-01-01 00:00:00",
        "noon",
        "",
    ]
)
ENTRIES = st.lists(WORDS | NUMBERS, min_size=3, max_size=9).map(",".join)
LISTS = st.lists(ENTRIES | st.just(""), max_size=4).flatmap(
    lambda entries: st.sampled_from([":", ";", ":;"]).map(
        lambda separator: separator.join([*entries, ""])
    )
)
SHARES = st.lists(
    st.lists(
        st.builds(
            "{},{},{},{}:".format,
            st.text(string.ascii_letters + "-[]é", min_size=1, max_size=6),
            st.text(string.ascii_letters, max_size=6),
            st.integers(0, 2**31 - 1),
            st.integers(0, 2**31 - 1),
        ),
        max_size=3,
    ).map("".join),
    max_size=5,
).map(";".join)
SCALARS = st.none() | st.booleans() | st.integers(-3, 2**33) | st.floats() | WORDS
MEMBERS = [
    "id",
    "count",
    "devmem",
    "devcore",
    "type",
    "numa",
    "health",
    "index",
    "mode",
    "migProfiles",
    "custominfo",
    "name",
    "memoryMB",
    "core",
    "sliceCount",
    "placements",
    "start",
    "size",
    "uuid",
    "model",
    "totalDevCount",
    "totalVRam",
    "healthy",
    "linkZone",
    "devices",
    "minor",
    "capacity",
    "profiles",
    "gpuUUID",
    "profile",
    "placement",
    "containerIndex",
    "migUUID",
    "gpuInstanceID",
    "computeInstanceID",
    "score",
]
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(MEMBERS) | WORDS, inner, max_size=5)
    ),
    max_leaves=12,
)
CARDS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text("ab-", min_size=1, max_size=4)},
        optional={
            "count": st.integers(0, 99),
            "type": WORDS,
            "index": st.integers(0, 9),
            "mode": WORDS,
            "health": st.booleans(),
            "custominfo": st.dictionaries(WORDS, VALUES, max_size=2),
        },
    ),
    max_size=3,
).map(json.dumps)
TEXTS = (
    st.text(max_size=40)
    | LISTS
    | SHARES
    | CARDS
    | st.lists(VALUES, max_size=3).map(json.dumps)
    | VALUES.map(json.dumps)
    | st.builds("{}_{}".format, st.sampled_from(["Requesting", "Reported", "Deleted"]), TIMES)
    | st.builds("{},{},{}".format, TIMES, WORDS, WORDS)
    | TIMES
    | NUMBERS
    | st.sampled_from(["success", "slot=1,core=2,memory=3"])
)
KEYS = st.sampled_from(
    [
        "hami.io/node-nvidia-register",
        "4pd.io/node-mlu-register",
        "hami.io/node-va-register",
        "metax-tech.com/node-gpu-devices",
        "enflame.com/gcu-drs-capacity",
        "hami.io/node-handshake",
        "hami.io/mutex.lock",
        "4pd.io/mutex.lock",
        "hami.io/vgpu-devices-allocated",
        "4pd.io/vgpu-ids-new",
        "hami.io/bind-phase",
        "hami.io/bind-time",
        "hami.io/device-cordon",
        "hami.io/vgpu-node",
        "hami.io/device-scoring-weights",
        "hami.io/vgpu-mig-allocations",
        "hami.io/node-nvidia-score",
    ]
)


def through_json(reading: annotation_kinds.Reading) -> object:
    table = annotation_kinds.table(reading)
    return json.loads(render.render(table, render.Output.JSON, render.Screen()))


@given(KEYS, TEXTS)
@example("hami.io/node-nvidia-score", '[{"uuid":"a","score":{"\\ud800":1}}]')
@example("4pd.io/vgpu-ids-new", ";;;")
@example("hami.io/node-nvidia-register", ":")
@example("hami.io/node-nvidia-register", "[,1,2,3,,4,true:")
def test_whatever_decode_reads_is_encoded_to_a_text_that_reads_the_same(
    key: str, text: str
) -> None:
    reading = annotation_kinds.read(text, key=key)
    if reading.faults:
        return

    again, written = annotation_writers.write(through_json(reading), key=key)

    assert again.rows == reading.rows
    assert annotation_kinds.read(written, key=key) == again
    assert annotation_writers.write(through_json(again), key=key)[1] == written


@given(KEYS, st.dictionaries(st.sampled_from(["kind", "form", "items"]) | WORDS, VALUES))
def test_whatever_is_to_be_encoded_is_written_or_refused(
    key: str, decoded: dict[str, object]
) -> None:
    try:
        reading, text = annotation_writers.write(decoded, key=key)
    except errors.DecodeError:
        return
    assert annotation_kinds.read(text, key=key).rows == reading.rows


@given(SHARES, st.sampled_from(["hami.io/vgpu-devices-allocated", "4pd.io/vgpu-ids-new"]))
def test_a_list_of_shares_comes_back_byte_by_byte(text: str, key: str) -> None:
    joined = key.startswith("4pd")
    text = f"{text};" if not joined or text.endswith(";") else text

    written = annotation_writers.write(through_json(annotation_kinds.read(text, key=key)), key=key)[
        1
    ]

    assert written == text


@pytest.mark.parametrize("form", list(forms.Form))
@given(CARDS)
def test_cards_are_written_in_every_form_that_can_say_them(form: forms.Form, text: str) -> None:
    reading = annotation_kinds.read(text, key="hami.io/node-nvidia-register")
    if reading.faults:
        return
    try:
        again, written = annotation_writers.write(
            through_json(reading), key="hami.io/node-nvidia-register", form=form
        )
    except errors.DecodeError:
        assert form is not forms.Form.JSON
        return
    assert again.rows == reading.rows
    assert written.startswith("[") is (form is forms.Form.JSON)
