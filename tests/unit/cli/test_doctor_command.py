"""What ``vgpu doctor`` prints, and how it ends."""

import json
from pathlib import Path

import pytest
import yaml

from support import doctor_faults as faults
from support import doctor_objects as objects
from support.cli_cluster import CommandLine
from support.doctor_look import NOW, SCENE, healthy, put
from vgpu_operator.cli import doctor, doctor_text, installed_settings, render
from vgpu_operator.flows.doctor import catalogue, finding
from vgpu_operator.flows.doctor.finding import Finding, Severity
from vgpu_operator.kube import errors


@pytest.fixture
def command_line(monkeypatch, capsys) -> CommandLine:
    monkeypatch.delenv("VGPU_TRACEBACK", raising=False)
    line = CommandLine(healthy(), monkeypatch, capsys)
    monkeypatch.setattr("vgpu_operator.kube.clock.SystemClock.now", lambda _: NOW)
    return line


def test_a_healthy_cluster_ends_with_0_and_says_what_was_looked_at(command_line) -> None:
    assert command_line.run("doctor") == 0

    assert command_line.out == (
        f"nothing found: {len(catalogue.SIGNATURES) - 1} signatures checked on 3 nodes,"
        " 2 pods with cards, 2 pods of device plugins\n"
    )
    assert command_line.err == ""


def test_equal_findings_are_folded_and_all_shows_them(command_line) -> None:
    for number in range(40):
        put(command_line.kube, objects.node(NOW, f"bad-{number:02}", annotations=_LOCK))

    assert command_line.run("doctor") == 1
    lines = command_line.out.splitlines()
    assert lines[:7] == [
        "WARNING  node lock cannot be read (lock-malformed)",
        "  Node bad-00",
        "    hami.io/mutex.lock: malformed lock: a time is wanted, got 'taken'",
        "  Node bad-01",
        "    hami.io/mutex.lock: malformed lock: a time is wanted, got 'taken'",
        "  Node bad-02",
        "    hami.io/mutex.lock: malformed lock: a time is wanted, got 'taken'",
    ]
    assert lines[7] == "  and 37 other Nodes (--all shows them)"
    assert lines[-1].startswith("40 warnings: ")

    command_line.run("doctor", "--all")
    assert command_line.out.count("  Node bad-") == 40
    assert "--all shows them" not in command_line.out


_LOCK = {"hami.io/mutex.lock": "taken"}


def test_errors_come_before_warnings(command_line) -> None:
    put(command_line.kube, objects.node(NOW, "n4", annotations=_LOCK))
    put(command_line.kube, faults.webhook_bypassed(SCENE).objects)

    command_line.run("doctor")

    heads = [line for line in command_line.out.splitlines() if line and line[0].isupper()]
    assert [line.split()[0] for line in heads] == ["ERROR", "WARNING"]
    assert command_line.out.splitlines()[-1].startswith("1 error, 1 warning: ")


def test_programs_read_json_and_yaml(command_line) -> None:
    put(command_line.kube, objects.node(NOW, "n4", annotations=_LOCK))

    assert command_line.run("doctor", "-o", "json") == 1
    shown = json.loads(command_line.out)
    assert command_line.run("doctor", "-o", "yaml") == 1

    assert yaml.safe_load(command_line.out) == shown
    assert shown["kind"] == "DoctorReport"
    assert shown["notJudged"] == ["allocatable-flapping"]
    assert shown["notLookedAt"] == []
    assert shown["items"][0]["object"] == {"kind": "Node", "namespace": "", "name": "n4"}
    assert shown["items"][0]["page"] == "docs/protocol.md"


def test_what_was_not_looked_at_is_said_beside_the_answer(command_line) -> None:
    command_line.kube.fail_next(
        "GET", "/leases", errors.Denied('GET /leases: 403 User "eve" cannot list', status=403)
    )

    assert command_line.run("doctor") == 0

    every = len(catalogue.SIGNATURES) - 1
    assert command_line.out.startswith(
        f"nothing found in what could be read ({every - 3} of {every}): "
    )
    assert command_line.err.splitlines() == [
        'not looked at: leases, because GET /leases: 403 User "eve" cannot list',
        "so these were not looked for: unknown-scheduler, scheduler-not-running, two-schedulers",
    ]


def test_settings_that_are_only_assumed_are_said_to_be(command_line) -> None:
    command_line.run("doctor")
    assert "assumed" not in command_line.err
    place = f"/api/v1/namespaces/{objects.SYSTEM}/configmaps/{objects.SETTINGS}"
    command_line.kube.fail_next("GET", place, errors.Denied("GET: 403", status=403))

    assert command_line.run("doctor") == 0

    assert command_line.err == f"note: {installed_settings.ASSUMED}\n"


def test_whoever_may_read_nothing_gets_one_line_and_1(command_line) -> None:
    for place in ("/nodes", "/api/v1/pods"):
        command_line.kube.fail_next("GET", place, errors.Denied("GET: 403 no", status=403))

    assert command_line.run("doctor") == 1

    assert command_line.out == ""
    assert command_line.err.startswith("error: GET: 403 no; ask for rights")


@pytest.mark.parametrize("options", [("--watch-for", "soon"), ("--nodes",), ("-o", "xml")])
def test_wrong_usage_ends_with_2(command_line, options) -> None:
    assert command_line.run("doctor", *options) == 2

    assert command_line.out == ""
    assert command_line.err.count("\n") == 1


def test_an_audit_log_that_is_none_ends_with_1_and_its_name(command_line, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")

    assert command_line.run("doctor", "--audit-log", str(file)) == 1

    assert f"--audit-log {file}: " in command_line.err


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("2m", 120.0), ("5", 5.0)])
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert doctor.parse_seconds(text) == seconds


def test_a_terminal_gets_colours_and_no_line_that_is_too_wide() -> None:
    evil = Finding(
        signature="lock-malformed",
        title="node lock cannot be read",
        severity=Severity.ERROR,
        place=finding.node("n1"),
        evidence=("word " * 40, "a\x1b[31mred"),
        cause="cause " * 30,
        fix="fix " * 30,
        page="protocol.md",
    )
    report = catalogue.Report(findings=(evil,), judged=())
    screen = render.Screen(width=60, colour=True)

    class Nothing:
        nodes = ()
        device_pods = plugins = staticmethod(tuple)

    first, *rest = doctor_text.lines(report, Nothing(), screen, show_all=False)  # type: ignore[arg-type]

    assert first.startswith("\x1b[31m")
    assert "\\x1b[31mred" in "\n".join(rest)
    assert max(map(len, rest[:-1])) <= 60
