"""Predicates of ``compatibility``: which differing fields of a case a rule explains.

Those about admission are in ``compatibility_admission``.
"""

import re
from collections.abc import Iterable, Iterator

from support import recorded_asks
from support.compare_answers import ABSENT, Path
from support.compatibility_seen import AFTER_FILTER, Seen
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

_SPECS = [vendor.spec for vendor in registry.build(settings.build(recorded_asks.EVERY_VENDOR))]
_VENDOR_OF_HANDSHAKE = {spec.handshake_key: spec for spec in _SPECS if spec.handshake_key}
_BY_KEYWORD = {spec.keyword: spec for spec in _SPECS}
_LOCKS = {spec.lock_key for spec in _SPECS}


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


def read_at_start(seen: Seen) -> Iterator[Path]:
    """Only ours has the cards of a node whose handshake says Requesting."""
    for node in _only_ours(seen):
        notes = seen.notes(node)
        if any("Requesting" in text for key, text in notes.items() if "handshake" in key):
            yield from _cards_and_placement(seen, node)


def _only_ours(seen: Seen) -> set[str]:
    """Return the nodes of which only we read a card."""
    return {
        path[1]
        for path, (want, have) in seen.wrong.items()
        if path[0] == "devices" and want in (ABSENT, None) and have not in (ABSENT, None)
    }


def _cards_and_placement(seen: Seen, node: str) -> Iterator[Path]:
    """Yield what follows from a node having other cards."""
    yield from (path for path in seen.wrong if path[:2] == ("devices", node))
    yield from seen.placement([node])


def expired_at_first_sight(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] == "node_annotations_written" and len(path) == 3:
            stamp = seen.notes(path[1]).get(path[2], "")
            if (want, have) == (ABSENT, None) and stamp.startswith("Requesting_"):
                yield path


def read_on_change(seen: Seen) -> Iterator[Path]:
    """The register text is another one than before, and the handshake says Requesting."""
    for state in seen.case.get("earlier", ()):
        for raw in state["nodes"]:
            name = raw["metadata"]["name"]
            before, now = raw["metadata"].get("annotations") or {}, seen.notes(name)
            changed = any(
                key in before and before[key] != text and "register" in key
                for key, text in now.items()
            )
            if changed and any(text.startswith("Requesting") for text in now.values()):
                yield from _cards_and_placement(seen, name)
                yield from _stamped_by_us(seen, name)


def _stamped_by_us(seen: Seen, node: str) -> Iterator[Path]:
    """Yield the handshakes of vendors with cards there that only we stamp."""
    held = (seen.answer.get("devices", {}).get(node) or {}).keys()
    keys = {_BY_KEYWORD[word].handshake_key for word in held}
    for path, (_, have) in seen.wrong.items():
        of_node = path[:2] == ("node_annotations_written", node)
        if of_node and path[-1] in keys and str(have).startswith("Requesting_"):
            yield path


def gone_with_the_capacity(seen: Seen) -> Iterator[Path]:
    """Cards that are made up of what the node no longer says."""
    if "earlier" not in seen.case:
        return
    for path, (want, have) in seen.wrong.items():
        if path[0] == "devices" and len(path) == 3 and want != ABSENT and have == ABSENT:
            spec = _BY_KEYWORD.get(path[2])
            if spec is not None and spec.handshake_key is None:
                yield from _cards_and_placement(seen, path[1])


def bad_text_costs_itself(seen: Seen) -> Iterator[Path]:
    """HAMi reads no card of a text of which we read some."""
    if "earlier" in seen.case or "Requesting" in str(seen.case.get("nodes")):
        return
    for node in _only_ours(seen):
        yield from _cards_and_placement(seen, node)


def nothing_allocatable(seen: Seen) -> Iterator[Path]:
    """The node that HAMi takes offers none of the devices of a vendor that the pod asks."""
    node = seen.expect.get("filter", {}).get("node")
    refused = seen.answer.get("filter", {}).get("failedNodes", {})
    if node is None or refused.get(node) != "node unregistered":
        return
    asked = {vendor for entry in seen.answer.get("requests", ()) for vendor in entry}
    offered = seen.allocatable(node)
    proofs = [
        _BY_KEYWORD[word].supply_resource or _BY_KEYWORD[word].count_resource for word in asked
    ]
    if any(str(offered.get(name, "0")) == "0" for name in proofs):
        yield from _cards_and_placement(seen, node)


def bad_weights(seen: Seen) -> Iterable[Path]:
    key = "hami.io/device-scoring-weights"
    want, have = seen.expect.get("filter", {}), seen.answer.get("filter", {})
    refused = have.get("failedNodes") or {"": ""}
    if key in want.get("error", "") and all(key in text for text in refused.values()):
        return [path for path in seen.wrong if path[0] == "filter"]
    return ()


def lock_words(seen: Seen) -> Iterator[Path]:
    """The lock text has neither one part nor three; both refuse."""
    want, have = seen.expect.get("bind", {}).get("error"), seen.answer.get("bind", {}).get("error")
    notes = [seen.notes(node) for node in seen.chosen]
    texts = [text for one in notes for key, text in one.items() if key in _LOCKS]
    if want and have and any(text.count(",") not in (0, 2) for text in texts):
        yield ("bind", "error")


def lock_removed(seen: Seen) -> Iterator[Path]:
    """Both fail to bind; only HAMi removes a lock."""
    if seen.expect.get("bind", {}).get("error") == seen.answer.get("bind", {}).get("error"):
        for path, pair in seen.wrong.items():
            if path[:2] == ("bind", "node_annotations") and pair == (None, ABSENT):
                yield path


def own_lock(seen: Seen) -> Iterator[Path]:
    metadata = seen.case.get("pod", {}).get("metadata", {})
    owner = f",{metadata.get('namespace')},{metadata.get('name')}"
    for path, (want, have) in seen.wrong.items():
        if path[:2] == ("bind", "node_annotations") and want == ABSENT:
            before = seen.notes(str(seen.answer["filter"]["node"])).get(path[2], "")
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
