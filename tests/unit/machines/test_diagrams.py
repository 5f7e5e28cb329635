"""The documentation's pictures of the tables."""

import pytest

from vgpu_operator.machines import diagram

CHARTS = {chart.name: chart for chart in diagram.CHARTS}


def chart(rows: list[tuple[tuple[str, ...], str, str, str]]) -> diagram.Chart:
    return diagram.Chart(
        name="doors",
        headings=("State", "Key", "Hand", "Effects"),
        rows=tuple(
            diagram.Row(inputs=inputs, target=target, outcome=outcome, label=label)
            for inputs, target, outcome, label in rows
        ),
    )


def test_inputs_that_make_no_difference_are_left_out_of_an_arrow() -> None:
    doors = chart(
        [
            (("shut", "key", "left"), "wide open", "turn", "turn"),
            (("shut", "key", "right"), "wide open", "turn", "turn"),
            (("shut", "no key", "left"), "shut", "", ""),
            (("shut", "no key", "right"), "shut", "knock", "knock"),
            (("wide open", "key", "left"), "shut", "", ""),
        ]
    )

    assert diagram.mermaid(doors) == (
        "stateDiagram-v2\n"
        '    state "wide open" as wide_open\n'
        "    shut --> wide_open: key / turn\n"
        "    shut --> shut: no key, right / knock\n"
        "    wide_open --> shut\n"
    )


def test_a_markdown_table_holds_every_combination_in_the_tables_order() -> None:
    doors = chart(
        [(("shut", "key", "left"), "open", "turn", "turn"), (("b", "c", "d"), "b", "", "")]
    )

    assert diagram.markdown(doors) == (
        "| State | Key | Hand | Effects |\n"
        "| --- | --- | --- | --- |\n"
        "| shut | key | left | turn |\n"
        "| b | c | d | nothing |\n"
    )


def test_the_handshake_reads_as_its_rules() -> None:
    assert diagram.mermaid(CHARTS["handshake"]) == (
        "stateDiagram-v2\n"
        "    absent --> requesting: allocatable > 0 or register changed / stamp\n"
        "    deleted --> requesting: allocatable > 0 or register changed / stamp\n"
        "    reported --> requesting: stamp\n"
        "    unreadable --> requesting: stamp\n"
        "    requesting --> absent: expired, allocatable 0, register same"
        " / delete key, drop devices\n"
        "    requesting --> requesting: expired, allocatable 0, register changed / stamp\n"
    )


def test_the_node_lock_points_from_the_holder_to_the_verdict() -> None:
    lines = diagram.mermaid(CHARTS["node-lock"]).splitlines()

    assert "    awaited --> blocked: expired" in lines
    assert "    served --> take" in lines


def test_the_bind_phase_points_from_phase_to_phase() -> None:
    lines = diagram.mermaid(CHARTS["bind-phase"]).splitlines()

    assert "    allocating --> success" in lines
    assert "    success --> failed: warn failed" in lines


@pytest.mark.parametrize(
    ("name", "combinations"),
    [
        ("handshake", 24),
        ("node-lock", 26),
        ("node-lock-remnants", 26),
        ("node-lock-returns", 4),
        ("bind-phase", 16),
    ],
)
def test_every_table_is_written_whole(name: str, combinations: int) -> None:
    assert len(diagram.markdown(CHARTS[name]).splitlines()) == combinations + 2
