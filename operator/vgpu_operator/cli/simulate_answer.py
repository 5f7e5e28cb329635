"""What a simulation found, in the form and words of HAMi's recorded answers.

Only form: every value comes from the flows. The operator itself speaks in its
own sentences (one event a refusal, say); here they are put in HAMi's, so that
two answers can be laid side by side. ``tests/vectors/README.md`` has the form.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from vgpu_operator.flows import simulate
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.model import device, reason, request
from vgpu_operator.vendors import mig
from vgpu_operator.wire import clock_text, keys, quantity, shape

Json: TypeAlias = dict[str, Any]

_NOT_GIVEN = {"NVIDIA": 101}
"""HAMi's percentage of a request that names none; 0 with every other vendor."""

_OF_BIND = (keys.BIND_PHASE, keys.BIND_TIME)
"""What HAMi writes in its bind step; the rest it writes in its filter."""


def placeholders(texts: Mapping[str, str | None], now: datetime.datetime) -> Json:
    """Return texts with every form of ``now`` replaced by its placeholder."""
    unix_s = str(int(now.timestamp()))
    forms = (
        (f"{unix_s}000000000", "<now:ns>"),
        (unix_s, "<now>"),
        (clock_text.encode_rfc3339(now), "<now:rfc3339>"),
        (f"{now:%Y-%m-%d %H:%M:%S}", "<now:datetime>"),
    )
    found: Json = {}
    for key, text in sorted(texts.items()):
        for form, placeholder in forms:
            if text is not None:
                text = text.replace(form, placeholder)
        found[key] = text
    return found


def card(one: device.Device, scores: Mapping[str, int] | None = None) -> Json:
    """Return a registered card; members that are empty for most are left out."""
    row: Json = {
        "id": one.id,
        "index": one.index,
        "count": one.slots,
        "devmem": one.memory_mib,
        "devcore": one.cores_percent,
        "type": one.type,
        "numa": one.numa,
        "mode": one.mode,
        "health": one.healthy,
    }
    if one.custom_info:
        row["custominfo"] = dict(one.custom_info)
    if one.mig_profiles:
        row["migProfiles"] = [
            {
                "name": profile.name,
                "memoryMB": profile.memory_mib,
                "core": profile.cores_percent,
                "sliceCount": profile.slice_count,
                "placements": [{"start": p.start, "size": p.size} for p in profile.placements],
            }
            for profile in one.mig_profiles
        ]
    if scores is not None:
        row["pair_score"] = dict(scores)
    return row


def usage(cards: Iterable[ledger_nodes.CardUsage]) -> list[Json]:
    """Return used cards by id."""
    rows = [_used(one) for one in cards]
    return sorted(rows, key=lambda row: str(row["id"]))


def usage_before(
    cards: Iterable[ledger_nodes.CardUsage], instances: Mapping[str, Sequence[mig.Instance]]
) -> list[Json]:
    """Return used cards by id, with their health and the MIG instances that pods hold on them."""
    rows = []
    for one in cards:
        row = _used(one) | {"health": one.device.healthy}
        found = instances.get(one.device.id)
        if found:
            row["mig"] = [
                {
                    "profile": each.profile,
                    "start": each.placement.start,
                    "size": each.placement.size,
                }
                for each in found
            ]
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["id"]))


def _used(one: ledger_nodes.CardUsage) -> Json:
    return {
        "id": one.device.id,
        "used": one.used_slots,
        "usedcores": one.used_cores_percent,
        "usedmem": one.used_memory_mib,
    }


def admission(before: Mapping[str, Any], admitted: simulate.Admitted) -> Json:
    """Return the review's answer and what the pod holds afterwards."""
    verdict = admitted.verdict
    if not verdict.allowed:
        return {
            "called": True,
            "allowed": False,
            "code": verdict.code,
            "message": verdict.message,
        }
    spec = shape.mapping(admitted.pod.get("spec"))
    had, has = shape.annotations(before), shape.annotations(admitted.pod)
    return {
        "called": True,
        "allowed": True,
        "schedulerName": shape.text(spec.get("schedulerName")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "annotations_added": {key: text for key, text in has.items() if had.get(key) != text},
        "env_added": _env_added(before, admitted.pod),
        "limits_after": [
            _limits(field, container) for field, container in _containers(admitted.pod)
        ],
    }


def requests(containers: Sequence[request.ContainerRequest]) -> list[Json]:
    """Return what every container asks of every vendor."""
    return [
        {
            wish.vendor: {
                "nums": wish.count,
                "type": wish.vendor,
                "memreq": wish.memory_mib,
                "mem_percentage": (
                    _NOT_GIVEN.get(wish.vendor, 0)
                    if wish.memory_percent is None
                    else wish.memory_percent
                ),
                "cores": wish.cores_percent,
            }
            for wish in container.devices
        }
        for container in containers
    ]


def filtered(placed: simulate.Placed, nodes: Sequence[str]) -> Json:
    """Return the filter's answer with the one node that HAMi would name."""
    wish = placed.record.request
    answer: Json = {"called": True, "error": "", "node": placed.node}
    if not wish.wants_devices:
        nothing: Json = {"nodes": list(nodes), "failedNodes": {}, "scores": {}, "events": []}
        return answer | nothing
    refused = {name: words(why) for name, why in placed.rejections.items()}
    return answer | {
        "failedNodes": refused if placed.node is None else {},
        "scores": {name: f"{score:.2f}" for name, score in placed.scores.items()},
        "events": (
            _refusal_events(placed.rejections)
            if placed.node is None
            else [
                f"Normal FilteringSucceed find fit node({placed.node}), {len(refused)} nodes not"
                f" fit, {len(placed.scores)} nodes fit(...)"
            ]
        ),
    }


def words(why: reason.NodeRejection) -> str:
    """Return a refusal without the sentence that we add to HAMi's words.

    >>> words(reason.NodeRejection(detail="container main: too much"))
    'container main: too much'
    """
    return ", ".join(sorted(str(count) for count in why.counts)) or why.detail


def _refusal_events(rejections: Mapping[str, reason.NodeRejection]) -> list[str]:
    """Return one event a counted reason, and one that counts the nodes."""
    by_reason: dict[str, list[str]] = {}
    for node, why in rejections.items():
        for count in why.counts:
            if "/" in str(count):
                by_reason.setdefault(str(count.reason), []).append(node)
    events = [
        f"Warning FilteringFailed {len(nodes)} nodes {word}({','.join(sorted(nodes))})"
        for word, nodes in by_reason.items()
    ]
    events.append(f"Warning FilteringFailed no available node, {len(rejections)} nodes do not meet")
    return sorted(events)


def written(placed: simulate.Placed, now: datetime.datetime) -> Json:
    """Return what HAMi's filter writes on the pod (ours goes with the Binding)."""
    texts = {key: text for key, text in placed.annotations.items() if key not in _OF_BIND}
    return placeholders(texts, now)


def bound(result: simulate.Bound, now: datetime.datetime) -> Json:
    """Return how the bind step ended."""
    texts = {key: text for key, text in result.annotations.items() if key in _OF_BIND}
    return {
        "error": (result.waited or result.error) if result.error else "",
        "annotations": placeholders(texts, now),
        "node_annotations": placeholders(result.node_annotations, now),
    }


def dry_run(fitting: Sequence[str], rejections: Mapping[str, reason.NodeRejection]) -> Json:
    """Return the answer to a filter call with Node objects: HAMi names one of those that fit."""
    return {
        "error": "",
        "nodes": list(fitting[:1]),
        "failedNodes": {name: words(why) for name, why in rejections.items()},
    }


def _containers(pod: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return ((field, container) for field, _, container in shape.containers(pod))


def _limits(field: str, container: Mapping[str, Any]) -> Json:
    resources = shape.mapping(container.get("resources"))
    return {
        "kind": "init" if field == "initContainers" else "app",
        "name": shape.text(container.get("name")),
        **{
            part: {
                name: quantity.canonical(value)
                for name, value in sorted(shape.mapping(resources.get(part)).items())
            }
            for part in ("limits", "requests")
        },
    }


def _env_added(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    found = {}
    for (_, old), (_, new) in zip(_containers(before), _containers(after), strict=True):
        own = len(shape.mappings(old.get("env")))
        added = shape.mappings(new.get("env"))[own:]
        if added:
            rows = sorted((dict(entry) for entry in added), key=lambda entry: str(entry["name"]))
            found[shape.text(new.get("name"))] = rows
    return found
