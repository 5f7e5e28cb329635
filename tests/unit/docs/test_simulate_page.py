"""``docs/simulate.md`` says what the command does."""

import json
import re
from pathlib import Path

from vgpu_operator.cli import simulate_cases, simulate_codec, simulate_shape

PAGE = Path(__file__).resolve().parents[3] / "docs" / "simulate.md"
TEXT = PAGE.read_text(encoding="utf-8")
(CASE,) = re.findall(r"^```json\n(.*?)\n```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_pages_case_is_one_line_and_is_answered() -> None:
    (line,) = simulate_cases.answers(CASE.splitlines())

    answer = json.loads(line)["answer"]
    assert answer["filter"]["node"] == "n1"
    assert answer["annotations"]["hami.io/vgpu-devices-allocated"] == "GPU-a0,NVIDIA,24576,100:;"


def test_only_the_time_must_be_there() -> None:
    named = set(re.findall(r"^\| `([a-z]+)`", TEXT.partition("## Lines")[2], re.MULTILINE))
    (alone,) = simulate_cases.answers(['{"now": "2026-01-15T10:00:00Z"}'])
    (without,) = simulate_cases.answers(['{"nodes": []}'])

    assert json.loads(alone) == {"name": None, "answer": {"devices": {}}}
    assert json.loads(without)["error"] == "the case: now is missing or no time"
    assert set(json.loads(CASE)) <= named


def test_every_flag_and_field_is_named() -> None:
    assert all(f"`{flag}`" in TEXT for flag in simulate_shape.FLAGS)
    for module in (simulate_cases, simulate_codec):
        source = Path(module.__file__).read_text(encoding="utf-8")
        for field in re.findall(r'case(?:\.get\(|\[)"([a-z]+)"', source):
            known = field in ("missing", "allocatable", "annotations")  # of a single text
            assert known or f"`{field}`" in TEXT, field
