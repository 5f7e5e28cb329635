"""Cards that a file describes: everything but the silicon.

Example:
    cards: 2                 # so many alike, or a list of each, which may be called devices
    memory: 24576
    type: NVIDIA A10
    failures: {unhealthy: [GPU-node-1-0]}

The fields are those of one node of a simulation file (``agent.spec``). The file is read
again and again, so that cards can fall ill and come and go while pods run.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from vgpu_operator.agent import cards as vendor_cards
from vgpu_operator.agent import spec
from vgpu_operator.kube import text_file
from vgpu_operator.model import device, errors, yaml_text
from vgpu_operator.node_agent import backend, limits, smi
from vgpu_operator.wire import fields

LOOK_S = 0.5
"""How often the file is read; it is small."""

_SHOWN_IDS = 8

FIELDS: Final = (
    "cards",
    "devices",
    "slots",
    "memory",
    "cores",
    "type",
    "mode",
    "vendor",
    "numaNodes",
    "failures",
)
"""What the file may say; the rest of a simulated node is a real one here."""


class SimulatedBackend:
    """The cards of one file.

    Args:
        file: where they are described.
        node: name of the node; the ids of cards that have none are made from it.
        host_dir: folder of the host for the stand-in of ``nvidia-smi``.
    """

    def __init__(self, file: Path, *, node: str, host_dir: Path) -> None:
        self._file = file
        self._node = node
        self._host_dir = host_dir
        self._has_smi = False
        self.vendor = ""
        self._read: tuple[device.Device, ...] | None = None
        self._log = structlog.get_logger().bind(node=node)

    async def cards(self) -> tuple[device.Device, ...]:
        """Return the cards that the file describes now.

        Raises:
            SettingsError: it cannot be read, or says something wrong.
        """
        self.vendor, self._read = read(self._file, node=self._node)
        self._install()
        return self._read

    async def changes(self) -> AsyncIterator[tuple[device.Device, ...]]:
        """Yield the cards after every change; a text that is wrong changes nothing."""
        known, complaint = self._read, ""
        looked: str | None = None
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                text = await asyncio.to_thread(_text, self._file)
                if text == looked:
                    continue
                looked = text
                found = self._found(text)
            except errors.SettingsError as fault:
                if str(fault) != complaint:
                    self._log.warning("kept the cards as they were", why=str(fault))
                complaint = str(fault)
                continue
            complaint = ""
            if found != known:
                known = found
                yield found

    def grant(self, holder: backend.Holder, slices: tuple[backend.Slice, ...]) -> backend.Grant:
        """Return what shows a container its slices; nothing makes it keep to them."""
        return backend.Grant(
            envs={**limits.environment(holder, slices), **smi.environment(slices)},
            mounts=(smi.mount(self._host_dir),) if self._has_smi else (),
        )

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _found(self, text: str) -> tuple[device.Device, ...]:
        """Return the cards of a text.

        Raises:
            SettingsError: it says something wrong, or has cards of another vendor.
        """
        vendor, found = _parse(text, file=self._file, node=self._node)
        if self.vendor not in ("", vendor):
            raise errors.SettingsError(
                f"{self._file} describes cards of {vendor}, and this agent serves "
                f"{self.vendor}: start it again for another vendor"
            )
        self.vendor = vendor
        return found

    def _install(self) -> None:
        """Put the stand-in where containers get it from; without it they have the limits only."""
        try:
            smi.install(self._host_dir)
        except OSError as fault:
            self._log.warning("containers get no nvidia-smi", why=str(fault))
        else:
            self._has_smi = True


def read(file: Path, *, node: str) -> tuple[str, tuple[device.Device, ...]]:
    """Return the vendor's keyword and the cards that a file describes.

    Raises:
        SettingsError: one sentence with the file and what is wrong in it.
    """
    return _parse(_text(file), file=file, node=node)


def _text(file: Path) -> str:
    return text_file.read(file, largest_bytes=spec.LARGEST_FILE_BYTES)


def _parse(text: str, *, file: Path, node: str) -> tuple[str, tuple[device.Device, ...]]:
    try:
        values = yaml_text.read(text).value
    except errors.SettingsError as fault:
        raise errors.SettingsError(f"{file}: {fault}") from fault
    return build(values, node=node, source=str(file))


def build(values: object, *, node: str, source: str) -> tuple[str, tuple[device.Device, ...]]:
    """Return the vendor's keyword and the cards that ``values`` describe.

    Raises:
        SettingsError: one sentence with what is wrong.
    """
    described = _node_entry(values, source=source)
    simulation = spec.build({"nodes": [{**described, "name": node}]}, source=source)
    spec.refuse_unknown_vendors(simulation, vendor_cards.MODELS, source=source)
    by_vendor = simulation.nodes[0].devices_of(node)
    if not by_vendor:
        raise errors.SettingsError(f"{source} describes no card: write how many, as cards: 2")
    if len(by_vendor) > 1:
        raise errors.SettingsError(
            f"{source} describes cards of {' and '.join(by_vendor)}: an agent serves one vendor"
        )
    keyword, cards = next(iter(by_vendor.items()))
    strangers = simulation.nodes[0].failures.unhealthy - {card.id for card in cards}
    if strangers:
        raise errors.SettingsError(
            f"{source} is wrong at failures.unhealthy: there is no card "
            f"{fields.shown(min(strangers))}; there are "
            f"{', '.join(card.id for card in cards[:_SHOWN_IDS])}"
            f"{' …' if len(cards) > _SHOWN_IDS else ''}"
        )
    return keyword, cards


def _node_entry(values: object, *, source: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise errors.SettingsError(f"{source} describes no card: write how many, as cards: 2")
    unknown = sorted(str(name) for name in values if name not in FIELDS)
    if unknown:
        raise errors.SettingsError(
            f"{source} is wrong at {unknown[0]}: there is no such field of cards; "
            f"there are {', '.join(FIELDS)}"
        )
    described = dict(values)
    if "devices" in described:
        if "cards" in described:
            raise errors.SettingsError(f"{source}: cards and devices are the same; write one")
        described["cards"] = described.pop("devices")
    return described
