"""Writes the chart's files that follow from models and from ``rbac.yaml``.

chart_files.FILES: path in the chart, and what its text is. ``generate_docs.py`` writes
and checks them with the documentation's blocks.
"""

import functools
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import chart_kinds
import chart_schema
import chart_values
import dashboards
import doc_tables
import pydantic
import setting_docs
import yaml

from vgpu_operator.flows.doctor import writers
from vgpu_operator.model import device_config, settings
from vgpu_operator.vendors import registry

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "helm" / "vgpu-operator"
RIGHTS: Final = ROOT / "operator" / "vgpu_operator" / "cli" / "rbac.yaml"

GENERATED: Final = "Written by tools/chart_files.py (make docs); do not edit.\n"
WIDTH: Final = 92


# values.yaml and what is ignored.


def values() -> str:
    """Return every value with its default, each under what it means."""
    head = textwrap.fill(
        "Values of the chart. The names are those of HAMi's chart v2.10.0 where the meaning "
        "is the same. " + GENERATED.strip(),
        WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
    )
    return head + "\n\n" + "\n".join(_group(chart_values.Chart, "")) + "\n"


def _group(group: type[pydantic.BaseModel], indent: str) -> Iterator[str]:
    docs = setting_docs.class_docs(group)
    for name, field in group.model_fields.items():
        if why_ignored(field):
            continue
        key = field.alias or name
        model = field.annotation
        is_group = _is_values(model)
        told = docs.get(name) or doc_tables.prose((model.__doc__ or "") if is_group else "")
        yield from textwrap.wrap(
            told,
            WIDTH - len(indent),
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
        )
        if is_group:
            inner = list(_group(_of_default(field), indent + "  "))
            yield from [f"{indent}{key}:", *inner] if inner else [f"{indent}{key}: {{}}"]
        else:
            yield from _line(key, plain(field.default), indent)


def _of_default(field: Any) -> type[pydantic.BaseModel]:
    """Return a group's own class: a default may be one that is more special."""
    return type(field.default)


def _line(key: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str):
        text = f"{key}: {_text(value)}"
    else:
        text = yaml.safe_dump({key: value}, sort_keys=False, width=1000, default_flow_style=False)
    yield from (f"{indent}{line}" for line in text.rstrip("\n").split("\n"))


def _text(value: str) -> str:
    """Return a text as YAML, in quotes where another kind could be read."""
    plainly = re.fullmatch(r"[A-Za-z/][A-Za-z0-9./_-]*", value)
    return value if plainly and isinstance(yaml.safe_load(value), str) else json.dumps(value)


def plain(value: Any) -> Any:
    """Return a default as YAML holds it."""
    if isinstance(value, pydantic.BaseModel):
        return {}
    return json.loads(json.dumps(value))


def _is_values(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, chart_kinds.Values)


def why_ignored(field: Any) -> str:
    """Return why a value means nothing here; empty when it means something."""
    extra = field.json_schema_extra
    return str(extra.get(chart_kinds.IGNORED, "")) if isinstance(extra, Mapping) else ""


def all_fields(
    group: type[pydantic.BaseModel] = chart_values.Chart, prefix: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """Yield path, field and meaning of every value."""
    docs = setting_docs.class_docs(group)
    for name, field in group.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if _is_values(field.annotation):
            yield from all_fields(_of_default(field), f"{path}.")
        else:
            yield path, field, docs.get(name, "")


def ignored_values() -> str:
    """Return paths of values that are ignored, and why."""
    found = {path: why_ignored(field) for path, field, _ in all_fields() if why_ignored(field)}
    return f"# {GENERATED}" + yaml.safe_dump(found, width=1000)


def schema() -> str:
    """Return ``values.schema.json``."""
    return json.dumps(chart_schema.schema(chart_values.Chart), indent=1, sort_keys=False) + "\n"


# The device configuration.


def device_defaults() -> str:
    """Return HAMi's device configuration with its defaults, as our models know it."""
    known = settings.VendorSettings()
    document: dict[str, Any] = {
        name: section.model_dump(by_alias=True, mode="json", exclude={"enabled"})
        for name in device_config.Document.model_fields
        if (section := getattr(known, name, None)) is not None
    }
    nvidia = device_config.NvidiaDocument().model_dump(by_alias=True, mode="json")
    nvidia.pop("knownMigGeometries")
    enflame = document["enflame"]
    for older in ("resourceNameVGCU", "resourceNameVGCUPercentage"):
        enflame.pop(older)
    enflame["resourceNameDRSGCU"] = known.enflame.slices_resource
    vnpus = device_config.VnpusDocument().model_dump(by_alias=True, mode="json")
    chips = [chip.model_dump(by_alias=True, mode="json") for chip in known.iluvatar.chips]
    document |= {"nvidia": nvidia, "vnpus": vnpus, "iluvatars": chips}
    return f"# {GENERATED}" + yaml.safe_dump(document, sort_keys=False, width=1000)


# Rights.


def rules() -> Mapping[str, str]:
    """Return each role of ``rbac.yaml`` with the text of its rules, comments included."""
    found = {}
    for text in RIGHTS.read_text(encoding="utf-8").split("\n---\n"):
        document = yaml.safe_load(text)
        if document["kind"] == "ClusterRole":
            found[document["metadata"]["name"]] = text.split("\nrules:\n", 1)[1].rstrip("\n")
    return found


def operator_rules() -> str:
    """Return the rules of the operator that hold in the whole cluster."""
    blocks = re.split(r"\n(?=  #)", rules()["vgpu-operator"])
    kept = [block for block in blocks if "coordination.k8s.io" not in block]
    return f"# {GENERATED}" + textwrap.dedent("\n".join(kept)) + "\n"


# Keys of the protocol.


def protocol_keys() -> str:
    """Return the annotations that only the protocol's programs write, by kind of object.

    Those by which people choose cards, and ``hami.io/device-cordon``, are not among them.
    """
    served = registry.build(settings.with_every_vendor(_DEFAULTS))
    document = {
        "nodes": sorted(writers.node_keys(served)),
        "pods": sorted(writers.pod_keys(served)),
    }
    return f"# {GENERATED}" + yaml.safe_dump(document)


_DEFAULTS: Final = settings.Settings()

FILES: Final[Mapping[str, Callable[[], str]]] = {
    "values.yaml": values,
    "values.schema.json": schema,
    "files/ignored.yaml": ignored_values,
    "files/device-config-defaults.yaml": device_defaults,
    "files/operator-rules.yaml": operator_rules,
    "files/protocol-keys.yaml": protocol_keys,
    **{
        f"dashboards/{board.uid}.json": functools.partial(dashboards.text, board)
        for board in dashboards.BOARDS
    },
}
"""The chart's generated files."""


def texts() -> dict[Path, str]:
    """Return every generated file and its text."""
    return {CHART / name: make() for name, make in FILES.items()}
