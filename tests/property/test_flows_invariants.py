"""Interleaved binds under faults: invariants 1, 2, 3, 5 and 6 of the protocol.

Each seed is one history. A failure names the seed; run it again by
``-k "seed-<n>"`` to see the same history.
"""

import datetime
from typing import Any

import pytest

from support import bind_world
from vgpu_operator.flows import effects

STEPS = 300
SEEDS = range(20)


def lived(seed: int, *, n_leaders: int, **kinds: Any) -> bind_world.World:
    """Return a world after many random steps, each of which was checked."""
    world = bind_world.World(seed, n_leaders=n_leaders, n_nodes=1 + seed % 2, **kinds)
    for _ in range(STEPS):
        world.step()
    return world


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_one_leader_never_promises_too_much_and_ends_with_the_truth(seed: int) -> None:
    world = lived(seed, n_leaders=1)

    world.settle()

    (leader,) = world.leaders
    before = world.ledger_of(leader)
    leader.restart(world.now)
    assert world.ledger_of(leader) == before


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_two_leaders_at_once_never_promise_too_much_and_agree_in_the_end(seed: int) -> None:
    world = lived(seed + 1000, n_leaders=2)

    world.settle()

    one, other = (world.ledger_of(leader) for leader in world.leaders)
    assert one == other


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_pods_of_two_vendors_are_served_their_own_cards_by_plugins_that_know_one_key_each(
    seed: int,
) -> None:
    world = lived(seed + 2000, n_leaders=1 + seed % 2, vendors=("NVIDIA", "DCU"))

    world.settle()

    assert_ledgers_are_true(world)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_a_lock_that_names_nobody_admits_one_pod_at_a_time_beside_one_that_does(seed: int) -> None:
    """With one leader: nothing on the Node tells a second one whose a bare lock is."""
    world = lived(seed + 3000, n_leaders=1, vendors=("NVIDIA", "DCU", "MLU"))

    world.settle()

    assert_ledgers_are_true(world)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_nodes_of_the_forerunners_dialect_serve_one_pod_at_a_time(seed: int) -> None:
    world = lived(seed + 4000, n_leaders=1, forerunner=True)

    world.settle()

    assert_ledgers_are_true(world)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_nodes_that_change_their_dialect_under_way_serve_one_pod_at_a_time(seed: int) -> None:
    world = lived(seed + 5000, n_leaders=1, moving=True)

    world.settle()

    assert_ledgers_are_true(world)


def assert_ledgers_are_true(world: bind_world.World) -> None:
    """Every leader charges what one that has just started would charge."""
    before = [world.ledger_of(leader) for leader in world.leaders]
    world.leaders[0].restart(world.now)

    assert before == [world.ledger_of(world.leaders[0])] * len(before)


def test_a_leader_that_slept_while_its_lock_was_taken_over_does_not_bind_any_more() -> None:
    world = bind_world.World(0, n_leaders=2, n_nodes=1)
    old, new = world.leaders
    for _ in range(2):
        world.create()
    world.show_all()
    sleeper = world.start_bind(old, "p1", "node-0")
    sleeper.answers(old.answer(sleeper.expects(effects.PatchNode)))
    sleeper.answers(old.answer(sleeper.expects(effects.ListNodePods)))
    sleeper.expects(effects.BindPod)
    world.now += datetime.timedelta(seconds=301)
    world.show_all()

    other = world.start_bind(new, "p2", "node-0")
    while not other.ended:
        other.answers(new.answer(other.expects(effects.Effect)))
    assert other.result.error == ""
    while not sleeper.ended:
        effect = sleeper.expects(effects.Effect)
        try:
            outcome = old.answer(effect)
        except effects.EffectFailed as fault:
            sleeper.fails(fault)
        else:
            sleeper.answers(outcome)
        world.check()

    assert "taken over" in sleeper.result.error
