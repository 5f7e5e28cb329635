"""Messages of kube-scheduler's extender protocol (``k8s.io/kube-scheduler/extender/v1``).

kube-scheduler sends and reads the Go field names as they are (``NodeNames``);
Go reads names without regard to case, and so do we. Nothing here interprets
the pod: it stays raw JSON until ``vendors.records`` reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from vgpu_operator.model import errors

Json = dict[str, Any]

LONGEST_NAME = 253
"""Names of nodes, namespaces and pods are DNS subdomains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """Body of ``/filter`` and ``/prioritize``.

    Exactly one of ``node_names`` and ``nodes`` is set: names for the
    scheduler's own question, whole Node objects for the autoscaler's dry run.
    """

    pod: Json
    node_names: tuple[str, ...] | None = None
    nodes: tuple[Json, ...] | None = None


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


def decode_filter(body: bytes, *, what: str = "/filter") -> FilterArgs:
    """Read the body of ``/filter`` or ``/prioritize``.

    A name that comes twice is kept once: its answer would be the same.

    >>> decode_filter(b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":["a","a"]}').node_names
    ('a',)

    Raises:
        DecodeError: no JSON object, no Pod, or neither Nodes nor NodeNames.
    """
    fields = _object(body, what)
    pod = fields.get("pod")
    if not isinstance(pod, dict):
        raise errors.DecodeError("Pod is missing or no object", key=what)
    if not isinstance(pod.get("metadata"), dict):
        raise errors.DecodeError("Pod.metadata is missing or no object", key=what)
    names = fields.get("nodenames")
    if names is not None:
        if not isinstance(names, list) or not set(map(type, names)) <= {str}:
            raise errors.DecodeError("NodeNames must be a list of texts", key=what)
        return FilterArgs(pod=pod, node_names=tuple(dict.fromkeys(names)))
    nodes = fields.get("nodes")
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if isinstance(nodes, dict) and items is None and "items" in nodes:
        items = []
    if not isinstance(items, list) or not all(_is_node(item) for item in items):
        raise errors.DecodeError(
            "neither NodeNames nor a list of named Nodes is given; send one of them", key=what
        )
    return FilterArgs(pod=pod, nodes=tuple(items))


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
        if not isinstance(value, str) or not value or len(value) > LONGEST_NAME:
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
    node_names: Sequence[str] | None = None,
    nodes: Sequence[Mapping[str, Any]] | None = None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> bytes:
    """Write an ``ExtenderFilterResult``."""
    answer: Json = {
        "NodeNames": list(node_names) if node_names is not None else None,
        "FailedNodes": dict(failed or {}),
        "FailedAndUnresolvableNodes": dict(unresolvable or {}),
        "Error": error,
    }
    if nodes is not None:
        answer["Nodes"] = {"metadata": {}, "items": list(nodes)}
    return orjson.dumps(answer)


def encode_priorities(hosts: Sequence[str], scores: Sequence[int]) -> bytes:
    """Write a ``HostPriorityList``.

    >>> encode_priorities(["a"], [7])
    b'[{"Host":"a","Score":7}]'
    """
    return orjson.dumps(
        [{"Host": host, "Score": score} for host, score in zip(hosts, scores, strict=True)]
    )


def encode_bind(error: str = "") -> bytes:
    """Write an ``ExtenderBindingResult``; an empty text is success."""
    return orjson.dumps({"Error": error})
