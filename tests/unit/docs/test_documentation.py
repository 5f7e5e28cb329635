"""The documentation says what the code does: generated parts, links, examples, keys."""

import importlib.util
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_operator.agent import spec as simulation
from vgpu_operator.cli.cluster import scheduler_config
from vgpu_operator.model import request, settings
from vgpu_operator.vendors import base, registry, requests
from vgpu_operator.wire import keys, node_lock, node_register, pod_devices

ROOT = Path(__file__).resolve().parents[3]
VENDORS = registry.build(settings.Settings())
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _generator() -> types.ModuleType:
    path = ROOT / "tools" / "generate_docs.py"
    found = importlib.util.spec_from_file_location("generate_docs", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


GENERATOR = _generator()
PAGES: tuple[Path, ...] = GENERATOR.markdown_files()


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _examples(page: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(_text(page)) if kind == language]


def _yaml(page: str, marker: str) -> Any:
    """Return the one YAML example of a page that holds the marker."""
    (text,) = [text for text in _examples(page, "yaml") if marker in text]
    return yaml.safe_load(text)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", text.lower()).replace(" ", "-") for text in headings}


def _links() -> Iterator[Any]:
    for page in PAGES:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            yield pytest.param(page, target, id=f"{page.relative_to(ROOT)} to {target}")


# Generated parts.


def test_every_generated_part_follows_from_the_code() -> None:
    stale = [str(path.relative_to(ROOT)) for path in GENERATOR.stale_files()]

    assert stale == [], "run make docs"


def test_every_block_stands_somewhere() -> None:
    everything = "".join(page.read_text(encoding="utf-8") for page in PAGES)

    unused = [name for name in GENERATOR.BLOCKS if f"<!-- generated: {name} -->" not in everything]

    assert unused == []


def test_writing_twice_changes_nothing() -> None:
    once = GENERATOR.rewrite("# A\n<!-- generated: events -->\nold\n<!-- end -->\nrest\n")

    assert GENERATOR.rewrite(once) == once
    assert "old" not in once
    assert once.startswith("# A\n")
    assert once.endswith("rest\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<!-- generated: nothing -->\n<!-- end -->", id="an unknown name"),
        pytest.param("<!-- generated: events -->\n", id="no end"),
        pytest.param("<!-- generated: Events! -->\n<!-- end -->", id="a name in other letters"),
    ],
)
def test_a_bad_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="block"):
        GENERATOR.rewrite(text)


def test_check_names_each_stale_file_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text("<!-- generated: events -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(GENERATOR, "ROOT", tmp_path)

    code = GENERATOR.main(["--check"])

    assert code == 1
    assert capsys.readouterr().out == "README.md is stale; run make docs\n"
    assert "old" in page.read_text()


# Links.


@pytest.mark.parametrize(("page", "target"), list(_links()))
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page

    assert file.exists()
    assert file.is_relative_to(ROOT)
    assert not anchor or anchor in _anchors(file)


def test_every_decision_is_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = {page.name for page in folder.glob("[0-9]*.md")}

    assert pages == set(
        re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", _text("docs/decisions/README.md"))
    )


# Examples.


def test_the_readmes_pod_asks_for_one_share_of_one_card() -> None:
    pod = _yaml("README.md", "kind: Pod")

    wish = requests.pod_request(pod, VENDORS, aliases={})

    assert pod["spec"]["schedulerName"] == settings.Settings().scheduler_name
    assert wish.impossible == ""
    assert [container.devices for container in wish.containers] == [
        (
            request.DeviceRequest(
                vendor="NVIDIA", count=1, memory_mib=4000, memory_percent=None, cores_percent=30
            ),
        )
    ]


def test_the_pages_scheduler_asks_as_the_local_clusters_one_does() -> None:
    shown = _yaml("docs/how-to/outside-a-cluster.md", "KubeSchedulerConfiguration")
    used: dict[str, Any] = scheduler_config.scheduler_configuration(
        scheduler_name=settings.Settings().scheduler_name,
        extender_url="http://127.0.0.1:8080",
        managed_resources=VENDORS[0].spec.resources,
    )

    (extender,) = shown["extenders"]
    (used_extender,) = used["extenders"]
    assert extender == {name: value for name, value in used_extender.items() if value}
    assert shown["profiles"] == used["profiles"]
    assert shown["percentageOfNodesToScore"] == used["percentageOfNodesToScore"]


def test_the_pages_simulated_nodes_can_be_played() -> None:
    played = simulation.build(_yaml("docs/how-to/without-gpus.md", "prefix:"))

    names = [name for node in played.nodes for name in node.names]
    assert names[:2] == ["sim-a", "sim-1"]
    assert len(names) == 21
    assert len(played.nodes[1].devices_of("sim-1")["NVIDIA"]) == 8


def test_the_settings_file_of_the_documentation_is_good() -> None:
    built = settings.build(_yaml("docs/configuration.md", "schedulerName"))

    assert built.vendors.nvidia.default_memory == 4000
    assert built.bind.stuck_after_s == 30


def test_the_texts_of_the_protocol_page_can_be_read() -> None:
    (register,) = _examples("docs/protocol.md", "json")
    colon, stamp, lock, devices = (
        text.split("\n")[0] for text in _examples("docs/protocol.md", "text")
    )

    assert node_register.decode_register(register) == node_register.decode_register(colon)
    assert stamp == "Requesting_2026-01-15 10:00:00"
    assert node_lock.decode_lock(lock).pod == "train"
    assert [len(c) for c in pod_devices.decode_pod_devices(devices).shares] == [1, 0, 2]


# Keys.


def _keys(*vendors: base.Vendor) -> Iterator[str]:
    for vendor in vendors:
        for field in base.VendorSpec.__dataclass_fields__:
            value = getattr(vendor.spec, field)
            if field.endswith("_key") and value:
                yield value
            elif field.endswith("_keys"):
                yield from value


SHARED = {value for name, value in vars(keys).items() if name.isupper() and "/" in value}


@pytest.mark.parametrize("key", sorted(SHARED | set(_keys(VENDORS[0]))))
def test_a_key_is_explained_by_hand_and_in_a_table(key: str) -> None:
    text = _text("docs/protocol.md")
    by_hand = re.sub(r"<!-- generated: .*?<!-- end -->", "", text, flags=re.DOTALL)

    assert f"`{key}`" in text
    assert f"`{key}`" in by_hand
