import json

import pytest
import yaml

from vgpu_operator.cli import render

TABLE = render.Table(
    kind="CardList",
    columns=(
        render.Column(header="NODE", text=lambda row: row["node"]),
        render.Column(header="SLOTS", text=lambda row: str(row["slots"]), right=True),
        render.Column(header="MODE", text=lambda row: row["mode"], wide=True),
        render.Column(header="STATE", text=lambda row: row["state"], style=lambda _: "red"),
    ),
    rows=(
        {"node": "a", "slots": 10, "mode": "mig", "state": "unhealthy"},
        {"node": "longer", "slots": 4, "mode": "", "state": "healthy"},
    ),
)


def test_a_table_has_headers_and_columns_in_line():
    assert render.render(TABLE, render.Output.TABLE, render.Screen()) == (
        "NODE     SLOTS   STATE\na           10   unhealthy\nlonger       4   healthy"
    )


def test_wide_shows_more_columns():
    text = render.render(TABLE, render.Output.WIDE, render.Screen())

    assert text.splitlines()[0] == "NODE     SLOTS   MODE   STATE"


def test_json_and_yaml_hold_whole_rows():
    wanted = {"kind": "CardList", "items": [dict(row) for row in TABLE.rows]}

    assert json.loads(render.render(TABLE, render.Output.JSON, render.Screen())) == wanted
    assert yaml.safe_load(render.render(TABLE, render.Output.YAML, render.Screen())) == wanted


def test_colours_come_only_where_they_are_wanted():
    plain = render.render(TABLE, render.Output.TABLE, render.Screen(width=80))
    coloured = render.render(TABLE, render.Output.TABLE, render.Screen(width=80, colour=True))

    assert "\x1b" not in plain
    assert "\x1b[31munhealthy" in coloured


def test_a_narrow_terminal_folds_and_loses_nothing():
    text = render.render(TABLE, render.Output.TABLE, render.Screen(width=20))

    assert all(len(line) <= 20 for line in text.splitlines())
    assert "".join(text.split()).count("unhealthy") or "unheal" in text


def test_a_pipe_gets_lines_as_long_as_they_are():
    long = render.Table(
        kind="L",
        columns=(render.Column(header="ID", text=lambda row: row["id"]),),
        rows=({"id": "x" * 5000},),
    )

    assert render.render(long, render.Output.TABLE, render.Screen()).splitlines()[1] == "x" * 5000


@pytest.mark.parametrize("evil", ["\x1b]0;title\x07", "\x9b31m", "a\u202eb", "a\r\nb", "\u2028"])
@pytest.mark.parametrize("output", list(render.Output))
def test_text_that_acts_on_a_terminal_is_written_out(evil, output):
    table = render.Table(
        kind="L",
        columns=(render.Column(header="ID", text=lambda row: row["id"]),),
        rows=({"id": evil},),
    )

    text = render.render(table, output, render.Screen())

    assert all(character == "\n" or character.isprintable() for character in text)
    if output in (render.Output.JSON, render.Output.YAML):
        assert yaml.safe_load(text)["items"] == [{"id": evil}]


def test_markup_of_the_drawing_library_is_plain_text():
    table = render.Table(
        kind="L",
        columns=(render.Column(header="ID", text=lambda row: row["id"]),),
        rows=({"id": "[red]:smile:[/red]"},),
    )

    assert "[red]:smile:[/red]" in render.render(
        table, render.Output.TABLE, render.Screen(width=80, colour=True)
    )


def test_wide_characters_keep_columns_in_line():
    rows = ({"node": "显卡", "slots": 1, "mode": "", "state": "s"},)
    table = render.Table(kind="L", columns=TABLE.columns, rows=rows)

    assert render.render(table, render.Output.TABLE, render.Screen()) == (
        "NODE   SLOTS   STATE\n显卡       1   s"
    )


def test_a_terminal_shows_the_same_table_where_it_fits():
    piped = render.render(TABLE, render.Output.WIDE, render.Screen())

    assert render.render(TABLE, render.Output.WIDE, render.Screen(width=100)) == piped


def test_names_of_other_scripts_stay_readable():
    assert render.shown("显卡-é") == "显卡-é"
