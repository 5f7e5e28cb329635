"""Whole devices whose memory and cores are not kept account of: only slots are.

What Biren and Vastai share.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vgpu_operator.model import allocation, device, fitting, request
from vgpu_operator.vendors import amounts, base, walk
from vgpu_operator.wire import lock_kinds, node_register

ALL_CORES: Final = 100
"""Whatever the plugin registers."""


def spec(keyword: str, *, node_word: str, domain: str, count_resource: str) -> base.VendorSpec:
    """Return the names of such a vendor.

    Args:
        keyword: its name on the wire.
        node_word: its name in the keys on nodes.
        domain: of the annotations that choose devices.
        count_resource: the resource that counts devices.
    """
    return base.VendorSpec(
        keyword=keyword,
        id=keyword.lower(),
        register_key=f"hami.io/node-{node_word}-register",
        handshake_key=f"hami.io/node-handshake-{node_word}",
        to_allocate_key=f"hami.io/{keyword}-devices-to-allocate",
        allocated_key=f"hami.io/{keyword}-devices-allocated",
        lock=lock_kinds.NODE_LOCK,
        count_resource=count_resource,
        use_id_key=f"{domain}/use-gpuuuid",
        avoid_id_key=f"{domain}/nouse-gpuuuid",
    )


class Unaccounted(base.Common):
    """A vendor of such devices; the first ones with a slot left are taken."""

    vectorised = False

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Read the register annotation; every device has 100 cores."""
        read = super().decode_devices(text, node=node)
        devices = (dataclasses.replace(card, cores_percent=ALL_CORES) for card in read.devices)
        return dataclasses.replace(read, devices=tuple(devices))

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return how many devices one container asks for."""
        count = amounts.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        return request.DeviceRequest(vendor=self.spec.keyword, count=count, memory_percent=100)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first devices with a slot left."""
        answer = walk.first_fitting(node, ask, walk.BY_SLOTS)
        if isinstance(answer, fitting.Refused):
            return answer
        return picks([pick.card for pick in answer])

    def cap(
        self,
        asked: request.DeviceRequest,  # noqa: ARG002
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002
    ) -> allocation.DeviceShare:
        """Cut to no memory and no cores."""
        return dataclasses.replace(share, memory_mib=0, cores_percent=0)


def picks(cards: Sequence[int]) -> tuple[fitting.Pick, ...]:
    """Return shares of these cards that are charged no memory and no cores."""
    return tuple(fitting.Pick(card=card, memory_mib=0, cores=0) for card in cards)
