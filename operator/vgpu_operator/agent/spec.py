"""The file that says which nodes to play: YAML or JSON, checked field by field.

Example:
    nodes:
      - name: sim-a                    # one node, card by card
        cards:
          - {memory: 24576, type: NVIDIA A10}
          - {memory: 16384, type: NVIDIA-Tesla T4, healthy: false}
        delay: 0.2s
        failures: {neverAnswer: true}
      - prefix: sim-                   # sim-1 to sim-20, eight equal cards each
        count: 20
        cards: 8
        memory: 81920
        type: NVIDIA A100-SXM4-80GB

Durations are seconds, or a number with ``ms``, ``s`` or ``m``.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
import yaml
from pydantic.alias_generators import to_camel

from vgpu_operator.model import device, errors

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_INT32 = 2**31 - 1
_NODE_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


def _read_duration(value: object) -> object:
    """Turn ``200ms``, ``0.2s`` or ``2m`` into seconds; leave the rest to pydantic."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{value!r} is no duration: write 0.2s, 200ms, 2m or seconds")
        return float(match["number"]) * _SECONDS[match["unit"]]
    return value


Seconds = Annotated[float, pydantic.BeforeValidator(_read_duration), pydantic.Field(ge=0)]


class _Section(pydantic.BaseModel):
    """Base of all sections: camelCase or snake_case in the file, unknown fields refused."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Card(_Section):
    """One card.

    Attributes:
        id: UUID; made from the node's name and the card's index when left out.
        count: how many containers may share it.
        memory: MiB.
        cores: percent of one card.
        vendor: keyword of the vendor whose plugin serves it.
    """

    id: str = ""
    count: int = pydantic.Field(default=10, ge=1, le=_INT32)
    memory: int = pydantic.Field(default=24576, ge=0, le=_INT32)
    cores: int = pydantic.Field(default=100, ge=0, le=_INT32)
    type: str = "NVIDIA A10"
    numa: int = pydantic.Field(default=0, ge=0)
    mode: str = "hami-core"
    healthy: bool = True
    vendor: str = "NVIDIA"


_LISTED, _COUNTED = "listed", "counted"

Cards = Annotated[
    Annotated[tuple[Card, ...], pydantic.Tag(_LISTED)]
    | Annotated[int, pydantic.Field(ge=0, le=1024), pydantic.Tag(_COUNTED)],
    pydantic.Discriminator(lambda value: _COUNTED if isinstance(value, int) else _LISTED),
]
"""Every card, or how many: told apart first, so that a complaint is about what was meant."""


class Failures(_Section):
    """What goes wrong on a node.

    Attributes:
        never_answer: the plugin takes the call and never answers.
        fail: the plugin finds the pod and then breaks down.
        die_after_first_container: the whole node falls silent once it has
            served one container.
        unhealthy: ids of cards that are registered as not healthy.
        vanish_after: the plugin vanishes so long after the start; None never.
    """

    never_answer: bool = False
    fail: bool = False
    die_after_first_container: bool = False
    unhealthy: frozenset[str] = frozenset()
    vanish_after: Seconds | None = None


class Node(_Section):
    """One node, or ``count`` nodes that are alike except for their names.

    Attributes:
        name: the node's name; or else ``prefix``, which the numbers from 1 are put behind.
        cards: every card, or how many cards like ``card`` fields on this level say.
        delay: how long the plugin takes over one Allocate call.
        labels: labels of the Node object when the agent creates it.
    """

    name: str = pydantic.Field(default="", pattern=r"^$|" + _NODE_NAME, max_length=253)
    prefix: str = pydantic.Field(default="", pattern=r"^$|^[a-z0-9][-a-z0-9.]*$", max_length=240)
    count: int | None = pydantic.Field(default=None, ge=0, le=20_000)
    cards: Cards = ()
    slots: int = pydantic.Field(default=10, ge=1, le=_INT32)
    memory: int = pydantic.Field(default=24576, ge=0, le=_INT32)
    cores: int = pydantic.Field(default=100, ge=0, le=_INT32)
    type: str = "NVIDIA A10"
    mode: str = "hami-core"
    vendor: str = "NVIDIA"
    numa_nodes: int = pydantic.Field(default=1, ge=1)
    delay: Seconds = 0.0
    failures: Failures = Failures()
    handshake: bool = False
    kubelet: bool = True
    cpu: str = "64"
    host_memory: str = "256Gi"
    pods: int = pydantic.Field(default=250, ge=1)
    labels: Mapping[str, str] = {}

    @pydantic.model_validator(mode="after")
    def _is_named_one_way(self) -> Self:
        if bool(self.name) == bool(self.prefix):
            raise ValueError("give either name, or prefix with count")
        if self.name and self.count is not None:
            raise ValueError("count belongs to prefix; a node with a name is one node")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes that this entry stands for."""
        if self.name:
            return (self.name,)
        amount = 1 if self.count is None else self.count
        return tuple(f"{self.prefix}{number}" for number in range(1, amount + 1))

    def devices_of(self, name: str) -> Mapping[str, tuple[device.Device, ...]]:
        """Return the cards of the node with that name, by vendor keyword."""
        cards = self.cards if isinstance(self.cards, tuple) else self._equal_cards(self.cards)
        by_vendor: dict[str, list[device.Device]] = {}
        for index, card in enumerate(cards):
            identity = card.id or f"GPU-{name}-{index}"
            by_vendor.setdefault(card.vendor, []).append(
                device.Device(
                    id=identity,
                    index=index,
                    type=card.type,
                    slots=card.count,
                    memory_mib=card.memory,
                    cores_percent=card.cores,
                    numa=card.numa,
                    mode=card.mode,
                    healthy=card.healthy and identity not in self.failures.unhealthy,
                )
            )
        return {vendor: tuple(devices) for vendor, devices in by_vendor.items()}

    def _equal_cards(self, amount: int) -> tuple[Card, ...]:
        """Return that many cards as this level's fields describe them, NUMA nodes in blocks."""
        return tuple(
            Card(
                count=self.slots,
                memory=self.memory,
                cores=self.cores,
                type=self.type,
                mode=self.mode,
                vendor=self.vendor,
                numa=index * self.numa_nodes // amount,
            )
            for index in range(amount)
        )


class Simulation(_Section):
    """The whole file.

    Attributes:
        round_interval: how often a plugin looks at its node: repairs the
            register annotation, reports the handshake.
    """

    nodes: tuple[Node, ...]
    round_interval: Seconds = 30.0

    @pydantic.model_validator(mode="after")
    def _has_every_name_once(self) -> Self:
        if not self.nodes:
            raise ValueError("nodes is empty; describe at least one")
        seen: set[str] = set()
        for node in self.nodes:
            for name in node.names:
                if name in seen:
                    raise ValueError(f"node {name} is described twice")
                seen.add(name)
        return self


def build(values: object, *, source: str = "the simulation") -> Simulation:
    """Return the simulation that ``values`` describe.

    A single entry of ``nodes`` may stand alone, without the list around it.

    Raises:
        SettingsError: one sentence with the path of every wrong field.
    """
    if isinstance(values, Mapping) and "nodes" not in values and {"name", "prefix"} & set(values):
        values = {"nodes": [values]}
    try:
        return Simulation.model_validate(values)
    except pydantic.ValidationError as fault:
        wrong = "; ".join(_describe(error) for error in fault.errors())
        raise errors.SettingsError(f"{source} is wrong at {wrong}") from fault


def _describe(error: Any) -> str:
    """Return path and complaint of one pydantic error."""
    path = ".".join(str(part) for part in error["loc"] if part not in (_LISTED, _COUNTED))
    return f"{path or 'the top'}: {error['msg'].removeprefix('Value error, ')}"


def load(path: Path) -> Simulation:
    """Read a simulation from a YAML or JSON file.

    Raises:
        SettingsError: the file cannot be read, or says something wrong.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        cause = getattr(fault, "strerror", None) or str(fault)
        raise errors.SettingsError(f"cannot read {path}: {cause}") from fault
    except yaml.YAMLError as fault:
        cause = " ".join(str(fault).split())
        raise errors.SettingsError(f"{path} is no YAML: {cause}") from fault
    return build(values, source=str(path))
