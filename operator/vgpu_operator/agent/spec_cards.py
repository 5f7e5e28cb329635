"""The cards of the simulation file, one by one or alike."""

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

import pydantic

from vgpu_operator.agent import cards as vendor_cards
from vgpu_operator.model import device
from vgpu_operator.model.vendor_settings import section
from vgpu_operator.wire import fields


def _without_separators(text: str) -> str:
    if not fields.SEPARATORS.isdisjoint(text) or not text.isprintable() or text != text.strip():
        raise ValueError(
            f"{fields.shown(text)} would fall apart in the protocol's texts: write it without "
            "commas, colons, semicolons, control characters and spaces at its ends"
        )
    return text


Word = Annotated[str, pydantic.AfterValidator(_without_separators), pydantic.Field(max_length=253)]
"""A text that may stand in a register text: an id, a type, a mode."""


class MigProfile(section.Section):
    """One way to cut a card in mode ``mig``.

    Attributes:
        memory: MiB.
        cores: percent of the card.
        slices: compute slices that an instance takes.
        placements: pairs of where an instance may start and how many memory
            slices it takes.
    """

    name: str
    memory: int = pydantic.Field(ge=1, le=fields.INT32_MAX)
    cores: int = pydantic.Field(default=0, ge=0, le=100)
    slices: int = pydantic.Field(ge=1)
    placements: tuple[tuple[int, int], ...]

    def as_registered(self) -> device.MigProfile:
        """Return the profile as the plugin registers it."""
        return device.MigProfile(
            name=self.name,
            memory_mib=self.memory,
            cores_percent=self.cores,
            slice_count=self.slices,
            placements=tuple(
                device.MigPlacement(start=start, size=size) for start, size in self.placements
            ),
        )


class Card(section.Section):
    """One card; what is left out is as the vendor's cards usually are.

    Attributes:
        id: UUID; made from the node's name and the card's index when left out.
        count: how many containers may share it.
        memory: MiB.
        cores: as the vendor registers them: for most percent of one card.
        info: what some vendors add (``custominfo``: AIC, NetworkID, LinkZone …).
        mig_profiles: ways to cut a card in mode ``mig``.
        vendor: keyword of the vendor whose plugin serves it.
    """

    id: Word = ""
    count: int | None = pydantic.Field(default=None, ge=1, le=fields.INT32_MAX)
    memory: int | None = pydantic.Field(default=None, ge=0, le=fields.INT32_MAX)
    cores: int | None = pydantic.Field(default=None, ge=0, le=fields.INT32_MAX)
    type: Word | None = None
    numa: int | None = pydantic.Field(default=None, ge=0)
    mode: Word | None = None
    info: Mapping[str, Any] = {}
    mig_profiles: tuple[MigProfile, ...] = ()
    healthy: bool = True
    vendor: str = "NVIDIA"

    @pydantic.model_validator(mode="after")
    def _says_what_its_plugin_can_tell(self) -> Self:
        said = {name: getattr(self, name) for name in vendor_cards.EVERY_FIELD}
        refuse_untold(self.vendor, said)
        return self

    def device_of(self, node: str, index: int) -> device.Device:
        """Return the card as the one of that index among the vendor's on the node."""
        usual = vendor_cards.usual(self.vendor)
        return device.Device(
            id=self.id or usual.id.format(node=node, index=index),
            index=index,
            type=_said(self.type, usual.type),
            slots=_said(self.count, usual.count),
            memory_mib=_said(self.memory, usual.memory),
            cores_percent=_said(self.cores, usual.cores),
            numa=_said(self.numa, 0),
            mode=_said(self.mode, usual.mode),
            healthy=self.healthy,
            mig_profiles=tuple(profile.as_registered() for profile in self.mig_profiles),
            custom_info={**vendor_cards.info_of(usual, index), **self.info},
        )


def refuse_untold(vendor: str, said: Mapping[str, object]) -> None:
    """Refuse what no plugin of that vendor can tell of a card.

    Raises:
        ValueError: a field is said that follows from the vendor's rules.
    """
    told = vendor_cards.usual(vendor).says
    known = {"slots" if name == "count" and "slots" in said else name for name in told}
    for name, value in sorted(said.items()):
        if name not in known and value not in (None, "", {}):
            can = " and ".join(sorted(known)) or "how many there are"
            raise ValueError(
                f"{name} of {vendor} cards follows from the vendor's rules; the file can say {can}"
            )


_Value = TypeVar("_Value")


def _said(value: _Value | None, usual: _Value) -> _Value:
    """Return what the file says, else the usual."""
    return usual if value is None else value
