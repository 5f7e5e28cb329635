"""The API server: objects, versions, preconditions, and the history that watches read.

Plain functions of state; nothing waits and nothing fails by chance here. What
comes in and goes out is shared, never changed in place. That the real one
answers alike is checked by one test-suite for both.
"""

import datetime
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from simulation import budgets
from support import api_objects
from vgpu_operator.kube import errors

Json: TypeAlias = dict[str, Any]

_OBJECT: Final = re.compile(
    r"(?P<collection>/api/v1/nodes|/api(?:s/[^/]+)?/v\w+/namespaces/[^/]+/[^/]+)"
    r"/(?P<name>[^/]+)(?:/(?P<sub>status|binding|eviction))?"
)
_KINDS: Final = {
    "nodes": "Node",
    "pods": "Pod",
    "events": "Event",
    "leases": "Lease",
    "resourcequotas": "ResourceQuota",
    "namespaces": "Namespace",
    "poddisruptionbudgets": "PodDisruptionBudget",
}

FIRST_VERSION: Final = 100
"""Real versions do not begin at 1; texts of different length must be compared as numbers."""

UNCHANGEABLE: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit.

    Attributes:
        version: of the whole server since.
        path: of the object.
        before: None when it was created.
        after: None when it is gone.
        final: a deleted object as it was last, in the deletion's version.
        author: who asked for it.
    """

    version: int
    path: str
    before: Json | None
    after: Json | None
    final: Json | None = None
    author: str = ""


class ApiServer:
    """All objects, by path, and every change of them.

    Args:
        now_text: gives the time as Kubernetes writes it.
    """

    def __init__(self, now_text: Callable[[], str]) -> None:
        self.objects: dict[str, Json] = {}
        self.history: list[Change] = []
        self.on_commit: list[Callable[[Change], None]] = []
        self.on_break: list[Callable[[], None]] = []
        self.on_eviction: list[Callable[[Json], None]] = []
        self._now_text = now_text
        self._latest = FIRST_VERSION
        self._oldest = FIRST_VERSION
        self._uids = 0
        self._pages: dict[str, tuple[list[Json], str]] = {}
        self._author = ""

    @property
    def version(self) -> int:
        """The newest version."""
        return self._latest

    def handle(
        self,
        verb: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        *,
        author: str = "",
    ) -> Json:
        """Answer one request, wholly or not at all.

        Raises:
            errors.ApiError: as the real server would refuse.
        """
        self._author = author
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
        match = _object(path)
        if match is None:
            if verb == "POST":
                return self._create(path, body)
            return self._list(path, dict(params or {}))
        address = f"{match['collection']}/{match['name']}"
        if verb == "POST" and match["sub"] == "binding":
            return self._bind(address, body)
        if verb == "POST" and match["sub"] == "eviction":
            return self._evict(address, body)
        known = self.objects.get(address)
        if known is None:
            raise errors.NotFound(f'{verb} {path}: 404 "{match["name"]}" not found', status=404)
        if verb == "GET":
            return known
        if verb == "DELETE":
            return self._delete(address, known, body or {})
        _check(known, body.get("metadata") or {}, path)
        whole = body if verb == "PUT" else api_objects.merged(known, body)
        if match["sub"] == "status":
            meta = {**known["metadata"], "annotations": _notes(whole), "labels": _labels(whole)}
            meta = {name: value for name, value in meta.items() if value or value == ""}
            return self._store(
                address, {**known, "metadata": meta, "status": whole.get("status", {})}
            )
        if "/pods/" in address and whole.get("spec") != known.get("spec"):
            raise errors.Invalid(f"{verb} {path}: 422 spec may not change", status=422)
        fixed = {
            name: known["metadata"][name] for name in UNCHANGEABLE if name in known["metadata"]
        }
        metadata = {**whole.get("metadata", {}), **fixed}
        if "deletionTimestamp" in known["metadata"]:
            metadata["deletionTimestamp"] = known["metadata"]["deletionTimestamp"]
        kept = {**whole, "metadata": metadata}
        if "status" in known and not address.startswith("/apis/"):
            kept["status"] = known["status"]
        return self._store(address, kept)

    def changes_since(self, version: int) -> list[Change]:
        """Return every change after that version.

        Raises:
            errors.Expired: some of them are forgotten.
        """
        if version < self._oldest:
            raise errors.Expired(f"410 too old resource version: {version}", status=410)
        low, high = 0, len(self.history)
        while low < high:
            middle = (low + high) // 2
            if self.history[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self.history[low:]

    def forget_history(self) -> None:
        """Forget all changes so far: watches from before are refused, lists begin anew."""
        self._oldest = self._latest
        self.history = []
        self._pages.clear()

    def break_streams(self) -> None:
        """End every watch, now."""
        for end in tuple(self.on_break):
            end()

    def _create(self, path: str, body: Json) -> Json:
        given = body["metadata"]
        name = given.get("name")
        if not name:
            self._uids += 1
            name = f"{given['generateName']}{self._uids:05d}"
        address = f"{path}/{name}"
        if address in self.objects:
            raise errors.Conflict(f'POST {path}: 409 "{name}" already exists', status=409)
        self._uids += 1
        metadata = {
            **{key: value for key, value in given.items() if key != "generateName"},
            "name": name,
            "uid": f"uid-{self._uids}",
            "creationTimestamp": self._now_text(),
        }
        if "/namespaces/" in path:
            metadata["namespace"] = path.split("/namespaces/")[1].split("/")[0]
        made = {**body, "kind": _KINDS[path.rsplit("/", 1)[1]], "metadata": metadata}
        if path.endswith("/pods"):
            made["status"] = {"phase": "Pending"}
        return self._store(address, made)

    def _list(self, path: str, params: dict[str, str]) -> Json:
        token = params.get("continue")
        if token:
            if token not in self._pages:
                raise errors.Expired(f"GET {path}: 410 the list is too old", status=410)
            items, version = self._pages.pop(token)
        else:
            selects = api_objects.selector(params)
            items = [
                found
                for address, found in sorted(self.objects.items())
                if api_objects.is_in(address, path) and selects(found)
            ]
            version = str(self._latest)
        limit = int(params.get("limit", "0"))
        metadata = {"resourceVersion": version}
        if 0 < limit < len(items):
            self._uids += 1
            metadata["continue"] = f"rest-{self._uids}"
            self._pages[metadata["continue"]] = (items[limit:], version)
            items = items[:limit]
        return {"kind": "List", "items": items, "metadata": metadata}

    def _bind(self, address: str, body: Json) -> Json:
        pod = self.objects.get(address)
        if pod is None:
            raise errors.NotFound(f"POST {address}/binding: 404 not found", status=404)
        given = body.get("metadata") or {}
        _check(pod, given, f"POST {address}/binding")
        if "deletionTimestamp" in pod["metadata"]:
            raise errors.Conflict(f"POST {address}/binding: 409 is being deleted", status=409)
        if pod.get("spec", {}).get("nodeName"):
            raise errors.Conflict(f"POST {address}/binding: 409 already assigned", status=409)
        changes = {
            "metadata": {
                field: given[field] for field in ("annotations", "labels") if given.get(field)
            },
            "spec": {"nodeName": body["target"]["name"]},
            "status": {"conditions": _with_scheduled(pod)},
        }
        self._store(address, api_objects.merged(pod, changes))
        return {"kind": "Status", "status": "Success"}

    def _evict(self, address: str, body: Json) -> Json:
        """Delete a pod as long as its budget lets it go, as ``eviction.go`` does."""
        pod = self.objects.get(address)
        if pod is None:
            raise errors.NotFound(f"POST {address}/eviction: 404 not found", status=404)
        options = body.get("deleteOptions") or {}
        _check(pod, options.get("preconditions") or {}, f"POST {address}/eviction")
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if phase == "Running" and "deletionTimestamp" not in pod["metadata"]:
            home = address.rpartition("/pods/")[0].replace("/api/v1/", "/apis/policy/v1/")
            covering = [
                (path, budget)
                for path, budget in self.objects.items()
                if path.startswith(f"{home}/poddisruptionbudgets/") and budgets.covers(budget, pod)
            ]
            if len(covering) > 1:
                raise errors.ServerFault(
                    f"POST {address}/eviction: 500 more than one budget", status=500
                )
            for path, budget in covering:
                if not budget["status"]["disruptionsAllowed"]:
                    raise errors.TooMany(
                        f"POST {address}/eviction: 429 {budget['metadata']['name']} forbids it",
                        status=429,
                        retry_after_s=None,
                    )
                self._store(path, budgets.taken(budget, name, self._now_text()))
        if "deletionTimestamp" not in pod["metadata"]:
            self._delete(address, pod, {})
            for tell in self.on_eviction:
                tell(pod)
        return {"kind": "Status", "status": "Success"}

    def _delete(self, address: str, known: Json, options: Json) -> Json:
        _check(known, options.get("preconditions") or {}, address)
        grace = options.get("gracePeriodSeconds")
        lives_on = (
            "/pods/" in address
            and known.get("spec", {}).get("nodeName")
            and known.get("status", {}).get("phase") not in ("Succeeded", "Failed")
            and grace != 0
        )
        if not lives_on:
            if "/pods/" in address:
                # The real server does it in two steps, and watches see both.
                going = {"deletionTimestamp": self._now_text(), "deletionGracePeriodSeconds": 0}
                self._store(address, api_objects.merged(known, {"metadata": going}))
            self._store(address, None)
            return known
        if "deletionTimestamp" in known["metadata"]:
            return known
        grace = 30 if grace is None else grace
        ends = datetime.datetime.fromisoformat(self._now_text()) + datetime.timedelta(seconds=grace)
        going = {
            "deletionTimestamp": ends.isoformat().replace("+00:00", "Z"),
            "deletionGracePeriodSeconds": grace,
        }
        return self._store(address, api_objects.merged(known, {"metadata": going}))

    def _store(self, address: str, after: Json | None) -> Json:
        before = self.objects.get(address)
        if after is not None and before is not None and _same(before, after):
            return before
        self._latest += 1
        final = None
        if after is None:
            assert before is not None
            del self.objects[address]
            final = {
                **before,
                "metadata": {**before["metadata"], "resourceVersion": str(self._latest)},
            }
        else:
            after = {
                **after,
                "metadata": {**after["metadata"], "resourceVersion": str(self._latest)},
            }
            self.objects[address] = after
        change = Change(
            version=self._latest,
            path=address,
            before=before,
            after=after,
            final=final,
            author=self._author,
        )
        self.history.append(change)
        for tell in self.on_commit:
            tell(change)
        return after or {}


@functools.lru_cache(maxsize=10_000)
def _object(path: str) -> re.Match[str] | None:
    """Return the parts of an object's path; None when it is a collection's."""
    return _OBJECT.fullmatch(path)


def event_of(change: Change, selects: Callable[[Json], bool]) -> Json | None:
    """Return the watch event that a change is to those who select; None when it is none."""
    was = change.before is not None and selects(change.before)
    holds = change.after is not None and selects(change.after)
    if holds:
        return {"type": "MODIFIED" if was else "ADDED", "object": change.after}
    if not was:
        return None
    if change.final is not None:
        return {"type": "DELETED", "object": change.final}
    # It is selected no longer: shown as it was, in the new version.
    assert change.before is not None
    metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
    return {"type": "DELETED", "object": {**change.before, "metadata": metadata}}


def _with_scheduled(pod: Json) -> list[Json]:
    conditions = (pod.get("status") or {}).get("conditions") or []
    kept = [each for each in conditions if each.get("type") != "PodScheduled"]
    return [*kept, {"type": "PodScheduled", "status": "True"}]


def _check(known: Json, wanted: Mapping[str, Any], path: str) -> None:
    """Refuse when a precondition does not hold."""
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != known["metadata"][field]:
            raise errors.Conflict(
                f"{path}: 409 the {field} is {known['metadata'][field]}, not {wanted[field]}",
                status=409,
            )


def _notes(whole: Json) -> Any:
    return (whole.get("metadata") or {}).get("annotations")


def _labels(whole: Json) -> Any:
    return (whole.get("metadata") or {}).get("labels")


def _same(before: Json, after: Json) -> bool:
    """Whether nothing but the version differs, which is no change."""
    if before is after:
        return True
    old, new = dict(before["metadata"]), dict(after["metadata"])
    old.pop("resourceVersion", None)
    new.pop("resourceVersion", None)
    return old == new and {**before, "metadata": None} == {**after, "metadata": None}
