"""How many requests each client may make: a bucket of tokens for each address."""

import math
from collections.abc import Container
from dataclasses import dataclass

import orjson
from aiohttp import typedefs, web

from vgpu_operator.kube import clock

MOST_CLIENTS = 1024
"""Addresses remembered at once; whoever was longest away is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What each client address may ask for.

    Attributes:
        per_s: requests a second, for as long as one likes.
        burst: requests at once, after a pause.
    """

    per_s: float
    burst: int


class Buckets:
    """Counts the requests of each client.

    >>> buckets = Buckets(Rate(per_s=2, burst=1))
    >>> buckets.take("10.0.0.7", now_s=0.0), buckets.take("10.0.0.7", now_s=0.1)
    (0.0, 0.4)
    >>> buckets.take("10.0.0.8", now_s=0.1)
    0.0
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}  # tokens left, and at what time

    def take(self, client: str, *, now_s: float) -> float:
        """Take one token; return 0, or the seconds until there is one."""
        rate = self._rate
        left, since_s = self._left.pop(client, (float(rate.burst), now_s))
        left = min(float(rate.burst), left + max(0.0, now_s - since_s) * rate.per_s)
        granted = left >= 1.0
        self._left[client] = (left - 1.0 if granted else left, now_s)
        if len(self._left) > MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        return 0.0 if granted else (1.0 - left) / rate.per_s


def limited(
    rate: Rate, *, free: Container[str] = (), time_source: clock.Clock | None = None
) -> typedefs.Middleware:
    """Return a middleware that answers 429 to a client that asks too often.

    Args:
        rate: what each client address may ask for.
        free: paths that are not counted.
        time_source: the machine's clock by default.
    """
    buckets = Buckets(rate)
    ticking = time_source or clock.SystemClock()

    @web.middleware
    async def middleware(request: web.Request, handler: typedefs.Handler) -> web.StreamResponse:
        if request.path in free:
            return await handler(request)
        wait_s = buckets.take(request.remote or "", now_s=ticking.monotonic_s())
        if wait_s == 0.0:
            return await handler(request)
        text = f"{request.remote} asks more than {rate.per_s:g} times a second; ask again later"
        return web.Response(
            status=429,
            body=orjson.dumps({"error": text}),
            content_type="application/json",
            headers={"Retry-After": str(math.ceil(wait_s))},
        )

    return middleware
