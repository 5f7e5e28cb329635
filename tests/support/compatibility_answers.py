"""Every recorded case with our answer, and which cases each rule explains.

``PYTHONPATH=operator:tests python -m support.compatibility_answers`` writes the
latter to ``tests/golden/rule-cases.json``, where a review sees whether a rule
explains more or less than before.
"""

import functools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from support import compare_answers, compatibility
from support.compatibility_seen import Seen
from vgpu_operator.cli import simulate_cases

FILES: Final = sorted(path.stem for path in compare_answers.VECTORS.glob("*.jsonl"))
RULE_CASES: Final = pathlib.Path(__file__).parents[1] / "golden" / "rule-cases.json"


@functools.cache
def seen(file: str) -> list[Seen]:
    """Answer a whole file once."""
    lines = (compare_answers.VECTORS / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
    found = []
    for line, text in zip(lines, simulate_cases.answers(lines), strict=True):
        case, ours = json.loads(line), json.loads(text)
        assert ours["name"] == case["name"]
        answer = ours.get("answer", {"error": ours.get("error")})
        wrong = compare_answers.closest(case, answer)
        found.append(Seen(case=case, answer=answer, wrong=wrong))
    return found


def every() -> Iterator[Seen]:
    """Yield all recorded cases."""
    for file in FILES:
        yield from seen(file)


def rule_cases() -> Mapping[str, Any]:
    """Return the cases of which each rule explains a field: how many, and their names."""
    found = {}
    for rule in compatibility.RULES:
        names = sorted(one.name for one in every() if rule.explained(one))
        found[rule.name] = {"count": len(names), "cases": names}
    return found


def write() -> None:
    """Write what the rules explain now."""
    RULE_CASES.write_text(json.dumps(rule_cases(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
