"""Scores of nodes whose lock is taken: a burst spreads over locks, packing comes first."""

import datetime

from support import clusters
from support.operator_books import NOW, ONE_CARD, bound, open_books, pending, put_node
from vgpu_operator.flows import bind, books, busy, pod_events
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows.turns import Waiter
from vgpu_operator.model import allocation

NAMES = ("node-a", "node-b", "node-c")


def three_nodes(**values: object) -> books.Books:
    """Nodes of one card each; node-a is the fullest, so binpack prefers it."""
    held = open_books(**values)
    for name, card in zip(NAMES, ("a0", "b0", "c0"), strict=True):
        put_node(held, name, register=ONE_CARD.replace("a0", card))
    held.ledger.observe(bound(pending("old", clusters.asks(memory_mib=12_000)), memory_mib=12_000))
    return held


def scores(held: books.Books, name: str = "asking") -> list[int]:
    return flow_filter.score_nodes(held, pending(name), NAMES)


def wait_at(held: books.Books, node: str, *uids: str) -> None:
    for uid in uids:
        held.ledger.observe(pending(f"pod-{uid}", uid=uid))
        held.turns.join(node, Waiter(uid=uid, keys=("hami.io/mutex.lock",)))


def test_where_no_lock_is_wanted_the_fullest_node_comes_first() -> None:
    first, second, third = scores(three_nodes())

    assert first > second == third >= 0


def test_a_node_that_a_pod_waits_at_comes_behind_all_that_are_free() -> None:
    held = three_nodes()
    assert scores(held) == [20, 0, 0]

    wait_at(held, "node-a", "u9")

    assert scores(held) == [9, 10, 10]


def test_of_busy_nodes_the_one_with_the_shorter_line_comes_first() -> None:
    held = three_nodes()

    wait_at(held, "node-a", "u7", "u8", "u9")
    wait_at(held, "node-b", "u6")
    wait_at(held, "node-c", "u5")

    assert scores(held) == [8, 10, 10]


def test_free_nodes_keep_their_order_and_all_stay_within_the_range() -> None:
    held = three_nodes(scoring={"maxScore": 50})
    plain = scores(held)
    wait_at(held, "node-b", *(f"u{number}" for number in range(30)))

    # 50 x 20 / 100 = 10; the busy ones have 0 to 5, and 5 + 10 x 45 // 50 is 14.
    assert plain == [10, 0, 0]
    assert scores(held) == [14, 0, 5]


def test_who_waits_for_another_lock_is_in_nobodys_way() -> None:
    held = three_nodes()
    wait_at(held, "node-a", "u9")
    mlu = clusters.asks(memory_mib=1000, vendor="MLU")

    assert busy.lines_at(held, pending("asking").request) == {"node-a": 1}
    assert busy.lines_at(held, pending("asking", mlu).request) == {}


def test_equally_busy_nodes_are_packed_as_if_they_were_free() -> None:
    held = three_nodes()
    plain = scores(held)

    for place, name in enumerate(NAMES):
        wait_at(held, name, f"u{place}")

    assert scores(held) == plain


def test_a_pod_that_is_expected_bound_or_not_yet_served_there_counts() -> None:
    held = three_nodes()
    pod_events.pod_seen(held, bound(pending("p7"), "node-b", card="GPU-b0"))
    wish = pending("p8").request
    asking = pending("asking").request
    flow_filter.filter_nodes(held, pending("p8"), ("node-c",), NOW)

    assert busy.lines_at(held, asking) == {"node-b": 1, "node-c": 1}
    assert busy.lines_at(held, wish) == {"node-b": 1}


def test_a_pod_whose_binding_was_answered_and_is_not_seen_yet_counts() -> None:
    held = three_nodes()
    record = pending("p8")
    held.ledger.observe(record)
    granted = bind.reserve(held, record.request, "node-c", priority=0)
    held.bound.add(record.key.uid)

    assert isinstance(granted, allocation.Allocation)
    assert busy.lines_at(held, pending("asking").request) == {"node-c": 1}


def test_the_filter_expects_its_pod_where_the_scores_say() -> None:
    held = three_nodes()
    wait_at(held, "node-a", "u9")

    flow_filter.filter_nodes(held, pending("p8"), NAMES, NOW)

    assert [node for node, _ in held.ledger.claimed(besides="nobody")] == ["node-b"]


def test_the_policy_can_be_switched_off() -> None:
    held = three_nodes(scoring={"avoidBusyNodes": False})
    plain = scores(held)

    wait_at(held, "node-a", "u9")

    assert scores(held) == plain


def test_a_line_behind_which_nobody_else_stands_ends() -> None:
    held = three_nodes()
    flow_filter.filter_nodes(held, pending("p8", clusters.asks(memory_mib=10)), ("node-c",), NOW)

    held.ledger.expire_claims(NOW + datetime.timedelta(seconds=5))

    assert busy.lines_at(held, pending("asking").request) == {}


def test_prioritize_says_what_the_filter_found_and_looks_at_the_lines_anew() -> None:
    held = three_nodes()
    flow_filter.filter_nodes(held, pending("asking"), NAMES, NOW)
    before = scores(held)

    wait_at(held, "node-a", "u9")

    assert (before, scores(held)) == ([20, 0, 0], [9, 10, 10])
