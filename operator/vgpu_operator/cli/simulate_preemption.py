"""What ``vgpu simulate --preempt`` reads besides: priorities of classes, and budgets."""

from __future__ import annotations

from vgpu_operator.cli import manifests, options
from vgpu_operator.model import budgets
from vgpu_operator.wire import budgets as wire_budgets
from vgpu_operator.wire import priority_classes


def prepare(found: manifests.Manifests) -> tuple[budgets.Budget, ...]:
    """Give all pods the priority of their class, as the API server does; return the budgets."""
    classes = [priority_classes.decode_class(raw) for raw in found.priority_classes]
    unknown: dict[str, int] = {}
    for place, raw in enumerate(found.pods):
        pod = priority_classes.resolved(raw, classes)
        if pod is None:
            name = raw["spec"]["priorityClassName"]
            unknown[name] = unknown.get(name, 0) + 1
            continue
        found.pods[place] = pod
    for name, number in sorted(unknown.items()):
        pods = "1 pod" if number == 1 else f"{number} pods"
        options.note(f"PriorityClass {name} of {pods} is in no file: its priority counts as 0")
    for raw in found.budgets:
        if (raw.get("status") or {}).get("disruptionsAllowed") is None:
            name = raw["metadata"]["name"]
            options.note(
                f"PodDisruptionBudget {name} has no status.disruptionsAllowed: it counts as"
                " allowing no eviction"
            )
    return tuple(
        wire_budgets.decode_budget({**raw, "metadata": {"namespace": "default", **raw["metadata"]}})
        for raw in found.budgets
    )
