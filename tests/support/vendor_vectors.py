"""Recorded vendor cases, judged by one vendor's functions alone.

No ledger and no filter takes part: the recorded devices and usage become
``fitting`` values, the cards are put in the order of the pod's policy by the
plain rules below, and the vendor chooses. Everything is compared as it stands
in the vectors.
"""

import dataclasses
import datetime
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from support import json_patch
from vgpu_operator.flows import admit
from vgpu_operator.model import (
    allocation,
    device,
    errors,
    fitting,
    policy,
    request,
    settings,
)
from vgpu_operator.vendors import base, requests
from vgpu_operator.wire import clock_text, pod_devices, quantity

VECTORS: Final = pathlib.Path(__file__).parent.parent / "vectors"

Answer = dict[str, Any]


def cases(*files: str) -> Iterator[dict[str, Any]]:
    """Yield every case of these files of ``tests/vectors``."""
    for file in files:
        for line in (VECTORS / f"{file}.jsonl").read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def differing(want: Answer, have: Answer) -> Answer:
    """Return our value of every recorded field that we answer otherwise."""
    return {name: have.get(name) for name in want if have.get(name) != want[name]}


# --- devices -------------------------------------------------------------------------


def recorded_devices(case: Mapping[str, Any]) -> Answer:
    """Return the cards that the peer held, by node and vendor."""
    return {
        f"devices {node} {keyword}": cards
        for node, held in (case["expect"].get("devices") or {}).items()
        for keyword, cards in (held or {}).items()
    }


def decoded_devices(case: Mapping[str, Any], vendors: Sequence[base.Vendor]) -> Answer:
    """Return the cards that we read from the nodes as they stand."""
    found: Answer = {}
    for raw in case["nodes"]:
        node = node_texts(raw)
        for vendor in vendors:
            text = vendor.register_text(node)
            if text is None:
                continue
            try:
                cards = vendor.decode_devices(text, node=node.name).devices
            except errors.DecodeError:
                cards = ()
            if cards:
                name = f"devices {node.name} {vendor.spec.keyword}"
                found[name] = [_written(card) for card in cards]
    return found


def node_texts(raw: Mapping[str, Any]) -> base.NodeTexts:
    """Return what a vendor reads of a Node."""
    return base.NodeTexts(
        name=raw["metadata"]["name"],
        annotations=raw["metadata"].get("annotations") or {},
        labels=raw["metadata"].get("labels") or {},
        capacity=raw["status"].get("capacity") or {},
    )


def _written(card: device.Device) -> Answer:
    written: Answer = {
        "id": card.id,
        "index": card.index,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": card.cores_percent,
        "type": card.type,
        "numa": card.numa,
        "mode": card.mode,
        "health": card.healthy,
    }
    return written | ({"custominfo": dict(card.custom_info)} if card.custom_info else {})


def recorded_card(entry: Mapping[str, Any]) -> device.Device:
    """Return a card as the peer held it."""
    return device.Device(
        id=entry["id"],
        index=entry["index"],
        slots=entry["count"],
        memory_mib=entry["devmem"],
        cores_percent=entry["devcore"],
        type=entry["type"],
        numa=entry["numa"],
        mode=entry["mode"],
        healthy=entry["health"],
        custom_info=entry.get("custominfo", {}),
        mig_profiles=tuple(
            device.MigProfile(
                name=profile["name"],
                memory_mib=profile["memoryMB"],
                cores_percent=profile["core"],
                slice_count=profile["sliceCount"],
                placements=tuple(
                    device.MigPlacement(start=place["start"], size=place["size"])
                    for place in profile["placements"]
                ),
            )
            for profile in entry.get("migProfiles", ())
        ),
    )


# --- admission and requests ------------------------------------------------------------


def recorded_admission(case: Mapping[str, Any]) -> Answer:
    """Return what the peer's webhook answered, and what it derived afterwards."""
    expect = case["expect"]
    admission = expect["admission"]
    answer: Answer = {name: admission.get(name) for name in ("allowed", "code", "message")}
    if admission["allowed"]:
        answer |= {
            name: admission[name]
            for name in ("schedulerName", "runtimeClassName", "env_added", "annotations_added")
        }
        answer["stored"] = [_stored(c["name"], c) for c in admission["limits_after"]]
    if expect.get("requests") is not None:
        answer["requests"] = expect["requests"]
    return answer


def observed_admission(case: Mapping[str, Any], vendors: Sequence[base.Vendor]) -> Answer:
    """Return what our webhook answers, and what we derive afterwards."""
    pod = case["pod"]
    verdict = admit.admit(pod, settings=settings.Settings(), vendors=vendors)
    after = json_patch.apply(pod, verdict.patch) if verdict.allowed else pod
    answer: Answer = {
        "allowed": verdict.allowed,
        "code": None if verdict.allowed else verdict.code,
        "message": verdict.message or None,
        "requests": [
            _request(c) for c in requests.pod_request(after, vendors, aliases={}).containers
        ],
    }
    if verdict.allowed:
        old = pod["metadata"].get("annotations", {})
        new = after["metadata"].get("annotations", {})
        answer |= {
            "schedulerName": after["spec"].get("schedulerName", ""),
            "runtimeClassName": after["spec"].get("runtimeClassName"),
            "annotations_added": {k: v for k, v in new.items() if old.get(k) != v},
            "env_added": _added_env(pod, after),
            "stored": [
                _stored(container["name"], container.get("resources") or {})
                for container in containers(after)
            ],
        }
    return answer


def _added_env(before: Mapping[str, Any], after: Mapping[str, Any]) -> Answer:
    return {
        new["name"]: new["env"][len(old.get("env") or []) :]
        for old, new in zip(containers(before), containers(after), strict=True)
        if new.get("env") != old.get("env")
    }


def containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a pod's containers, init containers first."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def _stored(name: str, resources: Mapping[str, Any]) -> tuple[str, Answer, Answer]:
    """Return a container's quantities as the API server keeps them: requests default to limits."""
    limits = _quantities(resources.get("limits"))
    return name, limits, limits | _quantities(resources.get("requests"))


def _quantities(values: Mapping[str, str] | None) -> Answer:
    found: Answer = {}
    for name, value in (values or {}).items():
        try:
            found[name] = quantity.decode_integer(value)
        except errors.DecodeError:
            found[name] = value
    return found


def _request(container: request.ContainerRequest) -> Any:
    if container.impossible:
        return container.impossible
    return {
        wish.vendor: {
            "nums": wish.count,
            "type": wish.vendor,
            "memreq": wish.memory_mib,
            "mem_percentage": 101 if wish.memory_percent is None else wish.memory_percent,
            "cores": wish.cores_percent,
        }
        for wish in container.devices
    }


# --- the choice ------------------------------------------------------------------------


def recorded_choice(case: Mapping[str, Any]) -> Answer:
    """Return which nodes the peer refused, its scores, and what it wrote on the pod."""
    return _choice(case["expect"])


def other_choices(case: Mapping[str, Any]) -> list[Answer]:
    """Return the choices of the peer's other runs, where it had several."""
    return [_choice(case["expect"] | other) for other in case.get("alternatives", ())]


def _choice(expect: Mapping[str, Any]) -> Answer:
    answer = expect["filter"]
    return {
        "failed": answer["failedNodes"],
        "scores": answer["scores"],
        "annotations": {
            key: text
            for key, text in expect["annotations"].items()
            if key not in ("hami.io/vgpu-node", "hami.io/vgpu-time")
        },
    }


def has_choice(case: Mapping[str, Any]) -> bool:
    """Whether the peer judged nodes for containers that all last."""
    expect = case["expect"]
    return bool(
        expect.get("filter")
        and expect["filter"].get("called")
        and any(expect["requests"])
        and not case["pod"]["spec"].get("initContainers")
    )


def observed_choice(case: Mapping[str, Any], vendor: base.Vendor) -> Answer:
    """Return what the vendor answers to the recorded devices, usage and requests."""
    wish = _recorded_request(case, vendor)
    failed: dict[str, str] = {}
    scores: dict[str, str] = {}
    written: dict[str, str] = {}
    for raw in case["nodes"]:
        name = raw["metadata"]["name"]
        cards = _cards_before(case, name, vendor)
        if not cards:
            failed[name] = "node unregistered"
            continue
        notes = _node_notes(raw, vendor)
        entries = _place(
            fitting.NodeState(name=name, cards=tuple(cards), notes=notes), wish, vendor
        )
        if isinstance(entries, str):
            failed[name] = entries
            continue
        grant = base.Grant(
            shares=tuple(entries),
            containers=tuple(container.name for container in wish.containers),
            devices={card.device.id: card.device for card in cards},
            node=name,
            node_notes=notes,
            pod_notes=wish.notes,
            request=wish,
            cards=tuple(cards),
        )
        by_flag = policy.NodePolicy(case["flags"].get("node_scheduler_policy", "binpack"))
        node_policy = wish.node_policy or by_flag
        state = fitting.NodeState(name=name, cards=tuple(cards))
        weight = 1
        if vendor.neutral_score:
            weight = -10_000 if node_policy is policy.NodePolicy.SPREAD else 10_000
        score = _fullness(cards) + weight * vendor.node_score(state, grant, node_policy)
        scores[name] = f"{score:.2f}"
        if name == case["expect"]["filter"]["node"]:
            written = _written_texts(grant, vendor, case["now"])
    # The peer says why nodes fail only when none fits.
    return {"failed": {} if scores else failed, "scores": scores, "annotations": written}


def _recorded_request(case: Mapping[str, Any], vendor: base.Vendor) -> request.PodRequest:
    wish = requests.pod_request(case["pod"], (vendor,), aliases={})
    return dataclasses.replace(
        wish,
        containers=tuple(
            request.ContainerRequest(
                name=container["name"],
                kind=request.ContainerKind.APP,
                devices=tuple(
                    request.DeviceRequest(
                        vendor=keyword,
                        count=asked["nums"],
                        memory_mib=asked["memreq"],
                        memory_percent=asked["mem_percentage"],
                        cores_percent=asked["cores"],
                        cores_by_default=any(own.cores_by_default for own in derived.devices),
                    )
                    for keyword, asked in entry.items()
                ),
            )
            for container, entry, derived in zip(
                containers(case["pod"]),
                case["expect"]["requests"],
                wish.containers,
                strict=True,
            )
        ),
        selections={
            vendor.spec.keyword: vendor.selection(case["pod"]["metadata"].get("annotations", {}))
        },
    )


def _cards_before(
    case: Mapping[str, Any], node: str, vendor: base.Vendor
) -> list[fitting.CardState]:
    """Return the node's candidate cards in the order of the register text."""
    held = (case["expect"]["devices"].get(node) or {}).get(vendor.spec.keyword) or ()
    used = {entry["id"]: entry for entry in (case["expect"]["usage_before"].get(node) or ())}
    found = []
    for card in map(recorded_card, held):
        usage = used.get(card.id, {})
        found.append(
            fitting.CardState(
                device=card,
                used_slots=usage.get("used", 0),
                used_memory_mib=usage.get("usedmem", 0),
                used_cores=usage.get("usedcores", 0),
                tenants=_tenants(case, node, vendor, card.id),
            )
        )
    return found


def _tenants(
    case: Mapping[str, Any], node: str, vendor: base.Vendor, card_id: str
) -> tuple[fitting.Tenant, ...]:
    """Return the containers of the recorded pods that hold a share of that card."""
    found = []
    for pod in case["pods"]:
        notes = pod["metadata"].get("annotations") or {}
        text = notes.get(vendor.spec.allocated_key, "")
        if notes.get("hami.io/vgpu-node") != node or not text:
            continue
        for index, entry in enumerate(pod_devices.decode_pod_devices(text).shares):
            found += [
                fitting.Tenant(pod=requests.pod_key(pod), container=index, share=share, notes=notes)
                for share in entry
                if share.device_id == card_id
            ]
    return tuple(found)


def _node_notes(raw: Mapping[str, Any], vendor: base.Vendor) -> Mapping[str, str]:
    annotations = raw["metadata"].get("annotations") or {}
    return {key: annotations[key] for key in vendor.spec.node_note_keys if key in annotations}


def _place(
    node: fitting.NodeState, wish: request.PodRequest, vendor: base.Vendor
) -> list[allocation.ContainerShares] | str:
    """Return every container's shares, or the reason of the first that gets none."""
    keyword = vendor.spec.keyword
    cards = [card for card in node.cards if keyword.lower() in card.device.type.lower()]
    policies = wish.card_policies or (policy.CardPolicy.SPREAD,)
    entries: list[allocation.ContainerShares] = []
    for index, container in enumerate(wish.containers):
        asked = container.of(keyword)
        if asked is None:
            entries.append(())
            continue
        cards = in_policy_order(cards, asked, policies, wish.weights or policy.ScoringWeights())
        ask = fitting.Ask(
            wish=asked,
            selection=wish.selection(keyword),
            container=index,
            unused_only=policy.CardPolicy.MUTEX in policies,
            policies=policies,
            earlier=tuple(entries),
            notes=wish.notes,
        )
        answer = vendor.choose(dataclasses.replace(node, cards=tuple(cards)), ask)
        if isinstance(answer, fitting.Refused):
            return reason_text(answer, len(cards))
        entries.append(
            tuple(
                allocation.DeviceShare(
                    device_id=cards[pick.card].device.id,
                    vendor_word=vendor.share_word(cards[pick.card].device),
                    memory_mib=pick.memory_mib,
                    cores_percent=pick.cores,
                )
                for pick in answer
            )
        )
        for pick in answer:
            cards[pick.card] = dataclasses.replace(
                cards[pick.card],
                used_slots=cards[pick.card].used_slots + pick.slots,
                used_memory_mib=cards[pick.card].used_memory_mib + pick.memory_mib,
                used_cores=cards[pick.card].used_cores + pick.cores,
            )
    return entries


def in_policy_order(
    cards: Sequence[fitting.CardState],
    asked: request.DeviceRequest,
    policies: tuple[policy.CardPolicy, ...],
    weights: policy.ScoringWeights,
) -> list[fitting.CardState]:
    """Return the cards in the order in which one plain policy word tries them.

    The emptiest first under ``spread``, the fullest under ``binpack``; equal
    ones by the higher NUMA node, the higher index, the later place in the text.
    """
    (word,) = policies
    sign = -1.0 if word is policy.CardPolicy.BINPACK else 1.0

    def rank(place: int) -> tuple[float, int, int, int]:
        card = cards[place]
        score = sign * card_score(card, asked, weights)
        return (score, -card.device.numa, -card.device.index, -place)

    return [cards[place] for place in sorted(range(len(cards)), key=rank)]


def card_score(
    card: fitting.CardState, asked: request.DeviceRequest, weights: policy.ScoringWeights
) -> float:
    """Return how full a card is, what is asked counted on cards of exactly that type."""
    whole = card.device
    if not (whole.slots and whole.cores_percent and whole.memory_mib):
        return 0.0
    own = whole.type == asked.vendor
    memory_mib = asked.memory_mib or whole.memory_mib * (asked.memory_percent or 0) // 100
    return 10 * (
        weights.slot * (card.used_slots + own * asked.count) / whole.slots
        + weights.core * (card.used_cores + own * asked.cores_percent) / whole.cores_percent
        + weights.memory * (card.used_memory_mib + own * memory_mib) / whole.memory_mib
    )


def reason_text(refused: fitting.Refused, candidates: int) -> str:
    """Return HAMi's text of a refusal."""
    of = candidates if refused.of is None else refused.of
    return ", ".join(
        sorted(
            f"{count}/{of} {word}" if count or refused.of is not None else word
            for word, count in refused.counts.items()
        )
    )


def _fullness(cards: Sequence[fitting.CardState]) -> float:
    pairs = (
        (sum(c.used_slots for c in cards), sum(c.device.slots for c in cards)),
        (sum(c.used_cores for c in cards), sum(c.device.cores_percent for c in cards)),
        (sum(c.used_memory_mib for c in cards), sum(c.device.memory_mib for c in cards)),
    )
    if not all(total for _, total in pairs):
        return 0.0
    return 10 * sum(used / total for used, total in pairs)


def _written_texts(grant: base.Grant, vendor: base.Vendor, now: str) -> dict[str, str]:
    """Return all annotations of a grant, times as the vectors write them."""
    text = pod_devices.encode_pod_devices(grant.shares)
    written = {key: text for key in (vendor.spec.to_allocate_key, vendor.spec.allocated_key) if key}
    time = datetime.datetime.fromisoformat(now)
    written |= vendor.more_annotations(grant, time)
    stamps = {clock_text.encode_unix_ns(time): "<now:ns>", clock_text.encode_unix_s(time): "<now>"}
    return {key: stamps.get(text, text) for key, text in written.items()}
