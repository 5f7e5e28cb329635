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
      - name: mixed                    # several vendors on one node
        cards:
          - {vendor: NVIDIA}
          - {vendor: DCU, memory: 65536}

What a card does not say is as its vendor's cards usually are (``agent.cards``).
Durations are seconds, or a number with ``ms``, ``s`` or ``m``.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic

from vgpu_operator.agent import cards as vendor_cards
from vgpu_operator.agent import spec_cards
from vgpu_operator.kube import text_file
from vgpu_operator.model import device, errors, yaml_text
from vgpu_operator.model.vendor_settings import section
from vgpu_operator.wire import fields

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
LARGEST_FILE_BYTES = 2**24

SHORTEST_ROUND_S = 0.01
"""With shorter rounds a plugin would do nothing but look."""

_NODE_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


def _read_duration(value: object) -> object:
    """Turn ``200ms``, ``0.2s`` or ``2m`` into seconds; leave the rest to pydantic."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{value!r} is no duration: write 0.2s, 200ms, 2m or seconds")
        return float(match["number"]) * _SECONDS[match["unit"]]
    return value


Seconds = Annotated[
    float,
    pydantic.BeforeValidator(_read_duration),
    pydantic.Field(ge=0, le=section.LONGEST_S),
]


_LISTED, _COUNTED = "listed", "counted"

Cards = Annotated[
    Annotated[tuple[spec_cards.Card, ...], pydantic.Tag(_LISTED)]
    | Annotated[int, pydantic.Field(ge=0, le=1024), pydantic.Tag(_COUNTED)],
    pydantic.Discriminator(lambda value: _COUNTED if isinstance(value, int) else _LISTED),
]
"""Every card, or how many: told apart first, so that a complaint is about what was meant."""


class Failures(section.Section):
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


class Node(section.Section):
    """One node, or ``count`` nodes that are alike except for their names.

    Attributes:
        name: the node's name; or else ``prefix``, which the numbers from 1 are put behind.
        cards: every card, or how many cards like ``card`` fields on this level say.
        delay: how long the plugin takes over one Allocate call.
        stop: how long the containers of a deleted pod take to end, at most its grace period.
        handshake: whether the plugins report; left out, each does as its vendor's does.
        labels: labels of the Node object when the agent creates it.
        dialect: which one the node's plugins speak: ``hami``, or the
            forerunner's under the keys of ``4pd.io`` or ``HAMi.sh``.
        annotations: further annotations that the node's plugins keep up
            (``hami-vnpu-core``, link scores …).
    """

    name: str = pydantic.Field(default="", pattern=r"^$|" + _NODE_NAME, max_length=253)
    prefix: str = pydantic.Field(default="", pattern=r"^$|^[a-z0-9][-a-z0-9.]*$", max_length=240)
    count: int | None = pydantic.Field(default=None, ge=0, le=20_000)
    cards: Cards = ()
    slots: int | None = pydantic.Field(default=None, ge=1, le=fields.INT32_MAX)
    memory: int | None = pydantic.Field(default=None, ge=0, le=fields.INT32_MAX)
    cores: int | None = pydantic.Field(default=None, ge=0, le=fields.INT32_MAX)
    type: spec_cards.Word | None = None
    mode: spec_cards.Word | None = None
    vendor: str = "NVIDIA"
    numa_nodes: int | None = pydantic.Field(default=None, ge=1)
    delay: Seconds = 0.0
    stop: Seconds = 0.0
    failures: Failures = Failures()
    handshake: bool | None = None
    kubelet: bool = True
    cpu: str = "64"
    host_memory: str = "256Gi"
    pods: int = pydantic.Field(default=250, ge=1)
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    dialect: Literal["hami", "4pd", "HAMi.sh"] = "hami"

    @pydantic.model_validator(mode="after")
    def _is_named_one_way(self) -> Self:
        if bool(self.name) == bool(self.prefix):
            raise ValueError("give either name, or prefix with count")
        if self.name and self.count is not None:
            raise ValueError("count belongs to prefix; a node with a name is one node")
        return self

    @pydantic.model_validator(mode="after")
    def _counts_cards_that_can_be(self) -> Self:
        if isinstance(self.cards, int):
            said = {name: getattr(self, name) for name in ("slots", "memory", "cores", "type")}
            spec_cards.refuse_untold(self.vendor, said | {"mode": self.mode})
        return self

    @pydantic.model_validator(mode="after")
    def _has_every_card_once(self) -> Self:
        name = self.name or f"{self.prefix}1"
        for vendor, cards in self.devices_of(name).items():
            first: dict[str, int] = {}
            for card in cards:
                if card.id in first:
                    raise ValueError(
                        f"{vendor} cards {first[card.id]} and {card.index} have one id, "
                        f"{fields.shown(card.id)}; give each its own"
                    )
                first[card.id] = card.index
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
        by_vendor: dict[str, list[spec_cards.Card]] = {}
        for card in cards:
            by_vendor.setdefault(card.vendor, []).append(card)
        return {
            vendor: tuple(
                self._unless_unhealthy(card.device_of(name, index))
                for index, card in enumerate(listed)
            )
            for vendor, listed in by_vendor.items()
        }

    def _unless_unhealthy(self, card: device.Device) -> device.Device:
        sick = card.id in self.failures.unhealthy
        return dataclasses.replace(card, healthy=False) if sick else card

    def _equal_cards(self, amount: int) -> tuple[spec_cards.Card, ...]:
        """Return that many cards as this level's fields describe them, NUMA nodes in blocks."""
        places = self.numa_nodes
        return tuple(
            spec_cards.Card(
                count=self.slots,
                memory=self.memory,
                cores=self.cores,
                type=self.type,
                mode=self.mode,
                vendor=self.vendor,
                numa=None if places is None else index * places // amount,
            )
            for index in range(amount)
        )


class Simulation(section.Section):
    """The whole file.

    Attributes:
        round_interval: how often a plugin looks at its node: repairs the
            register annotation, reports the handshake.
        heartbeat: each round every node says that it is ready, as a kubelet does. Where
            the node lifecycle controller runs, silent nodes are soon not ready.
    """

    nodes: tuple[Node, ...]
    heartbeat: bool = False
    round_interval: Seconds = pydantic.Field(default=30.0, ge=SHORTEST_ROUND_S)

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
    what = section.complaint(error, unknown="there is no such field")
    return f"{path or 'the top'}: {what}"


def load(path: Path) -> Simulation:
    """Read a simulation from a YAML or JSON file.

    Raises:
        SettingsError: the file cannot be read, or says something wrong.
    """
    text = text_file.read(path, largest_bytes=LARGEST_FILE_BYTES)
    try:
        values = yaml_text.read(text).value
    except errors.SettingsError as fault:
        raise errors.SettingsError(f"{path}: {fault}") from fault
    found = build(values, source=str(path))
    refuse_unknown_vendors(found, vendor_cards.MODELS, source=str(path))
    return found


def refuse_unknown_vendors(
    simulation: Simulation, known: Collection[str], *, source: str = "the simulation"
) -> None:
    """Refuse cards of a vendor that nobody serves.

    Raises:
        SettingsError: one sentence with the path of the first.
    """
    for place, entry in enumerate(simulation.nodes):
        cards = entry.cards if isinstance(entry.cards, tuple) else ()
        said = [(f"cards.{index}.vendor", card.vendor) for index, card in enumerate(cards)]
        if not isinstance(entry.cards, tuple):
            said.append(("vendor", entry.vendor))
        for path, vendor in said:
            if vendor not in known:
                raise errors.SettingsError(
                    f"{source} is wrong at nodes.{place}.{path}: {fields.shown(vendor)} is none of "
                    f"{', '.join(known)}"
                )
