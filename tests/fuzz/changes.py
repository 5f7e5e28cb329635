"""Inputs that are almost right: a kept one with a few changes, by byte or by member."""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64,
    10**400,
    1e308,
    "",
    "0",
    "-1",
    "1e400",
    "x" * 300,
    "9" * 5000,
    "a,b:c;d",
    "\x00",
    "\u202e",
    "é😀",
    "../../etc/passwd",
    "two\nlines",
    [],
    {},
    [None],
    [[[[[[]]]]]],
    {"": None},
)

Path = tuple[str | int, ...]


@st.composite
def bytes_like(draw: st.DrawFn, kept: Sequence[bytes], pieces: Sequence[str]) -> bytes:
    """Draw a kept input with pieces put in, cut out, doubled or changed."""
    data = draw(st.sampled_from(kept)) if kept else b""
    words = [word.encode("utf-8", "surrogatepass") for word in pieces] or [b"a"]
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        part = data[start:end]
        new = draw(
            st.sampled_from(words)
            | st.just(b"")
            | st.just(part * 2)
            | st.just(part[::-1])
            | st.binary(min_size=1, max_size=3)
        )
        data = data[:start] + new + data[end:]
    return data


@st.composite
def json_like(draw: st.DrawFn, kept: Sequence[bytes]) -> bytes:
    """Draw a kept JSON object with members replaced, left out, renamed or swapped."""
    value = json.loads(draw(st.sampled_from(kept)))
    for _ in range(draw(st.integers(0, 4))):
        paths = list(_paths(value, ()))
        if not paths:
            break
        holder, last = _holder(value, draw(st.sampled_from(paths)))
        match draw(st.sampled_from(("replace", "drop", "rename", "swap", "wrap"))):
            case "replace":
                holder[last] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
            case "drop":
                del holder[last]
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(("", "x", str(last).upper(), f"{last} ")))] = (
                    holder.pop(last)
                )
            case "swap":
                there, other = _holder(value, draw(st.sampled_from(paths)))
                holder[last] = copy.deepcopy(there[other])
            case _:
                holder[last] = [holder[last]]
    return json.dumps(value).encode()


def _paths(value: Any, at: Path) -> Iterator[Path]:
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, member in members:
        yield (*at, name)
        if isinstance(member, (dict, list)):
            yield from _paths(member, (*at, name))


def _holder(value: Any, path: Path) -> tuple[Any, str | int]:
    for part in path[:-1]:
        value = value[part]
    return value, path[-1]
