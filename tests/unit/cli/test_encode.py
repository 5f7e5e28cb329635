import io
import json
import pathlib
import re
import sys
from typing import Any

import pytest
import yaml

from vgpu_operator.cli import annotation_kinds, annotation_writers, forms, render
from vgpu_operator.model import errors

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "protocol-texts.yaml"
TEXTS: dict[str, list[dict[str, Any]]] = yaml.safe_load(_GOLDEN.read_text(encoding="utf-8"))

REGISTER = "hami.io/node-nvidia-register"
SHARES = "hami.io/vgpu-devices-allocated"
HANDSHAKE = "hami.io/node-handshake"
LOCK = "hami.io/mutex.lock"


def decoded(key, text):
    """Return what ``vgpu decode -o json`` prints of a text."""
    reading = annotation_kinds.read(text, key=key)
    return render.render(annotation_kinds.table(reading), render.Output.JSON, render.Screen())


def encoded(key, text, form=None):
    """Return what a text becomes on its way through decode and encode."""
    return annotation_writers.write(json.loads(decoded(key, text)), key=key, form=form)[1]


def whole(*items, **others):
    return json.dumps({**others, "items": items})


def published(section):
    return [
        pytest.param(seen.get("key"), seen["text"], id=seen["name"])
        for seen in TEXTS[section]
        if not seen.get("faults")
    ]


CANONICAL = [
    (REGISTER, "[]"),
    (REGISTER, ":"),
    (REGISTER, '[{"id":"GPU-a0","count":1,"health":true,"custominfo":{"a":[1.5,null]}}]'),
    (
        REGISTER,
        '[{"id":"GPU-a0","index":1,"count":7,"devmem":40960,"devcore":100,"type":"A100",'
        '"numa":1,"mode":"mig","migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":14,'
        '"sliceCount":1,"placements":[{"start":0,"size":1},{"start":1,"size":1}]}],'
        '"health":true}]',
    ),
    ("hami.io/node-amd-register", "GPU-a0,10,81559,100,H100 80GB,0,true,1,hami-core:"),
    ("4pd.io/node-mlu-register", "MLU-0,10,23308,0,MLU370-X4,0,false:"),
    (
        "metax-tech.com/node-gpu-devices",
        '[{"uuid":"MX-a0","model":"C500","totalDevCount":16,"totalCompute":100,'
        '"totalVRam":65536,"healthy":true,"linkZone":2}]',
    ),
    (
        "enflame.com/gcu-drs-capacity",
        '{"devices":[{"index":"0","minor":"4","capacity":6}],"profiles":{"1g.6gb":"0",'
        '"6g.40gb":"2"}}',
    ),
    (SHARES, ""),
    (SHARES, ";GPU-a0,NVIDIA,1000,0:GPU-a1,NVIDIA,1000,0:;;"),
    ("4pd.io/vgpu-ids-new", "GPU-a0,NVIDIA,3000,0:;;GPU-a1,NVIDIA,5000,0:"),
    ("4pd.io/devices-to-allocate", "GPU-a0,NVIDIA,3000,0:GPU-a1,NVIDIA,5000,0:"),
    ("4pd.io/vgpu-ids-new", ";;"),
    ("4pd.io/mutex.lock", "2026-01-15T10:00:00Z"),
    (LOCK, "2026-01-15T10:00:00.250000Z,team-a,p1"),
    (HANDSHAKE, "Reported_2026-01-15 10:00:00"),
    (HANDSHAKE, "Deleted_2026-01-15 10:00:00.434037"),
    (HANDSHAKE, "Requesting"),
    (HANDSHAKE, ""),
    ("hami.io/bind-phase", "allocating"),
    ("4pd.io/vgpu-time", "1705054796"),
    ("hami.io/vgpu-node", "node67-4v100"),
    ("hami.io/device-cordon", "GPU-a0,GPU-a1"),
    ("hami.io/device-scoring-weights", "slot=1,core=0,memory=3"),
    (
        "hami.io/vgpu-mig-allocations",
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a0","profile":"2g.10gb",'
        '"placement":{"start":4,"size":2},"migUUID":"MIG-7","gpuInstanceID":3,'
        '"computeInstanceID":0}]',
    ),
    (
        "hami.io/node-nvidia-score",
        '[{"uuid":"GPU-a0","score":{"GPU-a1":50,"GPU-a2":-1}},{"uuid":"GPU-a3","score":{}}]',
    ),
]


@pytest.mark.parametrize(("key", "text"), CANONICAL)
def test_a_text_in_our_own_spelling_comes_back_byte_by_byte(key, text):
    assert encoded(key, text) == text


@pytest.mark.parametrize(("key", "text"), published("pods") + published("locks")[:1])
def test_published_texts_of_pods_and_locks_come_back_byte_by_byte(key, text):
    assert encoded(key or (LOCK if "T" in text[:11] else SHARES), text) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *published("registers"),
        *(
            pytest.param(HANDSHAKE, *seen.values[1:], id=seen.id)
            for seen in published("handshakes")
        ),
        *(pytest.param(LOCK, *seen.values[1:], id=seen.id) for seen in published("locks")),
    ],
)
def test_published_texts_say_the_same_when_they_come_back(key, text):
    before = annotation_kinds.read(text, key=key)

    assert annotation_kinds.read(encoded(key, text), key=key).rows == before.rows


def test_decode_and_encode_are_one_pipe(command_line):
    text = "GPU-a0,10,7680,100,T4,1,true,3,hami-core:"

    assert command_line.run("decode", "-o", "json", REGISTER, text) == 0
    assert command_line.run("encode", REGISTER, command_line.out) == 0
    assert command_line.out == f"{text}\n"


def test_a_register_is_written_in_the_form_that_is_asked_for(command_line):
    text = "GPU-a0,10,7680,100,T4,1,true,3,hami-core:"

    assert command_line.run("encode", REGISTER, decoded(REGISTER, text), "--as", "json") == 0

    json_form = command_line.out.removesuffix("\n")
    assert json_form == (
        '[{"id":"GPU-a0","index":3,"count":10,"devmem":7680,"devcore":100,"type":"T4","numa":1,'
        '"mode":"hami-core","health":true}]'
    )
    assert encoded(REGISTER, json_form, forms.Form.LEGACY) == text


def test_the_short_form_cannot_say_an_index(command_line):
    given = decoded(REGISTER, "GPU-a0,10,7680,100,T4,0,true,3,hami-core:")

    assert command_line.run("encode", REGISTER, given, "--as", "legacy-short") == 1
    assert command_line.err == (
        "error: items[0].index: the text cannot say 3: it would be read as 0; write --as json\n"
    )


def test_what_decode_could_not_read_is_left_out_with_a_warning(command_line):
    given = decoded(REGISTER, "GPU-a0,10,24x,100,A10,0,true:GPU-a1,10,24000,100,A10,0,true:")

    assert command_line.run("encode", REGISTER, given) == 0
    assert command_line.out == "GPU-a1,10,24000,100,A10,0,true:\n"
    assert command_line.err == (
        "warning: the decoded text had 1 unreadable parts, which are left out\n"
    )


def test_the_json_comes_from_standard_input_or_a_file_too(command_line, monkeypatch, tmp_path):
    given = whole({"phase": "success"})
    (tmp_path / "phase.json").write_text(given)

    for arguments in ((), ("-",), ("-f", "-"), ("-f", str(tmp_path / "phase.json"))):
        source = io.TextIOWrapper(io.BytesIO(given.encode()))
        monkeypatch.setattr(sys, "stdin", source)
        assert command_line.run("encode", "hami.io/bind-phase", *arguments) == 0
        assert command_line.out == "success\n"


def test_a_key_that_nobody_knows_is_written_as_the_kind_of_the_json(command_line):
    given = whole({"phase": "failed"}, kind="BindPhase")

    assert command_line.run("encode", "example.com/state", given) == 0
    assert command_line.out == "failed\n"


def test_a_time_may_be_given_in_any_spelling(command_line):
    given = whole({"time": "2026-01-15T18:00:00+08:00", "namespace": "a", "pod": "p"})

    assert command_line.run("encode", LOCK, given) == 0
    assert command_line.out == "2026-01-15T10:00:00Z,a,p\n"


CARD = {"card": "GPU-a0", "type": "T4", "slots": 10, "healthy": True}


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        (REGISTER, "[]", "JSON: an object with items is wanted, as vgpu decode -o json prints it"),
        (REGISTER, '{"items": 7}', "items: a list is wanted, got 7"),
        (REGISTER, whole(7), "items[0]: an object is wanted, got 7"),
        (REGISTER, whole(CARD | {"slots": "9"}), "items[0].slots: an integer is wanted, got '9'"),
        (REGISTER, whole(CARD | {"healthy": 1}), "items[0].healthy: true or false is wanted"),
        (REGISTER, whole(CARD | {"type": 1}), "items[0].type: a text is wanted, got 1"),
        (REGISTER, whole(CARD | {"customInfo": 1}), "items[0].customInfo: an object is wanted"),
        (REGISTER, whole(CARD | {"slot": 1}), "items[0]: 'slot' is unknown; known are card, index"),
        (REGISTER, whole(CARD | {"card": "a,b"}), f"{REGISTER}, segment 0 at offset 1: the card's"),
        (REGISTER, whole(CARD | {"slots": 2**40}), "count must be -2147483648 to 2147483647"),
        (REGISTER, whole(CARD, CARD), "the id 'GPU-a0' came before"),
        (REGISTER, whole(CARD | {"type": "\ud800"}), "half a character is in the items"),
        (REGISTER, whole(CARD, form="colons"), "form: 'colons' is unknown; known are json, legacy"),
        (REGISTER, whole(CARD | {"type": "a:b"}, form="legacy"), "a field must not hold , : or ;"),
        (REGISTER, whole(kind="BindPhase"), "it holds a NodeRegister, and the JSON is a BindPhase"),
        (REGISTER, whole(kind="Cards"), "kind: 'Cards' is unknown; known are NodeRegister"),
        ("example.com/x", whole({}), "example.com/x: nobody knows what it holds: give a kind"),
        ("hami.io/node-scheduler-policy", whole({}), "vgpu encode does not write this form"),
        (SHARES, whole({"container": 1, "card": "a"}), "items[0]: container 1 is out of turn"),
        (SHARES, whole({"container": -1, "card": "a"}), "items[0]: container -1 is out of turn"),
        (SHARES, whole({"container": 0, "card": "", "memoryMiB": 5}), "items[0].memoryMiB: the te"),
        (SHARES, whole({"container": 0, "card": "a", "memoryMiB": -1}), "memory must be 0 to"),
        (HANDSHAKE, whole({"state": "asking"}), "items[0].state: 'asking' is unknown"),
        (HANDSHAKE, whole({"state": "reported", "time": "noon"}), "items[0].time: a time such as"),
        (
            HANDSHAKE,
            whole({"state": "absent", "time": "2026-01-15T10:00:00Z"}),
            "cannot be written",
        ),
        (HANDSHAKE, whole(), "items: one is wanted, got 0"),
        (LOCK, whole({"namespace": "a", "pod": "p"}), "items[0].time: a time is wanted"),
        (LOCK, whole({"time": "2026-01-15T10:00:00Z", "pod": "p"}), "namespace and pod are wanted"),
        ("hami.io/bind-phase", whole({"phase": "done"}), "is none of allocating, success, failed"),
        ("hami.io/bind-time", whole({"unixSeconds": -1}), "'-1' is no time in Unix seconds"),
        ("hami.io/device-cordon", whole({"card": "a,b"}), "items[0].card: the text cannot say"),
        (
            "hami.io/device-cordon",
            whole({"card": "a"}, {"card": ""}),
            "items: 2 are given, and the",
        ),
        ("hami.io/device-scoring-weights", whole({"slot": -1}), "slot is negative"),
    ],
)
def test_what_cannot_be_written_is_an_error_that_says_where(key, given, words):
    with pytest.raises(errors.DecodeError, match=re.escape(words)):
        annotation_writers.write(json.loads(given), key=key)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("hello", "JSON: it does not parse at offset 0: Expecting value; give what vgpu decode"),
        ("[" * 100_000, "JSON: it cannot be read: maximum recursion"),
        ("9" * 5_000, "JSON: it cannot be read: Exceeds the limit"),
        (whole(CARD | {"slots": "9"}), "items[0].slots: an integer is wanted, got '9'"),
    ],
    ids=("no JSON", "deep", "huge", "a text"),
)
def test_an_error_is_one_sentence_on_standard_error(command_line, given, words):
    assert command_line.run("encode", REGISTER, given) == 1
    assert command_line.err.startswith(f"error: {words}")
    assert command_line.err.count("\n") == 1
    assert command_line.out == ""


def test_as_is_for_lists_of_cards_of_several_forms_only(command_line):
    for key in ("hami.io/bind-phase", "metax-tech.com/node-gpu-devices"):
        assert command_line.run("encode", key, whole(), "--as", "legacy") == 1
        assert f"{key} has one form: leave out --as" in command_line.err


def test_json_and_a_file_together_are_wrong_usage(command_line):
    assert command_line.run("encode", LOCK, "{}", "-f", "x") == 2


def test_a_file_that_is_not_there_is_named(command_line, tmp_path):
    path = str(tmp_path / "none.json")

    assert command_line.run("encode", LOCK, "-f", path) == 1
    assert command_line.err == f"error: {path} cannot be read: No such file or directory\n"


def test_only_so_much_is_read(command_line, monkeypatch):
    source = io.TextIOWrapper(io.BytesIO(b" " * (16 * 1024 * 1024 + 1)))
    monkeypatch.setattr(sys, "stdin", source)

    assert command_line.run("encode", LOCK) == 1
    assert command_line.err == "error: JSON: at most 16777216 bytes are read\n"


def test_a_terminal_gets_no_characters_that_move_its_cursor(command_line, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert command_line.run("encode", "hami.io/vgpu-node", whole({"name": "n\x1b[31m"})) == 0
    assert command_line.out == "n\\x1b[31m\n"
    assert "control characters are written out" in command_line.err
