"""Runs preemptions beside the filters: one look after another, each victim by itself.

refused (filter) ──► candidates ──► look ──► nomination written ──► evictions
                          ▲          │                                  │
                          └── later ─┴─────────────── settle ◄──────────┘
"""

import asyncio
import contextlib
import datetime
import time
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final

import structlog

from vgpu_operator.flows import effects
from vgpu_operator.flows.books import Books
from vgpu_operator.flows.preemption import candidates, course, look, take_over, told
from vgpu_operator.flows.preemption.attempts import Attempt, Candidate, Outcome
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock as kube_clock
from vgpu_operator.kube import errors, paths, perform
from vgpu_operator.model import budgets as model_budgets
from vgpu_operator.model import records, request
from vgpu_operator.wire import budgets as wire_budgets

log = structlog.get_logger(__name__)

SETTLE_S: Final = 0.5
"""How often is looked whether attempts are over, while there are any."""

IDLE_S: Final = 30.0
"""How long nothing is looked at while nobody is refused."""

REST_PER_LOOK: Final = 2.0
"""How long others go on after a look, as a multiple of what it took: a look is one step of the
thread that also answers kube-scheduler."""

NO_BUDGETS: Final = datetime.timedelta(seconds=10)
"""How long is waited where the budgets could not be listed: without them nothing is evicted."""

SWEEP: Final = datetime.timedelta(seconds=10)
"""How often marks are looked for of which nothing comes any more."""

BUDGETS_HOLD: Final = datetime.timedelta(seconds=1)
"""How long a list of the budgets serves for the looks at others, while nobody is evicted."""

LIST_TRIES: Final = 3
"""How often the budgets are listed for one look where others are evicted meanwhile: the list
does not say whether it counts them."""


class Preemptor:
    """Runs looks and attempts.

    Args:
        react: performs in the background what nobody waits for.
        may_write: whether this process leads, and not only when it last looked.
    """

    def __init__(
        self,
        books: Books,
        client: kube_client.KubeClient,
        clock: kube_clock.Clock,
        *,
        performer: perform.Performer,
        react: Callable[[effects.Reaction], None],
        may_write: Callable[[], bool],
    ) -> None:
        self._books = books
        self._client = client
        self._clock = clock
        self._performer = performer
        self._react = react
        self._may_write = may_write
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._swept_at = clock.now()
        # What is written on one pod goes out in the order in which it was decided.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._listed: tuple[int, datetime.datetime, tuple[model_budgets.Budget, ...]] | None = None

    def refused(self, record: records.PodRecord) -> None:
        """Note that the filter has just refused a pod."""
        if candidates.note_refusal(self._books, record, self._clock.now()):
            self._news.set()

    def begin_term(self) -> None:
        """Hold the cards again that the leader before has nominated; then go on."""
        now = self._clock.now()
        taken = take_over.take_over(self._books, now, on_fault=_not_taken_over)
        self._perform_all(taken.effects)
        for attempt in tuple(self._books.preemption.attempts.values()):
            log.info("preemption goes on", pod=str(attempt.pod), node=attempt.node)
            self._evict_all(attempt)
        self._news.set()

    async def run(self) -> None:
        """Look and settle until cancelled or closed."""
        while not self._closing:
            try:
                await self._turn()
            except Exception:
                # Preemption helps some pods; without it the operator serves all the same.
                log.exception("preemption: a turn failed")
                await asyncio.sleep(SETTLE_S)

    async def _turn(self) -> None:
        """End what is over, then look at one pod, or wait until there is something to do."""
        now = self._clock.now()
        for ended in course.settle(self._books, now):
            self._tell(ended)
        self._sweep(now)
        candidates.review(self._books, now)
        candidate = candidates.next_due(self._books, now)
        if candidate is None:
            await self._rest(now)
        elif self._may_write():
            await self._look(candidate)
        else:
            await asyncio.sleep(SETTLE_S)

    async def close(self) -> None:
        """End what is under way; what stands on the pods is left to the next leader."""
        self._closing = True
        self._news.set()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _sweep(self, now: datetime.datetime) -> None:
        """Take off, now and then, the marks of which nothing comes any more."""
        if self._swept_at <= now < self._swept_at + SWEEP:
            return
        self._swept_at = now
        if self._may_write() and not self._books.settings.preemption.dry_run:
            for pod in course.strays(self._books):
                self._spawn(self._unmark(pod))

    async def _rest(self, now: datetime.datetime) -> None:
        """Wait until there is something to do."""
        due = candidates.next_look(self._books)
        wait_s = IDLE_S if due is None else max(0.0, (due - now).total_seconds())
        if self._books.preemption.attempts:
            wait_s = min(wait_s, SETTLE_S)
        if self._books.refused:
            wait_s = min(wait_s, candidates.REVIEW.total_seconds())
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout=min(wait_s, IDLE_S))

    async def _look(self, candidate: Candidate) -> None:
        begun = time.perf_counter()
        try:
            is_worth_it = look.is_worth_it(self._books, candidate, self._clock.now())
            took_s = time.perf_counter() - begun
            budgets = await self._budgets() if is_worth_it else None
            now = self._clock.now()
            if budgets is None:
                if is_worth_it:
                    candidate.look_at = now + NO_BUDGETS
                await asyncio.sleep(took_s * REST_PER_LOOK)
                return
            begun = time.perf_counter()
            found = look.look(self._books, candidate, budgets, now)
        except Exception:
            # One pod that nobody can plan for costs no other its turn.
            candidate.look_at = self._clock.now() + NO_BUDGETS
            log.exception("preemption: look failed", pod=str(candidate.record.key))
            return
        took_s += time.perf_counter() - begun
        self._react(effects.Reaction(effects=found.wanted))
        if found.node:
            log.info(
                "preemption",
                pod=str(candidate.record.key),
                priority=candidate.record.priority,
                node=found.node,
                victims=[str(victim) for victim in found.victims],
                outcome=found.outcome or "begun",
                forbidding=[str(budget) for budget in found.forbidding],
                ms=round(took_s * 1000, 2),
            )
        if found.attempt is not None:
            self._spawn(self._carry_out(found.attempt))
        await asyncio.sleep(took_s * REST_PER_LOOK)

    async def _carry_out(self, attempt: Attempt) -> None:
        """Write the nomination, then evict."""
        why = await self._drive(attempt, course.write_nomination(self._books, attempt))
        if why:
            self._give_up(attempt, why)
        elif attempt.written:
            self._evict_all(attempt)

    def _evict_all(self, attempt: Attempt) -> None:
        for victim in attempt.victims:
            self._spawn(self._evict(attempt, victim))

    async def _evict(self, attempt: Attempt, victim: request.PodKey) -> None:
        flow = course.evict(self._books, attempt, victim, self._clock.now())
        why = await self._drive(attempt, flow)
        if why:
            self._give_up(attempt, why)

    async def _drive(self, attempt: Attempt, flow: Generator[effects.Effect, Any, str]) -> str:
        """Return why a flow of an attempt has failed for good; empty when it has not."""
        try:
            return await perform.drive(flow, self._perform)
        except Exception:
            log.exception("preemption: an attempt is given up", pod=str(attempt.pod))
            return told.OUR_FAULT

    def _give_up(self, attempt: Attempt, why: str) -> None:
        if self._books.preemption.attempts.get(attempt.pod.uid) is attempt:
            now = self._clock.now()
            self._tell(course.end(self._books, attempt, Outcome.FAILED, now, why))

    def _tell(self, ended: course.Ended) -> None:
        attempt = ended.attempt
        log.info(
            "preemption ended",
            pod=str(attempt.pod),
            node=attempt.node,
            outcome=ended.outcome,
            evicted=len(attempt.evicted),
        )
        if ended.fault is not None:
            log.error("preemption: not judged", pod=str(attempt.pod), exc_info=ended.fault)
        self._perform_all(ended.wanted)

    def _perform_all(self, wanted: Iterable[effects.Effect]) -> None:
        """Perform what nobody waits for."""
        others = []
        for effect in wanted:
            if isinstance(effect, effects.NominateNode):
                self._spawn(self._unmark(effect.pod))
            else:
                others.append(effect)
        self._react(effects.Reaction(effects=tuple(others)))

    async def _unmark(self, pod: request.PodKey) -> None:
        await perform.drive(course.unmark(self._books, pod), self._perform)

    async def _perform(self, effect: effects.Effect) -> Any:
        """Perform one effect of a flow."""
        if isinstance(effect, effects.Pause):
            await asyncio.sleep(effect.seconds)
            return self._clock.now()
        in_turn: contextlib.AbstractAsyncContextManager[object] = contextlib.nullcontext()
        if isinstance(effect, effects.NominateNode):
            in_turn = self._turns.setdefault(effect.pod.uid, asyncio.Lock())
        try:
            async with in_turn:
                return await self._performer.perform(effect)
        except effects.NotLeading as fault:
            # Whoever goes on looks first whether the term is over.
            raise effects.NotYet(str(fault), retry_after_s=SETTLE_S) from fault
        except effects.Denied as fault:
            log.warning("preemption: a write was refused", error=str(fault))
            raise

    async def _budgets(self) -> tuple[model_budgets.Budget, ...] | None:
        """Return all budgets, listed after the last eviction; None where they are not known."""
        for _ in range(LIST_TRIES):
            evicted, now = self._books.tallies.preemption_victims, self._clock.now()
            kept = self._listed
            if kept is not None and kept[0] == evicted and kept[1] <= now < kept[1] + BUDGETS_HOLD:
                return kept[2]
            self._listed = None
            budgets = await self._list_budgets()
            if budgets is None:
                return None
            if self._books.tallies.preemption_victims == evicted:
                self._listed = evicted, now, budgets
                return budgets
        return budgets

    async def _list_budgets(self) -> tuple[model_budgets.Budget, ...] | None:
        """Return all budgets; None where the API server does not say."""
        try:
            items, _ = await self._client.list(paths.BUDGETS)
        except errors.ApiError as fault:
            log.warning("preemption: budgets not listed, nothing is evicted", error=str(fault))
            return None
        return tuple(wire_budgets.decode_budget(item) for item in items)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closing:
            work.close()  # what stands on the pods is left to the next leader
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("preemption: a step failed", exc_info=task.exception())


def _not_taken_over(record: records.PodRecord, fault: Exception) -> None:
    log.error("preemption: not taken over", pod=str(record.key), exc_info=fault)
