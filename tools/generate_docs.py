"""Writes the parts of the documentation that follow from the code.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` in any
Markdown file of the project; ``BLOCKS`` says what each name stands for. What a
block cannot get from the code (what a kind of key is for, say) stands here.

    generate_docs.py            write every block again
    generate_docs.py --check    write nothing; exit 1 with one line per stale file
"""

import ast
import enum
import functools
import re
import sys
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import prometheus_client as prom
import pydantic
import pydantic_core
import typer
from prometheus_client import metrics as prom_metrics

from vgpu_operator.cli import run
from vgpu_operator.flows import books, reasons
from vgpu_operator.machines import diagram
from vgpu_operator.metrics import collector, instruments
from vgpu_operator.model import reason, settings
from vgpu_operator.scheduling import masks
from vgpu_operator.vendors import base, registry
from vgpu_operator.wire import keys

ROOT: Final = Path(__file__).resolve().parent.parent

WRITTEN_ELSEWHERE: Final = ("docs/compatibility.md",)
"""Pages whose blocks follow from the recorded answers: ``tests/support`` writes them."""

_BLOCK: Final = re.compile(
    r"(?P<start><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)

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


def rewrite(text: str) -> str:
    """Return a Markdown text with every block in it written again.

    Raises:
        ValueError: a block has a name that is not known, or no end.
    """
    if text.count("<!-- generated:") != len(_BLOCK.findall(text)):
        raise ValueError("a block has no end, or its name is not lower-case words with '-'")

    def fresh(match: re.Match[str]) -> str:
        make = BLOCKS.get(match["name"])
        if make is None:
            raise ValueError(f"no block is called {match['name']!r}")
        return f"{match['start']}\n{make().strip()}\n\n{match['end']}"

    return _BLOCK.sub(fresh, text)


def markdown_files() -> tuple[Path, ...]:
    """Return the project's own Markdown files, sorted."""
    return (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


def stale_files() -> dict[Path, str]:
    """Return the files whose blocks do not follow from the code, with what they should be."""
    stale = {}
    elsewhere = {ROOT / name for name in WRITTEN_ELSEWHERE}
    for path in markdown_files():
        if path in elsewhere:
            continue
        text = path.read_text(encoding="utf-8")
        try:
            wanted = rewrite(text)
        except ValueError as fault:
            raise SystemExit(f"{path.relative_to(ROOT)}: {fault}") from fault
        if wanted != text:
            stale[path] = wanted
    return stale


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit code."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: generate_docs.py [--check]\n")
        return 2
    stale = stale_files()
    for path, text in stale.items():
        name = path.relative_to(ROOT)
        if arguments:
            sys.stdout.write(f"{name} is stale; run make docs\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if stale and arguments else 0


# Tables.


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = tuple(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`"


def _prose(docstring: str) -> str:
    """Return a docstring as one line of Markdown."""
    return " ".join(docstring.split()).replace("``", "`")


def _attribute_docs(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of each annotated assignment that a text follows."""
    before: ast.stmt | None = None
    for statement in body:
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
            and isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
        ):
            yield before.target.id, _prose(statement.value.value)
        before = statement


def _module_tree(file: str | None) -> ast.Module:
    return ast.parse(Path(file or "").read_text(encoding="utf-8"))


# Keys and resources.


def shared_keys() -> str:
    """Every key of ``wire/keys.py`` with what its docstring says."""
    docs = dict(_attribute_docs(_module_tree(keys.__file__).body))
    values = {name: value for name, value in vars(keys).items() if name.isupper()}
    rows = [(_code(value), docs[name]) for name, value in values.items() if "/" in value]
    return _table(("Key", "What it is"), rows)


def _spec_fields(suffix: str, described: Iterable[str]) -> tuple[str, ...]:
    """Return the described fields, making sure that the code has no others.

    Raises:
        ValueError: a field was added to ``VendorSpec`` or removed from it.
    """
    known = tuple(described)
    found = {name for name in base.VendorSpec.__dataclass_fields__ if name.endswith(suffix)}
    if found != set(known):
        raise ValueError(f"VendorSpec and the tables here differ: {sorted(found ^ set(known))}")
    return known


def _vendors() -> Iterator[tuple[str, base.Vendor]]:
    """Yield every vendor, those that are switched on only by a setting too, with its name."""
    on = {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
    for vendor in registry.build(settings.build({"vendors": on})):
        families = (name for start, name in CHIPS.items() if vendor.spec.id.startswith(start))
        yield next(families, vendor.spec.keyword), vendor


def _of_chips(name: str, word: str, text: str) -> str:
    """Return the text with ``<chip>`` for the keyword where a family differs in it only."""
    return text.replace(word, "<chip>") if name in CHIPS.values() else text


def vendor_keys() -> str:
    """Every key of every vendor."""
    fields = _spec_fields("_key", KEY_FIELDS)
    notes = _spec_fields("_keys", NOTE_FIELDS)
    rows = []
    for name, vendor in _vendors():
        spec = vendor.spec
        single = ((getattr(spec, field), KEY_FIELDS[field]) for field in fields)
        several = ((key, NOTE_FIELDS[field]) for field in notes for key in getattr(spec, field))
        for key, (where, meaning) in (*single, *several):
            if key:
                rows.append((name, _code(_of_chips(name, spec.keyword, key)), where, meaning))
    return _table(("Vendor", "Key", "Where", "What it says"), dict.fromkeys(rows))


def resources() -> str:
    """Every resource name of every vendor under the default settings."""
    fields = _spec_fields("_resource", (*RESOURCE_FIELDS, SUPPLY_FIELD))
    meanings = {**_resource_meanings(settings.VendorSettings()), **RESOURCES_OF_NO_SETTING}
    rows = []
    for name, vendor in _vendors():
        for field in fields:
            resource = getattr(vendor.spec, field)
            if resource and field != SUPPLY_FIELD:
                meaning = meanings.get(resource, RESOURCE_FIELDS[field])
                if field == "memory_resource" and "B" not in meaning:
                    meaning += f", in units of {vendor.spec.memory_unit_mib} MiB"
                shown = _code(_of_chips(name, vendor.spec.keyword, resource))
                rows.append((name, shown, meaning))
    return _table(("Vendor", "Resource", "What a container asks for"), dict.fromkeys(rows))


def _resource_meanings(section: pydantic.BaseModel) -> dict[str, str]:
    """Return what the settings say of every resource name in them.

    A setting's text begins with "Resource"; what follows a semicolon is about the setting.
    """
    found = {}
    docs = _class_docs(type(section))
    for name in type(section).model_fields:
        value = getattr(section, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, pydantic.BaseModel):
                found |= _resource_meanings(part)
            elif isinstance(part, str) and docs.get(name, "").startswith("Resource "):
                text = docs[name].partition(";")[0].rstrip(".")
                found[part] = re.sub(r"^Resource (that counts|that|for) ", "", text)
    return found


# State machines.


def _machine(name: str) -> Callable[[], str]:
    def make() -> str:
        chart = next(chart for chart in diagram.CHARTS if chart.name == name)
        return f"```mermaid\n{diagram.mermaid(chart)}```\n\n{diagram.markdown(chart)}"

    return make


# Settings and options.


def configuration() -> str:
    """Every setting: path in the file, type, default, meaning."""
    rows = _setting_rows(settings.Settings, "")
    return _table(("Path", "Type", "Default", "Meaning"), rows)


def _setting_rows(
    section: type[pydantic.BaseModel], prefix: str
) -> Iterator[tuple[str, str, str, str]]:
    docs = _class_docs(section)
    for name, field in section.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if _is_section(field.annotation):
            yield from _setting_rows(field.annotation, f"{path}.")
            continue
        limits = ", ".join(_limit(rule) for rule in field.metadata if _limit(rule))
        words = _type_words(field.annotation) + (f", {limits}" if limits else "")
        yield _code(path), words, _default(field.default), docs[name]
        member = _member(field.annotation)
        if _is_section(member):
            yield from _setting_rows(member, f"{path}[].")


@functools.cache
def _class_docs(section: type[pydantic.BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of a section's fields."""
    for node in _module_tree(sys.modules[section.__module__].__file__).body:
        if isinstance(node, ast.ClassDef) and node.name == section.__name__:
            return dict(_attribute_docs(node.body))
    raise ValueError(f"{section.__name__} is no class of its module")


def _is_section(kind: object) -> typing.TypeGuard[type[pydantic.BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _member(kind: object) -> object:
    """Return what a list holds; None for other kinds."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


def _type_words(kind: object) -> str:
    if isinstance(kind, enum.EnumType):
        members: Mapping[str, enum.Enum] = kind.__members__
        return ", ".join(_code(str(word.value)) for word in members.values())
    member = _member(kind)
    if member is not None:
        return "list of sections" if _is_section(member) else "list of texts"
    if typing.get_origin(kind) is not None:
        return "mapping of text to list of texts"
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return plain[typing.cast("type", kind)]


def _limit(rule: object) -> str:
    """Return what a pydantic bound says; a length says it of the characters."""
    words = {"ge": "at least", "gt": "more than", "le": "at most"}
    for name, word in words.items():
        if hasattr(rule, name):
            return f"{word} {getattr(rule, name)}"
    if hasattr(rule, "min_length"):
        return f"at least {rule.min_length} character"
    if hasattr(rule, "max_length"):
        return f"at most {rule.max_length} characters"
    return ""


def _default(value: object) -> str:
    if value is pydantic_core.PydanticUndefined:
        return "must be given"
    if value in ("", {}, ()):
        return "empty"
    if isinstance(value, tuple):
        return "those of HAMi's chart"
    if isinstance(value, bool):
        return _code(str(value).lower())
    if isinstance(value, float) and value.is_integer():
        return _code(str(int(value)))
    return _code(str(value))


def run_options() -> str:
    """Every option of ``vgpu run``."""
    app = typer.Typer(add_completion=False)
    run.register(app)
    command = typer.main.get_command(app)
    rows = []
    for parameter in command.params:
        spoken = getattr(parameter, "help", None)
        if spoken is None:
            continue
        default = parameter.default
        shown = "" if default is None or callable(default) else _code(str(default))
        rows.append((_code(parameter.opts[0]), shown, spoken))
    return _table(("Option", "Default", "Meaning"), rows)


# What the operator says.


def events() -> str:
    """Every Event reason."""
    rows = []
    for word, text in reasons.REASONS.items():
        where, _, meaning = text.partition(": ")
        rows.append((_code(word), where, meaning))
    return _table(("Reason", "On", "What it says"), rows)


def rejections() -> str:
    """The facts about one card, in the order in which they are checked."""
    rows = [
        (str(number), _code(why.value), _first_sentence(mask.__doc__))
        for number, (why, mask) in enumerate(masks.ORDER, start=1)
    ]
    return _table(("Checked", "Word", "A card counts here when"), rows)


def reason_words() -> str:
    """Every word that a refusal may hold."""
    return ", ".join(_code(word.value) for word in reason.Reason)


def _first_sentence(text: str | None) -> str:
    summary = _prose((text or "").split("\n\n")[0]).rstrip(".")
    return summary[0].lower() + summary[1:]


def metrics() -> str:
    """Every metric family: those that work turns, then those read from the books."""
    rows = [
        _family_row(family, vars(instrument)["_labelnames"])
        for instrument in vars(instruments.Instruments()).values()
        if isinstance(instrument, prom_metrics.MetricWrapperBase)
        for family in instrument.describe()
    ]
    configured = settings.Settings()
    empty = books.open_books(configured, registry.build(configured))
    empty.leader = True
    rows += [
        _family_row(family, vars(family)["_labelnames"])
        for family in collector.BooksCollector(empty).collect()
    ]
    return _table(("Name", "Type", "Labels", "Meaning"), rows)


def _family_row(family: prom.Metric, labels: Iterable[str]) -> tuple[str, str, str, str]:
    # The library drops the suffix of a counter's name and puts it back on its page.
    name = f"{family.name}_total" if family.type == "counter" else family.name
    spoken = ", ".join(_code(label) for label in labels)
    return _code(name), family.type, spoken or "none", family.documentation


# Layers.


def layers() -> str:
    """The layers, topmost first, as import-linter checks them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    order = next(c["layers"] for c in contracts if c["containers"] == ["vgpu_operator"])
    return "```text\n" + "\n".join(order) + "\n```"


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "configuration": configuration,
    "events": events,
    "layers": layers,
    "machine-bind-phase": _machine("bind-phase"),
    "machine-handshake": _machine("handshake"),
    "machine-node-lock": _machine("node-lock"),
    "machine-node-lock-remnants": _machine("node-lock-remnants"),
    "metrics": metrics,
    "reason-words": reason_words,
    "rejections": rejections,
    "resources": resources,
    "run-options": run_options,
    "shared-keys": shared_keys,
    "vendor-keys": vendor_keys,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
