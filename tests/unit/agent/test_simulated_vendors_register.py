"""What each vendor's simulated plugin registers, and what the operator reads of it.

Texts, counts and cards are written out by hand from what HAMi's back ends read
and the vendors' plugins write.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from support.agent_world import world
from vgpu_operator.agent import cards, plugins, spec
from vgpu_operator.flows import books, register
from vgpu_operator.kube import clock
from vgpu_operator.model import errors, settings
from vgpu_operator.vendors import records, registry

EVERYTHING = settings.build(
    {"vendors": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}}
)
VENDORS = registry.build(EVERYTHING)
KEYWORDS = [vendor.spec.keyword for vendor in VENDORS]
TIME = "2026-01-15 10:00:00"

Json = dict[str, Any]


def colon(*cards_text: str) -> str:
    return "".join(f"{text}:" for text in cards_text)


def listed(*entries: Json) -> list[Json]:
    """Return JSON cards, each healthy."""
    return [{**entry, "health": True} for entry in entries]


def ascend(word: str, memory: int, cores: int, network: int | None) -> list[Json]:
    info = {} if network is None else {"custominfo": {"NetworkID": network}}
    common = {"count": 4, "devmem": memory, "devcore": cores, "type": word}
    return listed(
        {"id": f"{word}-n1-0", **common, **info},
        {"id": f"{word}-n1-1", "index": 1, **common, **info},
    )


def plain(prefix: str, **members: Any) -> list[Json]:
    return listed(
        {"id": f"{prefix}n1-0", **members}, {"id": f"{prefix}n1-1", "index": 1, **members}
    )


def iluvatar(word: str) -> str:
    return colon(
        f"{word}-n1-0,10,32768,100,{word},0,true,0,hami-core",
        f"{word}-n1-1,10,32768,100,{word},0,true,1,hami-core",
    )


# By keyword, for a node n1 with two of the vendor's usual cards: annotations of the
# node (a list or an object stands for its JSON), and its counts.
REGISTERED: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "NVIDIA": (
        {
            "hami.io/node-nvidia-register": plain(
                "GPU-", count=10, devmem=24576, devcore=100, type="NVIDIA A10", mode="hami-core"
            )
        },
        {"nvidia.com/gpu": "20"},
    ),
    "MLU": (
        {},
        # 100 a card; 24576 MiB are 96 units of 256 MiB.
        {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192"},
    ),
    "DCU": (
        {
            "hami.io/node-dcu-register": colon(
                "DCU-n1-0,4,16384,100,DCU-K100_AI,0,true,0,hami-core",
                "DCU-n1-1,4,16384,100,DCU-K100_AI,0,true,1,hami-core",
            ),
            "hami.io/node-handshake-dcu": f"Reported {TIME}",
        },
        {"hygon.com/dcunum": "8"},
    ),
    "GCU": ({}, {"enflame.com/gcu": "2"}),
    "Enflame": (
        {
            "enflame.com/gcu-drs-capacity": {
                "devices": [
                    {"index": "0", "minor": "0", "capacity": 6},
                    {"index": "1", "minor": "1", "capacity": 6},
                ],
                "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
            }
        },
        {"enflame.com/drs-gcu": "12"},
    ),
    # 16 a card; 49152 MiB are 96 units of 512 MiB.
    "Mthreads": ({}, {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}),
    "Metax-GPU": ({}, {"metax-tech.com/gpu": "2"}),
    "Metax-SGPU": (
        {
            "metax-tech.com/node-gpu-devices": [
                {
                    "uuid": f"MX-n1-{index}",
                    "model": "C500",
                    "totalDevCount": 16,
                    "totalCompute": 100,
                    "totalVRam": 32768,
                    "healthy": True,
                }
                for index in range(2)
            ]
        },
        {"metax-tech.com/sgpu": "32"},
    ),
    "kunlun": ({}, {"kunlunxin.com/xpu": "2"}),
    "XPU": (
        {
            "hami.io/node-register-xpu": plain(
                "XPU-", count=4, devmem=98304, devcore=100, type="XPU"
            ),
            "hami.io/node-handshake-xpu": f"Reported_{TIME}",
        },
        {"kunlunxin.com/vxpu": "8"},
    ),
    "AWSNeuron": ({}, {"aws.amazon.com/neuron": "2", "aws.amazon.com/neuroncore": "4"}),
    "AMD": (
        {
            "hami.io/node-amd-register": plain(
                "AMD-",
                count=10,
                devmem=196608,
                devcore=304,
                type="AMD Instinct MI300X VF",
                mode="hami-core",
            )
        },
        {"amd.com/gpu": "20"},
    ),
    "Vastai": (
        {
            "hami.io/node-va-register": plain(
                "VA-", count=1, devmem=32768, devcore=100, type="Vastai"
            ),
            "hami.io/node-handshake-va": f"Reported_{TIME}",
        },
        {"vastaitech.com/va": "2"},
    ),
    "Biren": (
        {
            "hami.io/node-biren-register": plain(
                "BR-", count=1, devmem=65024, devcore=100, type="Biren"
            ),
            "hami.io/node-handshake-biren": f"Reported_{TIME}",
        },
        {"birentech.com/gpu": "2"},
    ),
    **{
        word: (
            {
                f"hami.io/node-register-{word}": ascend(word, memory, cores, network),
                f"hami.io/node-handshake-{word}": "Reported_2026.01.15 10:00:00",
                "hami-vnpu-core": "false",
            },
            {f"huawei.com/{word}": "8"},
        )
        for word, memory, cores, network in (
            ("Ascend910A", 32768, 30, 0),
            ("Ascend910B2", 65536, 24, 0),
            ("Ascend910B3", 65536, 20, 0),
            ("Ascend910B4-1", 65536, 20, 0),
            ("Ascend910B4", 32768, 20, 0),
            ("Ascend310P", 21527, 8, None),
            ("Ascend910C", 65536, 20, 0),
        )
    },
    **{
        word: (
            {
                f"hami.io/node-{word}-register": iluvatar(word),
                f"hami.io/node-handshake-{word}": f"Reported_{TIME}",
            },
            {f"iluvatar.ai/{word}-vgpu": "20"},
        )
        for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
    },
}

# By keyword: ids, slots, MiB, cores, type and NUMA nodes as the operator must read them.
READ: Mapping[str, tuple[tuple[str, str], int, int, int, str, tuple[int, int]]] = {
    "NVIDIA": (("GPU-n1-0", "GPU-n1-1"), 10, 24576, 100, "NVIDIA A10", (0, 0)),
    "MLU": (("n1-cambricon-mlu-0", "n1-cambricon-mlu-1"), 100, 24576, 100, "MLU", (0, 0)),
    "DCU": (("DCU-n1-0", "DCU-n1-1"), 4, 16384, 100, "DCU-K100_AI", (0, 0)),
    "GCU": (("n1-GCU-0", "n1-GCU-1"), 1, 100, 100, "GCU", (0, 0)),
    "Enflame": (("n1-enflame-drs-0", "n1-enflame-drs-1"), 6, 40960, 100, "Enflame", (0, 0)),
    "Mthreads": (("n1-mthreads-0", "n1-mthreads-1"), 100, 49152, 16, "Mthreads", (0, 0)),
    "Metax-GPU": (("n1-metax-0", "n1-metax-1"), 1, 65536, 100, "Metax-GPU", (0, 0)),
    "Metax-SGPU": (("MX-n1-0", "MX-n1-1"), 16, 32768, 100, "Metax-SGPU", (0, 0)),
    "kunlun": (("n1-kunlun-0", "n1-kunlun-1"), 100, 98304, 100, "kunlun", (0, 1)),
    "XPU": (("XPU-n1-0", "XPU-n1-1"), 4, 98304, 100, "XPU", (0, 0)),
    "AWSNeuron": (("n1-AWSNeuron-0", "n1-AWSNeuron-1"), 2, 0, 3, "AWSNeuron", (0, 0)),
    "AMD": (("AMD-n1-0", "AMD-n1-1"), 10, 196608, 304, "AMD Instinct MI300X VF", (0, 0)),
    "Vastai": (("VA-n1-0", "VA-n1-1"), 1, 32768, 100, "Vastai", (0, 0)),
    "Biren": (("BR-n1-0", "BR-n1-1"), 1, 65024, 100, "Biren", (0, 0)),
    **{
        word: ((f"{word}-n1-0", f"{word}-n1-1"), 4, memory, cores, word, (0, 0))
        for word, memory, cores in (
            ("Ascend910A", 32768, 30),
            ("Ascend910B2", 65536, 24),
            ("Ascend910B3", 65536, 20),
            ("Ascend910B4-1", 65536, 20),
            ("Ascend910B4", 32768, 20),
            ("Ascend310P", 21527, 8),
            ("Ascend910C", 65536, 20),
        )
    },
    **{
        word: ((f"{word}-n1-0", f"{word}-n1-1"), 10, 32768, 100, word, (0, 0))
        for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
    },
}


def readable(texts: Mapping[str, str]) -> dict[str, Any]:
    return {key: json.loads(text) if text[:1] in "[{" else text for key, text in texts.items()}


def read_cards(node: Json, keyword: str) -> tuple[Any, ...]:
    """Return the cards that the operator holds after it has seen that node."""
    known = books.open_books(EVERYTHING, VENDORS)
    record = records.node_record(node, VENDORS)
    register.node_seen(known, record, clock.SystemClock().now())
    return tuple(known.ledger.devices("n1", keyword))


def test_every_vendor_is_played() -> None:
    assert len(KEYWORDS) == 25
    assert list(REGISTERED) == KEYWORDS == list(READ)
    assert list(plugins.every_plugin(settings.Settings())) == KEYWORDS
    assert list(cards.MODELS) == KEYWORDS


@pytest.mark.parametrize("keyword", KEYWORDS)
async def test_a_vendor_registers_in_its_own_way(keyword: str) -> None:
    notes, counts = REGISTERED[keyword]

    async with world({"name": "n1", "cards": 2, "vendor": keyword}) as w:
        status = w.node("n1")["status"]

        assert readable(w.node_notes("n1")) == dict(notes)
        for of in ("capacity", "allocatable"):
            own = {name: count for name, count in status[of].items() if "/" in name}
            assert own == dict(counts)


@pytest.mark.parametrize("keyword", KEYWORDS)
async def test_the_operator_reads_the_cards_that_a_vendor_registers(keyword: str) -> None:
    ids, slots, memory, cores, kind, numas = READ[keyword]

    async with world({"name": "n1", "cards": 2, "vendor": keyword}) as w:
        found = read_cards(w.node("n1"), keyword)

    assert [card.id for card in found] == list(ids)
    assert [card.index for card in found] == [0, 1]
    assert [card.numa for card in found] == list(numas)
    for card in found:
        assert (card.slots, card.memory_mib, card.cores_percent) == (slots, memory, cores)
        assert (card.type, card.healthy) == (kind, True)


@pytest.mark.parametrize("keyword", KEYWORDS)
async def test_a_vanished_plugin_leaves_nothing_allocatable_and_the_capacity(keyword: str) -> None:
    _, counts = REGISTERED[keyword]

    async with world({"name": "n1", "cards": 2, "vendor": keyword}) as w:
        await w.sim.node("n1").vanish()
        status = w.node("n1")["status"]

        assert {name: status["allocatable"][name] for name in counts} == dict.fromkeys(counts, "0")
        assert {name: status["capacity"][name] for name in counts} == dict(counts)


async def test_several_vendors_register_on_one_node_each_from_index_0() -> None:
    listed = [{"vendor": "NVIDIA"}, {"vendor": "DCU"}, {"vendor": "MLU"}, {"vendor": "DCU"}]

    async with world({"name": "n1", "cards": listed}) as w:
        node = w.node("n1")

    assert [card.id for card in read_cards(node, "NVIDIA")] == ["GPU-n1-0"]
    assert [card.id for card in read_cards(node, "DCU")] == ["DCU-n1-0", "DCU-n1-1"]
    assert [card.id for card in read_cards(node, "MLU")] == ["n1-cambricon-mlu-0"]


async def test_a_neuron_node_says_its_instance_type_unless_the_file_does() -> None:
    label = "node.kubernetes.io/instance-type"
    other = {"name": "n1", "cards": 1, "vendor": "AWSNeuron", "labels": {label: "trn1.32xlarge"}}

    async with world({"name": "n1", "cards": 1, "vendor": "AWSNeuron"}) as w:
        assert w.node("n1")["metadata"]["labels"][label] == "inf2.48xlarge"
    async with world(other) as w:
        assert w.node("n1")["metadata"]["labels"][label] == "trn1.32xlarge"


async def test_what_a_card_adds_reaches_the_operator() -> None:
    dies = [
        {"vendor": "Vastai", "id": f"d{n}", "info": {"DeviceStrategy": "die", "AIC": aic}}
        for n, aic in enumerate(("1", "2"))
    ]

    async with world({"name": "n1", "cards": dies}) as w:
        found = read_cards(w.node("n1"), "Vastai")

    assert [dict(card.custom_info) for card in found] == [
        {"DeviceStrategy": "die", "AIC": "1"},
        {"DeviceStrategy": "die", "AIC": "2"},
    ]


async def test_a_mig_card_registers_its_profiles() -> None:
    card = {
        "mode": "mig",
        "migProfiles": [
            {"name": "2g.10gb", "memory": 10240, "cores": 28, "slices": 2, "placements": [[0, 2]]}
        ],
    }

    async with world({"name": "n1", "cards": [card]}) as w:
        (found,) = read_cards(w.node("n1"), "NVIDIA")

    (profile,) = found.mig_profiles
    assert (profile.name, profile.memory_mib, profile.cores_percent) == ("2g.10gb", 10240, 28)
    assert [(place.start, place.size) for place in profile.placements] == [(0, 2)]


async def test_the_files_annotations_are_kept_up_and_win() -> None:
    soft = {"hami-vnpu-core": "true"}

    async with world({"name": "n1", "cards": 1, "vendor": "Ascend910B3", "annotations": soft}) as w:
        assert w.node_notes("n1")["hami-vnpu-core"] == "true"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        pytest.param({"vendor": "MLU", "count": 3}, "the file can say memory", id="count"),
        pytest.param({"vendor": "kunlun", "id": "x"}, "can say how many there are", id="id"),
        pytest.param({"vendor": "GCU", "memory": 9}, "memory of GCU cards follows", id="memory"),
    ],
)
def test_what_no_plugin_can_tell_of_a_card_is_refused(entry: Json, words: str) -> None:
    with pytest.raises(errors.SettingsError, match=words):
        spec.build({"name": "n1", "cards": [entry]})
    with pytest.raises(errors.SettingsError, match="slots of GCU cards follows"):
        spec.build({"name": "n1", "cards": 1, "vendor": "GCU", "slots": 2})
