"""Predicates of ``compatibility``: which differing fields of a case a rule explains."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from support.compare_answers import ABSENT, Difference, Path
from vgpu_operator.model import errors, settings
from vgpu_operator.vendors import registry
from vgpu_operator.wire import quantity

AFTER_FILTER = ("annotations", "bind", "filter", "labels", "usage_after", "simulation")
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Seen:
    """One recorded case, our answer, and where they differ."""

    case: Mapping[str, Any]
    answer: Mapping[str, Any]
    wrong: Mapping[Path, Difference]

    @property
    def name(self) -> str:
        name: str = self.case["name"]
        return name

    @property
    def expect(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.case["expect"]
        return found

    @cached_property
    def containers(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The pod's containers with their field, init containers first."""
        spec = self.case.get("pod", {}).get("spec", {})
        return [
            (field, container)
            for field in ("initContainers", "containers")
            for container in spec.get(field) or ()
        ]

    def amounts(self) -> Iterator[tuple[str, Any]]:
        """Every amount of a resource with a domain that the pod asks for."""
        for _, container in self.containers:
            resources = container.get("resources") or {}
            for part in ("limits", "requests"):
                for name, value in (resources.get(part) or {}).items():
                    if "/" in name:
                        yield name, value


def everything(seen: Seen) -> Iterable[Path]:
    return seen.wrong


def segments(seen: Seen) -> Iterator[Path]:
    n_containers = len(seen.containers)
    for path, (want, have) in seen.wrong.items():
        if (
            path[0] == "annotations"
            and isinstance(want, str)
            and isinstance(have, str)
            and have.count(";") == n_containers
            and want.replace(";", "") == have.replace(";", "")
        ):
            yield path


_NOTHING = re.compile(r";*|\[(\[\],?)*\]|null|false|<now(:ns)?>")


def texts_of_other_vendors(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] == "annotations" and have == ABSENT and _NOTHING.fullmatch(str(want)):
            yield path


def is_whole(value: Any) -> bool:
    try:
        return 0 <= quantity.decode_integer(value) <= INT32_MAX
    except errors.DecodeError:
        return False


def nonsense(seen: Seen) -> Iterable[Path]:
    ours = seen.answer.get("admission", {})
    refused = ours.get("allowed") is False and ours.get("code") == 422
    unusable = seen.case.get("suspect", "").startswith("claimed at admission, but the value")
    if (
        refused
        and seen.expect["admission"]["allowed"]
        and (unusable or not all(is_whole(value) for _, value in seen.amounts()))
    ):
        return seen.wrong
    return ()


def refusal_words(seen: Seen) -> Iterable[Path]:
    admission = seen.expect.get("admission", {}), seen.answer.get("admission", {})
    if all(part.get("allowed") is False for part in admission):
        return [("admission", "code"), ("admission", "message")]
    return ()


def remark(seen: Seen) -> Iterable[Path]:
    if seen.wrong.get(("admission", "code")) == (200, ABSENT):
        return [("admission", "code"), ("admission", "message")]
    return ()


def count_of_zero(seen: Seen) -> Iterable[Path]:
    ours = seen.answer.get("admission", {})
    asks_nothing = not any(seen.expect.get("requests") or ())
    has_zero = any(str(value) == "0" for _, value in seen.amounts())
    if asks_nothing and has_zero and ours.get("schedulerName") == "":
        return [path for path in seen.wrong if path[0] in ("admission", "filter", "requests")]
    return ()


def limits_from_requests(seen: Seen) -> Iterator[Path]:
    path = ("admission", "limits_after")
    want, have = seen.wrong.get(path, (None, None))
    if not isinstance(want, list) or not isinstance(have, list):
        return
    for theirs, ours in zip(want, have, strict=True):
        more = {k: v for k, v in ours["limits"].items() if theirs["limits"].get(k) != v}
        if any(ours["requests"].get(name) != value for name, value in more.items()):
            return
        if theirs["limits"].keys() - ours["limits"].keys():
            return
    yield path


def cores_above_whole(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] != "requests" or not isinstance(want, dict) or not isinstance(have, dict):
            continue
        lowered = {
            vendor: {**wish, "cores": min(wish["cores"], 100)} for vendor, wish in want.items()
        }
        if lowered == have:
            yield path


_SPECS = [
    vendor.spec
    for vendor in registry.build(
        settings.build({"vendors": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}})
    )
]
_VENDOR_OF_HANDSHAKE = {spec.handshake_key: spec for spec in _SPECS if spec.handshake_key}


def stamps(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] != "node_annotations_written" or len(path) < 2 or have != ABSENT:
            continue
        node = path[1]
        if len(path) == 2:
            if want == {}:
                yield path
            continue
        key = path[2]
        stamped = str(want).startswith("Requesting_")
        held = (seen.answer["devices"].get(node) or {}).keys()
        spec = _VENDOR_OF_HANDSHAKE.get(key)
        if stamped and "node-handshake" in key and (spec is None or spec.keyword not in held):
            yield path


def read_at_start(seen: Seen) -> Iterable[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] == "devices" and want in (ABSENT, None) and have not in (ABSENT, None):
            notes = _notes(seen, path[1])
            if any("Requesting" in text for key, text in notes.items() if "handshake" in key):
                return seen.wrong
    return ()


def _notes(seen: Seen, node: str) -> Mapping[str, str]:
    for raw in seen.case["nodes"]:
        if raw["metadata"]["name"] == node:
            found: Mapping[str, str] = raw["metadata"].get("annotations") or {}
            return found
    return {}


def nothing_allocatable(seen: Seen) -> Iterable[Path]:
    """The node that HAMi takes offers none of a resource that the pod asks for."""
    node = seen.expect.get("filter", {}).get("node")
    refused = seen.answer.get("filter", {}).get("failedNodes", {})
    if node is None or refused.get(node) != "node unregistered":
        return ()
    for raw in seen.case["nodes"]:
        if raw["metadata"]["name"] == node:
            offered = raw["status"].get("allocatable") or {}
            if any(str(offered.get(name, "0")) == "0" for name, _ in seen.amounts()):
                return [path for path in seen.wrong if path[0] in (*AFTER_FILTER, "devices")]
    return ()


def bad_weights(seen: Seen) -> Iterable[Path]:
    key = "hami.io/device-scoring-weights"
    want, have = seen.expect.get("filter", {}), seen.answer.get("filter", {})
    refused = have.get("failedNodes") or {"": ""}
    if key in want.get("error", "") and all(key in text for text in refused.values()):
        return [path for path in seen.wrong if path[0] == "filter"]
    return ()


def lock_words(seen: Seen) -> Iterable[Path]:
    want, have = seen.expect.get("bind", {}), seen.answer.get("bind", {})
    if want.get("error") and have.get("error"):
        return [path for path in seen.wrong if path[0] == "bind"]
    return ()


def own_lock(seen: Seen) -> Iterator[Path]:
    metadata = seen.case.get("pod", {}).get("metadata", {})
    owner = f",{metadata.get('namespace')},{metadata.get('name')}"
    for path, (want, have) in seen.wrong.items():
        if path[:2] == ("bind", "node_annotations") and want == ABSENT:
            before = _notes(seen, str(seen.answer["filter"]["node"])).get(path[2], "")
            if before.endswith(owner) and str(have).endswith(owner):
                yield path


def lock_of_init_only(seen: Seen) -> Iterator[Path]:
    asked = seen.expect.get("requests") or ()
    n_init = sum(field == "initContainers" for field, _ in seen.containers)
    if any(asked[:n_init]) and not any(asked[n_init:]):
        for path, (want, _) in seen.wrong.items():
            if path[:2] == ("bind", "node_annotations") and want == ABSENT:
                yield path


def sidecars(seen: Seen) -> Iterable[Path]:
    if any(
        field == "initContainers" and container.get("restartPolicy") == "Always"
        for field, container in seen.containers
    ):
        return [path for path in seen.wrong if path[0] in AFTER_FILTER]
    return ()


_SHARE = re.compile(r"[^,;:]+(?=,[^,;:]*,\d+,\d+:)")


def equal_cards(seen: Seen) -> Iterable[Path]:
    """Other cards of the same amounts, where the text's order is not the index's."""
    texts = [pair for path, pair in seen.wrong.items() if path[0] == "annotations"]
    if not texts or not _order_is_by_chance(seen):
        return ()
    for want, have in texts:
        if _SHARE.sub("", str(want)).count(":") != _SHARE.sub("", str(have)).count(":"):
            return ()
    return [path for path in seen.wrong if path[0] in ("annotations", "usage_after")]


def _order_is_by_chance(seen: Seen) -> bool:
    node = seen.answer.get("filter", {}).get("node")
    for cards in (seen.expect["devices"].get(node) or {}).values():
        order = [card["index"] for card in cards]
        if order != sorted(order) or len(set(order)) < len(order) or len(order) > 12:
            return True
    return False


def equal_nodes(seen: Seen) -> Iterable[Path]:
    want, have = seen.expect.get("filter", {}), seen.answer.get("filter", {})
    ours, theirs = have.get("node"), want.get("node")
    scores = want.get("scores", {})
    if ours and theirs and ours != theirs and scores.get(ours) == scores.get(theirs):
        return [
            path
            for path in seen.wrong
            if path[0] in AFTER_FILTER and path[:2] != ("filter", "scores")
        ]
    return ()


def panics(seen: Seen) -> Iterable[Path]:
    return [path for path in seen.wrong if path == ("panic",)]


def same_json(want: Any, have: Any) -> bool:
    """Whether two texts are the same JSON value."""
    try:
        return bool(json.loads(want) == json.loads(have))
    except (TypeError, ValueError):
        return False
