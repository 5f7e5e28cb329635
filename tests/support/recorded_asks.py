"""For every vendor and resource a recorded pod that asks for it and was placed, with its nodes."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from support import vendor_vectors
from vgpu_operator.model import settings
from vgpu_operator.vendors import base, registry

Json = dict[str, Any]

EVERY_VENDOR: Final[Mapping[str, Any]] = {
    "vendors": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
}
"""Settings under which all 25 back ends are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A pod that asks for one resource, on an idle cluster that has it."""

    vendor: base.Vendor
    resource: str
    nodes: tuple[Json, ...]
    pod: Json

    def __str__(self) -> str:
        return self.resource

    def with_amount(self, value: object, *, where: str = "limits") -> Json:
        """Return the pod with that value wherever it names the resource.

        ``where`` is ``limits``, or ``requests``: then limits do not name it.
        """
        pod = copy.deepcopy(self.pod)
        for container in containers(pod):
            limits = container.get("resources", {}).get("limits", {})
            if self.resource in limits:
                del limits[self.resource]
                container["resources"].setdefault(where, {})[self.resource] = value
        return pod

    def with_note(self, key: str, text: object) -> Json:
        """Return the pod with one more annotation."""
        pod = copy.deepcopy(self.pod)
        pod["metadata"].setdefault("annotations", {})[key] = text
        return pod


def containers(pod: Json) -> list[Json]:
    """Return a pod's containers, init containers first."""
    found: list[Json] = pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
    return found


def every() -> dict[str, Ask]:
    """Return an ask for each resource of each vendor, by the resource's name."""
    vendors = registry.build(settings.build(EVERY_VENDOR))
    owners = {name: vendor for vendor in vendors for name in vendor.spec.resources}
    found: dict[str, Ask] = {}
    files = sorted(file.stem for file in vendor_vectors.VECTORS.glob("*.jsonl"))
    for case in vendor_vectors.cases(*files):
        if not _is_plain(case):
            continue
        named = {
            name
            for container in containers(case["pod"])
            for name in container.get("resources", {}).get("limits", {})
        }
        for name in named & owners.keys() - found.keys():
            vendor = owners[name]
            if len({owners[other] for other in named & owners.keys()}) == 1:
                found[name] = Ask(
                    vendor=vendor, resource=name, nodes=tuple(case["nodes"]), pod=case["pod"]
                )
    assert found.keys() == owners.keys(), owners.keys() - found.keys()
    return {name: found[name] for name in owners}


def _is_plain(case: Mapping[str, Any]) -> bool:
    """Whether the pod was admitted and placed on an idle cluster, by the usual settings."""
    expect = case.get("expect")
    if not isinstance(expect, dict) or any(
        case.get(more) for more in ("flags", "pods", "quotas", "earlier")
    ):
        return False
    placed = (expect.get("filter") or {}).get("node")
    return bool(placed and expect["admission"].get("allowed"))
