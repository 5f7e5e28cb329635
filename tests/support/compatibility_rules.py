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
    asked = {vendor for entry in seen.expect.get("requests") or () for vendor in entry}
    for path, (want, have) in seen.wrong.items():
        if path[0] != "annotations" or have != ABSENT or not _NOTHING.fullmatch(str(want)):
            continue
        owners = {spec.keyword for spec in _SPECS if path[1] in spec.pod_keys}
        if owners and not owners & asked:
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
    copied = False
    for theirs, ours in zip(want, have, strict=True):
        if theirs["requests"] != ours["requests"]:
            return
        more = {k: v for k, v in ours["limits"].items() if theirs["limits"].get(k) != v}
        if any(ours["requests"].get(name) != value for name, value in more.items()):
            return
        if theirs["limits"].keys() - ours["limits"].keys():
            return
        copied |= bool(more)
    if copied:
        yield path


def requests_left_alone(seen: Seen) -> Iterator[Path]:
    """HAMi writes the same amounts to requests too."""
    path = ("admission", "limits_after")
    want, have = seen.wrong.get(path, (None, None))
    if not isinstance(want, list) or not isinstance(have, list):
        return
    for theirs, ours in zip(want, have, strict=True):
        more = theirs["requests"].items() - ours["requests"].items()
        if theirs["limits"] != ours["limits"] or not more <= ours["limits"].items():
            return
        if not ours["requests"].items() <= theirs["requests"].items():
            return
    yield path


def only_in_requests(seen: Seen) -> Iterable[Path]:
    """An amount stands in requests, not in limits, and ours copied it to limits."""
    after = seen.answer.get("admission", {}).get("limits_after") or ()
    for (_, container), ours in zip(seen.containers, after, strict=False):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name, value in requests.items():
            same = ours["limits"].get(name) == quantity.canonical(value)
            if "/" in name and name not in limits and same:
                return seen.wrong
    return ()


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
        held = (seen.answer.get("devices", {}).get(node) or {}).keys()
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


def expired_at_first_sight(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] == "node_annotations_written" and len(path) == 3:
            stamp = _notes(seen, path[1]).get(path[2], "")
            if (want, have) == (ABSENT, None) and stamp.startswith("Requesting_"):
                yield path


def read_on_change(seen: Seen) -> Iterable[Path]:
    """The register text is another one than before, and the handshake says Requesting."""
    for state in seen.case.get("earlier", ()):
        for raw in state["nodes"]:
            before = raw["metadata"].get("annotations") or {}
            now = _notes(seen, raw["metadata"]["name"])
            changed = any(
                key in before and before[key] != text and "register" in key
                for key, text in now.items()
            )
            if changed and any(text.startswith("Requesting") for text in now.values()):
                return seen.wrong
    return ()


def gone_with_the_capacity(seen: Seen) -> Iterable[Path]:
    """Cards that are made up of what the node no longer says."""
    if "earlier" not in seen.case:
        return ()
    for path, (want, have) in seen.wrong.items():
        if path[0] == "devices" and len(path) == 3 and want != ABSENT and have == ABSENT:
            spec = next((spec for spec in _SPECS if spec.keyword == path[2]), None)
            if spec is not None and spec.handshake_key is None:
                return seen.wrong
    return ()


def bad_text_costs_itself(seen: Seen) -> Iterable[Path]:
    """HAMi reads no card of a text of which we read some."""
    if "earlier" in seen.case or "Requesting" in str(seen.case.get("nodes")):
        return ()
    for path, (want, have) in seen.wrong.items():
        if path[0] == "devices" and want in (ABSENT, None) and have not in (ABSENT, None):
            return seen.wrong
    return ()


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
    for path, (want, _) in seen.wrong.items():
        if path[:2] != ("bind", "node_annotations") or want != ABSENT:
            continue
        users = {spec.keyword for spec in _SPECS if spec.lock_key == path[2]}
        by_init = any(users & entry.keys() for entry in asked[:n_init])
        if by_init and not any(users & entry.keys() for entry in asked[n_init:]):
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


def double_precision(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[:2] == ("filter", "scores") and ABSENT not in (want, have):
            theirs, ours = float(want), float(have)
            if abs(theirs - ours) <= 1e-6 * abs(theirs):
                yield path


def missing_vendor(seen: Seen) -> Iterator[Path]:
    for path, pair in seen.wrong.items():
        if path[:2] == ("filter", "failedNodes"):
            held = seen.answer.get("devices", {}).get(path[2]) or {}
            asked = {vendor for entry in seen.answer.get("requests", ()) for vendor in entry}
            if pair == ("NodeInsufficientDevice", "node unregistered") and asked - held.keys():
                yield path


def neuron_cores(seen: Seen) -> Iterator[Path]:
    """Only the cores of a request for whole Neuron devices."""
    for path, (want, have) in seen.wrong.items():
        if path[0] == "requests" and isinstance(want, dict) and isinstance(have, dict):
            both = want.get("AWSNeuron"), have.get("AWSNeuron")
            if all(both) and {**both[0], "cores": 0} == {**both[1], "cores": 0}:
                yield path


def slices(seen: Seen) -> Iterator[Path]:
    """Only the slots of an Enflame card that is given in slices."""
    for path, (want, have) in seen.wrong.items():
        if not path[0].startswith("usage") or "enflame-drs" not in path[-1]:
            continue
        both = isinstance(want, dict) and isinstance(have, dict)
        if both and {**want, "used": 0} == {**have, "used": 0} and have["used"] > want["used"]:
            yield path


def panics(seen: Seen) -> Iterable[Path]:
    return [path for path in seen.wrong if path == ("panic",)]


def same_json(want: Any, have: Any) -> bool:
    """Whether two texts are the same JSON value."""
    try:
        return bool(json.loads(want) == json.loads(have))
    except (TypeError, ValueError):
        return False
