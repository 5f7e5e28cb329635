"""Biren: whole devices; memory and cores are not accounted.

Source: HAMi v2.10.0, ``pkg/device/biren/device.go``.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from vgpu_operator.model import allocation, device, fitting, request
from vgpu_operator.model.vendor_settings.biren import BirenSettings
from vgpu_operator.vendors import base, walk
from vgpu_operator.wire import keys, node_register

KEYWORD: Final = "Biren"

ALL_CORES: Final = 100
"""Whatever the plugin registers."""

CHECKS: Final = (
    walk.healthy,
    walk.not_cordoned,
    walk.id_allowed,
    walk.slots_left,
    walk.unused_if_mutex,
)


class Biren(base.Common):
    """Biren under the names of its settings."""

    vectorised = False

    def __init__(self, settings: BirenSettings) -> None:
        self.spec = base.VendorSpec(
            keyword=KEYWORD,
            id="biren",
            register_key="hami.io/node-biren-register",
            handshake_key="hami.io/node-handshake-biren",
            to_allocate_key="hami.io/Biren-devices-to-allocate",
            allocated_key="hami.io/Biren-devices-allocated",
            lock_key=keys.NODE_LOCK,
            count_resource=settings.resource_count_name,
            use_id_key="birentech.com/use-gpuuuid",
            avoid_id_key="birentech.com/nouse-gpuuuid",
        )

    def decode_devices(self, text: str, *, node: str) -> node_register.RegisterText:
        """Read the register annotation; every device has 100 cores."""
        read = super().decode_devices(text, node=node)
        devices = (dataclasses.replace(card, cores_percent=ALL_CORES) for card in read.devices)
        return dataclasses.replace(read, devices=tuple(devices))

    def derive(
        self, limits: Mapping[str, Any], requests: Mapping[str, Any]
    ) -> request.DeviceRequest | None:
        """Return how many devices one container asks for."""
        count = base.card_count(self.spec.count_resource, limits, requests)
        if not count:
            return None
        return request.DeviceRequest(vendor=KEYWORD, count=count, memory_percent=100)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first devices with a slot left; they are charged no memory."""
        answer = walk.first_fitting(node, ask, CHECKS)
        if isinstance(answer, fitting.Refused):
            return answer
        return tuple(fitting.Pick(card=pick.card, memory_mib=0, cores=0) for pick in answer)

    def cap(
        self,
        asked: request.DeviceRequest,  # noqa: ARG002
        share: allocation.DeviceShare,
        card: device.Device | None,  # noqa: ARG002
    ) -> allocation.DeviceShare:
        """Cut to no memory and no cores: only slots are accounted."""
        return dataclasses.replace(share, memory_mib=0, cores_percent=0)


def backends(settings: BirenSettings) -> tuple[base.Vendor, ...]:
    """Return Biren's one back end."""
    return (Biren(settings),)
