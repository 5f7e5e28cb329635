"""The thread that asks NVML: it looks at the cards, waits for faults, and tells what it knows."""

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from vgpu_operator.kube import clock
from vgpu_operator.model import device
from vgpu_operator.node_agent import nvml_cards, nvml_library

_WAIT_MS = 1000
"""How long one wait for a fault is; ending the thread takes as long."""

_END_LIMIT_S = 3.0
"""How long the thread has to end; one whose call to the driver hangs is left behind."""

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

    Where NVML tells of no faults at all, it waits without it: the cards are looked at.
    The thread ends when it is told to, and at nothing else.

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
        self._no_events = ""
        self._is_told_of_faults = True
        self._broken = ""

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread has let go of NVML, unless its call hangs."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_END_LIMIT_S)
        if self._thread.is_alive():
            self._log.warning("NVML does not answer: ended without it", waited_s=_END_LIMIT_S)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with nvml_library.Session() as session:
                    self._watch(session)
            except nvml_library.EventsError as fault:
                # The next session looks at every card, and so finds out which one it is.
                self._ending.wait(self._note_no_events("NVML is opened again", fault))
            except nvml_library.NvmlError as fault:
                self._cards.lose_sight(str(fault))
                self._publish(fault=str(fault))
                self._ending.wait(self._options.look_every_s)
            except Exception as fault:  # a dead thread would leave every card healthy for ever
                self._give_up_until_next_look(fault)
                self._ending.wait(self._options.look_every_s)

    def _watch(self, session: nvml_library.Session) -> None:
        """Look and wait by turns; return when NVML must be opened again."""
        looked = session.look()
        hears = self._listens(session, looked)
        while not self._ending.is_set():
            now_s = self._time.monotonic_s()
            self._cards.see(looked, now_s=now_s)
            self._publish()
            self._broken = ""
            if hears:
                self._hear(session, until_s=now_s + self._options.look_every_s)
            else:
                self._ending.wait(self._options.look_every_s)
            if self._cards.any_gone():
                return
            looked = session.look()
            hears = hears or self._listens(session, looked)

    def _listens(
        self,
        session: nvml_library.Session,
        looked: Sequence[nvml_library.Card | nvml_library.Lost],
    ) -> bool:
        """Ask for faults; return whether any can be told."""
        try:
            self._note_deaf(session.listen(looked))
        except nvml_library.EventsError as fault:
            self._note_no_events("NVML tells of no faults: the cards are only looked at", fault)
            self._is_told_of_faults = False
            return False
        if not self._is_told_of_faults:
            self._log.info("NVML tells of faults from now on")
        self._is_told_of_faults = True
        return True

    def _hear(self, session: nvml_library.Session, *, until_s: float) -> None:
        while not self._ending.is_set():
            left_ms = int((until_s - self._time.monotonic_s()) * 1000)
            if left_ms <= 0:
                return
            xid = session.wait(min(left_ms, _WAIT_MS))
            self._no_events = ""
            if xid is None:
                continue
            counts = self._cards.report(xid, now_s=self._time.monotonic_s())
            self._log.warning("XID", card=xid.uuid, xid=xid.number, counts=counts)
            self._publish()

    def _publish(self, fault: str = "") -> None:
        self._log_what_differs(fault)
        self._pass_on(News(cards=self._cards.devices(), fault=fault))

    def _pass_on(self, news: News) -> None:
        # Nobody listens any more to a thread that was left behind.
        if news != self._told and not self._ending.is_set():
            self._told = news
            self._tell(news)

    def _give_up_until_next_look(self, fault: Exception) -> None:
        """Call every card unhealthy by what was told last: what is known may be the cause."""
        why = f"the cards cannot be understood ({type(fault).__name__}: {fault}): report this"
        known = () if self._told is None else self._told.cards
        cards = tuple(replace(card, healthy=False) for card in known)
        self._pass_on(News(cards=cards, fault=why))
        if why != self._broken:
            # One line, as the agent's log has it: the frames are no use without the code.
            frames = [
                f"{one.name}:{one.lineno}" for one in traceback.extract_tb(fault.__traceback__)
            ]
            self._log.error("a look at the cards broke off", why=why, at=" > ".join(frames))
        self._broken = why

    def _note_no_events(self, event: str, fault: nvml_library.EventsError) -> float:
        """Say once that there are no events; return how long to wait before the next try."""
        if str(fault) == self._no_events:
            return self._options.look_every_s
        self._no_events = str(fault)
        self._log.warning(event, why=str(fault))
        return _PAUSE_S

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
