"""The pages of the vendors: one a family, every example placed by ``vgpu simulate``."""

import json
import pathlib
import re
from typing import Any

import pytest
import vendor_docs
import vendor_examples
import yaml

from vgpu_operator.cli import main
from vgpu_operator.kube import clock
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "vendors"
ON = {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
CHIPS = ("ascend", "iluvatar")
WRITTEN = re.compile(
    r"^\| (admission|Binding|bind) \| (?:node )?annotation (.*?) \| `(.*)` \|$", re.M
)
PARTS = {"admission": "admission", "Binding": "binding", "bind": "node"}
"""Who writes, as the pages and as the command call it."""


def _examples() -> list[Any]:
    found = []
    for family in vendor_docs.families():
        page = (FOLDER / f"{family}.md").read_text(encoding="utf-8")
        for number, (text, configured) in enumerate(vendor_examples.examples(page)):
            found.append(pytest.param(text, configured, id=f"{family} {number}"))
    return found


def test_every_family_has_a_page_and_every_page_a_family() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md")}

    assert pages == {"README", *vendor_docs.families()}


def test_every_vendor_has_a_page_that_the_overview_links() -> None:
    overview = (FOLDER / "README.md").read_text(encoding="utf-8")
    vendors = registry.build(settings.build({"vendors": ON}))
    modules = {type(vendor).__module__.rpartition(".")[2] for vendor in vendors}
    families = {module.partition("_")[0] for module in modules}

    assert families == set(vendor_docs.families())
    assert [name for name in sorted(families) if f"({name}.md)" not in overview] == []


@pytest.mark.parametrize("family", vendor_docs.families())
def test_no_key_stands_twice_in_a_table(family: str) -> None:
    rows = [row.split(" | ")[:3] for row in vendor_docs.vendor_keys(family).splitlines()]

    assert [row for row in rows if rows.count(row) > 1] == []


@pytest.mark.parametrize(("text", "configured"), _examples())
def test_an_example_is_placed_by_vgpu_simulate(
    text: str, configured: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example, config = tmp_path / "example.yaml", tmp_path / "config.yaml"
    example.write_text(text, encoding="utf-8")
    config.write_text(yaml.safe_dump(configured), encoding="utf-8")

    code = main.answer(["simulate", "-f", str(example), "--config", str(config), "-o", "json"])

    assert code == 0
    rows = json.loads(capsys.readouterr().out)["items"]
    pods = [raw for raw in yaml.safe_load_all(text) if raw["kind"] == "Pod"]
    assert [(row["pod"], row["node"]) for row in rows] == [
        (pod["metadata"]["name"], "node-1") for pod in pods
    ]
    assert all(row["shares"] for row in rows)


@pytest.mark.parametrize(("text", "configured"), _examples())
def test_vgpu_simulate_prints_what_the_page_says_is_written(
    text: str,
    configured: Any,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock.SystemClock, "now", lambda _: vendor_examples.NOW)
    example, config = tmp_path / "example.yaml", tmp_path / "config.yaml"
    example.write_text(text, encoding="utf-8")
    config.write_text(yaml.safe_dump(configured), encoding="utf-8")
    above = "".join(f"```yaml\n{part}```\n" for part in (config.read_text("utf-8"), text))
    said = [
        (PARTS[writer], key, shown)
        for writer, keys, shown in WRITTEN.findall(vendor_examples.placed(above))
        for key in re.findall("`([^`]+)`", keys)
    ]

    main.answer(["simulate", "-f", str(example), "--config", str(config), "-o", "json"])

    rows = json.loads(capsys.readouterr().out)["items"]
    written = {
        (part, key, shown)
        for row in rows
        for part, texts in row["written"].items()
        for key, shown in texts.items()
    }
    assert said
    assert [one for one in said if one not in written] == []


def test_every_vendor_but_the_chips_has_an_example() -> None:
    asked = {
        name
        for example in _examples()
        for raw in yaml.safe_load_all(example.values[0])
        if raw["kind"] == "Pod"
        for container in raw["spec"]["containers"]
        for name in container["resources"]["limits"]
    }
    vendors = registry.build(settings.build({"vendors": ON}))

    without = [vendor.spec.keyword for vendor in vendors if not asked & set(vendor.spec.resources)]

    assert all(
        type(vendor).__module__.endswith(CHIPS)
        for vendor in vendors
        if vendor.spec.keyword in without
    )


def test_every_example_shows_what_becomes_of_it() -> None:
    for family in vendor_docs.families():
        page = (FOLDER / f"{family}.md").read_text(encoding="utf-8")

        shown = page.count("<!-- generated: placed -->")

        assert shown == len(list(vendor_examples.examples(page))), family


def test_an_example_that_finds_no_node_is_no_example() -> None:
    page = (FOLDER / "nvidia.md").read_text(encoding="utf-8")
    broken = page.replace("nvidia.com/gpumem: 4000 ", "nvidia.com/gpumem: 40000 ")
    above = broken[: broken.index("<!-- generated: placed -->")]

    with pytest.raises(ValueError, match="train is not placed"):
        vendor_examples.placed(above)


@pytest.mark.parametrize("vendor", registry.build(settings.build({"vendors": ON})))
def test_a_page_names_every_key_and_resource_of_its_vendors(vendor: Any) -> None:
    family = type(vendor).__module__.rpartition(".")[2].partition("_")[0]
    page = (FOLDER / f"{family}.md").read_text(encoding="utf-8")
    spec = vendor.spec
    fields = (name for name in type(spec).__dataclass_fields__ if name.endswith("_key"))
    keys = (key for key in (spec.lock_key, *(getattr(spec, field) for field in fields)) if key)
    names = (*spec.resources, *spec.pod_keys, *spec.pod_note_keys, *spec.node_note_keys, *keys)

    missing = [
        name
        for name in names
        if f"`{name}`" not in page and f"`{name.replace(spec.keyword, '<chip>')}`" not in page
    ]

    assert missing == []
