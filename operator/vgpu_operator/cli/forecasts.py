"""What commands say of evictions that preemption would make."""

from typing import Any

from vgpu_operator.flows.preemption import forecast, plan
from vgpu_operator.model import allocation

_OUTCOMES = {
    plan.Plan: "evicts",
    plan.Waits: "waits",
    plan.Blocked: "blocked",
    plan.NoPlan: "none",
}


def granted(found: forecast.Forecast) -> allocation.Allocation | None:
    """Return what the pod gets once others have left; None where it gets nothing."""
    answer = found.answer
    return answer.allocation if isinstance(answer, plan.Plan | plan.Waits) else None


def row(found: forecast.Forecast) -> dict[str, Any]:
    """Return what programs read: ``node`` is empty where the pod is not helped.

    ``outcome`` is ``evicts``, ``waits``, ``blocked``, ``none``, or ``off`` where the pod takes
    no part.
    """
    answer = found.answer
    if answer is None:
        return {"outcome": "off", "node": "", "victims": [], "sentence": found.sentence}
    victims = answer.victims if isinstance(answer, plan.Plan | plan.Blocked) else ()
    return {
        "outcome": _OUTCOMES[type(answer)],
        "node": answer.node if isinstance(answer, plan.Plan | plan.Waits) else "",
        "victims": [
            {
                "namespace": victim.key.namespace,
                "pod": victim.key.name,
                "priority": victim.priority,
                "budgetsBroken": list(victim.budgets_broken),
            }
            for victim in victims
        ],
        "sentence": found.sentence,
    }
