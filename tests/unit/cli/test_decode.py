import io
import json
import sys

import pytest
import yaml

from vgpu_operator.cli import annotation_keys, annotation_kinds
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry


def items(command_line):
    return json.loads(command_line.out)["items"]


def test_a_register_text_is_a_table_of_cards(command_line):
    text = (
        "GPU-0,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-1,10,32768,100,NVIDIA-Tesla V100,1,false:"
    )

    assert command_line.run("decode", text) == 0
    assert [line.split() for line in command_line.out.splitlines()] == [
        ["CARD", "INDEX", "TYPE", "SLOTS", "MEMORY(MiB)", "CORES(%)", "NUMA", "MODE", "HEALTHY"],
        ["GPU-0", "0", "NVIDIA-Tesla", "V100", "10", "32768", "100", "0", "hami-core", "true"],
        ["GPU-1", "0", "NVIDIA-Tesla", "V100", "10", "32768", "100", "1", "hami-core", "false"],
    ]


def test_the_published_mlu_text_gives_one_card_one_fault_and_exit_1(command_line):
    text = (
        "MLU-45013011-2257-0000-0000-000000000000,10,23308,0,MLU-MLU370-X4,0,false:"
        "MLU-54043011-2257-0000-0000-000000000000,10,23308,0,"
    )

    assert command_line.run("decode", "hami.io/node-mlu-register", text, "-o", "yaml") == 1

    found = yaml.safe_load(command_line.out)
    assert [row["card"] for row in found["items"]] == ["MLU-45013011-2257-0000-0000-000000000000"]
    assert [(fault["segment"], fault["offset"]) for fault in found["faults"]] == [(1, 74)]
    assert command_line.err.startswith("unreadable: hami.io/node-mlu-register, segment 1")


def test_pod_devices_keep_containers_without_a_card(command_line):
    command_line.run("decode", ";GPU-a0,NVIDIA,3000,30:;", "-o", "json")

    assert items(command_line) == [
        {"container": 0, "card": "", "word": ""},
        {
            "container": 1,
            "card": "GPU-a0",
            "word": "NVIDIA",
            "memoryMiB": 3000,
            "coresPercent": 30,
        },
    ]


@pytest.mark.parametrize(
    ("key", "text", "row"),
    [
        (
            "hami.io/node-handshake",
            "Requesting_2026-01-15 10:00:00",
            {"state": "requesting", "time": "2026-01-15T10:00:00+00:00"},
        ),
        (
            "hami.io/mutex.lock",
            "2026-01-15T10:00:00Z,default,p1",
            {"time": "2026-01-15T10:00:00+00:00", "namespace": "default", "pod": "p1"},
        ),
        (
            "4pd.io/mutex.lock",
            "2026-01-15T10:00:00Z",
            {"time": "2026-01-15T10:00:00+00:00", "namespace": "", "pod": ""},
        ),
        ("hami.io/bind-phase", "success", {"phase": "success"}),
        (
            "hami.io/bind-time",
            "1768471200",
            {"unixSeconds": 1768471200, "time": "2026-01-15T10:00:00+00:00"},
        ),
        ("hami.io/device-cordon", "GPU-a0", {"card": "GPU-a0"}),
        ("hami.io/vgpu-node", "n1", {"name": "n1"}),
        ("4pd.io/vgpu-node", "node67-4v100", {"name": "node67-4v100"}),
        (
            "4pd.io/vgpu-time",
            "1705054796",
            {"unixSeconds": 1705054796, "time": "2024-01-12T10:19:56+00:00"},
        ),
        ("4pd.io/bind-phase", "allocating", {"phase": "allocating"}),
        (
            "HAMi.sh/node-handshake-nvidia",
            "Deleted_2024.01.12 10:19:56",
            {"state": "deleted", "time": "2024-01-12T10:19:56+00:00"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_key_says_what_a_text_is(command_line, key, text, row):
    assert command_line.run("decode", key, text, "-o", "json") == 0
    assert items(command_line) == [row]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[]", "NodeRegister"),
        ("Reported_2024.01.10 04:06:57", "Handshake"),
        ("2026-01-15T10:00:00Z,default,p1", "NodeLock"),
        ("allocating", "BindPhase"),
        ("1768471200", "UnixTime"),
        (";;", "PodDevices"),
        ("GPU-0,NVIDIA,3000,0:GPU-0,NVIDIA,5000,0:", "PodDevices"),
        ("a,10,7680,100,T4,0,true,3,hami-core:", "NodeRegister"),
    ],
)
def test_without_a_key_the_look_of_the_text_decides(text, kind):
    assert annotation_kinds.read(text).kind == kind


def test_a_text_of_no_known_look_asks_for_the_key(command_line):
    assert command_line.run("decode", "hello") == 1
    assert "vgpu decode KEY TEXT" in command_line.err


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("hami.io/mutex.lock", "x,y"),
        ("hami.io/bind-phase", "done"),
        ("hami.io/bind-time", "soon"),
        ("hami.io/node-handshake", "hello"),
        ("hami.io/node-handshake", "Requesting_soon"),
        ("hami.io/node-nvidia-register", "hello"),
        ("hami.io/vgpu-devices-allocated", "a,b;"),
    ],
)
def test_what_cannot_be_read_is_exit_1(command_line, key, text):
    assert command_line.run("decode", key, text) == 1
    assert f"unreadable: {key}" in command_line.err


def test_a_dash_reads_standard_input(command_line, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("success\n"))

    assert command_line.run("decode", "-", "-o", "json") == 0
    assert items(command_line) == [{"phase": "success"}]


def test_three_words_are_wrong_usage(command_line):
    assert command_line.run("decode", "a", "b", "c") == 2


def test_an_empty_list_of_cards_is_good(command_line):
    assert command_line.run("decode", "hami.io/node-nvidia-register", "[]") == 0
    assert command_line.err == "NodeRegister hami.io/node-nvidia-register: empty\n"


@pytest.mark.parametrize("key", ["4pd.io/devices-to-allocate", "4pd.io/vgpu-ids-new"])
def test_the_forerunners_containers_are_joined_without_an_end(command_line, key):
    text = "GPU-a0,NVIDIA,3000,0:;;GPU-a1,NVIDIA,5000,0:"

    assert command_line.run("decode", key, text, "-o", "json") == 0

    assert [(row["container"], row["card"]) for row in items(command_line)] == [
        (0, "GPU-a0"),
        (1, ""),
        (2, "GPU-a1"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "4pd.io/node-nvidia-register",
        "4pd.io/node-mlu-register",
        "4pd.io/node-dcu-register",
        "HAMi.sh/node-register-nvidia",
        "HAMi.sh/node-nvidia-register",
    ],
)
def test_register_texts_of_the_forerunner_are_tables_of_cards(command_line, key):
    text = "GPU-0,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"

    assert command_line.run("decode", key, text, "-o", "json") == 0

    assert [(row["card"], row["memoryMiB"]) for row in items(command_line)] == [("GPU-0", 32768)]


def test_a_text_of_no_known_look_under_a_key_is_not_asked_for_the_key(command_line):
    assert command_line.run("decode", "example.com/key", "hello") == 1
    assert command_line.err == (
        "error: example.com/key: 'hello' looks like nothing of the protocol\n"
    )


@pytest.mark.parametrize(
    ("key", "text", "row"),
    [
        (
            "hami.io/device-scoring-weights",
            "slot=1,core=2,memory=3",
            {"slot": 1, "core": 2, "memory": 3},
        ),
        (
            "hami.io/vgpu-mig-allocations",
            '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a0","profile":"2g.10gb",'
            '"placement":{"start":4,"size":2}}]',
            {
                "container": 1,
                "share": 0,
                "card": "GPU-a0",
                "profile": "2g.10gb",
                "start": 4,
                "size": 2,
                "instance": "",
            },
        ),
        (
            "hami.io/node-nvidia-score",
            '[{"uuid":"GPU-a0","score":{"GPU-a1":50}}]',
            {"card": "GPU-a0", "peer": "GPU-a1", "score": 50},
        ),
        ("hygon.com/use-gpuuuid", "DCU-0", {"card": "DCU-0"}),
    ],
)
def test_rules_of_vendors_and_users_are_read(command_line, key, text, row):
    assert command_line.run("decode", key, text, "-o", "json") == 0
    assert items(command_line) == [row]


def test_wrong_weights_say_what_to_write(command_line):
    assert command_line.run("decode", "hami.io/device-scoring-weights", "slot=1") == 1
    assert command_line.err == (
        "unreadable: hami.io/device-scoring-weights: 'slot=1': one of slot, core and memory is "
        "missing; write all three, such as slot=1,core=1,memory=1\n"
    )


@pytest.mark.parametrize(
    ("key", "text", "cards"),
    [
        (
            "metax-tech.com/node-gpu-devices",
            '[{"uuid":"MX-a0","model":"C500","totalDevCount":16,"totalCompute":100,'
            '"totalVRam":65536,"numa":0,"healthy":true}]',
            [("MX-a0", 16, 65536)],
        ),
        (
            "enflame.com/gcu-drs-capacity",
            '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0",'
            '"6g.40gb":"2"}}',
            [("<node>-enflame-drs-0", 6, 40960)],
        ),
        (
            "hami.io/node-register-Ascend910B3",
            '[{"id":"NPU-0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3"}]',
            [("NPU-0", 4, 65536)],
        ),
    ],
)
def test_a_register_text_is_read_as_its_vendor_reads_it(command_line, key, text, cards):
    assert command_line.run("decode", key, text, "-o", "json") == 0

    rows = [(row["card"], row["slots"], row["memoryMiB"]) for row in items(command_line)]
    assert rows == cards


@pytest.mark.parametrize(
    "key",
    [
        "huawei.com/Ascend910B3",
        "metax-tech.com/gpu-devices-allocated",  # ends like a list of shares, and is none
        "enflame.com/gcu-assigned",
        "assigned-containers",
        "hami-vnpu-core",
        "nvidia.com/use-gputype",
        "hami.io/node-scheduler-policy",
    ],
)
def test_a_known_key_without_a_reader_says_so(command_line, key):
    assert command_line.run("decode", key, '[{"UUID":"NPU-0"}]') == 1
    assert command_line.err == f"error: {key}: vgpu decode does not read this form\n"


def test_every_key_of_every_vendor_is_known():
    every = registry.build(settings.with_every_vendor(settings.Settings()))

    unknown = [
        key
        for vendor in every
        for key in (
            vendor.spec.register_key,
            *vendor.spec.pod_keys,
            *vendor.spec.selection_keys,
            *vendor.spec.pod_note_keys,
            *vendor.spec.node_note_keys,
        )
        if key and annotation_keys.kind_of_key(key) is None and not annotation_keys.is_unread(key)
    ]

    assert unknown == []
