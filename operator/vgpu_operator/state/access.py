"""Whether the API server would show the caller what the page shows.

TokenReview says who the token's owner is, SubjectAccessReview whether he may list
Nodes and the Pods of all namespaces: whoever may, sees nothing new here.
"""

import asyncio
import collections
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock, errors

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  # a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

NEEDED: Final = (("list", "nodes"), ("list", "pods"))
"""What the page shows stands in these objects."""

GRANTED_S: Final = 60.0
REFUSED_S: Final = 10.0
"""How long an answer is remembered."""

MOST_TOKENS: Final = 1024
LONGEST_TOKEN: Final = 16_384

MOST_QUESTIONS: Final = 8
"""Tokens that are asked about at once: anybody can send a new one with each request."""

MOST_EACH: Final = 2
"""The same for one client address: nobody alone keeps others from being asked about."""

QUESTION_S: Final = 5.0
"""How long one question may take: it normally takes milliseconds."""

WAIT_S: Final = 15.0
"""How long a request waits for its turn and its answer: three questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An HTTP status, 200 for yes, and the sentence that goes with it."""

    status: int
    sentence: str = ""


_GRANTED: Final = Verdict(status=200)
_NO_TOKEN: Final = Verdict(
    status=401,
    sentence="send a token of the cluster: 'Authorization: Bearer …' (kubectl create token NAME)",
)
_TOO_LATE: Final = Verdict(
    status=503,
    sentence="the API server has not said in time whether you may read this; try again",
)
_NOT_KNOWN: Final = Verdict(
    status=401, sentence="the API server does not accept that token; make a new one"
)


class Access:
    """Asks the API server about tokens, and remembers for a moment what it said."""

    def __init__(self, kube: kube_client.KubeClient, time: clock.Clock) -> None:
        self._kube = kube
        self._clock = time
        self._known: dict[bytes, tuple[float, Verdict]] = {}
        self._asking: dict[bytes, asyncio.Lock] = {}
        self._room = asyncio.Semaphore(MOST_QUESTIONS)
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._callers: collections.Counter[str] = collections.Counter()

    async def verdict(self, authorization: str, *, client: str = "") -> Verdict:
        """Return whether the sender of that header, at that address, may read."""
        kind, _, token = authorization.partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return _NO_TOKEN
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._remembered(key)
        if known is not None:
            return known
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(WAIT_S), lock, self._turn(client):
                return self._remembered(key) or await self._learn(key, token)
        except TimeoutError:
            return _TOO_LATE
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    @contextlib.asynccontextmanager
    async def _turn(self, client: str) -> AsyncIterator[None]:
        """Wait until one more question may be asked, and one more for that address."""
        room = self._rooms.setdefault(client, asyncio.Semaphore(MOST_EACH))
        self._callers[client] += 1
        try:
            async with room, self._room:
                yield
        finally:
            self._callers[client] -= 1
            if not self._callers[client]:
                del self._callers[client], self._rooms[client]

    async def _learn(self, key: bytes, token: str) -> Verdict:
        try:
            verdict = await self._ask(token)
        except errors.ApiError as fault:
            sentence = f"the API server cannot be asked whether you may read this: {fault}"
            return Verdict(status=503, sentence=sentence)
        lifetime_s = GRANTED_S if verdict.status == 200 else REFUSED_S
        self._known.pop(key, None)
        self._known[key] = (self._clock.monotonic_s() + lifetime_s, verdict)
        if len(self._known) > MOST_TOKENS:
            del self._known[next(iter(self._known))]
        return verdict

    def _remembered(self, key: bytes) -> Verdict | None:
        until_s, verdict = self._known.get(key, (0.0, _NO_TOKEN))
        return verdict if self._clock.monotonic_s() < until_s else None

    async def _ask(self, token: str) -> Verdict:
        user = await self._review_token(token)
        if user is None:
            return _NOT_KNOWN
        for verb, resource in NEEDED:
            if not await self._may(user, verb, resource):
                return Verdict(
                    status=403,
                    sentence=f"{user.get('username', '')} may not {verb} {resource} in all "
                    f"namespaces; this page shows them, so both 'list nodes' and 'list pods' "
                    "are needed",
                )
        return _GRANTED

    async def _review_token(self, token: str) -> dict[str, Any] | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = await self._answer_to(TOKEN_REVIEWS, review)
        user = status.get("user")
        return user if status.get("authenticated") is True and isinstance(user, dict) else None

    async def _may(self, user: dict[str, Any], verb: str, resource: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "uid": user.get("uid", ""),
                "groups": user.get("groups") or [],
                "extra": user.get("extra") or {},
                "resourceAttributes": {"verb": verb, "resource": resource},
            },
        }
        status = await self._answer_to(ACCESS_REVIEWS, review)
        return status.get("allowed") is True

    async def _answer_to(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(QUESTION_S):
            return (await self._kube.create(path, review)).get("status") or {}
