"""NVIDIA: shared cards with a limit on memory and cores.

Source: HAMi v2.10.0, ``pkg/device/nvidia/device.go``. Where a value cannot be
meant, HAMi lets the pod through without a card; here ``derive`` and ``admit``
refuse it with a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vgpu_operator.model import device, errors, fitting, policy, request
from vgpu_operator.model.vendor_settings import nvidia as nvidia_settings
from vgpu_operator.vendors import amounts, base, mig, nvidia_walk, topology
from vgpu_operator.wire import fields, lock_kinds, quantity

KEYWORD = "NVIDIA"
HIDDEN_ENV = {"NVIDIA_VISIBLE_DEVICES": "none"}

WHOLE_CARD_CORES_PERCENT = 100

IMPLAUSIBLE_MEMORY_MIB = 2**20
"""1 TiB on one card: most likely bytes where MiB are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """One container's amounts; None where the resource is not set."""

    count: int | None
    memory_mib: int | None
    memory_percent: int | None
    cores_percent: int | None
    priority: int | None


class Nvidia(base.Common):
    """NVIDIA under the names and defaults of its settings."""

    def __init__(self, settings: nvidia_settings.NvidiaSettings) -> None:
        self._settings = settings
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="nvidia",
            register_key="hami.io/node-nvidia-register",
            handshake_key="hami.io/node-handshake",
            to_allocate_key="hami.io/vgpu-devices-to-allocate",
            allocated_key="hami.io/vgpu-devices-allocated",
            more_pod_keys=(mig.ALLOCATIONS_KEY,),
            lock=lock_kinds.NODE_LOCK,
            count_resource=settings.resource_count_name,
            memory_resource=settings.resource_memory_name or None,
            memory_unit_mib=settings.memory_factor,
            memory_percent_resource=settings.resource_memory_percentage_name or None,
            cores_resource=settings.resource_core_name or None,
            priority_resource=settings.resource_priority_name or None,
            use_type_key="nvidia.com/use-gputype",
            avoid_type_key="nvidia.com/nouse-gputype",
            use_id_key="nvidia.com/use-gpuuuid",
            avoid_id_key="nvidia.com/nouse-gpuuuid",
            numa_bind_key="nvidia.com/numa-bind",
            mode_key="nvidia.com/vgpu-mode",
            pod_note_keys=(mig.ALLOCATIONS_KEY,),
            node_note_keys=(topology.PAIR_SCORES_KEY,),
        )
        self._allow_list = [(one.models, one.profiles) for one in settings.mig_profile_allowlist]

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return what one container asks for; None when it needs no card.

        A percentage or a number of cores that is no whole number is ignored,
        as in HAMi; both end at 100, whatever is written. Memory is judged.
        """
        count = self._count(limits, requests)
        if not count:
            return None
        memory_mib = self._memory_mib(limits, requests) or 0
        memory_percent = self._lenient_percent(limits, requests)
        unnamed = not memory_mib and memory_percent is None
        if unnamed:
            memory_mib = self._settings.default_memory
            memory_percent = None if memory_mib else 100
        return request.DeviceRequest(
            vendor=KEYWORD,
            count=count,
            memory_mib=memory_mib,
            memory_percent=memory_percent,
            cores_percent=self._lenient_cores(limits, requests),
            memory_by_default=unnamed,
            cores_by_default=amounts.asked(self.spec.cores_resource, limits, requests) is None,
        )

    def admit(
        self,
        container: Mapping[str, Any],
        pod: Mapping[str, Any],  # noqa: ARG002  # other vendors read the pod's annotations
    ) -> base.ContainerChanges:
        """Return the defaults and variables of a new pod's container."""
        limits, requests = amounts.quantities(container)
        wish = self._wish(limits, requests)

        changed: dict[str, Any] = {}
        count = wish.count
        if count is None and self._settings.default_gpu_num and _names_an_amount(wish):
            count = self._settings.default_gpu_num
            changed[self.spec.count_resource] = str(count)
        env = self._policy_env()
        if not count:
            return base.ContainerChanges(
                asks=False, env=env, idle_env=HIDDEN_ENV, hides=self._settings.overwrite_env
            )

        changed |= amounts.only_in_requests(self.spec.resources, limits, requests)
        if self.spec.cores_resource and self._is_exclusive(wish):
            changed[self.spec.cores_resource] = str(WHOLE_CARD_CORES_PERCENT)
        if wish.priority is not None:
            env["CUDA_TASK_PRIORITY"] = str(wish.priority)
        return base.ContainerChanges(
            asks=True,
            resources=changed,
            env=env,
            runtime_class=self._settings.runtime_class_name,
            warnings=self._warnings(wish),
        )

    def needs_choosing(
        self, devices: Sequence[device.Device], policies: Sequence[policy.CardPolicy]
    ) -> bool:
        """Whether some card is cut in MIG instances, or links between cards count."""
        linked = policy.CardPolicy.TOPOLOGY_AWARE in policies
        return linked or any(card.mode == mig.MODE for card in devices)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first cards that pass, cards of one NUMA node or well linked ones."""
        return nvidia_walk.choose(node, ask, self._allow_list)

    def more_annotations(
        self,
        grant: base.Grant,
        now: datetime,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Return the instances of the pod's shares on MIG cards."""
        profiles = {
            card.id: mig.allowed(card, self._allow_list)
            for card in grant.devices.values()
            if card.mode == mig.MODE
        }
        if not profiles:
            return {}
        by_id = {card.device.id: card for card in grant.cards}

        def held(card_id: str) -> Sequence[device.MigPlacement]:
            card = by_id.get(card_id)
            return (card and mig.held_by_others(grant.cards, card)) or ()

        kinds = [container.kind for container in grant.request.containers]
        instances = mig.instances(grant.shares, kinds, profiles, held)
        return {mig.ALLOCATIONS_KEY: mig.encode_allocations(instances)} if instances else {}

    def _wish(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> _Wish:
        """Read all amounts strictly, for admission."""
        spec = self.spec
        return _Wish(
            count=self._count(limits, requests),
            memory_mib=self._memory_mib(limits, requests),
            memory_percent=amounts.amount(
                spec.memory_percent_resource,
                limits,
                requests,
                at_most=100,
                hint="write an integer between 0 and 100",
            ),
            cores_percent=amounts.cores_percent(spec.cores_resource, limits, requests),
            priority=amounts.amount(
                spec.priority_resource,
                limits,
                requests,
                at_most=fields.INT32_MAX,
                hint="write a whole number such as 0 or 1",
            ),
        )

    def _count(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
        return amounts.amount(
            self.spec.count_resource,
            limits,
            requests,
            at_most=fields.INT32_MAX,
            hint="write how many cards the container needs, such as 1",
        )

    def _memory_mib(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
        name = self.spec.memory_resource
        unit_mib = self.spec.memory_unit_mib
        value = amounts.amount(
            name,
            limits,
            requests,
            at_most=fields.INT32_MAX // unit_mib,
            hint=_memory_hint(amounts.asked(name, limits, requests), unit_mib),
        )
        return None if value is None else value * unit_mib

    def _lenient_percent(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> int | None:
        value = _whole(amounts.asked(self.spec.memory_percent_resource, limits, requests))
        return min(value, 100) if value is not None and value > 0 else None

    def _lenient_cores(self, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int:
        name = self.spec.cores_resource
        raw = amounts.asked(name, limits, requests)
        value = _whole(raw)
        if value is None:
            return self._settings.default_cores
        if value < 0:
            raise errors.RequestError(f"{name}: {fields.shown(raw)} is negative; write 0 to 100")
        return min(value, WHOLE_CARD_CORES_PERCENT)

    def _is_exclusive(self, wish: _Wish) -> bool:
        """Whether the container takes whole cards, which then get 100 cores.

        HAMi also calls a bare count exclusive when ``defaultMemory`` gives it
        only a part of the card; here it shares.
        """
        if wish.cores_percent is not None:
            return False
        if self.spec.memory_resource is None or wish.memory_percent == 100:
            return True
        nothing_named = wish.memory_mib is None and wish.memory_percent is None
        return nothing_named and self._settings.default_memory == 0

    def _policy_env(self) -> dict[str, str]:
        policy = self._settings.gpu_core_policy
        return {} if policy in ("", "default") else {"GPU_CORE_UTILIZATION_POLICY": policy}

    def _warnings(self, wish: _Wish) -> tuple[str, ...]:
        found = list(amounts.above_whole(self.spec.cores_resource, wish.cores_percent or 0))
        if wish.memory_mib is not None and wish.memory_mib >= IMPLAUSIBLE_MEMORY_MIB:
            found.append(
                f"{self.spec.memory_resource}: {wish.memory_mib} MiB on each card is more than "
                f"any card has; write {_memory_unit(self.spec.memory_unit_mib)}, not bytes"
            )
        return tuple(found)


def _names_an_amount(wish: _Wish) -> bool:
    amounts = (wish.memory_mib, wish.memory_percent, wish.cores_percent)
    return any(amount is not None for amount in amounts)


def _whole(raw: object | None) -> int | None:
    """Return a whole number, None when it is absent or no whole number."""
    if raw is None:
        return None
    try:
        return quantity.decode_integer(raw)
    except errors.DecodeError:
        return None


def _memory_unit(unit_mib: int) -> str:
    return "MiB" if unit_mib == 1 else f"units of {unit_mib} MiB"


def _memory_hint(raw: object | None, unit_mib: int) -> str:
    """Say how to write memory; a value in bytes is turned into what was meant."""
    meant = (_whole(raw) or 0) // 2**20 // unit_mib
    example = meant if 0 < meant <= fields.INT32_MAX else max(1, 4000 // unit_mib)
    unit = _memory_unit(unit_mib)
    return f"write {unit} as a plain number without a suffix, such as {example}"
