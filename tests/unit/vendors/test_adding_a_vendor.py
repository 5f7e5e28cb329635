"""A vendor is one file and one line: the one of ``docs/adding-a-vendor.md``, in the real flows."""

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from support import acme, operator_books
from vgpu_operator.cli import main
from vgpu_operator.flows import simulate
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry, roster

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "adding-a-vendor.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE, LINE = (body for kind, body in FENCE.findall(PAGE.read_text("utf-8")) if kind == "python")
(EXAMPLE,) = (body for kind, body in FENCE.findall(PAGE.read_text("utf-8")) if kind == "yaml")
POD, NODE = yaml.safe_load_all(EXAMPLE)

Json = dict[str, Any]


@pytest.fixture
def with_acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the page's line to the registry, behind the others."""
    build: Callable[[settings.Settings], roster.Roster] = registry.build

    def with_line(configured: settings.Settings) -> roster.Roster:
        found = eval(f"[*others, {LINE}]", {"others": build(configured), "acme": acme})  # noqa: S307
        return roster.Roster(tuple(found))

    monkeypatch.setattr(registry, "build", with_line)


@pytest.fixture
def world(with_acme: None) -> simulate.Simulation:
    configured = settings.Settings()
    return simulate.Simulation(configured, registry.build(configured), patient=True)


def placed(world: simulate.Simulation, pod: Json) -> simulate.Placed:
    admitted = world.admit(pod)
    assert admitted.verdict.allowed, admitted.verdict.message
    return world.place(world.record(admitted.pod), ("node-1",), operator_books.NOW)


def pod(name: str, *, notes: Mapping[str, str] | None = None, **limits: str) -> Json:
    own = {f"acme.example/{word}": value for word, value in limits.items()}
    container = {"name": "main", "image": "x", "resources": {"limits": own}}
    metadata = {"name": name, "namespace": "team-a", "annotations": dict(notes or {})}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def test_the_page_shows_the_file_that_is_tested_here() -> None:
    assert pathlib.Path(acme.__file__).read_text("utf-8") == CODE


def test_a_node_registers_its_cards_and_is_stamped(world: simulate.Simulation) -> None:
    written = world.see_nodes([NODE], operator_books.NOW)

    assert [card.id for card in world.devices("node-1")["Acme"]] == ["AC-0", "AC-1"]
    (stamp,) = written["node-1"].values()
    assert list(written["node-1"]) == ["hami.io/node-handshake-acme"]
    assert str(stamp).startswith("Requesting_")


def test_admission_gives_its_pods_to_the_scheduler(world: simulate.Simulation) -> None:
    admitted = world.admit(POD)

    assert admitted.pod["spec"]["schedulerName"] == settings.Settings().scheduler_name


def test_admission_refuses_nonsense_and_strips_its_keys(world: simulate.Simulation) -> None:
    nonsense = world.admit(pod("p1", card="1", memory="-4"))
    forged = world.admit(pod("p2", notes={"hami.io/acme-devices-allocated": "x"}, card="1"))

    assert nonsense.verdict.message == (
        "container main: acme.example/memory: '-4' is negative; write MiB, such as 4000"
    )
    assert "hami.io/acme-devices-allocated" not in forged.pod["metadata"]["annotations"]


def test_a_pod_is_filtered_and_bound_under_the_nodes_lock(world: simulate.Simulation) -> None:
    world.see_nodes([NODE], operator_books.NOW)

    found = placed(world, POD)

    assert found.node == "node-1"
    assert found.bound is not None
    assert found.bound.error == ""
    texts = found.bound.annotations
    assert texts["hami.io/acme-devices-to-allocate"] == "AC-0,Acme,4000,0:;"
    assert texts["hami.io/acme-devices-allocated"] == "AC-0,Acme,4000,0:;"
    assert texts["hami.io/vgpu-node"] == "node-1"
    assert list(found.bound.node_annotations) == ["hami.io/mutex.lock"]
    assert [(card.device.id, card.used_memory_mib) for card in found.usage] == [("AC-0", 4000)]


def test_equal_cards_go_by_their_index(world: simulate.Simulation) -> None:
    world.see_nodes([NODE], operator_books.NOW)

    found = placed(world, pod("p1", card="1", memory="4000"))

    assert [card.device.id for card in found.usage] == ["AC-1"]


def test_a_full_card_is_refused_with_the_vendors_own_word_beside(
    world: simulate.Simulation,
) -> None:
    world.see_nodes([NODE], operator_books.NOW)
    water = {acme.COOLING: "water"}

    first = placed(world, pod("p1", notes=water, card="1", memory="12001"))
    second = placed(world, pod("p2", notes=water, card="1", memory="4000"))

    assert first.node == "node-1"
    assert second.node is None
    assert str(second.rejections["node-1"]) == "1/2 CardInsufficientMemory, 1/2 CardTooWarm"


@pytest.mark.usefixtures("with_acme")
def test_the_command_line_knows_it_too(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(EXAMPLE, encoding="utf-8")

    code = main.answer(["simulate", "-f", str(file), "-o", "json"])

    assert code == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert [share["card"] for share in row["shares"]] == ["AC-0"]


def test_what_the_page_says_of_import_and_contract_is_there_to_be_followed() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    root = PAGE.parents[1]
    registry_text = pathlib.Path(registry.__file__).read_text("utf-8")

    assert "`acme,` among the imports of `vgpu_operator.vendors`" in page
    assert "from vgpu_operator.vendors import (\n    amd,\n" in registry_text
    assert "write `(acme) |` before `(amd)`" in page
    assert '"(amd) | ' in (root / "pyproject.toml").read_text("utf-8")
    for file in re.findall(r"`(agent/[a-z]+\.py)`", page):
        assert (root / "operator" / "vgpu_operator" / file).is_file()
