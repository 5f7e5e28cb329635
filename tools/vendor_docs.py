"""Tables of vendors: names, resources, keys, settings, and what an example is given."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import doc_tables
import pydantic
import setting_docs

from vgpu_operator.model import settings
from vgpu_operator.vendors import base, registry

KEY_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "register_key": ("Node annotation", "the cards of the node"),
    "handshake_key": ("Node annotation", "the handshake"),
    "lock_key": ("Node annotation", "one pod at a time may be in `allocating`"),
    "to_allocate_key": ("Pod annotation", "what the device plugin has still to hand out"),
    "allocated_key": ("Pod annotation", "what the pod holds, for its whole life"),
    "use_type_key": ("Pod annotation", "only cards whose type holds one of these words"),
    "avoid_type_key": ("Pod annotation", "no card whose type holds one of these words"),
    "use_id_key": ("Pod annotation", "only cards with one of these ids"),
    "avoid_id_key": ("Pod annotation", "no card with one of these ids"),
    "numa_bind_key": ("Pod annotation", "`true`: all cards of a container on one NUMA node"),
    "mode_key": ("Pod annotation", "only cards in this mode"),
}
"""Every ``…_key`` of ``VendorSpec``: where it stands and what it says."""

_KEY_OF_A_FIELD: Final = "lock_key"
"""Part of the field ``lock``."""

NOTE_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "more_pod_keys": (
        "Pod annotation",
        "what the vendor's plugin reads besides; stripped from new pods",
    ),
    "pod_note_keys": ("Pod annotation", "what the vendor's rules read of a pod"),
    "node_note_keys": ("Node annotation or label", "what the vendor's rules read of a node"),
}
"""Every ``…_keys`` of ``VendorSpec``, which holds several."""

RESOURCE_FIELDS: Final[Mapping[str, str]] = {
    "count_resource": "how many different cards",
    "memory_resource": "memory on each card",
    "memory_percent_resource": "memory in percent of each card",
    "cores_resource": "cores in percent of one card; 0 is no limit, 100 the whole card",
    "priority_resource": "the number in `CUDA_TASK_PRIORITY`",
}
"""Every ``…_resource`` of ``VendorSpec`` that a container names: what it asks for by it,
where no setting says so."""

RESOURCES_OF_NO_SETTING: Final[Mapping[str, str]] = {"enflame.com/drs-gcu": "slices of one card"}
"""Names that stand for an empty setting: what a container asks for by them."""

SUPPLY_FIELD: Final = "supply_resource"
"""Only nodes name it."""

CHIPS: Final[Mapping[str, str]] = {"ascend-": "Ascend chips", "iluvatar-": "Iluvatar chips"}
"""Families of chips that differ in a word only, by the beginning of a vendor's id."""


def _spec_fields(suffix: str, described: Iterable[str]) -> tuple[str, ...]:
    """Return the described fields, making sure that the code has no others.

    Raises:
        ValueError: a field was added to ``VendorSpec`` or removed from it.
    """
    known = tuple(described)
    names = (*base.VendorSpec.__dataclass_fields__, _KEY_OF_A_FIELD)
    found = {name for name in names if name.endswith(suffix)}
    if found != set(known):
        raise ValueError(f"VendorSpec and the tables here differ: {sorted(found ^ set(known))}")
    return known


def _vendors(family: str = "") -> Iterator[tuple[str, base.Vendor]]:
    """Yield every vendor, or a family's, with its name; those that a setting switches on too."""
    for vendor in registry.build(settings.with_every_vendor(settings.Settings())):
        if family not in ("", _family(vendor)):
            continue
        families = (name for start, name in CHIPS.items() if vendor.spec.id.startswith(start))
        yield next(families, vendor.spec.keyword), vendor


def _of_chips(name: str, word: str, text: str) -> str:
    """Return the text with ``<chip>`` for the keyword where a family differs in it only."""
    return text.replace(word, "<chip>") if name in CHIPS.values() else text


def vendor_keys(family: str = "") -> str:
    """Every key of every vendor, or of a family."""
    fields = _spec_fields("_key", KEY_FIELDS)
    notes = _spec_fields("_keys", NOTE_FIELDS)
    meanings: dict[tuple[str, str, str], dict[str, None]] = {}
    for name, vendor in _vendors(family):
        spec = vendor.spec
        single = ((getattr(spec, field), KEY_FIELDS[field]) for field in fields)
        several = ((key, NOTE_FIELDS[field]) for field in notes for key in getattr(spec, field))
        for key, (where, meaning) in (*single, *several):
            if key:
                shown = doc_tables.code(_of_chips(name, spec.keyword, key))
                meanings.setdefault((name, shown, where), {})[meaning] = None
    rows = [(*place, "; ".join(texts)) for place, texts in meanings.items()]
    return doc_tables.table(("Vendor", "Key", "Where", "What it says"), rows)


def resources(family: str = "") -> str:
    """Every resource name of every vendor, or of a family, under the default settings."""
    fields = _spec_fields("_resource", (*RESOURCE_FIELDS, SUPPLY_FIELD))
    meanings = {**_resource_meanings(settings.VendorSettings()), **RESOURCES_OF_NO_SETTING}
    rows = []
    for name, vendor in _vendors(family):
        for field in fields:
            resource = getattr(vendor.spec, field)
            if resource and field != SUPPLY_FIELD:
                meaning = meanings.get(resource, RESOURCE_FIELDS[field])
                if field == "memory_resource" and "B" not in meaning:
                    unit_mib = vendor.spec.memory_unit_mib
                    meaning += ", in MiB" if unit_mib == 1 else f", in units of {unit_mib} MiB"
                shown = doc_tables.code(_of_chips(name, vendor.spec.keyword, resource))
                rows.append((name, shown, meaning))
    return doc_tables.table(
        ("Vendor", "Resource", "What a container asks for"), dict.fromkeys(rows)
    )


def _resource_meanings(section: pydantic.BaseModel) -> dict[str, str]:
    """Return what the settings say of every resource name in them.

    A setting's text begins with "Resource"; what follows a semicolon is about the setting.
    """
    found = {}
    docs = setting_docs.class_docs(type(section))
    for name in type(section).model_fields:
        value = getattr(section, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, pydantic.BaseModel):
                found |= _resource_meanings(part)
            elif isinstance(part, str) and docs.get(name, "").startswith("Resource "):
                text = docs[name].partition(";")[0].rstrip(".")
                found[part] = re.sub(r"^Resource (that counts|that|for) ", "", text)
    return found


# One page a family.


def families() -> tuple[str, ...]:
    """Return the families, as the settings and the pages are called."""
    return tuple(settings.VendorSettings.model_fields)


def page(family: str) -> Callable[[], str]:
    """Return what makes the tables of a family's page."""

    def make() -> str:
        section = type(getattr(settings.VendorSettings(), family))
        parts = [
            ("Names", names(family)),
            ("Resources", resources(family)),
            ("Annotations and labels", vendor_keys(family)),
            ("Settings", setting_docs.table(section, f"vendors.{family}.")),
        ]
        if family in _CHIP_TABLES:
            parts.append(("Chips by default", _CHIP_TABLES[family]()))
        return "\n\n".join(f"### {heading}\n\n{table}" for heading, table in parts)

    return make


def index() -> str:
    """Return every back end with its page, what counts its cards, and its lock."""
    rows = []
    for name, vendor in _vendors():
        spec, family = vendor.spec, _family(vendor)
        rows.append(
            (
                f"[{family}]({family}.md)",
                name if name in CHIPS.values() else doc_tables.code(name),
                doc_tables.code(_of_chips(name, spec.keyword, spec.count_resource)),
                _source(name, spec),
                doc_tables.code(spec.lock_key) if spec.lock_key else "none",
            )
        )
    return doc_tables.table(
        ("Page", "Vendor", "Resource that counts", "Cards are read from", "Lock"),
        dict.fromkeys(rows),
    )


def names(family: str) -> str:
    """Return a family's back ends: what they are called, where cards come from, locks."""
    rows = []
    for _, vendor in _vendors(family):
        spec = vendor.spec
        rows.append(
            (
                doc_tables.code(spec.keyword),
                doc_tables.code(spec.id),
                _source("", spec),
                doc_tables.code(spec.lock_key) if spec.lock_key else "none",
                "all nodes at once" if vendor.vectorised else "node by node",
            )
        )
    headings = ("Vendor", "In metrics", "Cards are read from", "Lock", "Its rules are asked")
    return doc_tables.table(headings, rows)


def _source(name: str, spec: base.VendorSpec) -> str:
    if spec.register_key is None:
        return "`status.capacity`"
    return "annotation " + doc_tables.code(_of_chips(name, spec.keyword, spec.register_key))


def _family(vendor: base.Vendor) -> str:
    return type(vendor).__module__.rpartition(".")[2].partition("_")[0]


def _ascend_chips() -> str:
    rows = []
    for chip in settings.VendorSettings().ascend.configs:
        parts = sorted(chip.templates, key=lambda part: part.memory)
        rows.append(
            (
                doc_tables.code(chip.common_word),
                str(chip.memory_allocatable),
                str(chip.memory_capacity),
                ", ".join(f"`{part.name}` {part.memory}" for part in parts),
                "yes" if chip.super_pod else "no",
            )
        )
    headings = ("Chip", "Whole card, MiB", "Largest limit", "Templates, MiB", "In pairs")
    return doc_tables.table(headings, rows)


def _iluvatar_chips() -> str:
    rows = [
        tuple(
            doc_tables.code(text)
            for text in (
                chip.common_word,
                chip.resource_count_name,
                chip.resource_memory_name,
                chip.resource_core_name,
            )
        )
        for chip in settings.VendorSettings().iluvatar.chips
    ]
    return doc_tables.table(("Chip", "Cards", "Memory, 256 MiB", "Cores, percent"), rows)


_CHIP_TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "ascend": _ascend_chips,
    "iluvatar": _iluvatar_chips,
}
