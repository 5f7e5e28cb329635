"""MetaX, shares of a card (sGPU): quality classes, online pods, MetaLink zones.

Source: HAMi v2.10.0, ``pkg/device/metax/sdevice.go``, ``qos.go``, ``score.go``.

A card runs one quality-of-service policy at a time. The plugin changes it when
the first share comes and registers the change later; HAMi remembers what it
has chosen in its memory, here the pods that hold the card say it.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, policy, quota, reason, request
from vgpu_operator.model.vendor_settings import metax as metax_settings
from vgpu_operator.vendors import amounts, base, charges, walk
from vgpu_operator.wire import (
    clock_text,
    fields,
    lock_kinds,
    node_register,
    quantity,
    sgpu_json,
    shape,
)

KEYWORD: Final = "Metax-SGPU"
WHOLE_CARD_PERCENT: Final = 100

REGISTER_KEY: Final = "metax-tech.com/node-gpu-devices"
QOS_KEY: Final = "metax-tech.com/sgpu-qos-policy"
CLASS_KEY: Final = "metax-tech.com/sgpu-app-class"
TOPOLOGY_KEY: Final = "metax-tech.com/sgpu-topology-aware"
SHARES_KEY: Final = "metax-tech.com/gpu-devices-allocated"
TIME_KEY: Final = "metax-tech.com/predicate-time"

QOS_POLICIES: Final = ("best-effort", "fixed-share", "burst-share")
ONLINE: Final = "online"
OFFLINE: Final = "offline"

UNHEALTHY: Final = "CardUnhealthy"
"""HAMi's word for this vendor, where all others say ``CardNotHealth``."""
QOS_MISMATCH: Final = "CardQosPolicyMismatch"
CLASS_MISMATCH: Final = "CardAppClassMismatch"

_GIB_IN_MIB: Final = 1024
_BYTES_IN_MIB: Final = 2**20
_SMALL_MIB: Final = 64
_BYTE_SUFFIXES: Final = ("i", "M", "G", "T", "P", "E")
"""How a quantity in bytes ends. Not ``k``: the API server writes 1000 as ``1k``."""

_PAIR_SCORE: Final = 10
_ALLOCATED_WEIGHT: Final = 10
"""How much more the links that the pod gets count than those that are lost to others."""

_MEMORY_HINT: Final = "write GiB as a plain number, such as 16, or bytes with a unit, such as 16Gi"


class MetaxSgpu(base.Common):
    """MetaX's shared cards under the names of its settings."""

    vectorised = False
    neutral_score = True

    def __init__(self, settings: metax_settings.MetaxSettings) -> None:
        self._topology_aware = settings.sgpu_topology_aware
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="metax-sgpu",
            register_key=REGISTER_KEY,
            handshake_key=None,
            to_allocate_key="hami.io/metax-sgpu-devices-to-allocate",
            allocated_key="hami.io/metax-sgpu-devices-allocated",
            more_pod_keys=(SHARES_KEY, TIME_KEY),
            lock=lock_kinds.NODE_LOCK,
            count_resource=settings.resource_v_count_name,
            memory_resource=settings.resource_v_memory_name or None,
            memory_unit_mib=_GIB_IN_MIB,
            cores_resource=settings.resource_v_core_name or None,
            use_id_key="metax-tech.com/use-gpuuuid",
            avoid_id_key="metax-tech.com/nouse-gpuuuid",
            pod_note_keys=(QOS_KEY, CLASS_KEY, TOPOLOGY_KEY),
        )

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:  # noqa: ARG002
        """Read the plugin's own JSON list; a card's index is its place in it."""
        return sgpu_json.decode_cards(text, word=KEYWORD, key=REGISTER_KEY)

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what the limits ask for; ``requests`` alone ask for nothing, as in HAMi."""
        del requests
        count = amounts.card_count(self.spec.count_resource, limits, {})
        if not count:
            return None
        cores = amounts.cores_percent(self.spec.cores_resource, limits, {}, skip_fractions=True)
        memory_mib = self._memory_mib(limits)
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=memory_mib,
            memory_percent=0 if memory_mib else 100,
            cores_percent=WHOLE_CARD_PERCENT if cores is None else cores,
            memory_by_default=not memory_mib,
            cores_by_default=cores is None,
        )

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> base.ContainerChanges:
        """Judge the pod's classes, and give it a quality class if it names none."""
        limits, _ = amounts.quantities(container)
        wish = self.derive(limits, {})
        if wish is None:
            return base.ContainerChanges(asks=False)
        annotations = shape.annotations(pod)
        app_class = annotations.get(CLASS_KEY)
        if app_class is not None and app_class not in (ONLINE, OFFLINE):
            raise errors.RequestError(
                f"annotation {CLASS_KEY}: {fields.shown(app_class)} is no class; "
                f"write {ONLINE} or {OFFLINE}"
            )
        if app_class is not None and wish.count != 1:
            raise errors.RequestError(
                f"{self.spec.count_resource}: a pod with {CLASS_KEY} shares one card, "
                f"not {wish.count}; write 1"
            )
        added = {}
        if app_class != ONLINE:
            qos = annotations.get(QOS_KEY)
            if qos is None:
                added[QOS_KEY] = QOS_POLICIES[0]
            elif qos not in QOS_POLICIES:
                raise errors.RequestError(
                    f"annotation {QOS_KEY}: {fields.shown(qos)} is no quality class; "
                    f"write one of {', '.join(QOS_POLICIES)}"
                )
        return base.ContainerChanges(
            asks=True, annotations=added, warnings=self._warnings(container, wish)
        )

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the amounts asked: nothing is rounded here."""
        memory_mib = share.memory_mib if card is None else asked.memory_on(card.memory_mib)
        return charges.cut(share, memory_mib, asked.cores_percent)

    def quota_memory(self, raw: object) -> int:
        """Return MiB: like an amount in a pod, a bare limit is GiB and one with a suffix bytes."""
        value = quantity.decode_plain_integer(raw)
        return value // _BYTES_IN_MIB if _is_in_bytes(raw) else value * _GIB_IN_MIB

    def least_cost(self, asked: request.DeviceRequest, notes: Mapping[str, str]) -> quota.Amount:
        """Return the amounts asked of all cards; pods of the online class hold no cores."""
        cost = super().least_cost(asked, notes)
        if notes.get(CLASS_KEY) == ONLINE:
            return dataclasses.replace(cost, cores=0)
        return cost

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Collect all cards that can serve; of more than needed take the best."""
        wish = ask.wish
        if len(node.cards) < wish.count:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        app_class = ask.notes.get(CLASS_KEY)
        checks = _ONLINE_CHECKS if app_class == ONLINE else _CHECKS
        passed, counts = walk.usable(node, ask, checks)
        if len(passed) < wish.count:
            if passed:
                counts[reason.Reason.TOO_FEW_FREE_CARDS.value] = len(passed)
            return fitting.Refused(counts=counts)
        if app_class == ONLINE:
            passed.sort(key=lambda index: _online_rank(node.cards[index]))
        elif app_class is None and wish.cores_percent == WHOLE_CARD_PERCENT:
            passed = _by_zone(node, passed, wish.count)
        return tuple(
            fitting.Pick(
                card=index,
                memory_mib=wish.memory_on(node.cards[index].device.memory_mib),
                cores=0 if app_class == ONLINE else wish.cores_percent,
            )
            for index in passed[: wish.count]
        )

    def node_score(
        self,
        node: fitting.NodeState,
        grant: base.Grant,
        node_policy: policy.NodePolicy,  # noqa: ARG002  # ``neutral_score``: the same under both
    ) -> float:
        """Return how little the pod disturbs others, or how well its whole cards are linked."""
        shares = [share for entry in grant.shares for share in entry]
        if grant.pod_notes.get(CLASS_KEY) == ONLINE:
            chosen = {share.device_id for share in shares}
            cards = (card for card in node.cards if card.device.id in chosen)
            return float(sum(_disturbance(card) for card in cards))
        whole = [share for share in shares if share.cores_percent == WHOLE_CARD_PERCENT]
        if not whole or not self._is_topology_aware(grant.pod_notes):
            return 0.0
        unused = [card.device for card in node.cards if card.unused]
        taken = {share.device_id for share in whole}
        allocated = _pairs(grant.devices[share.device_id] for share in whole)
        rest = _pairs(card for card in unused if card.id not in taken)
        loss = _pairs(unused) - allocated - rest
        return float(_ALLOCATED_WEIGHT * allocated - loss)

    def more_annotations(self, grant: base.Grant, now: datetime) -> Mapping[str, str]:
        """Return the shares in the plugin's own form, and when they were chosen."""
        entries = [
            [_share_members(share.device_id, share.cores_percent, share.memory_mib) for share in of]
            for of in grant.shares
        ]
        return {
            SHARES_KEY: json.dumps(entries, ensure_ascii=False, separators=(",", ":")),
            TIME_KEY: clock_text.encode_unix_ns(now),
        }

    def _memory_mib(self, limits: Mapping[str, Any]) -> int:
        """Return MiB on each card; 0 where no memory, or 0, is asked."""
        name = self.spec.memory_resource
        value = amounts.amount(name, limits, {}, at_most=fields.INT64_MAX, hint=_MEMORY_HINT)
        if not name or not value:
            return 0
        raw = limits[name]
        if _is_in_bytes(raw):
            mib = value // _BYTES_IN_MIB
            if mib == 0:
                raise errors.RequestError(
                    f"{name}: {fields.shown(raw)} is less than 1 MiB; {_MEMORY_HINT}"
                )
        else:
            mib = value * _GIB_IN_MIB
        if mib > fields.INT32_MAX:
            raise errors.RequestError(
                f"{name}: {fields.shown(raw)} is more than any card has; {_MEMORY_HINT}"
            )
        return mib

    def _warnings(
        self, container: Mapping[str, Any], wish: request.DeviceRequest
    ) -> tuple[str, ...]:
        found = list(
            amounts.fraction_warnings(container, {self.spec.cores_resource: "it gets all cores"})
        )
        if wish.cores_percent > WHOLE_CARD_PERCENT:
            found.append(
                f"{self.spec.cores_resource}: {wish.cores_percent} is more than one whole card; "
                "no card can serve it"
            )
        if 0 < wish.memory_mib < _SMALL_MIB:
            found.append(
                f"{self.spec.memory_resource}: that is {wish.memory_mib} MiB; {_MEMORY_HINT}"
            )
        return tuple(found)

    def _is_topology_aware(self, notes: Mapping[str, str]) -> bool:
        try:
            return fields.decode_boolean(notes[TOPOLOGY_KEY], name=TOPOLOGY_KEY)
        except (KeyError, errors.DecodeError):
            return self._topology_aware


def backends(section: metax_settings.MetaxSettings) -> tuple[base.Vendor, ...]:
    """Return MetaX's shared cards; none when their resource has no name."""
    return (MetaxSgpu(section),) if section.resource_v_count_name else ()


def _share_members(uuid: str, cores: int, memory_mib: int) -> dict[str, object]:
    found: dict[str, object] = {"uuid": uuid}
    if cores:
        found["compute"] = cores
    if memory_mib:
        found["vRam"] = memory_mib
    return found


def _is_in_bytes(raw: object) -> bool:
    return quantity.canonical(raw).endswith(_BYTE_SUFFIXES)


def _zone(card: device.Device) -> int:
    zone = card.custom_info.get("LinkZone")
    return zone if isinstance(zone, int) else 0


def _classes(card: fitting.CardState) -> tuple[int, int]:
    """Return how many online and how many offline shares other pods hold of the card."""
    classes = [tenant.notes.get(CLASS_KEY) for tenant in card.tenants]
    return classes.count(ONLINE), classes.count(OFFLINE)


def _healthy(card: fitting.CardState, _: fitting.Ask) -> str | None:
    return None if card.device.healthy else UNHEALTHY


def _class_allowed(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """Pods with a class and pods without one never share a card, nor offline with online.

    A card that only this pod uses suits it whatever its class.
    """
    if card.unused or not card.tenants:
        return None
    wanted = ask.notes.get(CLASS_KEY)
    online, offline = _classes(card)
    if bool(online or offline) != (wanted in (ONLINE, OFFLINE)):
        return CLASS_MISMATCH
    return CLASS_MISMATCH if online and wanted == OFFLINE else None


def _qos_allowed(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """A card in use keeps its quality class; whoever takes all cores needs none."""
    if card.unused or ask.wish.cores_percent == WHOLE_CARD_PERCENT:
        return None
    if not card.tenants and any(
        share.device_id == card.device.id for entry in ask.earlier for share in entry
    ):
        return None
    current = _qos_of(card)
    return None if current in ("", ask.notes.get(QOS_KEY, "")) else QOS_MISMATCH


def _qos_of(card: fitting.CardState) -> str:
    """Return the class that the card runs, or will run as soon as its plugin has seen its pods."""
    for tenant in card.tenants:
        shares = tenant.share.cores_percent != WHOLE_CARD_PERCENT
        if shares and tenant.notes.get(CLASS_KEY) != ONLINE and tenant.notes.get(QOS_KEY):
            return tenant.notes[QOS_KEY]
    registered = card.device.custom_info.get("QosPolicy")
    return registered if isinstance(registered, str) else ""


def _cores_left(card: fitting.CardState, ask: fitting.Ask) -> str | None:
    """As many cores are free as asked; more than a whole card never are."""
    if card.device.cores_percent - card.used_cores >= ask.wish.cores_percent:
        return None
    return reason.Reason.INSUFFICIENT_CORES.value


_ONLINE_CHECKS: Final[tuple[walk.Check, ...]] = (
    _healthy,
    walk.not_cordoned,
    _class_allowed,
    walk.id_allowed,
    walk.slots_left,
    walk.unused_if_mutex,
    walk.memory_left,
)

_CHECKS: Final[tuple[walk.Check, ...]] = (
    _healthy,
    walk.not_cordoned,
    _class_allowed,
    _qos_allowed,
    walk.id_allowed,
    walk.slots_left,
    walk.unused_if_mutex,
    walk.memory_left,
    _cores_left,
    walk.unused_if_whole,
    walk.some_cores_left,
)


def _online_rank(card: fitting.CardState) -> tuple[bool, int, int]:
    """Fewer online shares first; a card that only offline pods use last."""
    online, offline = _classes(card)
    return (online == 0 and offline > 0, online, offline)


def _by_zone(node: fitting.NodeState, passed: Sequence[int], count: int) -> list[int]:
    """Order whole cards by MetaLink zone: the smallest zone that is enough, else zone by zone.

    Of zones with equally many cards the one whose card comes first.
    """
    if len(passed) <= count:
        return list(passed)
    zones: dict[int, list[int]] = {}
    for index in passed:
        zones.setdefault(_zone(node.cards[index].device), []).append(index)
    linked = sorted((of for zone, of in zones.items() if zone > 0), key=len)
    for of in linked:
        if len(of) >= count:
            return of
    apart = [index for index in passed if _zone(node.cards[index].device) <= 0]
    return [index for of in linked for index in of] + apart


def _disturbance(card: fitting.CardState) -> int:
    """Return what an online pod costs the card's other pods; 0 is none, less is worse."""
    online, offline = _classes(card)
    return -100 * offline if not online else -20 * online - 2 * offline


def _pairs(cards: Iterable[device.Device]) -> int:
    """Return the score of all pairs of different cards in the same zone."""
    found = list(cards)
    return sum(
        _PAIR_SCORE
        for i, one in enumerate(found)
        for other in found[i + 1 :]
        if one.id != other.id and _zone(one) == _zone(other) != 0
    )
