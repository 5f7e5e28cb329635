"""Which of the fitting nodes is preferred."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import clusters
from vgpu_operator.model import policy
from vgpu_operator.scheduling import fit, score

BINPACK, SPREAD = policy.NodePolicy.BINPACK, policy.NodePolicy.SPREAD


def test_the_raw_score_adds_the_used_parts_of_slots_cores_and_memory() -> None:
    """Two of 20 slots, 50 of 200 cores, 12288 of 49152 MiB."""
    cluster = clusters.Cluster(
        nodes={"node-a": clusters.node(clusters.card("GPU-a0"), clusters.card("GPU-a1"))},
        pods=[
            clusters.holder("h0", "node-a", "GPU-a0", 12288, 20),
            clusters.holder("h1", "node-a", "GPU-a1", 0, 30),
        ],
    )
    wish = clusters.wish(clusters.asks(memory_mib=1))

    found = fit.place(clusters.build_ledger(cluster).snapshot(), ["node-a"], wish, fit.Defaults())

    assert found.raw_scores.tolist() == [10 * (0.1 + 0.25 + 0.25)]
    assert found.scores(100).tolist() == [20]


def test_spread_does_not_keep_preferring_the_big_node() -> None:
    cluster = clusters.Cluster(
        nodes={
            "node-a": clusters.node(clusters.card("GPU-a0")),
            "node-b": clusters.node(*(clusters.card(f"GPU-b{n}") for n in range(3))),
        },
        pods=[clusters.holder("h0", "node-b", "GPU-b0", 1000)],
    )
    wish = clusters.wish(clusters.asks(memory_mib=1000), node_policy=SPREAD)

    found = fit.place(
        clusters.build_ledger(cluster).snapshot(), ["node-a", "node-b"], wish, fit.Defaults()
    )

    first, second = found.scores(100)
    assert first == 100
    assert second < 100


@pytest.mark.parametrize("part", ["slots", "memory_mib", "cores_percent"])
def test_a_node_without_any_slots_memory_or_cores_scores_zero(part: str) -> None:
    card = clusters.card("GPU-a0", **{part: 0})  # type: ignore[arg-type]
    cluster = clusters.Cluster(
        nodes={"node-a": clusters.node(card)},
        pods=[clusters.holder("h0", "node-a", "GPU-a0", 10, 10)],
    )
    view = clusters.build_ledger(cluster).snapshot()

    assert score.raw_scores(view.sums, view.rows(["node-a"])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("node_policy", "expected"),
    [(BINPACK, [0, 50, 100, 100, 0]), (SPREAD, [100, 50, 0, 0, 100])],
    ids=["binpack prefers the fullest", "spread prefers the emptiest"],
)
def test_scores_are_mapped_onto_the_scale(
    node_policy: policy.NodePolicy, expected: list[int]
) -> None:
    raw = np.array([0.0, 15.0, 30.0, 45.0, -1.0])

    assert score.to_extender_scores(raw, node_policy, 100).tolist() == expected


@given(
    st.lists(st.floats(0, 60, allow_nan=False), min_size=2, max_size=9),
    st.sampled_from(list(policy.NodePolicy)),
    st.integers(1, 1_000_000),
)
def test_the_map_keeps_the_order_and_the_range(
    raw: list[float], node_policy: policy.NodePolicy, max_score: int
) -> None:
    raw.sort(reverse=node_policy is SPREAD)

    mapped = score.to_extender_scores(np.array(raw), node_policy, max_score).tolist()

    assert mapped == sorted(mapped)
    assert all(0 <= one <= max_score for one in mapped)
