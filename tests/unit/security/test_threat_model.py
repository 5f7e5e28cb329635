"""``docs/security.md``: every threat has a test, every test that it names exists."""

import ast
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()
RIGHTS = ROOT / "operator" / "vgpu_operator" / "cli" / "rbac.yaml"


def tables() -> list[list[list[str]]]:
    """Return the page's tables as rows of cells, their heads first."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        rows = [
            [cell.strip() for cell in line.strip("|\n ").split(" | ")]
            for line in block.splitlines()
        ]
        found.append([rows[0], *rows[2:]])
    return found


def existing_tests() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_threat_names_its_test() -> None:
    threats = [row for head, *rows in tables() if head[0] == "Threat" for row in rows]

    assert len(threats) >= 25
    for row in threats:
        assert len(row) == 3, row
        assert re.fullmatch(r"`test_\w+`(, `test_\w+`)*", row[2]), row


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))

    assert named - existing_tests() == set()


def test_every_right_is_argued() -> None:
    (argued,) = [rows for head, *rows in tables() if head[0] == "Rule"]
    granted = {
        (resource, verb)
        for document in yaml.safe_load_all(RIGHTS.read_text())
        for rule in document.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    told = set()
    for rule, *reasons in argued:
        assert len(reasons) == 3
        assert all(reasons)
        resource, verbs = rule.split(", in a role")[0].split(": ")
        told |= {(resource, verb) for verb in verbs.split(", ")}
    assert told == granted
