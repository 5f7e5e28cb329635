"""Ascend: seven chips, each a vendor of its own, in two ways of sharing.

A hard split cuts a card by templates of fixed memory and has no cores; a soft
split (pod annotation ``huawei.com/vnpu-mode: hami-core``) takes any memory and
percent of a card's cores, on nodes that serve it. Cards of a super pod
(Ascend910C) are given in pairs; on the 910 family a container's cards come
from as few networks as can be.

Source: HAMi v2.10.0, ``pkg/device/ascend/device.go`` and ``vnpu.go``. Where
HAMi's choice between equal pairs or networks is random, the one whose card
the pod's policies try first is taken.
"""

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_operator.model import allocation, device, errors, fitting, policy, reason, request
from vgpu_operator.model.vendor_settings import ascend
from vgpu_operator.vendors import amounts, base, charges, walk
from vgpu_operator.wire import clock_text, fields, lock_kinds, shape

MODE: Final = "huawei.com/vnpu-mode"
SOFT: Final = "hami-core"
SOFT_NODE: Final = "hami-vnpu-core"
"""Node annotation: ``true`` where soft splits are served, another word where not."""

PREDICATE_TIME: Final = "predicate-time"
"""Pod annotation that Ascend's device plugin sorts pods by, Unix seconds."""

VISIBLE_ENV: Final = "ASCEND_VISIBLE_DEVICES"

_NETWORKED: Final = "Ascend910"
_NETWORK: Final = "NetworkID"


class Ascend(base.Common):
    """One Ascend chip under the names and defaults of its settings."""

    vectorised = False

    def __init__(self, chip: ascend.AscendChip, *, soft_by_default: bool = False) -> None:
        """Take the chip.

        Args:
            chip: its section of the settings.
            soft_by_default: nodes that say nothing serve soft splits.
        """
        word = chip.common_word
        self._chip = chip
        self._soft_by_default = soft_by_default
        self._templates = sorted(chip.templates, key=lambda template: template.memory)
        self._list_key = f"huawei.com/{word}"
        others = (check for check in walk.COMMON if check is not walk.healthy)
        self._checks = (walk.healthy, self._is_this_chip, *others)
        self.spec = base.VendorSpec(
            keyword=word,
            id=f"ascend-{word.removeprefix('Ascend').lower()}",
            register_key=f"hami.io/node-register-{word}",
            handshake_key=f"hami.io/node-handshake-{word}",
            to_allocate_key=f"hami.io/{word}-devices-to-allocate",
            allocated_key=f"hami.io/{word}-devices-allocated",
            more_pod_keys=(self._list_key, PREDICATE_TIME),
            lock=lock_kinds.NODE_LOCK,
            count_resource=chip.resource_name,
            memory_resource=chip.resource_memory_name or None,
            memory_unit_mib=chip.memory_factor,
            cores_resource=chip.resource_core_name or None,
            use_id_key=f"hami.io/use-{word}-uuid",
            avoid_id_key=f"hami.io/no-use-{word}-uuid",
            pod_note_keys=(MODE,),
            node_note_keys=(SOFT_NODE,),
        )

    # Requests and admission.

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for; None when it needs no card.

        Memory is taken as it stands: rounding to a template is admission's.
        Cores that are no whole number are ignored, as in HAMi.
        """
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        self._refuse_half_pairs(count)
        memory_mib = (self._memory(limits, requests) or 0) * self.spec.memory_unit_mib
        cores = self._cores(limits, requests, skip_fractions=True) or 0
        return request.DeviceRequest(
            vendor=self.spec.keyword,
            count=count,
            memory_mib=memory_mib,
            memory_percent=None if memory_mib else 100,
            cores_percent=min(cores, walk.WHOLE_CARD),
        )

    def admit(self, container: Mapping[str, Any], pod: Mapping[str, Any]) -> base.ContainerChanges:
        """Return a new pod's container with its memory made a template's, and in pairs."""
        usual = super().admit(container, pod)
        if not usual.asks:
            return base.ContainerChanges(
                asks=False, idle_env={VISIBLE_ENV: ""}, hides=self._chip.overwrite_env
            )
        limits, requests = amounts.quantities(container)
        count = amounts.card_count(self.spec.count_resource, limits, requests) or 0
        cores = self._cores(limits, requests) or 0
        memory = self._memory(limits, requests)
        soft = shape.annotations(pod).get(MODE) == SOFT
        if not soft and cores > 0:
            raise errors.RequestError(
                f"{self.spec.cores_resource}: a hard split has no cores of its own; remove it, "
                f"or ask for a soft split by the pod annotation {MODE}: {SOFT}"
            )
        resources = dict(usual.resources)
        if self._chip.super_pod and count == 1:
            resources[self.spec.count_resource] = "2"
        if self.spec.memory_resource:
            granted = self._granted(memory, count, soft=soft)
            resources[self.spec.memory_resource] = str(granted)
        return base.ContainerChanges(
            asks=True,
            resources=resources,
            runtime_class=self._chip.runtime_class_name,
            warnings=amounts.above_whole(self.spec.cores_resource, cores),
        )

    def _granted(self, memory: int | None, count: int, *, soft: bool) -> int:
        """Return the memory limit that a container gets, in units of the resource.

        A factor is not looked at: like HAMi, the limit as written is raised to
        a template's memory and multiplied afterwards.
        """
        whole = self._chip.memory_allocatable
        if memory is None:
            return whole
        if soft:
            return memory
        template = self._template(memory)
        granted = template.memory if template else whole
        name = self.spec.memory_resource
        if template is None and memory > self._chip.memory_capacity:
            raise errors.RequestError(
                f"{name}: {memory} is more than a card has; write at most "
                f"{self._chip.memory_capacity}, or leave it out for the whole card"
            )
        if count > 1 and granted != whole:
            raise errors.RequestError(
                f"{name}: {memory} is a part of a card, and a container gets a part of one card "
                f"only; ask for one card, or leave {name} out for whole cards"
            )
        return granted

    def _template(self, memory: int) -> ascend.AscendTemplate | None:
        """Return the smallest template that holds so much, None when only the card does."""
        return next((found for found in self._templates if found.memory >= memory), None)

    def _memory(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
        unit_mib = self.spec.memory_unit_mib
        unit = "MiB" if unit_mib == 1 else f"units of {unit_mib} MiB"
        return amounts.amount(
            self.spec.memory_resource,
            limits,
            requests,
            at_most=fields.INT32_MAX // unit_mib,
            hint=f"write {unit} as a plain number without a suffix, such as 8192",
        )

    def _cores(
        self,
        limits: Mapping[str, Any],
        requests: Mapping[str, Any],
        *,
        skip_fractions: bool = False,
    ) -> int | None:
        return amounts.cores_percent(
            self.spec.cores_resource, limits, requests, skip_fractions=skip_fractions
        )

    def _refuse_half_pairs(self, count: int) -> None:
        if self._chip.super_pod and count > 1 and count % 2:
            raise errors.RequestError(
                f"{self.spec.count_resource}: {count} cards cannot be given, because "
                f"{self.spec.keyword} comes in pairs; write 1, which becomes 2, or an even number"
            )

    # Choosing cards.

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take pairs on a super pod, cards of few networks on the 910 family, else the first."""
        wish = ask.wish
        if len(node.cards) < wish.count:
            return fitting.Refused(counts={reason.Reason.TOO_FEW_CARDS.value: 0})
        if ask.notes.get(MODE) == SOFT:
            if not self._serves_soft(node):
                return fitting.Refused(counts={reason.Reason.MODE_NOT_FIT.value: 1})
            node = _in_percent(node)
        else:
            # A hard split is given no cores, whatever the container says.
            ask = dataclasses.replace(ask, wish=dataclasses.replace(wish, cores_percent=0))
        usable, counts = walk.usable(node, ask, self._checks)
        in_pairs = self._chip.super_pod and wish.count > 1
        if in_pairs:
            usable = _full_pairs(node, usable)
        if len(usable) < wish.count:
            if usable or in_pairs:
                counts[reason.Reason.TOO_FEW_FREE_CARDS.value] = len(usable)
            return fitting.Refused(counts=counts, of=len(node.cards))
        if not in_pairs and 1 < wish.count < len(usable) and self._is_networked(node):
            usable = _by_network(node, usable)
        return tuple(walk.pick(node, ask, index) for index in usable[: wish.count])

    def node_score(
        self,
        node: fitting.NodeState,  # noqa: ARG002  # only the chosen cards count
        grant: base.Grant,
        node_policy: policy.NodePolicy,  # noqa: ARG002  # the sum is the same under each
    ) -> float:
        """Return 10 x the share of each container's cards in its largest network, summed.

        0 for other families than 910, and when a chosen card names no network.
        """
        if not self.spec.keyword.startswith(_NETWORKED):
            return 0.0
        score = 0.0
        for shares in grant.shares:
            networks = [_network(grant.devices.get(share.device_id)) for share in shares]
            if None in networks:
                return 0.0
            if networks:
                score += 10 * max(map(networks.count, networks)) / len(networks)
        return score

    def more_annotations(self, grant: base.Grant, now: datetime.datetime) -> Mapping[str, str]:
        """Return the list that Ascend's device plugin reads, and the time it sorts by."""
        soft = grant.pod_notes.get(MODE) == SOFT
        entries = [self._entry(share, soft=soft) for shares in grant.shares for share in shares]
        return {
            self._list_key: json.dumps(entries, separators=(",", ":")),
            PREDICATE_TIME: clock_text.encode_unix_s(now),
        }

    def cap(
        self,
        asked: request.DeviceRequest,
        share: allocation.DeviceShare,
        card: device.Device | None,
    ) -> allocation.DeviceShare:
        """Cut to the amounts asked: nothing is rounded once a pod is admitted."""
        whole_card_mib = share.memory_mib if card is None else card.memory_mib
        memory_mib = asked.memory_mib or whole_card_mib
        return charges.cut(share, memory_mib, asked.cores_percent)

    def _entry(self, share: allocation.DeviceShare, *, soft: bool) -> dict[str, Any]:
        template = None if soft else self._template(share.memory_mib)
        entry: dict[str, Any] = {"UUID": share.device_id}
        if template is not None:
            entry["temp"] = template.name
        entry["memory"] = share.memory_mib
        if share.cores_percent:
            entry["core"] = share.cores_percent
        return entry

    def _is_this_chip(self, card: fitting.CardState, _: fitting.Ask) -> str | None:
        """Keep off a chip whose name only begins alike: Ascend910B4-1 is no Ascend910B4."""
        if card.device.type.lower() == self.spec.keyword.lower():
            return None
        return reason.Reason.CARD_TYPE_MISMATCH.value

    def _serves_soft(self, node: fitting.NodeState) -> bool:
        said = node.notes.get(SOFT_NODE)
        return self._soft_by_default if said is None else said == "true"

    def _is_networked(self, node: fitting.NodeState) -> bool:
        return self.spec.keyword.startswith(_NETWORKED) and all(
            _network(card.device) is not None for card in node.cards
        )


def backends(section: ascend.AscendSettings) -> tuple[base.Vendor, ...]:
    """Return a vendor for each chip that has a resource; none while Ascend is switched off."""
    if not section.enabled:
        return ()
    soft = section.hami_vnpu_core
    named = (chip for chip in section.configs if chip.resource_name)
    return tuple(Ascend(chip, soft_by_default=soft) for chip in named)


def _in_percent(node: fitting.NodeState) -> fitting.NodeState:
    """Return the node with cards of 100 cores: a soft split counts in percent."""
    cards = tuple(
        dataclasses.replace(
            card, device=dataclasses.replace(card.device, cores_percent=walk.WHOLE_CARD)
        )
        for card in node.cards
    )
    return dataclasses.replace(node, cards=cards)


def _network(card: device.Device | None) -> int | None:
    """Return which network a card is on; None when it does not say."""
    value = card.custom_info.get(_NETWORK) if card is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value)


def _full_pairs(node: fitting.NodeState, usable: Sequence[int]) -> list[int]:
    """Return only cards whose other half (index 2k and 2k + 1) is usable too, pair by pair."""
    halves: dict[int, dict[int, int]] = {}
    for place in usable:
        pair, half = divmod(node.cards[place].device.index, 2)
        halves.setdefault(pair, {}).setdefault(half, place)
    return [place for pair in halves.values() if len(pair) == 2 for place in pair.values()]


def _by_network(node: fitting.NodeState, usable: Sequence[int]) -> list[int]:
    """Return the cards network by network, the one with the most usable cards first."""
    networks: dict[int | None, list[int]] = {}
    for place in usable:
        networks.setdefault(_network(node.cards[place].device), []).append(place)
    largest_first = sorted(networks.values(), key=len, reverse=True)
    return [place for network in largest_first for place in network]
