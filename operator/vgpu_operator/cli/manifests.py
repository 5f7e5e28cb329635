"""Kubernetes objects from files: YAML or JSON, several documents, Lists, kubectl dumps.

What placement reads is checked for its shape here, so that a mistake is told
with file, document and field instead of being passed over.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from vgpu_operator.kube import text_file
from vgpu_operator.model import errors, yaml_text
from vgpu_operator.wire import fields

Json: TypeAlias = Mapping[str, Any]

LARGEST_FILE_BYTES: Final = 2**28
GENERATED_FROM_CHARACTERS: Final = 58
"""How much of a ``generateName`` the API server keeps before what it puts behind."""

_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")

_OTHER_FILES: Final = "settings go to --config, simulated nodes to vgpu agent --simulate"


@dataclass(slots=True)
class Manifests:
    """What the files hold, in their order.

    Attributes:
        templated: a Pod as each workload (Deployment, Job, …) would make it, and how many
            of them there are to be at one time, at least 1.
        others: counts objects of further kinds, workloads too.
    """

    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    quotas: list[Json] = field(default_factory=list)
    budgets: list[Json] = field(default_factory=list)
    priority_classes: list[Json] = field(default_factory=list)
    templated: list[tuple[Json, int]] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)


def read(paths: Sequence[str]) -> Manifests:
    """Read all files; ``-`` is standard input.

    Raises:
        DecodeError: a file cannot be read or an object has a wrong shape; the
            text names file, document and field.
        SettingsError: there is no such file, or it may not be read.
    """
    found = Manifests()
    places: dict[tuple[str, str, str], str] = {}
    unnamed: list[tuple[list[Json], int, str, str]] = []
    for path in paths:
        for where, raw in _objects(path):
            kind = raw["kind"]
            into = _list_of(found, kind)
            if into is None:
                found.others[kind] = found.others.get(kind, 0) + 1
                found.templated.extend(_templated(raw, where))
                continue
            name = _check(raw, where)
            if not name[1]:
                unnamed.append((into, len(into), kind, name[0]))
                into.append(raw)
                continue
            first = places.setdefault((kind, *name), where)
            if first != where:
                shown = "/".join(part for part in name if part)
                raise errors.DecodeError(f"{kind} {shown} is in {first} already", key=where)
            into.append(raw)
    numbers: dict[tuple[str, str, str], Iterator[int]] = {}
    for into, place, kind, namespace in unnamed:  # when it is known which names are taken
        metadata = into[place]["metadata"]
        start = metadata["generateName"][:GENERATED_FROM_CHARACTERS]
        counted = numbers.setdefault((kind, namespace, start), itertools.count(1))
        names = (f"{start}{number}" for number in counted)
        free = next(one for one in names if (kind, namespace, one) not in places)
        into[place] = {**into[place], "metadata": {**metadata, "name": free}}
    return found


def _list_of(found: Manifests, kind: str) -> list[Json] | None:
    """Return where objects of that kind are collected; None where they are passed over."""
    return {
        "Node": found.nodes,
        "Pod": found.pods,
        "ResourceQuota": found.quotas,
        "PodDisruptionBudget": found.budgets,
        "PriorityClass": found.priority_classes,
    }.get(kind)


def _templated(raw: Json, where: str) -> Iterator[tuple[Json, int]]:
    """Yield the Pod that a workload makes, under its name, and how often; nothing for others."""
    holder = _mapping(raw.get("spec"), where, "spec")
    if raw["kind"] == "CronJob":
        job = _mapping(holder.get("jobTemplate"), where, "spec.jobTemplate")
        holder = _mapping(job.get("spec"), where, "spec.jobTemplate.spec")
    template = holder.get("template")
    if raw["kind"] not in _WORKLOADS or not isinstance(template, dict):
        return
    metadata = _mapping(raw.get("metadata"), where, "metadata")
    own = _mapping(template.get("metadata"), where, "template.metadata")
    named = {"name": metadata.get("name"), "namespace": metadata.get("namespace")}
    pod = {"kind": "Pod", "spec": template.get("spec"), "metadata": {**own, **named}}
    _check(pod, where)
    yield pod, _copies(holder, where)


def _copies(spec: Json, where: str) -> int:
    """Return how many pods a workload has at one time; a DaemonSet has one on a node."""
    numbers = {}
    for name in ("replicas", "parallelism", "completions"):
        value = _whole_number(spec.get(name), where, f"spec.{name}")
        if value is not None:
            numbers[name] = value
    at_once = numbers.get("replicas", numbers.get("parallelism", 1))
    return max(1, min(at_once, numbers.get("completions", at_once)))


def _objects(path: str) -> Iterator[tuple[str, Json]]:
    """Yield every object with where it stands, Lists taken apart."""
    for number, document in enumerate(_documents(path), start=1):
        where = f"{_shown(path)}, document {number}"
        if document is None:
            continue
        yield from _taken_apart(document, where)


def _taken_apart(document: object, where: str) -> Iterator[tuple[str, Json]]:
    raw = _mapping(document, where, "")
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind:
        words = "kind: a text such as Pod or Node is wanted"
        if not {"kind", "apiVersion"} & raw.keys():  # a file of another command, perhaps
            words += f"; {_OTHER_FILES}"
        raise errors.DecodeError(words, key=where)
    if kind.endswith("List"):
        for place, item in enumerate(_list(raw.get("items"), where, "items")):
            member = f"{where}, items[{place}]"
            if kind != "List" and isinstance(item, dict) and "kind" not in item:
                item = {**item, "kind": kind.removesuffix("List")}  # as the API does
            yield from _taken_apart(item, member)
        return
    yield where, raw


def _documents(path: str) -> Iterator[object]:
    """Yield the documents of one file."""
    text = text_file.read(path, largest_bytes=LARGEST_FILE_BYTES)
    try:
        yield from yaml_text.read_all(text)
    except errors.SettingsError as fault:
        raise errors.DecodeError(str(fault), key=_shown(path)) from fault


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path


def _check(raw: Json, where: str) -> tuple[str, str]:
    """Return namespace and name of an object whose shape is right.

    The name is empty where the API server is to make it from ``generateName``.
    """
    metadata = _mapping(raw.get("metadata"), where, "metadata")
    name = _text(metadata.get("name"), where, "metadata.name")
    generated_from = _text(metadata.get("generateName"), where, "metadata.generateName")
    if not name and not generated_from:
        raise errors.DecodeError("metadata.name: a name is wanted", key=where)
    for part in ("annotations", "labels"):
        for key, value in _mapping(metadata.get(part), where, f"metadata.{part}").items():
            _text(value, where, f"metadata.{part}[{key}]")
    kind = raw["kind"]
    if kind == "Node":
        status = _mapping(raw.get("status"), where, "status")
        for part in ("capacity", "allocatable"):
            _quantities(status.get(part), where, f"status.{part}")
        return "", name
    if kind == "PriorityClass":
        _whole_number(raw.get("value"), where, "value")
        return "", name
    spec = _mapping(raw.get("spec"), where, "spec")
    if kind == "Pod":
        _check_pod(spec, where)
        _mapping(raw.get("status"), where, "status")
    elif kind == "PodDisruptionBudget":
        _mapping(spec.get("selector"), where, "spec.selector")
        status = _mapping(raw.get("status"), where, "status")
        _whole_number(status.get("disruptionsAllowed"), where, "status.disruptionsAllowed")
    else:
        _quantities(spec.get("hard"), where, "spec.hard")
    return _text(metadata.get("namespace"), where, "metadata.namespace") or "default", name


def _check_pod(spec: Json, where: str) -> None:
    if not spec.get("containers"):
        raise errors.DecodeError("spec.containers: at least one container is wanted", key=where)
    for part in ("nodeName", "schedulerName", "priorityClassName", "preemptionPolicy"):
        _text(spec.get(part), where, f"spec.{part}")
    _whole_number(spec.get("priority"), where, "spec.priority")
    for part in ("initContainers", "containers"):
        for number, item in enumerate(_list(spec.get(part), where, f"spec.{part}")):
            path = f"spec.{part}[{number}]"
            container = _mapping(item, where, path)
            _text(container.get("name"), where, f"{path}.name")
            resources = _mapping(container.get("resources"), where, f"{path}.resources")
            for amounts in ("limits", "requests"):
                _quantities(resources.get(amounts), where, f"{path}.resources.{amounts}")


def _quantities(value: object, where: str, path: str) -> None:
    for name, amount in _mapping(value, where, path).items():
        if not isinstance(amount, (str, int, float)) or isinstance(amount, bool):
            raise errors.DecodeError(
                f"{path}[{name}]: a quantity is wanted, got {fields.shown(amount)}", key=where
            )


def _mapping(value: object, where: str, path: str) -> Json:
    if value is None and path:
        return {}
    if not isinstance(value, dict):
        prefix = f"{path}: " if path else ""
        raise errors.DecodeError(
            f"{prefix}an object is wanted, got {fields.shown(value)}", key=where
        )
    return value


def _list(value: object, where: str, path: str) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise errors.DecodeError(f"{path}: a list is wanted, got {fields.shown(value)}", key=where)
    return value


def _text(value: object, where: str, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise errors.DecodeError(
            f"{path}: a text is wanted, got {fields.shown(value)}; put it in quotes", key=where
        )
    return value


def _whole_number(value: object, where: str, path: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.DecodeError(
            f"{path}: a whole number is wanted, got {fields.shown(value)}", key=where
        )
    return value
