"""The composition root: the only place that wires objects together."""

import asyncio
import contextlib
import datetime
import gc
import logging
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf
import structlog

from vgpu_operator.extender import routes as extender_routes
from vgpu_operator.extender import server as extender_server
from vgpu_operator.flows import books as flow_books
from vgpu_operator.flows import closest, effects, reading, reconcile
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.handlers import leader, ticker, watches
from vgpu_operator.kube import (
    binder,
    client,
    clock,
    errors,
    events,
    intake,
    listen,
    perform,
    pod_watch,
    preemptor,
)
from vgpu_operator.kube import waiting as kube_waiting
from vgpu_operator.metrics import cards_page, collector, fleet_page, instruments, kept
from vgpu_operator.metrics import server as metrics_server
from vgpu_operator.model import settings as model_settings
from vgpu_operator.state import access as state_access
from vgpu_operator.state import routes as state_routes
from vgpu_operator.state import server as state_server
from vgpu_operator.vendors import registry as vendor_registry
from vgpu_operator.webhook import certificates as webhook_certificates
from vgpu_operator.webhook import keeper as webhook_keeper
from vgpu_operator.webhook import routes as webhook_routes
from vgpu_operator.webhook import server as webhook_server

log = structlog.get_logger(__name__)

RETRY_PAUSE_S = 1.0
SYNC_WAIT_S = 8.0
"""How long a filter waits for the first sync before it says that we are not ready."""

TASKS_LIMIT_S = 1.0
"""How long watches and tickers may take to end once what was being written is written."""

SERVERS_LIMIT_S = 1.5
"""How long the listeners then may take, all together.

With the 2 s that binds and other writes have (``binder.SPARE_S``), in which callers of the
webhook leave by themselves (``webhook.server.DRAIN_S``), a stop takes less than 5 s, whatever
the API server or a client does.
"""

GC_THRESHOLDS = (2000, 10, 100)
"""Little of what we make is in cycles, and a look through all that has been made since the
start stops everything: it is made a tenth as often as Python would."""

LABEL_MERGE_MINOR = 35
"""From Kubernetes 1.35 the API server merges a Binding's labels into the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``vgpu run`` is told on its command line.

    Attributes:
        lease: namespace and name of kube-scheduler's Lease; None = always lead.
        hostname: what the Lease's holder must start with, before the ``_``.
        state_bind: None = no state page here.
        state_asks_for_token: callers of the state page show a token on loopback too.
        webhook_bind: None = no webhook here.
        webhook_certificate: certificate and key file; None = one is made.
        webhook_hosts: names that a made certificate is for.
        webhook_ca_file: where the made certificate's CA is written; None = nowhere.
        webhook_secret: namespace and name of the Secret that keeps the made
            certificate; None = it lasts as long as the process.
        webhook_configuration: the MutatingWebhookConfiguration that is told its CA.
    """

    settings: model_settings.Settings
    extender_bind: listen.Address
    metrics_bind: listen.Address
    state_bind: listen.Address | None = None
    state_asks_for_token: bool = False
    webhook_bind: listen.Address | None = None
    webhook_certificate: tuple[Path, Path] | None = None
    webhook_hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
    webhook_ca_file: Path | None = None
    webhook_secret: tuple[str, str] | None = None
    webhook_configuration: str = ""
    lease: tuple[str, str] | None = None
    hostname: str = ""


class Operator:
    """One replica: watches, servers, ticker, leadership."""

    def __init__(
        self, options: Options, kube: client.KubeClient, time: clock.Clock | None = None
    ) -> None:
        self.options = options
        self.client = kube
        self.clock = time or clock.SystemClock()
        self.instruments = instruments.Instruments()
        vendors = vendor_registry.build(options.settings)
        self.books = flow_books.open_books(options.settings, vendors)
        self.instruments.registry.register(collector.BooksCollector(self.books))
        kube.on_answer = self.instruments.count_api_request
        self.sink = events.EventSink(
            kube,
            self.clock,
            leads=lambda: self.books.leader,
            may_write=self._may_write,
            on_failure=self._event_failed,
            on_drop=self._event_dropped,
            message=closest.Closest(self.books).message,
        )
        self.waits = kube_waiting.Waiting(self.books, self.clock)
        self.performer = perform.Performer(
            kube,
            self.sink,
            decode_pod=lambda raw: reading.decode_pod(self.books, raw),
            may_write=self._may_write,
            wait=self.waits.change,
            tell=lambda news: self.intake.react(news),
            on_failure=self._effect_failed,
            on_retry=self.instruments.count_api_retry,
        )
        self.intake = intake.Intake(
            self.books,
            kube,
            self.clock,
            performer=self.performer,
            waits=self.waits,
            on_audit=self.instruments.count_audit_differences,
        )
        self.pod_watch = pod_watch.PodWatch(
            kube,
            on_event=self.intake.pod_event,
            on_progress=self.intake.pods_reached,
            relist=self.intake.relist_pods,
        )
        self.binder = binder.Binder(
            self.books,
            self.clock,
            performer=self.performer,
            waits=self.waits,
            observe=lambda phase, seconds: self.instruments.observe_phase("bind", phase, seconds),
        )
        self.preemptor = preemptor.Preemptor(
            self.books,
            kube,
            self.clock,
            performer=self.performer,
            react=self.intake.react,
            may_write=self._may_write,
        )
        self.leader = leader.LeaderFollower(
            kube,
            self.clock,
            lease=options.lease,
            hostname=options.hostname,
            on_change=self._leadership_changed,
        )
        self.ticker = ticker.Ticker(
            self.intake,
            options.settings,
            observe_lag=self.instruments.observe_lag,
        )
        self.keeper: webhook_keeper.Keeper | None = None
        if options.webhook_bind is not None and options.webhook_secret is not None:
            self.keeper = webhook_keeper.Keeper(
                kube,
                self.clock,
                secret=options.webhook_secret,
                configuration=options.webhook_configuration,
                hosts=options.webhook_hosts,
                leads=self._may_write,
                told=self._certificate_shown,
            )
        self.ports: dict[str, int] = {}
        self._webhook: webhook_server.RunningServer | None = None
        self._card_texts = kept.Kept()
        self._stop = asyncio.Event()
        self._term = 0
        self._term_synced = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, *, on_ready: Callable[[], None] | None = None) -> None:
        """Run until told to stop by a signal or by ``stop``.

        Raises:
            SettingsError: a port is taken, a certificate is missing.
        """
        self._install_signals()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._servers())
            self._spawn(self.sink.run())
            if await self._unless_stopped(self._start()) and on_ready is not None:
                on_ready()
            await self._stop.wait()
            if self._webhook is not None:
                self._webhook.drain()  # while what is being written is finished
            await self._close()
            if self._webhook is not None:
                await self._webhook.drained()  # before the listeners' own time begins

    async def _start(self) -> None:
        """Learn what there is, then follow it."""
        await self._until_reachable()
        self._spawn(self.leader.run())
        await self.leader.refresh()
        await self._begin_term()
        self._spawn(self._watch())
        self._spawn(self.pod_watch.run(self.intake.pods_version))
        if self.options.settings.preemption.enabled:
            self._spawn(self.preemptor.run())

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do this to its end, or until told to stop; return whether it came to its end."""
        doing = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (doing, stopping):
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        if not doing.cancelled():
            doing.result()
        return not self._stop.is_set()

    def stop(self) -> None:
        """Ask the operator to stop."""
        self._stop.set()

    def not_ready_because(self) -> str:
        """Return why ``/readyz`` must say no; empty when it may say yes."""
        if self._stop.is_set():
            return "stopping"
        if not self.books.synced:
            return f"the first list of nodes and pods from {self.client.server_url} is not complete"
        if not self.leader.reachable:
            return f"the API server at {self.client.server_url} does not answer"
        return self.keeper.not_ready_because if self.keeper is not None else ""

    async def may_serve(self) -> str:
        """Return why filter and bind must not be answered; empty when they may.

        A call that meets a follower reads the Lease once: kube-scheduler may
        have become leader a moment before we saw it.
        """
        if self._stop.is_set():
            return "the operator stops; kube-scheduler tries again"
        if not self._may_write():
            await self.leader.refresh()
        if not self._may_write():
            if (unseen_s := self.leader.unseen_s) is not None:
                return (
                    f"our Lease has not been seen renewed for {unseen_s:.0f} s;"
                    " the API server is slow; kube-scheduler tries again"
                )
            holder = self.leader.holder or "nobody"
            return f"this replica does not lead ({holder} holds the Lease); ask the leader"
        if not self._term_synced.is_set():
            try:
                await asyncio.wait_for(self._term_synced.wait(), timeout=SYNC_WAIT_S)
            except TimeoutError:
                return "the ledger is not complete yet; kube-scheduler tries again"
        return ""

    def _may_write(self) -> bool:
        """Whether this process leads, and not only when it last looked."""
        return self.books.leader and self.leader.may_lead()

    @contextlib.asynccontextmanager
    async def _servers(self) -> AsyncIterator[None]:
        """Run all listeners."""
        options = self.options
        async with contextlib.AsyncExitStack() as stack:
            app = metrics_server.application(
                self.instruments.registry,
                cards=self._pages,
                not_ready_because=self.not_ready_because,
            )
            metrics = await metrics_server.start(app, options.metrics_bind)
            closing = [metrics.close]
            stack.push_async_callback(_all_within, closing, SERVERS_LIMIT_S)
            desk = extender_routes.Desk(
                books=self.books,
                clock=self.clock,
                intake=self.intake,
                binder=self.binder,
                may_serve=self.may_serve,
                observe=self.instruments.observe_verb,
                reject=self.instruments.count_rejections,
                refused=self.preemptor.refused,
                observe_phase=self.instruments.observe_phase,
            )
            extender = await extender_server.start(desk, options.extender_bind)
            closing.append(extender.close)
            self.ports = {"metrics": metrics.address.port, "extender": extender.address.port}
            tls: ssl.SSLContext | None = None
            if options.webhook_bind is not None:
                tls, webhook = await self._start_webhook(options.webhook_bind)
                self._webhook = webhook
                closing.append(webhook.stop)
                self.ports["webhook"] = webhook.port
            if options.state_bind is not None:
                state = await self._start_state(options.state_bind, tls)
                closing.append(state.close)
                self.ports["state"] = state.port
            log.info("listening", **self.ports)
            yield

    async def _pages(self) -> AsyncIterator[bytes]:
        """Yield what is too much to be made in one step."""
        async for piece in fleet_page.pieces(self.books):
            yield piece
        async for piece in cards_page.pieces(self.books, self._card_texts):
            yield piece

    async def _start_state(
        self, address: listen.Address, tls: ssl.SSLContext | None
    ) -> state_server.Running:
        """Serve the state page; beyond loopback with the webhook's certificate."""
        asks = None
        if self.options.state_asks_for_token or not address.is_loopback:
            asks = state_access.Access(self.client, self.clock)
        desk = state_routes.Desk(
            books=self.books,
            clock=self.clock,
            facts=lambda: {
                "leader": self.books.leader,
                "holder": self.leader.holder,
                "apiReachable": self.leader.reachable,
            },
            answered_s=lambda: self.leader.answered_s,
        )
        return await state_server.start(desk, address, tls=tls, asks=asks)

    async def _start_webhook(
        self, address: listen.Address
    ) -> tuple[ssl.SSLContext, webhook_server.RunningServer]:
        """Serve the webhook, and return the certificate that it shows too."""
        options = self.options
        state = webhook_routes.WebhookState(
            settings=options.settings,
            vendors=self.books.vendors,
            standing=self.books.ledger.quota_standing,
            observe=self.instruments.count_admission,
            observe_seconds=self.instruments.observe_admission,
        )
        if self.keeper is not None:
            self._spawn(self.keeper.run())
            kept = self.keeper.context
            return kept, await webhook_server.start(state, address.host, address.port, kept)
        if options.webhook_certificate is not None:
            files = webhook_certificates.CertificateFiles(
                *options.webhook_certificate, told=self._certificate_shown
            )
            server = await webhook_server.start(state, address.host, address.port, files)
            return files.context, server
        ca, certificate, key = webhook_certificates.self_signed(options.webhook_hosts)
        if options.webhook_ca_file is not None:
            await asyncio.to_thread(options.webhook_ca_file.write_bytes, ca)
        tls = webhook_certificates.context_from_pem(certificate, key)
        webhook_certificates.tell(self._certificate_shown, certificate)
        return tls, await webhook_server.start(state, address.host, address.port, tls)

    def _certificate_shown(self, until: datetime.datetime) -> None:
        self.instruments.set_certificate_end(until.timestamp())

    async def _until_reachable(self) -> None:
        """Wait for the API server; say once a second why not."""
        while True:
            try:
                version = await self.client.get("/version")
                break
            except errors.ApiError as fault:
                log.warning("API server not reachable, trying again", error=str(fault))
            await asyncio.sleep(RETRY_PAUSE_S)
        minor = "".join(filter(str.isdigit, str(version.get("minor", ""))))
        self.books.label_in_binding = not minor or int(minor) >= LABEL_MERGE_MINOR

    async def _sync(self) -> None:
        """Take in everything once; try until it works.

        A list that was begun before a term may lack what the leader before us
        has done since: then once more.
        """
        while not self._stop.is_set():
            term = self._term
            try:
                with contextlib.nullcontext() if self.books.synced else _lasting():
                    await self.intake.sync()
            except errors.ApiError as fault:
                log.warning("sync failed, trying again", error=str(fault))
                await asyncio.sleep(RETRY_PAUSE_S)
            else:
                if term == self._term:
                    if self.books.leader and not self._term_synced.is_set():
                        self.preemptor.begin_term()  # before anybody is answered
                    self._term_synced.set()
                    return

    async def _watch(self) -> None:
        """Run Kopf; when it gives up (a long outage), begin again with a fresh sync."""
        while not self._stop.is_set():
            registry = kopf.OperatorRegistry()
            watches.register(
                registry,
                events=self.intake,
                ticker=self.ticker,
                login=self.client.credentials,
                clock=self.clock,
            )
            try:
                await watches.run(registry, on_started=self._install_signals)
            except Exception as fault:
                log.warning("the watch ended, beginning again", error=str(fault))
            if not self._stop.is_set():
                await asyncio.sleep(RETRY_PAUSE_S)
                await self._sync()

    def _leadership_changed(self, leads: bool) -> None:
        """Begin or end a term."""
        if leads != self.books.leader:  # who begins as a follower has lost nothing
            self.instruments.count_leadership_change()
        self.books.leader = leads
        self.books.trusted_nodes.clear()
        log.info("leading" if leads else "following", holder=self.leader.holder)
        if not leads:
            self.waits.give_up_all("this replica no longer leads")
            reconcile.term_ended(self.books)
            self._card_texts = kept.Kept()  # tens of MB, and only a leader's page has cards
            return
        self._term += 1
        self._term_synced.clear()
        if self.books.synced:
            self._spawn(self._begin_term())

    async def _begin_term(self) -> None:
        """Take in everything; a leader then does and says what is due."""
        await self._sync()
        if self._stop.is_set() or not self.books.leader:
            return
        self.intake.tick()
        await self.intake.tell_standing_complaints()

    def _effect_failed(self, effect: effects.Effect, fault: effects.EffectFailed) -> None:
        self.instruments.count_failed_effect(type(effect).__name__)
        if isinstance(fault, effects.Conflict | effects.Missing | effects.NotLeading):
            return
        log.warning("background write failed", effect=type(effect).__name__, error=str(fault))

    def _event_dropped(self, event: effects.PostEvent) -> None:
        self.instruments.count_dropped_event(event.reason)
        flow_filter.not_told(self.books, event)

    def _event_failed(self, event: effects.PostEvent, fault: errors.ApiError) -> None:
        log.warning("event not sent", reason=event.reason, error=str(fault))
        flow_filter.not_told(self.books, event)

    def _install_signals(self) -> None:
        """Stop on SIGTERM and Ctrl-C."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)

    async def _close(self) -> None:
        """Finish what is being written, end the rest."""
        await asyncio.gather(self.binder.close(), self.intake.close(), self.preemptor.close())
        running = tuple(self._tasks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=TASKS_LIMIT_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A background task that dies takes the operator down: half an operator is worse."""
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        log.error("a background task failed, stopping", exc_info=task.exception())
        self._stop.set()


async def _all_within(
    closing: Sequence[Callable[[], Coroutine[Any, Any, None]]], limit_s: float
) -> None:
    """End all these at once; leave what takes too long to the end of the process."""
    tasks = [asyncio.create_task(close()) for close in closing]
    ended, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    for task in ended:
        if task.exception() is not None:
            log.warning("a listener did not close as it should", exc_info=task.exception())


@contextlib.contextmanager
def _lasting() -> Iterator[None]:
    """Keep the garbage collector away from all that is made in here, now and later.

    Records of 50,000 pods live for long; each look through them for cycles
    would stop everything for half a second. From then on the collector looks for
    garbage as ``GC_THRESHOLDS`` says.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*GC_THRESHOLDS)


def configure_logging(*, level: str = "INFO", as_json: bool = True) -> None:
    """Log one JSON object a line (or readable lines) to standard error."""
    number = logging.getLevelNamesMapping()[level]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        renderer,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=_stderr()),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    # Kopf tells every handled event; only its warnings concern an operator of a cluster.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").addFilter(listen.is_worth_a_line)


def _stderr() -> Any:
    import sys  # late, so that tests can replace it

    return sys.stderr
