"""Every Event that the operator sends: its reason word and its sentence.

The words that HAMi has too are HAMi's; the rest are ours. One place, so that
the documentation's list is this list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vgpu_operator.flows.effects import EventType, PostEvent
from vgpu_operator.model import reason, request

FILTERING_FAILED: Final = "FilteringFailed"

REASONS: Final[Mapping[str, str]] = {
    FILTERING_FAILED: (
        "Pod: no node fits; one event for each reason, with its nodes. The first also says"
        " what came closest."
    ),
    "FilteringSucceed": "Pod: nodes fit. Only with events.success.",
    "BindingSucceed": "Pod: bound, allocation begun. Only with events.success.",
    "BindingFailed": "Pod: it was not bound; kube-scheduler tries again.",
    "AllocationFailed": "Pod: the device plugin reports failed, yet the pod is not ended.",
    "AllocationStuck": "Pod: the device plugin has not served it for longer than bind.stuckAfter.",
    "AllocationUnreadable": "Pod: its allocation annotation cannot be read in full.",
    "AllocationSurplus": "Pod: its annotations promise more than its containers ask for.",
    "WebhookBypassed": "Pod: it asks for devices but never passed the webhook.",
    "Preempting": "Pod: pods of lower priority are evicted so that it gets their cards.",
    "Preempted": "Pod: it is evicted for a pod of higher priority.",
    "PreemptionBlocked": (
        "Pod: evicting pods would make room for it, but a PodDisruptionBudget keeps them."
    ),
    "PreemptionPlanned": "Pod: who would be evicted for it; preemption.dryRun is on.",
    "PreemptionFailed": "Pod: cards were held for it and are so no longer; says why.",
    "RegisterUnreadable": "Node: a register annotation cannot be read in full.",
    "RegisterRemoved": "Node: a register annotation was removed; the last cards are kept.",
    "DevicesExpired": "Node: handshake expired and nothing allocatable; the cards are removed.",
    "NodeLockStuck": "Node: its lock belongs to a bound pod that no kubelet has seen.",
    "NodeLockMalformed": "Node: its lock text cannot be read; it ends with its expiry.",
}
"""Reason word to what it says: first the object it is sent for."""

LONGEST_MESSAGE: Final = 1000
"""The API server refuses longer ones at 1,024 characters."""

MOST_REASONS: Final = 8
"""Events about one refusal; further reasons stand in kube-scheduler's own event."""

_MOST_NAMES: Final = 20


def _cut(text: str, longest: int = LONGEST_MESSAGE) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def joined(text: str, detail: str) -> str:
    """Return a message with a detail behind it; where both are too long, the detail stays whole.

    The detail is a card and a few pods, the text may be a list of nodes.
    """
    detail = _cut(detail, LONGEST_MESSAGE // 2)
    return f"{_cut(text, LONGEST_MESSAGE - len(detail) - 2)}; {detail}"


def on_pod(pod: request.PodKey, word: str, message: str, *, warning: bool = True) -> PostEvent:
    """Return the Event for a pod."""
    kind = EventType.WARNING if warning else EventType.NORMAL
    return PostEvent(type=kind, reason=word, message=_cut(message), pod=pod)


def on_node(node: str, word: str, message: str) -> PostEvent:
    """Return the Warning Event for a node."""
    return PostEvent(type=EventType.WARNING, reason=word, message=_cut(message), node=node)


def filtering_failed(
    pod: request.PodKey, rejections: Mapping[str, reason.NodeRejection]
) -> tuple[PostEvent, ...]:
    """Say why no node fits: an event for each reason, most nodes first, names sorted.

    The first of them is the one to which what came closest is added.
    """
    by_reason: dict[str, list[str]] = {}
    for node, rejection in rejections.items():
        for words in rejection.reasons:
            by_reason.setdefault(words, []).append(node)
    most_nodes_first = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    told = (
        on_pod(pod, FILTERING_FAILED, f"{len(nodes)} nodes {words} ({_listed(nodes)})")
        for words, nodes in most_nodes_first[:MOST_REASONS]
    )
    return tuple(replace(event, closest=number == 0) for number, event in enumerate(told))


def _listed(nodes: Sequence[str]) -> str:
    shown = sorted(nodes)
    return ", ".join([*shown[:_MOST_NAMES], *(["…"] if len(shown) > _MOST_NAMES else [])])


def filtering_succeeded(pod: request.PodKey, *, best: str, fit: int, unfit: int) -> PostEvent:
    """Say where the pod would go."""
    return on_pod(
        pod,
        "FilteringSucceed",
        f"find fit node({best}), {unfit} nodes not fit, {fit} nodes fit",
        warning=False,
    )


def binding_succeeded(pod: request.PodKey, node: str) -> PostEvent:
    """Say that the pod is bound."""
    return on_pod(pod, "BindingSucceed", f"bound to {node}, allocation begun", warning=False)
