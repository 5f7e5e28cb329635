"""Waits until a component answers, or says why it never will."""

import asyncio
import ssl
import time
from dataclasses import dataclass

import aiohttp

from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.process import Component

_RETRY_S = 0.05
_REQUEST_LIMIT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A URL that answers 200 once its component is ready; ``tls`` None for plain HTTP."""

    url: str
    tls: ssl.SSLContext | None


async def wait_until_ready(component: Component, endpoint: Endpoint, *, limit_s: float) -> None:
    """Ask until the answer is 200.

    Raises:
        ComponentDied: The component ended meanwhile.
        ClusterError: The limit passed; tells the last answer and the log's end.
    """
    deadline = time.monotonic() + limit_s
    # No proxy of the environment's: everything asked here is on this machine.
    async with aiohttp.ClientSession(timeout=_REQUEST_LIMIT, trust_env=False) as session:
        while True:
            component.check_running()
            answer = await _ask(session, endpoint)
            if answer is None:
                # Somebody else on that port could have answered for a dead one.
                component.check_running()
                return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{component.name} was not ready after {limit_s:.0f} s ({endpoint.url}: "
                    f"{answer}); its log ends so:\n{component.log_tail()}"
                )
            await asyncio.sleep(_RETRY_S)


async def _ask(session: aiohttp.ClientSession, endpoint: Endpoint) -> str | None:
    """Return None for 200, else what stands in the way."""
    tls = True if endpoint.tls is None else endpoint.tls
    try:
        async with session.get(endpoint.url, ssl=tls) as response:
            return None if response.status == 200 else f"HTTP {response.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        return str(fault) or type(fault).__name__
