"""What ``vgpu explain`` says of preemption: who leaves for the pod, or would, or why nobody."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.cli import ages, cluster_books, forecasts
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import what_if
from vgpu_operator.flows.preemption import forecast
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import paths
from vgpu_operator.model import budgets as model_budgets
from vgpu_operator.model import records
from vgpu_operator.wire import budgets as wire_budgets
from vgpu_operator.wire import keys, nomination, priority_classes, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides about evictions besides the settings.

    Attributes:
        unknown: a sentence for each kind that could not be listed.
    """

    budgets: tuple[model_budgets.Budget, ...] = ()
    classes: tuple[priority_classes.PriorityClass, ...] = ()
    unknown: tuple[str, ...] = ()

    def with_priority(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new pod with the priority of its class, as far as that is known."""
        return priority_classes.resolved(raw, self.classes) or dict(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """What is said.

    Attributes:
        lines: sentences.
        members: the same for programs.
    """

    lines: Sequence[str]
    members: Mapping[str, Any]


async def read_rules(client: kube_client.KubeClient, *, is_new: bool) -> Rules:
    """List budgets, and for pods that are not there yet PriorityClasses."""
    budgets, unknown = await cluster_books.listed(
        client,
        paths.BUDGETS,
        "PodDisruptionBudgets",
        "whether one forbids an eviction is not looked at",
    )
    classes: Sequence[Mapping[str, Any]] = ()
    if is_new:
        classes, more = await cluster_books.listed(
            client,
            paths.PRIORITY_CLASSES,
            "PriorityClasses",
            "the priority of new pods counts as 0",
        )
        unknown += more
    return Rules(
        budgets=tuple(map(wire_budgets.decode_budget, budgets)),
        classes=tuple(map(priority_classes.decode_class, classes)),
        unknown=unknown,
    )


def preemption(
    books: flow_books.Books,
    found: what_if.Explanation,
    rules: Rules,
    *,
    pods: Sequence[Mapping[str, Any]],
    now: datetime.datetime,
) -> Preemption | None:
    """Return what there is to say of a pod; None where there is nothing."""
    record = found.record
    if not record.request.wants_devices or record.ended:
        return None
    if record.node:
        return _victim(record, pods, now)
    left = nomination.decode_nomination(record.nomination)
    if left is not None:
        return _nominated(left, pods, now)
    if found.takers or record.deleting or record.scheduler != books.settings.scheduler_name:
        return None
    if not found.nodes or record.request.impossible:
        return None
    lowest = books.ledger.stakes.lowest_priority()
    if lowest is None or lowest >= record.priority:
        return None  # nobody is less important: where priorities are not used, nothing is said
    offered = [node.name for node in found.nodes if not node.obstacles]
    judged = forecast.forecast(books, record, offered, rules.budgets, now)
    lines = [judged.sentence]
    if record.nominated_node:
        lines.insert(
            0,
            f"kube-scheduler itself has nominated {record.nominated_node} for it: the operator"
            " leaves that to it for a while.",
        )
    return Preemption(lines=lines, members={"forecast": forecasts.row(judged)})


def _nominated(
    left: nomination.Nomination, pods: Sequence[Mapping[str, Any]], now: datetime.datetime
) -> Preemption:
    """Return who leaves for a pod for which cards are held."""
    there = {raw["metadata"].get("uid"): raw for raw in pods}
    victims = [_state(uid, there.get(uid)) for uid in left.victims]
    until = left.until.astimezone(datetime.UTC)
    if left.until > now:
        rest = ages.encode_age(ages.age_s(now, left.until))
        lines = [f"Cards of {left.node} are held for it until {until:%H:%M:%S} UTC, for {rest}."]
    else:
        lines = [
            f"Cards of {left.node} were held for it until {until:%H:%M:%S} UTC; the leader takes"
            " the mark off."
        ]
    words = {"leaving": "is ending", "there": "is not evicted yet"}
    lines += [
        f"{one['pod']} (priority {one['priority']}) {words[one['state']]}."
        for one in victims
        if one["state"] in words
    ]
    gone = sum(one["state"] == "gone" for one in victims)
    if gone:
        lines.append(f"{gone} of {len(victims)} pods that had to leave for it are gone.")
    if not victims:
        lines.append("Nobody has to be evicted for it: it waits for pods that are ending anyway.")
    members = {
        "nomination": {
            "node": left.node,
            "until": until.isoformat(),
            "live": left.until > now,
            "victims": victims,
        }
    }
    return Preemption(lines=lines, members=members)


def _state(uid: str, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    if raw is None:
        return {"uid": uid, "state": "gone"}
    metadata = raw["metadata"]
    ended = shape.mapping(raw.get("status")).get("phase") in records.FINISHED
    leaving = metadata.get("deletionTimestamp") is not None
    return {
        "uid": uid,
        "pod": f"{metadata['namespace']}/{metadata['name']}",
        "priority": shape.mapping(raw.get("spec")).get("priority") or 0,
        "state": "gone" if ended else "leaving" if leaving else "there",
    }


def _victim(
    record: records.PodRecord, pods: Sequence[Mapping[str, Any]], now: datetime.datetime
) -> Preemption | None:
    """Return for whom a pod that holds cards has to leave; None where it stays."""
    for raw in pods:
        text = shape.text(shape.annotations(raw).get(keys.NOMINATION))
        left = nomination.decode_nomination(text) if text else None
        if left is None or left.until <= now or record.key.uid not in left.victims:
            continue
        metadata = raw["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        priority = shape.mapping(raw.get("spec")).get("priority") or 0
        verb = "is leaving" if record.deleting else "is to leave"
        line = f"It {verb} {left.node} for {name}, whose priority is {priority}."
        members = {"leavesFor": {"pod": name, "uid": metadata.get("uid"), "priority": priority}}
        return Preemption(lines=[line], members=members)
    return None
