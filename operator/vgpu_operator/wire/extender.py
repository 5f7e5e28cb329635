"""Messages of kube-scheduler's extender protocol (``k8s.io/kube-scheduler/extender/v1``).

kube-scheduler sends and reads the Go field names as they are (``NodeNames``);
Go reads names without regard to case, and so do we. Nothing here interprets
the pod: it stays raw JSON until ``vendors.records`` reads it.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from vgpu_operator.model import errors
from vgpu_operator.wire import object_names

Json = dict[str, Any]

_NAMES = b'"NodeNames":'
"""As Go writes it. Inside of a text its quotes would be escaped."""

_EXPECTED = secrets.token_hex()
"""Stands for the names in what is read; nobody else can have written it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """Body of ``/filter`` and ``/prioritize``.

    Exactly one of ``node_names`` and ``nodes`` is set: names for the
    scheduler's own question, whole Node objects for the autoscaler's dry run.
    A name that was sent twice is there twice.
    """

    pod: Json
    node_names: tuple[str, ...] | None = None
    nodes: tuple[Json, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of nodes, and how they are written as a JSON list.

    kube-scheduler sends to ``/prioritize`` the list that ``/filter`` answered;
    knowing it again costs a hundredth of reading thousands of names.
    """

    names: tuple[str, ...]
    text: bytes


NO_NAMES = Names(names=(), text=b"[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BindArgs:
    """Body of ``/bind``."""

    namespace: str
    name: str
    uid: str
    node: str


def _object(body: bytes, what: str) -> dict[str, Any]:
    """Return the body's JSON object with lower-case field names at its top."""
    if not body.strip():
        raise errors.DecodeError("the body is empty; send a JSON object", key=what)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise errors.DecodeError(f"the body is not JSON: {fault}", key=what) from fault
    if not isinstance(value, dict):
        raise errors.DecodeError(
            f"the body must be a JSON object, not {type(value).__name__}", key=what
        )
    return {name.lower(): content for name, content in value.items()}


def decode_filter(body: bytes, *, what: str = "/filter", expected: Names = NO_NAMES) -> FilterArgs:
    """Read the body of ``/filter`` or ``/prioritize``.

    >>> decode_filter(b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":["b","a"]}').node_names
    ('b', 'a')

    Args:
        body: JSON.
        what: the path, for the error.
        expected: the names that are probably in there.

    Raises:
        DecodeError: no JSON object, no Pod, or neither Nodes nor NodeNames.
    """
    rest = _without(body, expected)
    fields = _object(rest or body, what)
    if rest is not None and fields.get("nodenames") != _EXPECTED:
        # What was left out stood elsewhere.
        rest, fields = None, _object(body, what)
    pod = fields.get("pod")
    if not isinstance(pod, dict):
        raise errors.DecodeError("Pod is missing or no object", key=what)
    if not isinstance(pod.get("metadata"), dict):
        raise errors.DecodeError("Pod.metadata is missing or no object", key=what)
    if rest is not None:
        return FilterArgs(pod=pod, node_names=expected.names)
    names = fields.get("nodenames")
    if names is not None:
        if not isinstance(names, list) or not set(map(type, names)) <= {str}:
            raise errors.DecodeError("NodeNames must be a list of texts", key=what)
        return FilterArgs(pod=pod, node_names=tuple(names))
    nodes = fields.get("nodes")
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if isinstance(nodes, dict) and items is None and "items" in nodes:
        items = []
    if not isinstance(items, list) or not all(_is_node(item) for item in items):
        raise errors.DecodeError(
            "neither NodeNames nor a list of named Nodes is given; send one of them", key=what
        )
    return FilterArgs(pod=pod, nodes=tuple(items))


def _without(body: bytes, expected: Names) -> bytes | None:
    """Return the body with one word for the expected names; None when they are not found."""
    start = body.find(_NAMES) if expected.names else -1
    if start < 0 or not body.startswith(expected.text, start + len(_NAMES)):
        return None
    end = start + len(_NAMES) + len(expected.text)
    return b"".join((body[:start], _NAMES, orjson.dumps(_EXPECTED), body[end:]))


def _is_node(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def decode_bind(body: bytes) -> BindArgs:
    """Read the body of ``/bind``.

    Raises:
        DecodeError: no JSON object, or a field that is missing or no name.
    """
    fields = _object(body, "/bind")
    texts: dict[str, str] = {}
    for name in ("PodNamespace", "PodName", "PodUID", "Node"):
        value = fields.get(name.lower())
        if not isinstance(value, str) or not value or len(value) > object_names.LONGEST:
            raise errors.DecodeError(f"{name} is missing or no name", key="/bind")
        texts[name] = value
    return BindArgs(
        namespace=texts["PodNamespace"],
        name=texts["PodName"],
        uid=texts["PodUID"],
        node=texts["Node"],
    )


def encode_filter(
    *,
    node_names: Names | None = None,
    nodes: Sequence[Mapping[str, Any]] | None = None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> bytes:
    """Write an ``ExtenderFilterResult``."""
    answer: Json = {
        "NodeNames": orjson.Fragment(node_names.text) if node_names is not None else None,
        "FailedNodes": dict(failed or {}),
        "FailedAndUnresolvableNodes": dict(unresolvable or {}),
        "Error": error,
    }
    if nodes is not None:
        answer["Nodes"] = {"metadata": {}, "items": list(nodes)}
    return orjson.dumps(answer)


def names_of(nodes: Sequence[str]) -> Names:
    """Return these names and their text."""
    return Names(names=tuple(nodes), text=orjson.dumps(nodes))


def encode_priorities(hosts: Names, scores: Sequence[int]) -> bytes:
    """Write a ``HostPriorityList``.

    >>> encode_priorities(names_of(["a", "b"]), [7, 0])
    b'[{"Host":"a","Score":7},{"Host":"b","Score":0}]'

    The texts of the names are put together with those of the scores: a third of
    the time that thousands of objects take.
    """
    texts = hosts.text[1:-1].split(b",")
    if len(texts) != len(scores):
        # None at all, or one with a comma in it, which is no name of a node.
        return orjson.dumps(
            [
                {"Host": host, "Score": score}
                for host, score in zip(hosts.names, scores, strict=True)
            ]
        )
    after = {score: b',"Score":%d},{"Host":' % score for score in set(scores)}
    parts = [b""] * (2 * len(scores))
    parts[::2] = texts
    parts[1::2] = map(after.__getitem__, scores)
    parts[-1] = b',"Score":%d}]' % scores[-1]
    return b'[{"Host":' + b"".join(parts)


def encode_bind(error: str = "") -> bytes:
    """Write an ``ExtenderBindingResult``; an empty text is success."""
    return orjson.dumps({"Error": error})
