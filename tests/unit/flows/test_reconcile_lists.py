"""Complete lists: what they no longer have is over, whatever no watch delivered."""

from support.operator_books import (
    ONE_CARD,
    bound,
    list_in,
    node,
    open_books,
    pending,
    put_node,
    used_mib,
)
from vgpu_operator.flows import effects, pod_events, reconcile, register


def test_case_116_one_list_makes_the_ledger_complete() -> None:
    held = open_books()

    list_in(held, nodes=[node()], pods=[bound(pending(f"p{n}")) for n in range(3)])

    assert used_mib(held) == {"GPU-a0": 3000}


def test_case_100_a_pod_that_the_next_list_no_longer_has_is_released() -> None:
    held = open_books()
    put_node(held)
    pod = bound(pending())
    pod_events.pod_seen(held, pod)

    reaction = reconcile.pods_listed(held, uids=(), version="100")

    assert used_mib(held) == {"GPU-a0": 0}
    assert reaction.pods == {pod.key.uid}
    assert reaction.nodes == {"node-a"}


def test_a_pod_that_is_newer_than_the_list_stays() -> None:
    held = open_books()
    put_node(held)
    pod_events.pod_seen(held, bound(pending(), version="101"))

    reconcile.pods_listed(held, uids=(), version="100")

    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_list_that_is_older_than_what_is_known_of_a_pod_does_not_turn_it_back() -> None:
    held = open_books()
    put_node(held)
    pod_events.pod_seen(held, bound(pending(), version="101"))

    list_in(held, nodes=[node()], pods=[pending(version="5")])

    assert used_mib(held) == {"GPU-a0": 1000}
    assert held.ledger.records() == (bound(pending(), version="101"),)


def test_a_node_that_the_list_no_longer_has_is_forgotten() -> None:
    held = open_books()
    put_node(held)
    put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"))

    list_in(held, nodes=[node("node-b", register=ONE_CARD.replace("a0", "b0"))], pods=[])

    assert set(held.nodes) == {"node-b"}
    assert held.ledger.node_names == ("node-b",)


def test_a_node_that_came_after_the_list_was_made_stays() -> None:
    held = open_books()
    put_node(held, version="101")

    list_in(held, nodes=[], pods=[], version="100")

    assert set(held.nodes) == {"node-a"}


def test_a_node_that_went_while_the_list_was_on_its_way_does_not_come_back() -> None:
    held = open_books()
    put_node(held)
    list_in(held, nodes=[node()], pods=[])
    register.node_gone(held, "node-a", uid="uid-of-node-a")
    list_in(held, nodes=[node()], pods=[])

    assert held.nodes == {}


def test_after_a_list_every_node_is_listed_again_at_its_next_bind() -> None:
    held = open_books()
    put_node(held)
    held.trusted_nodes.add("node-a")

    list_in(held, nodes=[node()], pods=[])

    assert held.trusted_nodes == set()


def test_the_same_list_twice_changes_nothing_and_is_no_difference() -> None:
    held = open_books()
    nodes, pods = [node()], [bound(pending("p1")), pending("p2")]
    list_in(held, nodes=nodes, pods=pods)
    generation = held.ledger.generation

    list_in(held, nodes=nodes, pods=pods)

    assert held.ledger.generation == generation
    assert [pod_events.pod_seen(held, pod) for pod in pods] == [effects.NOTHING] * 2


def test_a_node_that_a_list_of_names_no_longer_has_is_forgotten() -> None:
    held = open_books()
    put_node(held)
    put_node(held, "node-b", register=ONE_CARD.replace("a0", "b0"), version="101")

    reaction = reconcile.nodes_listed(held, names={"node-c"}, version="100")

    assert set(held.nodes) == {"node-b"}, "node-b is newer than the list"
    assert reaction.nodes == {"node-a"}
