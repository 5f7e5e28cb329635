"""What becomes of the example above a block: cards, and every text that is written.

An example is one YAML block with Pods and Nodes, as ``vgpu simulate -f`` takes
it; a YAML block with settings (``vendors: …``) counts for all examples below it.
"""

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import doc_tables
import yaml

from vgpu_operator.flows import simulate
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry
from vgpu_operator.wire import shape

NOW: Final = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)

FENCE: Final = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(page: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each example of a page with the settings that count for it."""
    configured: Mapping[str, Any] = {}
    for text in FENCE.findall(page):
        documents = list(yaml.safe_load_all(text))
        if any("kind" in document for document in documents):
            yield text, configured
        else:
            configured = documents[0]


def placed(above: str) -> str:
    """Return what becomes of the last example of a text, pod by pod.

    Raises:
        ValueError: there is none, or a pod of it finds no node.
    """
    found = list(examples(above))
    if not found:
        raise ValueError("no example stands above a block 'placed'")
    text, configured = found[-1]
    documents = list(yaml.safe_load_all(text))
    built = settings.build(configured)
    world = simulate.Simulation(built, registry.build(built), patient=True)
    nodes = tuple(
        world.see_nodes([raw for raw in documents if raw["kind"] == "Node"], NOW),
    )
    parts = []
    for raw in documents:
        if raw["kind"] == "Pod":
            admitted = world.admit(raw)
            outcome = world.place(world.record(admitted.pod), nodes, NOW)
            parts.append(_pod(raw, admitted, outcome, world))
    return "\n\n".join(parts)


def _pod(
    raw: Mapping[str, Any],
    admitted: simulate.Admitted,
    outcome: simulate.Placed,
    world: simulate.Simulation,
) -> str:
    name = raw["metadata"]["name"]
    if outcome.granted is None or outcome.bound is None or outcome.bound.error:
        raise ValueError(f"the example {name} is not placed: {admitted.verdict.message or outcome}")
    cards = [
        doc_tables.code(share.device_id)
        for entries in outcome.granted.shares.values()
        for entry in entries
        for share in entry
    ]
    head = f"`{name}` goes to `{outcome.node}` and gets {', '.join(dict.fromkeys(cards))}:"
    rows = [*_admission(raw, admitted.pod), *_binding(outcome, world), *_node(outcome)]
    return f"{head}\n\n{doc_tables.table(('Written by', 'Where', 'Text'), rows)}"


def _admission(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield what admission added, the scheduler's name apart."""
    had, has = (shape.mapping(pod["metadata"].get("annotations")) for pod in (before, after))
    for key in has.keys() - had.keys():
        yield "admission", f"annotation {doc_tables.code(key)}", doc_tables.code(has[key])
    runtime_class = after["spec"].get("runtimeClassName")
    if runtime_class != before["spec"].get("runtimeClassName"):
        yield "admission", "`runtimeClassName`", doc_tables.code(runtime_class)
    pairs = zip(shape.containers(before), shape.containers(after), strict=True)
    for (_, _, old), (_, _, new) in pairs:
        container = doc_tables.code(new["name"])
        limits = _limits(old)
        for name, value in _limits(new).items():
            if limits.get(name) != value:
                yield "admission", f"limits of {container}", doc_tables.code(f"{name}: {value}")
        own = list(shape.mappings(old.get("env")))
        for entry in shape.mappings(new.get("env")):
            if entry not in own:
                text = doc_tables.code(f"{entry['name']}={entry['value']}")
                yield "admission", f"environment of {container}", text


def _limits(container: Mapping[str, Any]) -> Mapping[str, str]:
    limits = shape.mapping(shape.mapping(container.get("resources")).get("limits"))
    return {name: str(value) for name, value in limits.items()}


def _binding(outcome: simulate.Placed, world: simulate.Simulation) -> Iterator[tuple[str, ...]]:
    """Yield the annotations of the pod's vendors; keys with the same text together."""
    keys_of: dict[str, list[str]] = {}
    texts = outcome.bound.annotations if outcome.bound else {}
    granted = outcome.granted.shares if outcome.granted else {}
    for vendor in world.books.vendors:
        if vendor.spec.keyword in granted:
            for key in vendor.spec.pod_keys:
                text = texts.get(key)
                if text:
                    keys_of.setdefault(text, []).append(doc_tables.code(key))
    for text, keys in keys_of.items():
        yield "Binding", f"annotation {', '.join(keys)}", doc_tables.code(text)


def _node(outcome: simulate.Placed) -> Iterator[tuple[str, ...]]:
    if outcome.bound:
        for key, text in outcome.bound.node_annotations.items():
            if text:
                yield "bind", f"node annotation {doc_tables.code(key)}", doc_tables.code(text)
