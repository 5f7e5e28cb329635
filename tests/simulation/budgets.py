"""PodDisruptionBudgets as the simulated cluster has them: at least so many pods of a label run.

The part of the disruption controller is played by ``recounted``, some time after each change.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def made(name: str, label: str, at_least: int) -> Json:
    """Return a new budget, before its controller has looked at it: it allows nothing."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": at_least, "selector": {"matchLabels": {"tier": label}}},
        "status": {"disruptionsAllowed": 0},
    }


def covers(budget: Json, pod: Json) -> bool:
    """Whether the budget is for that pod of its namespace."""
    wanted = budget["spec"]["selector"]["matchLabels"]
    return wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def taken(budget: Json, name: str, now_text: str) -> Json:
    """Return the budget after the server has let one more pod go."""
    status = budget["status"]
    disrupted = {**status.get("disruptedPods", {}), name: now_text}
    allowed = status["disruptionsAllowed"] - 1
    return {
        **budget,
        "status": {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted},
    }


def recounted(budget: Json, pods: Iterable[Json]) -> Json:
    """Return the budget as its controller writes it.

    >>> pod = {"metadata": {"name": "a", "labels": {"tier": "x"}}, "status": {"phase": "Running"}}
    >>> recounted(made("b", "x", 1), [pod])["status"]["disruptionsAllowed"]
    0
    >>> recounted(made("b", "x", 0), [pod])["status"]["disruptionsAllowed"]
    1
    """
    status = budget["status"]
    healthy = {
        pod["metadata"]["name"]
        for pod in pods
        if covers(budget, pod)
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    }
    disrupted = {
        name: since for name, since in status.get("disruptedPods", {}).items() if name in healthy
    }
    allowed = max(0, len(healthy) - len(disrupted) - budget["spec"]["minAvailable"])
    kept = {key: value for key, value in status.items() if key != "disruptedPods"}
    more = {"disruptedPods": disrupted} if disrupted else {}
    return {**budget, "status": {**kept, "disruptionsAllowed": allowed, **more}}
