"""The thread that asks NVML: it looks at the cards, waits for faults, and tells what it knows."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from vgpu_operator.kube import clock
from vgpu_operator.model import device
from vgpu_operator.node_agent import nvml_cards, nvml_library

_WAIT_MS = 1000
"""How long one wait for a fault is; ending the thread takes as long."""

_PAUSE_S = 1.0
"""Before NVML is opened again once it tells of no more events."""

_ALL = "all cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What the thread knows.

    Attributes:
        fault: why the cards cannot be asked; empty when they can.
    """

    cards: tuple[device.Device, ...] = ()
    fault: str = ""


class Watcher:
    """The thread, and all that it owns.

    ::

        looking ──▶ waiting for faults ──▶ looking …
           │                │
           │   a card lost, or no more events
           ▼                ▼
        NVML is closed and opened again

    Args:
        options: how cards are registered and watched.
        time: where ages are read from.
        tell: called by the thread with the first news, and whenever they differ.
    """

    def __init__(
        self, options: nvml_cards.Options, time: clock.Clock, tell: Callable[[News], object]
    ) -> None:
        self._options = options
        self._time = time
        self._tell = tell
        self._cards = nvml_cards.Cards(options)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._log = structlog.get_logger(__name__)
        self._told: News | None = None
        self._complaints: Mapping[str, str] = {}
        self._deaf: frozenset[str] = frozenset()

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread has let go of NVML."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with nvml_library.Session() as session:
                    self._watch(session)
            except nvml_library.EventsError as fault:
                # The next session looks at every card, and so finds out which one it is.
                self._log.warning("NVML is opened again", why=str(fault))
                self._ending.wait(_PAUSE_S)
            except nvml_library.NvmlError as fault:
                self._cards.lose_sight(str(fault))
                self._publish(fault=str(fault))
                self._ending.wait(self._options.look_every_s)

    def _watch(self, session: nvml_library.Session) -> None:
        """Look and wait by turns; return when NVML must be opened again."""
        looked = session.look()
        self._note_deaf(session.listen(looked))
        while not self._ending.is_set():
            now_s = self._time.monotonic_s()
            self._cards.see(looked, now_s=now_s)
            self._publish()
            self._hear(session, until_s=now_s + self._options.look_every_s)
            if self._cards.any_gone():
                return
            looked = session.look()

    def _hear(self, session: nvml_library.Session, *, until_s: float) -> None:
        while not self._ending.is_set():
            left_ms = int((until_s - self._time.monotonic_s()) * 1000)
            if left_ms <= 0:
                return
            xid = session.wait(min(left_ms, _WAIT_MS))
            if xid is None:
                continue
            counts = self._cards.report(xid, now_s=self._time.monotonic_s())
            self._log.warning("XID", card=xid.uuid, xid=xid.number, counts=counts)
            self._publish()

    def _publish(self, fault: str = "") -> None:
        self._log_what_differs(fault)
        news = News(cards=self._cards.devices(), fault=fault)
        if news != self._told:
            self._told = news
            self._tell(news)

    def _log_what_differs(self, fault: str) -> None:
        before = self._complaints
        # Without a card so far, whoever asked for the cards is told the fault, and tells it.
        blind = fault and self._cards.devices()
        self._complaints = {_ALL: fault} if blind else self._cards.complaints()
        for card, why in self._complaints.items():
            if before.get(card) != why:
                self._log.warning("a card cannot be used", card=card, why=why)
        for card in () if fault else before.keys() - self._complaints.keys():
            self._log.info("a card can be used again", card=card)

    def _note_deaf(self, uuids: tuple[str, ...]) -> None:
        for uuid in set(uuids) - self._deaf:
            self._log.warning(
                "a card reports no faults: it is only looked at",
                card=uuid,
                every_s=self._options.look_every_s,
            )
        self._deaf = frozenset(uuids)
