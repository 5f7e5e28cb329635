"""One vendor's device plugin: what it writes about its node, and when the kubelet calls it."""

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_operator.agent import manners as vendor_manners
from vgpu_operator.model import device
from vgpu_operator.model import settings as model_settings
from vgpu_operator.vendors import base, registry
from vgpu_operator.wire import (
    clock_text,
    dialects,
    gcu_capacity,
    lock_kinds,
    node_register,
    sgpu_json,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One vendor's plugin: its names, its manners, and the dialect that it speaks."""

    spec: base.VendorSpec
    manners: vendor_manners.Manners
    dialect: dialects.Dialect = dialects.HAMI

    def registers(self, devices: Sequence[device.Device]) -> dict[str, str]:
        """Return the node annotations that list the cards, and what goes with them."""
        key = self.spec.register_key
        if key is None:
            return dict(self.manners.notes)
        return {key: _ENCODERS[self.manners.register](devices), **self.manners.notes}

    def labels(self, devices: Sequence[device.Device]) -> dict[str, str]:
        """Return the node labels that say something of the cards."""
        if self.manners.label is None or not devices:
            return {}
        label, member = self.manners.label
        return {label: str(devices[0].custom_info.get(member, ""))}

    def counts(self, devices: Sequence[device.Device]) -> dict[str, int]:
        """Return what the kubelet lists for these cards, by resource."""
        spec = self.spec
        names = {
            "count": spec.count_resource,
            "cores": spec.cores_resource,
            "memory": spec.memory_resource,
        }
        return {
            name: sum(_amount(card, amount, spec) for card in devices)
            for part, amount in self.manners.offers.items()
            if (name := names[part])
        }

    def reports(self, now: datetime.datetime, *, always: bool = False) -> dict[str, str]:
        """Return the answer to the handshake, by its annotation.

        Args:
            now: the node's time.
            always: report even if this vendor's plugin never does.
        """
        key, report = self.spec.handshake_key, self.manners.report
        if key is None or (report is None and not always):
            return {}
        return {key: _report(report or vendor_manners.Report.UNDERSCORE, now)}

    @property
    def claims(self) -> tuple[str, ...]:
        """The resources of which any in a container's limits has the kubelet call this plugin.

        Where the plugin counts entries, only the count of cards says how many.
        """
        if self.manners.serving is vendor_manners.Serving.ENTRY:
            return (self.spec.count_resource,)
        return tuple(dict.fromkeys(self.spec.resources))


def every_plugin(settings: model_settings.Settings) -> dict[str, Plugin]:
    """Return the plugin of every vendor by keyword, of those too that the operator leaves off.

    A node has its cards whatever the operator serves.
    """
    specs = [vendor.spec for vendor in registry.build(model_settings.with_every_vendor(settings))]
    return {
        spec.keyword: Plugin(
            spec=spec, manners=vendor_manners.of_vendor(spec.id, locks=spec.lock is not None)
        )
        for spec in specs
    }


def speaking(plugin: Plugin, dialect: str) -> Plugin:
    """Return the forerunner's plugin of that vendor, where there was one.

    Args:
        plugin: today's.
        dialect: the beginning of the forerunner's node keys: ``4pd``, ``HAMi.sh``;
            any other word leaves the plugin as it is.
    """
    older = dialects.FORERUNNER
    every = older.node_keys.get(plugin.spec.keyword, ())
    places = next((each for each in every if each.register.startswith(dialect)), None)
    if places is None:
        return plugin
    return Plugin(
        spec=dataclasses.replace(
            plugin.spec,
            register_key=places.register,
            handshake_key=places.handshake,
            to_allocate_key=older.to_allocate,
            allocated_key=older.allocated,
            lock=lock_kinds.FOURPD_LOCK,
        ),
        manners=vendor_manners.Manners(
            register=vendor_manners.Register.SHORT, report=vendor_manners.Report.DOTTED
        ),
        dialect=older,
    )


def _json(devices: Sequence[device.Device]) -> str:
    return node_register.encode_register(devices, custom_info=True)


_ENCODERS: Final[Mapping[vendor_manners.Register, Callable[[Sequence[device.Device]], str]]] = {
    vendor_manners.Register.JSON: _json,
    vendor_manners.Register.COLON: node_register.encode_register_colon,
    vendor_manners.Register.SHORT: functools.partial(
        node_register.encode_register_colon, short=True
    ),
    vendor_manners.Register.GCU: gcu_capacity.encode_capacity,
    vendor_manners.Register.SGPU: sgpu_json.encode_cards,
}


def _amount(card: device.Device, amount: vendor_manners.Amount, spec: base.VendorSpec) -> int:
    match amount:
        case vendor_manners.Amount.CARDS:
            return 1
        case vendor_manners.Amount.SLOTS:
            return card.slots
        case vendor_manners.Amount.CORES:
            return card.cores_percent
        case vendor_manners.Amount.MEMORY:
            return card.memory_mib // spec.memory_unit_mib


def _report(report: vendor_manners.Report, now: datetime.datetime) -> str:
    """Return the handshake's text.

    >>> ten = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)
    >>> _report(vendor_manners.Report.DOTTED, ten)
    'Reported_2026.01.15 10:00:00'
    """
    time = clock_text.encode_datetime(now)
    match report:
        case vendor_manners.Report.UNDERSCORE:
            return f"Reported_{time}"
        case vendor_manners.Report.DOTTED:
            return f"Reported_{time.replace('-', '.')}"
        case vendor_manners.Report.SPACE:
            return f"Reported {time}"
