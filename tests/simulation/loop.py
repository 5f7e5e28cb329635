"""An event loop without clock and without sockets: time jumps to the next timer.

Real asyncio code runs in it unchanged. Every task belongs to a party, the
process that it stands for; a party can be stopped and continued (its steps are
kept back, as after SIGSTOP) or killed (its tasks end and can do nothing more).
"""

import asyncio
import contextvars
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, Final

PARTY: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("party", default="")
"""Whose step is running; empty for the world itself."""

MOST_STEPS_AT_ONCE: Final = 100_000
"""So many steps without any time passing are a loop that never ends."""


class SpinsError(Exception):
    """Something goes round and round without any time passing."""


class StandsStillError(Exception):
    """Nothing is left to do, not even to wait for a time, and the end has not come."""


class VirtualLoop(asyncio.BaseEventLoop):
    """One history's event loop.

    Attributes:
        steps: how many callbacks have run.
        on_fault: told the party and the exception when what was begun for it fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.on_fault: Callable[[str, BaseException], None] = lambda *_: None
        self._now = 0.0
        self._at_once = 0
        self._n_timers = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._stopped: dict[str, list[events.Handle]] = {}
        self._tasks: dict[str, dict[asyncio.Task[Any], None]] = {}
        self._last_party = ""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _loop, _context: None)

    # What asyncio needs.

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no other threads."""

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Do something at a time; what is for the same time keeps its order."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._n_timers += 1
        heapq.heappush(self._timers, (when, self._n_timers, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are left out when their time comes."""

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise StandsStillError("no timer is left")
            if timers[0][0] > self._now:
                self._now = timers[0][0]
                self._at_once = 0
        now = self._now
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self._stopped:
                kept_back = self._stopped.get(handle._context.get(PARTY, ""))
                if kept_back is not None:
                    kept_back.append(handle)
                    continue
            self.steps += 1
            self._at_once += 1
            handle._run()
        if self._at_once > MOST_STEPS_AT_ONCE:
            raise SpinsError(f"{self._at_once} steps at {self._now:.3f} s")

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **more)
        context = more.get("context")
        party = context.get(PARTY, "") if context is not None else PARTY.get()
        if party in self._tasks:
            mates = self._tasks[party]
            mates[task] = None
            task.add_done_callback(lambda done: mates.pop(done, None))
        return task

    # What the world does with parties.

    def start(self, party: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin something in that party's name."""
        self._tasks.setdefault(party, {})
        context = contextvars.copy_context()
        context.run(PARTY.set, party)
        task = self.create_task(work, context=context)
        task.add_done_callback(lambda done: self._ended(party, done))
        return task

    def _ended(self, party: str, done: asyncio.Task[Any]) -> None:
        if not done.cancelled() and (fault := done.exception()) is not None:
            self.on_fault(party, fault)

    def kill(self, party: str) -> None:
        """End all that the party does."""
        self.go_on(party)
        for task in tuple(self._tasks.pop(party, ())):
            task.cancel()

    def stop_party(self, party: str) -> None:
        """Let the party take no step until it goes on."""
        self._stopped.setdefault(party, [])

    def go_on(self, party: str) -> None:
        """Let a stopped party go on where it was."""
        for handle in self._stopped.pop(party, ()):
            self._ready.append(handle)  # type: ignore[attr-defined]

    def is_stopped(self, party: str) -> bool:
        """Whether the party takes no steps."""
        return party in self._stopped

    def end(self) -> None:
        """End all tasks and close."""
        self._stopped.clear()
        for _ in range(20):
            running = [task for task in asyncio.all_tasks(self) if not task.done()]
            if not running:
                break
            for task in running:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.cancel()
            self._at_once = 0
            gathered = asyncio.wait(running, timeout=0)
            self.run_until_complete(gathered)
        self.close()
