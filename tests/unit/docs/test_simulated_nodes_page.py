"""The example and the tables of ``docs/simulated-nodes.md`` say what the code does."""

import re
from pathlib import Path

import yaml

from vgpu_operator.agent import manners as vendor_manners
from vgpu_operator.agent import plugins, spec, spec_cards
from vgpu_operator.model import settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "simulated-nodes.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_pages_example_can_be_played_and_has_several_vendors_on_a_node() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)

    played = spec.build(yaml.safe_load(example))

    vendors = {
        name: {vendor: len(cards) for vendor, cards in node.devices_of(name).items()}
        for node in played.nodes
        for name in node.names
    }
    assert vendors == {
        "gpu-1": {"NVIDIA": 2},
        "dcu-1": {"DCU": 8},
        "dcu-2": {"DCU": 8},
        "dcu-3": {"DCU": 8},
        "mlu-1": {"MLU": 4},
        "npu-1": {"Ascend910B3": 8},
        "dies": {"Vastai": 2},
        "mixed": {"NVIDIA": 2, "DCU": 1, "GCU": 1},
        "dying": {"NVIDIA": 2},
    }


def test_every_field_of_the_file_is_named() -> None:
    sections = (spec.Node, spec.Failures, spec_cards.Card, spec_cards.MigProfile)
    fields = {
        field.alias or name for section in sections for name, field in section.model_fields.items()
    }

    missing = {name for name in fields if not re.search(rf"\b{name}\b", TEXT)}
    assert missing == set()


def test_every_vendor_has_a_row_that_says_how_its_pods_end() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", TEXT, re.MULTILINE))

    ways = {
        vendor_manners.Serving.ENTRY: "by entry",
        vendor_manners.Serving.MARK: "by mark",
        vendor_manners.Serving.NOTHING: "nothing",
    }
    for keyword, plugin in plugins.every_plugin(settings.Settings()).items():
        assert rows[keyword].startswith(ways[plugin.manners.serving])
