"""Which vendors there are, in which order, and that they do not get in each other's way."""

import collections
import pathlib

import pytest

from vgpu_operator.model import errors, settings
from vgpu_operator.vendors import registry

ON = {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
EVERYTHING = registry.build(settings.build({"vendors": ON}))


def test_vendors_come_in_hamis_order() -> None:
    assert [vendor.spec.keyword for vendor in EVERYTHING] == [
        *("NVIDIA", "MLU", "DCU", "GCU", "Enflame", "Mthreads", "Metax-GPU", "Metax-SGPU"),
        *("kunlun", "XPU", "AWSNeuron", "AMD", "Vastai", "Biren"),
        *("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4-1", "Ascend910B4"),
        *("Ascend310P", "Ascend910C"),
        *("MR-V100", "MR-V50", "BI-V150", "BI-V100"),
    ]


def test_ascend_and_iluvatar_wait_to_be_switched_on_as_in_hamis_chart() -> None:
    assert registry.build(settings.Settings())[-1].spec.keyword == "Biren"


@pytest.mark.parametrize(
    ("section", "keywords"),
    [
        ("kunlun", {"kunlun", "XPU"}),
        ("enflame", {"GCU", "Enflame"}),
        ("mthreads", {"Mthreads"}),
        ("vastai", {"Vastai"}),
        ("biren", {"Biren"}),
    ],
)
def test_a_vendor_that_is_on_by_default_can_be_switched_off(
    section: str, keywords: set[str]
) -> None:
    usual = {vendor.spec.keyword for vendor in registry.build(settings.Settings())}

    configured = settings.build({"vendors": {section: {"enabled": False}}})

    left = {vendor.spec.keyword for vendor in registry.build(configured)}
    assert (usual - left, left - usual) == (keywords, set())
    shown = registry.build(settings.with_every_vendor(configured))
    assert keywords <= {vendor.spec.keyword for vendor in shown}


def test_every_vendors_file_is_in_use() -> None:
    folder = pathlib.Path(registry.__file__).parent
    files = {path.stem for path in folder.glob("*.py")}
    shared = {"__init__", "base", "records", "registry", "requests", "walk", "nvidia_walk"}
    shared |= {"mig", "topology", "kunlun_topology", "promised", "unaccounted", "roster"}
    shared |= {"amounts", "capacity", "charges", "selections", "quotas"}

    used = {type(vendor).__module__.rpartition(".")[2] for vendor in EVERYTHING}

    assert used == files - shared


def test_no_two_vendors_read_the_same_resource_or_write_the_same_key() -> None:
    specs = [vendor.spec for vendor in EVERYTHING]
    names = [name for spec in specs for name in spec.resources]
    keys = [key for spec in specs for key in (spec.register_key, *spec.pod_keys) if key]

    assert twice(names) == set()
    assert twice(keys) == {"predicate-time"}  # every chip of Ascend stamps for one plugin
    assert len({spec.id for spec in specs}) == len({spec.keyword for spec in specs}) == len(specs)


def twice(words: list[str]) -> set[str]:
    return {word for word, count in collections.Counter(words).items() if count > 1}


def test_a_chip_without_a_resource_is_switched_off() -> None:
    chips = {
        "ascend": {
            "enabled": True,
            "configs": [{"commonWord": "A", "memoryAllocatable": 1, "memoryCapacity": 1}],
        },
        "iluvatar": {"enabled": True, "chips": [{"commonWord": "B"}]},
    }

    built = registry.build(settings.build({"vendors": chips}))

    assert built[-1].spec.keyword == "Biren"


@pytest.mark.parametrize("word", ["NVIDIA", "Ascend310P"])
def test_a_chip_under_another_vendors_keyword_is_refused(word: str) -> None:
    chips = [{"commonWord": word, "resourceCountName": "x.io/gpu"}]
    configured = settings.build({"vendors": ON | {"iluvatar": {"enabled": True, "chips": chips}}})

    with pytest.raises(errors.SettingsError, match=f"two vendors have the keyword {word};"):
        registry.build(configured)
