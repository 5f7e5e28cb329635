"""Short ways to write what a vendor is asked about."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_operator.model import allocation, device, fitting, request
from vgpu_operator.vendors import base

NOW = datetime.datetime(2026, 1, 15, 10, 0, tzinfo=datetime.UTC)


def node(
    capacity: Mapping[str, Any] | None = None, annotations: Mapping[str, Any] | None = None
) -> base.NodeTexts:
    """Return what node ``n1`` says."""
    return base.NodeTexts(
        name="n1", annotations=annotations or {}, labels={}, capacity=capacity or {}
    )


def cards_of(vendor: base.Vendor, texts: base.NodeTexts) -> tuple[device.Device, ...]:
    """Return the cards that the vendor reads from those texts."""
    text = vendor.register_text(texts)
    return () if text is None else vendor.decode_devices(text, node=texts.name).devices


def card(name: str, kind: str, **fields: Any) -> device.Device:
    """Return a healthy card."""
    usual: dict[str, Any] = {"slots": 1, "memory_mib": 1000, "cores_percent": 100, "healthy": True}
    return device.Device(id=name, type=kind, **(usual | fields))


def state(one: device.Device, slots: int = 0, memory_mib: int = 0, cores: int = 0) -> Any:
    """Return the card with what is used of it."""
    return fitting.CardState(
        device=one, used_slots=slots, used_memory_mib=memory_mib, used_cores=cores
    )


def choose(
    vendor: base.Vendor,
    cards: Sequence[fitting.CardState],
    wish: request.DeviceRequest,
    **ask: Any,
) -> Any:
    """Return ids and amounts of the picks, or the counts of a refusal."""
    answer = vendor.choose(
        fitting.NodeState(name="n1", cards=tuple(cards)), fitting.Ask(wish=wish, **ask)
    )
    if isinstance(answer, fitting.Refused):
        return dict(answer.counts)
    return [(cards[p.card].device.id, p.memory_mib, p.cores, p.slots) for p in answer]


def share(card_id: str, memory_mib: int = 0, cores: int = 0) -> allocation.DeviceShare:
    """Return a share of a card."""
    return allocation.DeviceShare(
        device_id=card_id, vendor_word="w", memory_mib=memory_mib, cores_percent=cores
    )


def grant(
    devices: Sequence[device.Device],
    *shares: allocation.ContainerShares,
    wishes: Sequence[request.DeviceRequest | None] = (),
) -> base.Grant:
    """Return what a pod with containers ``c0``, ``c1``, … is bound with on node ``n1``."""
    names = tuple(f"c{index}" for index in range(len(shares)))
    asked = [*wishes, *[None] * (len(shares) - len(wishes))]
    return base.Grant(
        shares=shares,
        containers=names,
        devices={one.id: one for one in devices},
        node="n1",
        node_notes={},
        pod_notes={},
        request=request.PodRequest(
            pod=request.PodKey(namespace="team-a", name="p1", uid="u1"),
            containers=tuple(
                request.ContainerRequest(
                    name=name,
                    kind=request.ContainerKind.APP,
                    devices=() if wish is None else (wish,),
                )
                for name, wish in zip(names, asked, strict=True)
            ),
        ),
    )


def container(
    limits: Mapping[str, Any], requests: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return container ``main``."""
    return {"name": "main", "resources": {"limits": limits, "requests": requests or {}}}
