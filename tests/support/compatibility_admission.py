"""Predicates of ``compatibility`` about admission: which differing fields a rule explains."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from support.compare_answers import ABSENT, Path
from support.compatibility_seen import AFTER_FILTER, Seen
from vgpu_operator.model import errors
from vgpu_operator.wire import quantity

INT32_MAX = 2**31 - 1

_REFUSAL: Final = tuple(("admission", part) for part in ("allowed", "code", "message"))


def is_whole(value: Any) -> bool:
    """Whether it is a whole number that fits in 31 bits."""
    try:
        return 0 <= quantity.decode_integer(value) <= INT32_MAX
    except errors.DecodeError:
        return False


def nonsense(seen: Seen) -> Iterator[Path]:
    """Ours is refused for an amount that is no whole number, and the text names it."""
    ours = seen.answer.get("admission", {})
    if ours.get("allowed") is not False or ours.get("code") != 422:
        return
    if not seen.expect["admission"]["allowed"]:
        return
    bad = [(name, value) for name, value in seen.amounts() if not is_whole(value)]
    if any(name in ours["message"] and str(value) in ours["message"] for name, value in bad):
        yield from after_a_refusal(seen)


def after_a_refusal(seen: Seen) -> Iterator[Path]:
    """Yield the refusal itself, and what is left out after one."""
    for path, (_, have) in seen.wrong.items():
        left_out = path[0] in ("admission", "requests", *AFTER_FILTER) and have == ABSENT
        if left_out or path in _REFUSAL:
            yield path


_CAUSES: Final = (
    ("container (\\S+) is privileged", "container {} is privileged: "),
    ("exceeding resource quota", "exceeding resource quota: "),
    ("pod has node assigned", "the pod has node "),
    ("vNPU not supported for multiple devices", "a container gets a part of one card only"),
    (
        "(Ascend\\w+) device request must be 1 or 2\\*n, got (\\d+)",
        "{1} cards cannot be given, because {0}",
    ),
    ("sGPU memory request value is invalid", "mthreads.com/sgpu-memory: "),
    (
        "invalid ([\\w.-]+/[\\w.-]+) value (\\d+) in container (\\S+): must",
        "container {2}: {0}: '{1}' ",
    ),
    ("([\\w.-]+/[\\w.-]+) (?:must|is only|\\d+ is invalid)", ": {}: "),
    ("(metax-tech.com/sgpu-[a-z-]+) must be set one of", "annotation {}: "),
)
"""What HAMi's refusals look like, and what stands in ours for the same cause."""

_CODES: Final = {403: 403, 500: 422}
"""HAMi's code of a refusal, and ours; 500 is how HAMi answers a bad value."""


def refusal_words(seen: Seen) -> Iterator[Path]:
    """Both refuse, for the same cause, ours in a sentence that says what to do."""
    theirs, ours = seen.expect.get("admission", {}), seen.answer.get("admission", {})
    if not (theirs.get("allowed") is False and ours.get("allowed") is False):
        return
    text: str = ours["message"]
    if "\n" in text or not re.fullmatch(r".+[:,] .+; .+", text):
        return
    for pattern, ours_has in _CAUSES:
        found = re.match(pattern, theirs["message"])
        if found and ours_has.format(*found.groups()) in text:
            yield ("admission", "message")
            if _CODES.get(theirs["code"]) == ours["code"]:
                yield ("admission", "code")
            return


def remark(seen: Seen) -> Iterable[Path]:
    if seen.wrong.get(("admission", "code")) == (200, ABSENT):
        return [("admission", "code"), ("admission", "message")]
    return ()


def count_of_zero(seen: Seen) -> Iterable[Path]:
    ours = seen.answer.get("admission", {})
    asks_nothing = not any(seen.expect.get("requests") or ())
    has_zero = any(str(value) == "0" for _, value in seen.amounts())
    if asks_nothing and has_zero and ours.get("schedulerName") == "":
        return [path for path in seen.wrong if path[0] in ("admission", "filter", "requests")]
    return ()


def limits_from_requests(seen: Seen) -> Iterator[Path]:
    path = ("admission", "limits_after")
    want, have = seen.wrong.get(path, (None, None))
    if not isinstance(want, list) or not isinstance(have, list):
        return
    copied = False
    for theirs, ours in zip(want, have, strict=True):
        if theirs["requests"] != ours["requests"]:
            return
        more = {k: v for k, v in ours["limits"].items() if theirs["limits"].get(k) != v}
        if any(ours["requests"].get(name) != value for name, value in more.items()):
            return
        if theirs["limits"].keys() - ours["limits"].keys():
            return
        copied |= bool(more)
    if copied:
        yield path


def requests_left_alone(seen: Seen) -> Iterator[Path]:
    """HAMi writes the same amounts to requests too."""
    path = ("admission", "limits_after")
    want, have = seen.wrong.get(path, (None, None))
    if not isinstance(want, list) or not isinstance(have, list):
        return
    for theirs, ours in zip(want, have, strict=True):
        more = theirs["requests"].items() - ours["requests"].items()
        if theirs["limits"] != ours["limits"] or not more <= ours["limits"].items():
            return
        if not ours["requests"].items() <= theirs["requests"].items():
            return
    yield path


def only_in_requests(seen: Seen) -> Iterator[Path]:
    """An amount stands in requests, not in limits, and ours copied it to limits."""
    after = seen.answer.get("admission", {}).get("limits_after") or ()
    before = seen.expect.get("admission", {}).get("limits_after") or ()
    copied: set[Path] = set()
    rest_is_same = True
    for at, ((_, container), theirs, ours) in enumerate(
        zip(seen.containers, before, after, strict=False)
    ):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        if any(
            "/" in name
            and name not in limits
            and ours["limits"].get(name) == quantity.canonical(value)
            for name, value in requests.items()
        ):
            copied.add(("requests", str(at)))
        else:
            rest_is_same &= theirs["limits"] == ours["limits"]
    if not copied:
        return
    if rest_is_same:
        yield ("admission", "limits_after")
    for path in seen.wrong:
        other_request = any(wanted in seen.wrong for wanted in copied)
        if (
            path in copied
            or path[0] == "annotations"
            or (path[0] == "usage_after" and other_request)
        ):
            yield path


def cores_above_whole(seen: Seen) -> Iterator[Path]:
    for path, (want, have) in seen.wrong.items():
        if path[0] != "requests" or not isinstance(want, dict) or not isinstance(have, dict):
            continue
        lowered = {
            vendor: {**wish, "cores": min(wish["cores"], 100)} for vendor, wish in want.items()
        }
        if lowered == have:
            yield path
