"""A small API server in memory, behind the real ``KubeClient``'s face.

It keeps what unit tests depend on: one resourceVersion for everything, merge
patches, preconditions (resourceVersion, UID), the Binding that merges
annotations, the status subresource (which may bring annotations of a pod),
graceful deletion and eviction of bound pods, selectors and watches with
history. Everything else (admission, RBAC, validation, strategic merge, JSON
patch) is the real server's business: test it there.
"""

import asyncio
import copy
import datetime
import itertools
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from support import api_objects
from vgpu_operator.kube import client, errors

Json = dict[str, Any]

_OBJECT = re.compile(
    r"(?P<collection>/api/v1/nodes|/api(?:s/[^/]+)?/v\w+/namespaces/[^/]+/[^/]+|/api/v1/namespaces)"
    r"/(?P<name>[^/]+)(?:/(?P<sub>status|binding|eviction))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came in."""

    verb: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    version: int
    path: str
    before: Json | None
    after: Json | None


class FakeKube(client.KubeClient):
    """A ``KubeClient`` whose API server is a dict.

    Attributes:
        requests: every request in order; clear it to count from a point on.
        objects: by path, as stored; change them only with ``put``.
        logs: of containers, by path.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.objects: dict[str, Json] = {}
        self.logs: dict[str, str] = {}
        self._version = itertools.count(1)
        self._latest = 0
        self._oldest = 0
        self._uids = itertools.count(1)
        self._history: list[_Change] = []
        self._changed = asyncio.Event()
        self._failures: list[tuple[str, str, errors.ApiError]] = []

    # What tests use.

    @property
    def server_url(self) -> str:
        return "https://fake"

    async def close(self) -> None:
        return

    def put(self, path: str, body: Json) -> Json:
        """Create or replace an object as somebody else would, without a request on record."""
        stored = copy.deepcopy(body)
        metadata = stored.setdefault("metadata", {})
        known = self.objects.get(path)
        metadata.setdefault("name", path.rsplit("/", 1)[1])
        if "/namespaces/" in path:
            metadata.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        metadata.setdefault("uid", known["metadata"]["uid"] if known else f"uid-{next(self._uids)}")
        return self._store(path, stored)

    def remove(self, path: str) -> None:
        """Remove an object as somebody else would."""
        self._store(path, None)

    def fail_next(self, verb: str, path_part: str, fault: errors.ApiError) -> None:
        """Have the next request of that kind fail; several calls fail several requests."""
        self._failures.append((verb, path_part, fault))

    def expire_history(self) -> None:
        """Forget all changes so far: watches from before get 410."""
        self._oldest = self._latest
        self._history.clear()
        self._wake()

    def sent(self, verb: str, path_part: str = "") -> list[Request]:
        """Return the requests on record of that verb whose path holds ``path_part``."""
        return [r for r in self.requests if r.verb == verb and path_part in r.path]

    async def until(self, holds: Any, *, changes: int = 10_000) -> None:
        """Return once ``holds()`` is true; it is asked after every change of an object.

        Raises:
            TimeoutError: nothing changed for two seconds of real time.
        """
        for _ in range(changes):
            if holds():
                return
            async with asyncio.timeout(2):
                await self._changed.wait()

    # What KubeClient's methods end in.

    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit_s: float | None = None,
    ) -> Json:
        """Answer one request."""
        await asyncio.sleep(0)
        self.requests.append(Request(verb=verb, path=path, body=copy.deepcopy(body)))
        self._maybe_fail(verb, path)
        if path == "/version":
            return {"gitVersion": "v1.36.0"}
        return copy.deepcopy(self._answer(verb, path, copy.deepcopy(body), dict(params or {})))

    async def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """Answer with what ``logs`` holds."""
        self.requests.append(Request(verb="GET", path=path))
        self._maybe_fail("GET", path)
        return self.logs.get(path, "")

    async def server_time(self) -> datetime.datetime | None:
        """Say nothing of the time: the caller's own clock counts."""
        return None

    async def watch(
        self, path: str, *, resource_version: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[Json]:
        """Yield the changes after a version, for ever."""
        self.requests.append(Request(verb="WATCH", path=path))
        self._maybe_fail("WATCH", path)
        selects = api_objects.selector(dict(params or {}))
        version = int(resource_version)
        while True:
            if version < self._oldest:
                raise errors.Expired(f"WATCH {path}: 410 too old", status=410)
            for change in list(self._history):
                if change.version > version and api_objects.is_in(change.path, path):
                    version = change.version
                    event = _event(change, selects)
                    if event is not None:
                        yield event
            self._maybe_fail("WATCHING", path)
            await self._changed.wait()

    # The server.

    def _answer(self, verb: str, path: str, body: Any, params: Json) -> Json:
        match = _OBJECT.fullmatch(path)
        if match is None:
            return self._create(path, body) if verb == "POST" else self._list(path, params)
        address = f"{match['collection']}/{match['name']}"
        if verb == "POST" and match["sub"] == "binding":
            return self._bind(address, body)
        known = self.objects.get(address)
        if verb == "POST" and match["sub"] == "eviction" and known is not None:
            self._delete(address, known, body.get("deleteOptions", {}))
            return {"kind": "Status", "status": "Success"}
        if known is None:
            raise errors.NotFound(f'{verb} {path}: 404 "{match["name"]}" not found', status=404)
        if verb == "GET":
            return known
        if verb == "DELETE":
            return self._delete(address, known, body or {})
        _check(known, body.get("metadata", {}), path)
        whole = body if verb == "PUT" else api_objects.merged(known, body)
        if match["sub"] == "status":
            changed = {"status": whole.get("status", {})}
            if "/pods/" in address:
                changed["metadata"] = whole["metadata"]
            return self._store(address, {**known, **changed})
        return self._store(address, {**whole, "status": known.get("status", {})})

    def _create(self, path: str, body: Json) -> Json:
        name = body["metadata"].get("name") or (
            body["metadata"]["generateName"] + str(next(self._uids))
        )
        address = f"{path}/{name}"
        if address in self.objects:
            raise errors.Conflict(f'POST {path}: 409 "{name}" already exists', status=409)
        body["metadata"]["name"] = name
        if path.endswith("/pods"):
            body["status"] = {"phase": "Pending"}
        return self.put(address, body)

    def _list(self, path: str, params: Json) -> Json:
        selects = api_objects.selector(params)
        items = [
            o for p, o in sorted(self.objects.items()) if api_objects.is_in(p, path) and selects(o)
        ]
        return {"items": items, "metadata": {"resourceVersion": str(self._latest)}}

    def _bind(self, address: str, body: Json) -> Json:
        pod = self.objects.get(address)
        if pod is None:
            raise errors.NotFound(f"POST {address}/binding: 404 not found", status=404)
        _check(pod, body.get("metadata", {}), address)
        if pod.get("spec", {}).get("nodeName"):
            raise errors.Conflict(f"POST {address}/binding: 409 already assigned", status=409)
        changes = {
            "metadata": {
                field: body["metadata"][field]
                for field in ("annotations", "labels")
                if field in body["metadata"]
            },
            "spec": {"nodeName": body["target"]["name"]},
        }
        self._store(address, api_objects.merged(pod, changes))
        return {"kind": "Status", "status": "Success"}

    def _delete(self, address: str, known: Json, options: Json) -> Json:
        _check(known, options.get("preconditions", {}), address)
        lives_on = (
            "/pods/" in address
            and known.get("spec", {}).get("nodeName")
            and known.get("status", {}).get("phase") not in ("Succeeded", "Failed")
            and options.get("gracePeriodSeconds") != 0
        )
        if not lives_on:
            self._store(address, None)
            return known
        going = {"metadata": {"deletionTimestamp": "2026-01-15T10:00:00Z"}}
        return self._store(address, api_objects.merged(known, going))

    def _store(self, address: str, after: Json | None) -> Json:
        before = self.objects.get(address)
        if after is not None:
            stripped = _without_version(after)
            if before is not None and stripped == _without_version(before):
                return before
        self._latest = next(self._version)
        if after is None:
            self.objects.pop(address, None)
        else:
            after["metadata"] = {**after["metadata"], "resourceVersion": str(self._latest)}
            self.objects[address] = after
        self._history.append(
            _Change(version=self._latest, path=address, before=before, after=after)
        )
        self._wake()
        return after or {}

    def _maybe_fail(self, verb: str, path: str) -> None:
        for planned in self._failures:
            if planned[0] == verb and planned[1] in path:
                self._failures.remove(planned)
                raise planned[2]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _event(change: _Change, selects: Any) -> Json | None:
    """Return the watch event that a change is to those who select."""
    was = change.before is not None and selects(change.before)
    holds = change.after is not None and selects(change.after)
    if holds:
        kind, item = ("MODIFIED" if was else "ADDED"), change.after
    elif was:
        kind, item = "DELETED", change.after or change.before
    else:
        return None
    shown = copy.deepcopy(item)
    if kind == "DELETED" and shown is not None:
        shown["metadata"]["resourceVersion"] = str(change.version)
    return {"type": kind, "object": shown}


def _check(known: Json, wanted: Mapping[str, Any], path: str) -> None:
    """Refuse when a precondition does not hold."""
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != known["metadata"][field]:
            raise errors.Conflict(f"{path}: 409 {field} is not {wanted[field]}", status=409)


def _without_version(item: Json) -> Json:
    metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
    return {**item, "metadata": metadata}
