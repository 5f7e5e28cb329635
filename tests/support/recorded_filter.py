"""Recorded filter questions become a ledger and a request; answers become values.

Only what the filter needs is read: which cards the peer held after
registration, what it read from the limits after admission, and the raw pods
and nodes. Everything else of a vector belongs to other tests.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support import vendor_vectors
from vgpu_operator.ledger import ledger
from vgpu_operator.model import policy, request, settings
from vgpu_operator.scheduling import fit
from vgpu_operator.vendors import records, registry, requests

VENDOR = "NVIDIA"
ALLOCATED = "hami.io/vgpu-devices-allocated"
CARD_POLICY = "hami.io/gpu-scheduler-policy"

_VENDORS = registry.build(settings.Settings())
_BY_KEYWORD = _VENDORS.by_keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the peer's filter said."""

    node: str | None
    failed: Mapping[str, str]
    scores: Mapping[str, str]
    allocated: str


def annotations(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's annotations."""
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def card_policies(case: Mapping[str, Any]) -> str:
    """Return the card policy text that holds for the pod."""
    by_flag = case["flags"].get("gpu_scheduler_policy", "spread")
    return annotations(case["pod"]).get(CARD_POLICY) or by_flag


def answers(case: Mapping[str, Any]) -> list[Answer]:
    """Return every answer that the peer gave in repeated runs."""
    found = []
    for difference in ({}, *case.get("alternatives", ())):
        expect = {**case["expect"], **difference}
        seen = expect["filter"]
        found.append(
            Answer(
                node=seen["node"],
                failed=seen["failedNodes"],
                scores=seen["scores"],
                allocated=expect["annotations"].get(ALLOCATED, ""),
            )
        )
    return found


def build_ledger(case: Mapping[str, Any]) -> ledger.Ledger:
    """Return the books as the peer's were before the filter."""
    books = ledger.Ledger(vendors=(VENDOR,), trust=settings.Trust.ANNOTATIONS, rules=_BY_KEYWORD)
    for raw in case["nodes"]:
        node = records.node_record(raw, _VENDORS)
        held = (case["expect"]["devices"].get(node.name) or {}).get(VENDOR) or ()
        books.set_devices(
            node.name, VENDOR, [vendor_vectors.recorded_card(entry) for entry in held]
        )
        books.set_allocatable(node.name, VENDOR, node.allocatable.get(VENDOR))
        books.set_cordoned(node.name, node.cordoned)
        books.set_notes(node.name, node.notes)
    for raw in case["pods"]:
        books.observe(records.pod_record(raw, _VENDORS, aliases={}))
    return books


def build_request(case: Mapping[str, Any]) -> request.PodRequest:
    """Return the pod's wish with the numbers that the peer read from its limits."""
    pod = json.loads(json.dumps(case["pod"]))
    containers = pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
    after = case["expect"]["admission"].get("limits_after", [])
    for container, seen in zip(containers, after, strict=False):
        container["resources"] = {"limits": seen["limits"], "requests": seen["requests"]}
    wish = requests.pod_request(pod, _VENDORS, aliases={})
    recorded = case["expect"]["requests"]
    assert len(recorded) == len(wish.containers)
    return dataclasses.replace(
        wish,
        containers=tuple(
            dataclasses.replace(container, devices=_devices(entry), impossible="")
            for container, entry in zip(wish.containers, recorded, strict=True)
        ),
    )


def build_defaults(case: Mapping[str, Any]) -> fit.Defaults:
    """Return the policies of the peer's flags."""
    flags = case["flags"]
    return fit.Defaults(
        node_policy=policy.NodePolicy(flags.get("node_scheduler_policy", "binpack")),
        card_policies=(policy.CardPolicy(flags.get("gpu_scheduler_policy", "spread")),),
        vendors=_BY_KEYWORD,
    )


def _devices(entry: Mapping[str, Any]) -> tuple[request.DeviceRequest, ...]:
    return tuple(
        request.DeviceRequest(
            vendor=vendor,
            count=asked["nums"],
            memory_mib=asked["memreq"],
            memory_percent=None if asked["mem_percentage"] == 101 else asked["mem_percentage"],
            cores_percent=asked["cores"],
        )
        for vendor, asked in entry.items()
    )
