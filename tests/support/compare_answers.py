"""Recorded answers and ours, field by field.

An answer becomes a flat mapping from path to value; two answers differ in the
paths whose values are not the same. ``python tests/support/compare_answers.py
FILE…`` prints what differs, by file and by path.
"""

import collections
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
Flat: TypeAlias = Mapping[Path, Any]
Difference: TypeAlias = tuple[Any, Any]
"""What was recorded and what we answer; ``ABSENT`` where there is no such field."""

ABSENT: Final = "(absent)"
VECTORS: Final = pathlib.Path(__file__).parent.parent / "vectors"

_DEEP: Final = {
    "admission": 1,
    "annotations": 1,
    "bind": 2,
    "devices": 2,
    "filter": 2,
    "labels": 1,
    "node_annotations_written": 2,
    "requests": 1,
    "usage_after": 1,
    "usage_before": 2,
}
"""How many levels below a field are compared one by one."""

_BY_NODE: Final = ("failedNodes", "scores")


def cases(*files: str) -> Iterator[dict[str, Any]]:
    """Yield every vector of these files of ``tests/vectors``, or of all."""
    for path in sorted(VECTORS.glob("*.jsonl")):
        if not files or path.stem in files:
            for line in path.read_text(encoding="utf-8").splitlines():
                yield json.loads(line)


def flat(answer: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the fields of an answer by path."""
    found: dict[Path, Any] = {}
    for name, value in answer.items():
        _flatten(value, (name,), _DEEP.get(name, 0), found)
    return found


def _flatten(value: Any, path: Path, depth: int, into: dict[Path, Any]) -> None:
    if path[0] == "requests" and isinstance(value, list):
        for number, entry in enumerate(value):
            into[*path, str(number)] = entry
        return
    if path[0].startswith("usage") and isinstance(value, list):
        for row in value:
            key, place = (*path, str(row["id"])), 0
            while key in into:
                place += 1
                key = (*path, f"{row['id']}#{place}")
            into[key] = {name: part for name, part in row.items() if name != "id"}
        return
    if depth and isinstance(value, Mapping):
        for name, part in value.items():
            _flatten(part, (*path, str(name)), depth - 1, into)
        return
    into[path] = value


def differences(expect: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[Path, Difference]:
    """Return where an answer differs in the fields that were recorded."""
    want = flat(expect)
    have = flat({name: part for name, part in answer.items() if name in expect})
    if "error" in expect and "error" in answer:
        return {}
    return {
        path: (want.get(path, ABSENT), have.get(path, ABSENT))
        for path in want.keys() | have.keys()
        if not _same(want.get(path, ABSENT), have.get(path, ABSENT))
    }


def _same(want: Any, have: Any) -> bool:
    return bool(want == have)


def closest(case: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[Path, Difference]:
    """Return the differences from whichever recorded answer is nearest."""
    found = [
        differences({**case["expect"], **other}, answer)
        for other in ({}, *case.get("alternatives", ()))
    ]
    return min(found, key=len)


def answered(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield what ``vgpu simulate --cases`` answers to these lines."""
    from vgpu_operator.cli import simulate_cases

    yield from map(json.loads, simulate_cases.answers(lines))


def _main(files: list[str]) -> None:
    by_file: dict[str, list[int]] = {}
    shapes: collections.Counter[str] = collections.Counter()
    for path in sorted(VECTORS.glob("*.jsonl")):
        if files and path.stem not in files:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, ours in zip(lines, answered(iter(lines)), strict=True):
            case = json.loads(line)
            count = by_file.setdefault(path.stem, [0, 0])
            count[1] += 1
            if "answer" not in ours:
                print(f"{case['name']}: ERROR {ours['error']}")
                continue
            wrong = closest(case, ours["answer"])
            count[0] += not wrong
            if wrong:
                print(case["name"], f"[{case['suspect']}]" if "suspect" in case else "")
                for place, (want, have) in sorted(wrong.items()):
                    print(f"    {'.'.join(place)}\n        hami {want}\n        ours {have}")
                shapes[" ".join(sorted({".".join(place[:2]) for place in wrong}))] += 1
    for shape, number in shapes.most_common(40):
        print(f"{number:5} {shape}")
    for name, (good, every) in by_file.items():
        print(f"{name:20} {good:4} of {every}")


if __name__ == "__main__":
    _main(sys.argv[1:])
