"""Every sentence about preemption, for the people of one namespace.

Pods and budgets of other namespaces are counted and not named, as ``closest`` does it; of the
pod that another one leaves for, the UID is told, as kube-scheduler's own event does.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from vgpu_operator.flows import effects, reasons
from vgpu_operator.flows.preemption.attempts import Attempt, Outcome
from vgpu_operator.model import budgets, request

OUR_FAULT: Final = "the operator could not judge how it stands (see its log)"
"""What is told where a fault of our own has ended an attempt."""

MOST_NAMES: Final = 5
"""Pods that are named in one sentence; of more the number is said."""


def preempting(attempt: Attempt) -> effects.PostEvent:
    """Say whose leaving the pod waits for."""
    who = pods(attempt.victims, attempt.pod.namespace)
    return reasons.on_pod(
        attempt.pod,
        "Preempting",
        f"evicting {who} from {attempt.node} to make room; its cards are held for this pod",
        warning=False,
    )


def planned(pod: request.PodKey, node: str, victims: Sequence[request.PodKey]) -> effects.PostEvent:
    """Say what would be done if this were no dry run."""
    return reasons.on_pod(
        pod,
        "PreemptionPlanned",
        f"would evict {pods(victims, pod.namespace)} from {node} to make room;"
        " preemption.dryRun is on, so nothing is evicted",
        warning=False,
    )


def preempted(victim: request.PodKey, attempt: Attempt) -> effects.PostEvent:
    """Say for whom a pod has to leave."""
    same = victim.namespace == attempt.pod.namespace
    who = f"{attempt.pod.name} ({attempt.pod.uid})" if same else attempt.pod.uid
    return reasons.on_pod(
        victim, "Preempted", f"Preempted by pod {who} on node {attempt.node}", warning=False
    )


def blocked(
    pod: request.PodKey, node: str, forbidding: Iterable[budgets.Budget]
) -> effects.PostEvent:
    """Say which budgets keep the pods that would have to leave."""
    found = sorted(forbidding, key=str)
    named = [f"PodDisruptionBudget {b.name}" for b in found if b.namespace == pod.namespace]
    others = len(found) - len(named)
    if others:
        named.append(f"{_number(others, 'PodDisruptionBudget')} of other namespaces")
    return reasons.on_pod(
        pod,
        "PreemptionBlocked",
        f"evicting pods from {node} would make room, but {_joined(named)} allows no more"
        " evictions now; nothing is evicted, and it is tried again while the pod waits",
    )


def failed(attempt: Attempt, outcome: Outcome, why: str = "") -> effects.PostEvent | None:
    """Say why cards are no longer held; None where there is nothing to complain of."""
    match outcome:
        case Outcome.OVERTAKEN:
            told = (
                f"it would no longer fit on {attempt.node} once the pods are gone that were"
                " chosen: other pods were given the cards, one of those that were to leave has"
                " not left or is no longer to leave, or the quota is used up"
            )
        case Outcome.TIMED_OUT:
            told = (
                f"not bound to {attempt.node} within preemption.timeLimitS;"
                " its cards are held no longer"
            )
        case Outcome.FAILED:
            told = f"preemption on {attempt.node} was given up: {why}"
        case _:
            return None
    return reasons.on_pod(attempt.pod, "PreemptionFailed", told)


def eviction_refused(attempt: Attempt, victim: request.PodKey, why: str) -> str:
    """Return why an eviction was refused, for the people of the pod that it was to make room for.

    What the API server says names the pod that stays, and perhaps the rules of its namespace.
    """
    if victim.namespace == attempt.pod.namespace:
        return why
    return "the API server refused to evict a pod of another namespace (see the operator's log)"


def pods(keys: Sequence[request.PodKey], namespace: str) -> str:
    """Return who they are, for the people of that namespace.

    >>> a, b = (request.PodKey(uid=n, namespace="x", name=n) for n in ("a", "b"))
    >>> pods((a, b), "x"), pods((a, b), "y")
    ('2 pods (a, b)', '2 pods (2 of other namespaces)')
    """
    ours = sorted(key.name for key in keys if key.namespace == namespace)
    others = len(keys) - len(ours)
    named = ours[:MOST_NAMES]
    if len(ours) > MOST_NAMES:
        named.append(f"{len(ours) - MOST_NAMES} more of this namespace")
    if others:
        named.append(f"{others} of other namespaces")
    return f"{_number(len(keys), 'pod')} ({', '.join(named)})"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _joined(words: Sequence[str]) -> str:
    return " and ".join(words)
