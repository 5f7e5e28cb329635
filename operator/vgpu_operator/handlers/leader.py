"""Follows the Lease of our own kube-scheduler."""

import asyncio
from collections.abc import Callable

import structlog

from vgpu_operator.flows import leadership
from vgpu_operator.kube import client, clock, errors, paths
from vgpu_operator.wire import lease as wire_lease

log = structlog.get_logger(__name__)

POLL_S = 2.0
"""kube-scheduler renews every 2 s; a lost Lease is seen as fast as it can be taken."""

READ_LIMIT_S = 5.0
"""A slow API server costs no term; what it answers counts from the question."""


class LeaderFollower:
    """Reads the Lease and tells when leadership begins and ends.

    Without a Lease to follow this process always leads; then it reads the
    server's version instead, to know whether the API server still answers.
    """

    def __init__(
        self,
        kube: client.KubeClient,
        time: clock.Clock,
        *,
        lease: tuple[str, str] | None,
        hostname: str,
        on_change: Callable[[bool], None],
    ) -> None:
        self._client = kube
        self._clock = time
        self._lease = lease
        self._state = leadership.Leadership(hostname=hostname)
        self._on_change = on_change
        self._leads: bool | None = None
        self._term_of = ""
        self.reachable = True
        self._answered_s: float | None = None

    @property
    def holder(self) -> str:
        """Who holds the Lease."""
        return (
            self._state.holder if self._lease is not None else "no Lease is followed, this process"
        )

    def may_lead(self) -> bool:
        """Whether the Lease that was last seen to be ours holds still, by our own clock.

        A process that was frozen finds it expired at once, before it reads anything.
        """
        return self._lease is None or self._state.leads(self._clock.monotonic_s())

    @property
    def unseen_s(self) -> float | None:
        """How long our own Lease has not been seen renewed; None where it is not ours."""
        return self._state.unseen_s(self._clock.monotonic_s())

    @property
    def answered_s(self) -> float | None:
        """How long ago the API server last answered; None where it has not yet."""
        if self._answered_s is None:
            return None
        return self._clock.monotonic_s() - self._answered_s

    async def run(self) -> None:
        """Keep reading until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(POLL_S)

    async def refresh(self) -> None:
        """Read the Lease once and decide.

        It is as old as the question: the answer may have been long on its way.
        """
        if self._leads:
            self._decide()  # a term that lapsed has ended, even if the answer shows it renewed
        asked_s = self._clock.monotonic_s()
        try:
            if self._lease is None:
                await self._client.request("GET", "/version", limit_s=READ_LIMIT_S)
            else:
                raw = await self._client.request(
                    "GET", paths.lease(*self._lease), limit_s=READ_LIMIT_S
                )
                self._state.observe(wire_lease.decode_lease(raw), asked_s)
        except errors.NotFound:
            self._state.observe(None, asked_s)
            self._note(reachable=True)
        except errors.ApiError as fault:
            self._note(reachable=not isinstance(fault, errors.Unreachable | errors.ServerFault))
        else:
            self._note(reachable=True)
        self._decide()

    def _decide(self) -> None:
        leads = self.may_lead()
        if leads and self._leads and self._state.holder != self._term_of:
            self._leads = False  # a kube-scheduler that began anew: somebody may have led between
            self._on_change(False)
        if leads != self._leads:
            self._leads, self._term_of = leads, self._state.holder
            self._on_change(leads)

    def _note(self, *, reachable: bool) -> None:
        if reachable:
            self._answered_s = self._clock.monotonic_s()
        if reachable != self.reachable:
            self.reachable = reachable
            if reachable:
                log.info("API server reachable again")
            else:
                log.warning("API server not reachable; keeping what is known")
