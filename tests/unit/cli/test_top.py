"""``vgpu top``: bars, totals, order, and what is free on one card."""

import json

import pytest

from support.cli_cluster import put_pod
from vgpu_operator.cli import bars, options, render


def test_nodes_come_with_their_totals_the_fullest_first(command_line):
    put_pod(command_line.kube, "p3", node="n2", shares="GPU-b0,NVIDIA,3000,30:;", phase="Running")

    assert command_line.run("top") == 0

    assert [line.split()[0] for line in command_line.out.splitlines()] == [
        "NODE/CARD",
        "n1",  # 3000 of 24576
        "GPU-a0",
        "n2",  # 3000 of 40960
        "GPU-b0",
        "GPU-b1",
    ]
    assert "n2          #......... 3000/40960" in command_line.out


def test_the_order_can_be_by_name(command_line):
    put_pod(command_line.kube, "p3", node="n2", shares="GPU-b0,NVIDIA,3000,30:;", phase="Running")
    put_pod(command_line.kube, "p4", node="n2", shares="GPU-b0,NVIDIA,3000,30:;", phase="Running")

    command_line.run("top", "--sort-by", "memory", "-o", "json")
    fullest = [row["node"] for row in json.loads(command_line.out)["items"]]
    command_line.run("top", "--sort-by", "name", "-o", "json")
    named = [row["node"] for row in json.loads(command_line.out)["items"]]

    assert (fullest[0], named[0]) == ("n2", "n1")


def test_labels_and_a_name_choose_nodes(command_line):
    command_line.run("top", "-l", "zone=a", "-o", "json")
    assert {row["node"] for row in json.loads(command_line.out)["items"]} == {"n1"}

    command_line.run("top", "n2", "-o", "json")
    assert {row["node"] for row in json.loads(command_line.out)["items"]} == {"n2"}


def test_the_most_free_memory_on_one_card_is_the_first_line(command_line):
    """GPU-a0 is cordoned, GPU-b1 unhealthy: GPU-b0 with 24,576 MiB is left."""
    assert command_line.run("top", "--free") == 0
    assert command_line.out.splitlines()[0] == (
        "The most memory free on one card is 24576 MiB: card GPU-b0 on n2 (1 card takes new pods)."
    )
    assert "GPU-a0" not in command_line.out


def test_no_free_card_is_said(command_line):
    command_line.run("top", "n1", "--free")

    assert command_line.err == "no card takes a new pod\n"


@pytest.mark.parametrize(
    ("width", "with_bars", "shown"),
    [(56, False, "12%"), (60, True, "12%"), (100, True, "3000/24576")],
)
def test_bars_take_the_room_that_is_left(command_line, monkeypatch, width, with_bars, shown):
    monkeypatch.setattr(options, "screen", lambda: render.Screen(width=width))

    command_line.run("top")

    lines = command_line.out.splitlines()
    assert max(map(len, lines)) <= width
    assert ("#" in command_line.out) == with_bars
    assert shown in command_line.out
    assert sum("GPU-a0" in line for line in lines) == 1


def test_colours_are_for_a_terminal_that_takes_them(command_line, monkeypatch):
    command_line.run("top")
    assert "\x1b" not in command_line.out

    monkeypatch.setattr(options, "screen", lambda: render.Screen(width=100, colour=True))
    command_line.run("top")
    assert "\x1b[32m" in command_line.out


def test_what_is_used_at_all_shows_and_only_what_is_used_up_is_full():
    assert bars.bar(1, 10_000, width=5, plain=True) == "#...."
    assert bars.bar(9_999, 10_000, width=5, plain=True) == "####."
    assert bars.bar(10_000, 10_000, width=5, plain=True) == "#####"
    assert bars.bar(1, 16, width=2) == "▏ "
    assert bars.bar(3, 4, width=2) == "█▌"
    assert bars.bar(2, 1, width=3) == "██!"
    assert bars.bar(0, 0, width=3) == "   "


def test_colours_warn_from_three_quarters_on():
    assert [bars.colour(used, 100) for used in (0, 74, 75, 99, 100, 101)] == [
        *("green", "green", "yellow", "yellow", "red", "red")
    ]
