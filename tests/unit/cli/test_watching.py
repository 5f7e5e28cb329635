"""``--watch``: redrawn on a terminal, appended elsewhere, ended like kubectl's."""

import asyncio
import json

import pytest

from support.cli_cluster import put_pod
from vgpu_operator.cli import main, render, watching
from vgpu_operator.kube import errors, paths

COLUMNS = (render.Column(header="NAME", text=lambda row: row["name"]),)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(watching, "AT_MOST_EVERY_S", 0.0)


async def watched(kube, changes, output=render.Output.TABLE):
    """Follow the pods while ``changes`` are made one by one, each once the last one shows."""
    pods = watching.Follower(kube, paths.PODS)
    shown = 0

    def make():
        nonlocal shown
        shown += 1
        names = [raw["metadata"]["name"] for raw in pods.objects]
        rows = [{"name": name, "ageSeconds": shown} for name in names]
        return render.Table(kind="List", columns=COLUMNS, rows=rows)

    task = asyncio.create_task(watching.watch((pods,), make, lambda row: row["name"], output))
    for number, change in enumerate([*changes, lambda: None], start=1):
        async with asyncio.timeout(5):
            while shown < number:  # noqa: ASYNC110  # the watch has no other end to wait at
                await asyncio.sleep(0)
        change()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_elsewhere_lines_of_what_changes_are_appended(command_line, capsys):
    kube = command_line.kube

    await watched(
        kube,
        [
            lambda: put_pod(kube, "p8"),
            lambda: kube.remove("/api/v1/namespaces/team-a/pods/p1"),
            lambda: put_pod(kube, "p9"),
        ],
    )

    out, err = capsys.readouterr()
    assert out.split() == ["NAME", "p1", "p2", "plain", "p8", "p9"]
    assert err == "gone: p1\n"


async def test_json_says_each_change_in_a_document_of_its_own(command_line, capsys):
    kube = command_line.kube

    await watched(kube, [lambda: put_pod(kube, "p8")], render.Output.JSON)

    decoder, text, documents = json.JSONDecoder(), capsys.readouterr().out.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        documents.append([row["name"] for row in document["items"]])
        text = text[end:].lstrip()
    assert documents == [["p1", "p2", "plain"], ["p8"]]


async def test_a_terminal_is_cleared_and_drawn_again(command_line, capsys, monkeypatch):
    kube = command_line.kube
    monkeypatch.setattr(watching, "_can_redraw", lambda output: True)

    await watched(kube, [lambda: put_pod(kube, "p8")])

    screens = capsys.readouterr().out.split("\x1b[H\x1b[2J\x1b[3J")[1:]
    assert [screen.split() for screen in screens] == [
        ["NAME", "p1", "p2", "plain"],
        ["NAME", "p1", "p2", "p8", "plain"],
    ]


async def test_a_watch_that_is_too_old_begins_with_a_new_list(command_line, capsys):
    kube = command_line.kube

    def lose_history():
        kube.fail_next("WATCHING", "/pods", errors.Expired("410", status=410))
        put_pod(kube, "p8")

    await watched(kube, [lose_history, lambda: put_pod(kube, "p9")])

    assert capsys.readouterr().out.split()[-2:] == ["p8", "p9"]


async def test_a_lost_api_server_is_one_plain_error(command_line):
    command_line.kube.fail_next("WATCH", "/pods", errors.Unreachable("gone"))
    pods = watching.Follower(command_line.kube, paths.PODS)
    table = render.Table(kind="List", columns=COLUMNS, rows=[])

    with pytest.raises(errors.Unreachable, match="gone"):
        await watching.watch((pods,), lambda: table, id, render.Output.TABLE)


@pytest.mark.parametrize("command", [("nodes",), ("pods", "-A"), ("top",), ("top", "--free")])
def test_an_interrupt_ends_it_as_it_ends_kubectl(command_line, monkeypatch, command):
    def interrupted(self, changed):
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.Follower, "follow", interrupted)

    assert main.answer([*command, "--watch"]) == 130
