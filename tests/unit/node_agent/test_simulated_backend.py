"""Simulated cards: what the file may say, what is made of it, and what a container gets."""

import asyncio
from pathlib import Path

import pytest

from support import node_agent_world
from vgpu_operator.model import errors
from vgpu_operator.node_agent import backend
from vgpu_operator.node_agent.backends import simulated

NODE = "node-1"


def read(text: str, folder: Path) -> tuple[str, tuple[object, ...]]:
    file = folder / "cards.yaml"
    file.write_text(text)
    return simulated.read(file, node=NODE)


def test_a_number_of_cards_alike(tmp_path: Path):
    vendor, cards = read("{cards: 2, memory: 16384, slots: 4, type: NVIDIA-Tesla T4}", tmp_path)

    assert vendor == "NVIDIA"
    assert [(card.id, card.index, card.memory_mib, card.slots, card.type) for card in cards] == [
        ("GPU-node-1-0", 0, 16384, 4, "NVIDIA-Tesla T4"),
        ("GPU-node-1-1", 1, 16384, 4, "NVIDIA-Tesla T4"),
    ]


@pytest.mark.parametrize("name", ["cards", "devices"])
def test_a_list_of_cards(tmp_path: Path, name: str):
    text = f"{name}: [{{id: GPU-x, memory: 1000}}, {{healthy: false, count: 3}}]"
    _, cards = read(text, tmp_path)

    assert [(card.id, card.memory_mib, card.healthy, card.slots) for card in cards] == [
        ("GPU-x", 1000, True, 10),
        ("GPU-node-1-1", 24576, False, 3),
    ]


def test_json_is_read_as_well(tmp_path: Path):
    assert len(read('{"cards": 3}', tmp_path)[1]) == 3


def test_single_cards_fall_ill(tmp_path: Path):
    _, cards = read("{cards: 2, failures: {unhealthy: [GPU-node-1-1]}}", tmp_path)

    assert [card.healthy for card in cards] == [True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "describes no card: write how many, as cards: 2"),
        ("cards: 0", "describes no card"),
        ("3", "describes no card"),
        ("{cards: 2, name: other}", "wrong at name: there is no such field of cards; there are"),
        ("{cards: 2, devices: []}", "cards and devices are the same; write one"),
        ("{cards: two}", "wrong at nodes.0.cards"),
        ("{cards: 1, vendor: ACME}", "wrong at nodes.0.vendor: 'ACME' is none of NVIDIA"),
        ("cards: [{vendor: NVIDIA}, {vendor: DCU}]", "NVIDIA and DCU: an agent serves one vendor"),
        ("cards: [", "cards.yaml"),
        (
            "{cards: 2, failures: {unhealthy: [GPU-typo]}}",
            "wrong at failures.unhealthy: there is no card 'GPU-typo'; there are GPU-node-1-0, "
            "GPU-node-1-1",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, says: str):
    with pytest.raises(errors.SettingsError) as refused:
        read(text, tmp_path)

    assert says in str(refused.value)
    assert "cards.yaml" in str(refused.value)


async def test_a_bad_new_text_keeps_the_last_good_cards_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 1")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    assert len(await made.cards()) == 1
    changes = made.changes()

    file.write_text("cards: many")
    coming = asyncio.ensure_future(anext(changes))
    said = ""
    while "kept the cards as they were" not in said:
        await asyncio.sleep(0.01)
        said += capsys.readouterr().out
    assert not coming.done()
    file.write_text("cards: 2")

    assert len(await coming) == 2
    assert said.count("kept the cards") == 1


async def test_a_file_whose_vendor_changes_keeps_the_cards_that_are_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 1")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    await made.cards()
    changes = made.changes()

    file.write_text("{cards: 1, vendor: DCU}")
    coming = asyncio.ensure_future(anext(changes))
    said = [""]

    def is_told() -> bool:
        said[0] += capsys.readouterr().out
        return "describes cards of DCU, and this agent serves NVIDIA: start it again" in said[0]

    await node_agent_world.until(is_told)
    assert not coming.done()
    file.write_text("cards: 2")

    assert [card.id for card in await coming] == ["GPU-node-1-0", "GPU-node-1-1"]


async def test_a_file_that_stays_the_same_is_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    parsed, looks = [], []
    parse, text = simulated._parse, simulated._text
    monkeypatch.setattr(
        simulated, "_parse", lambda *told, **more: (parsed.append(told[0]), parse(*told, **more))[1]
    )
    monkeypatch.setattr(simulated, "_text", lambda file: (looks.append(file), text(file))[1])
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 1")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    await made.cards()

    coming = asyncio.ensure_future(anext(made.changes()))
    await node_agent_world.until(lambda: len(looks) >= 5)
    file.write_text("cards: 2")
    await coming

    assert parsed == ["cards: 1", "cards: 1", "cards: 2"]


async def test_a_wrong_text_that_is_taken_back_is_told_again_when_it_returns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 1")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    await made.cards()
    changes = made.changes()
    said = ""

    for times, text in ((1, "cards: many"), (2, "cards: many")):
        file.write_text(text)
        coming = asyncio.ensure_future(anext(changes))
        while said.count("kept the cards") < times:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().out
        file.write_text(f"cards: {times + 1}")
        assert len(await coming) == times + 1


async def test_a_container_gets_its_limits_and_a_stand_in_that_shows_them(tmp_path: Path):
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 2")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    cards = await made.cards()
    holder = backend.Holder(namespace="default", pod="p1", uid="u1", container="main")

    grant = made.grant(holder, (backend.Slice(card=cards[1], memory_mib=3000, cores_percent=30),))

    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-node-1-1"
    assert [(one.container_path, one.host_path, one.read_only) for one in grant.mounts] == [
        ("/usr/bin/nvidia-smi", str(tmp_path / "host/nvidia-smi"), True)
    ]
    assert (tmp_path / "host/nvidia-smi").is_file()
    assert grant.devices == ()


async def test_without_a_folder_for_the_stand_in_containers_get_their_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "cards.yaml"
    file.write_text("cards: 1")
    (tmp_path / "host").write_text("a file")
    made = simulated.SimulatedBackend(file, node=NODE, host_dir=tmp_path / "host")
    cards = await made.cards()
    holder = backend.Holder(namespace="default", pod="p1", uid="u1", container="main")

    grant = made.grant(holder, (backend.Slice(card=cards[0], memory_mib=1, cores_percent=0),))

    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1m"
    assert grant.mounts == ()
    assert "containers get no nvidia-smi" in capsys.readouterr().out
