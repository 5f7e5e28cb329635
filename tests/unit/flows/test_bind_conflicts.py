"""A Binding that fails or that nobody answers: what is kept, what is given back."""

import dataclasses

from support import clusters
from support.dialogue import Dialogue
from support.operator_books import (
    LOCK,
    NOW,
    TWO_CARDS,
    bind_args,
    bound,
    later,
    lock_of,
    open_books,
    pending,
    put_node,
    used_mib,
)
from vgpu_operator.flows import bind, books, effects, pod_events
from vgpu_operator.model import records

BOUND = effects.BindResult()
POD = pending()
MOVED = dataclasses.replace(POD, resource_version="6")


def at_the_binding(pod: records.PodRecord = POD) -> tuple[books.Books, Dialogue]:
    """Return a bind that has its lock and asks for the Binding."""
    held = open_books()
    put_node(held)
    held.trusted_nodes.add("node-a")
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.expects(effects.BindPod)
    return held, talk


def unseen() -> tuple[books.Books, Dialogue]:
    """Return a bind that reads its pod, which the watch has not shown."""
    held = open_books()
    put_node(held)
    talk = Dialogue(bind.bind(held, bind_args(POD), NOW))
    talk.expects(effects.ReadPod)
    return held, talk


def test_a_pod_that_was_read_before_the_watch_showed_it_gone_is_not_bound() -> None:
    held, talk = unseen()
    pod_events.pod_seen(held, POD)
    pod_events.pod_gone(held, POD.key)

    talk.answers(POD)

    assert talk.result.error == "pod team-a/p1 with UID uid-of-p1 does not exist any more"
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_pod_that_was_read_before_the_watch_showed_it_bound_is_as_the_watch_shows_it() -> None:
    held, talk = unseen()
    pod_events.pod_seen(held, bound(POD))

    talk.answers(POD)

    assert talk.result == BOUND


def test_no_doubt_is_kept_about_a_pod_that_the_watch_has_shown_gone() -> None:
    held, talk = at_the_binding()
    pod_events.pod_gone(held, POD.key)

    talk.fails(effects.Doubtful("no answer"))
    talk.expects(effects.ReadPod)
    talk.fails(effects.Doubtful("no answer either"))

    assert "it is unknown whether" in talk.result.error
    assert held.in_doubt == {}


def released(talk: Dialogue) -> None:
    """Check that the flow removes exactly its own lock, and let it."""
    assert talk.expects(effects.PatchNode) == effects.PatchNode(
        node="node-a", annotations={LOCK: None}, resource_version="11"
    )
    talk.answers("12")


def test_a_409_because_we_bound_it_already_is_success_and_keeps_lock_and_cards() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Conflict("409 already assigned"))
    talk.expects(effects.ReadPod)
    talk.answers(bound(POD))

    assert talk.result == BOUND
    assert used_mib(held) == {"GPU-a0": 1000}
    assert LOCK in held.nodes["node-a"].locks


def test_a_409_because_it_is_bound_elsewhere_frees_cards_and_lock_and_takes_what_is_found() -> None:
    held, talk = at_the_binding()
    put_node(held, "node-b", register=held.nodes["node-a"].registers["NVIDIA"].replace("a0", "b0"))

    talk.fails(effects.Conflict("409 already assigned"))
    talk.answers(bound(POD, "node-b", card="GPU-b0"))
    released(talk)

    assert talk.result.error == "pod team-a/p1 is bound to node-b already"
    assert used_mib(held, "node-a") == {"GPU-a0": 0}
    assert used_mib(held, "node-b") == {"GPU-b0": 1000}
    assert held.nodes["node-a"].locks == {}


def test_a_pod_bound_here_by_somebody_who_promised_nothing_is_no_success() -> None:
    held, talk = at_the_binding()
    stranger = dataclasses.replace(POD, node="node-a", resource_version="9")

    talk.fails(effects.Conflict("409 already assigned"))
    talk.answers(stranger)
    released(talk)

    assert talk.result.error == "pod team-a/p1 is bound to node-a already"
    assert used_mib(held) == {"GPU-a0": 0}


def test_case_91_a_409_because_the_uid_is_another_frees_everything() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Conflict("409 UID"))
    talk.answers(pending(uid="u2", version="9"))
    released(talk)

    assert talk.result.error == "pod team-a/p1 is gone"
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_pod_that_is_gone_at_the_binding_frees_everything() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Missing("404"))
    talk.answers(None)
    released(talk)

    assert talk.result.error == "pod team-a/p1 is gone"
    assert held.ledger.record(POD.key.uid) is None
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_409_because_only_the_version_has_moved_is_tried_with_the_new_version() -> None:
    _, talk = at_the_binding()
    first = talk.expects(effects.BindPod)

    talk.fails(effects.Conflict("409 version"))
    talk.answers(MOVED)

    assert talk.expects(effects.BindPod) == dataclasses.replace(first, resource_version="6")
    talk.answers()
    assert talk.result == BOUND


def test_a_pod_that_was_fenced_meanwhile_has_lost_its_lock_and_is_not_bound() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Conflict("409 version"))
    talk.answers(dataclasses.replace(MOVED, fenced="2026-01-15T10:05:01+00:00"))
    released(talk)

    assert "lock" in talk.result.error
    assert "taken over" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_pod_that_never_stops_changing_is_given_up_in_the_end() -> None:
    held, talk = at_the_binding()

    for version in range(6, 11):
        talk.fails(effects.Conflict("409 version"))
        talk.answers(dataclasses.replace(POD, resource_version=str(version)))
    released(talk)

    assert "kept changing" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_binding_without_answer_that_happened_is_success() -> None:
    _, talk = at_the_binding()

    talk.fails(effects.Doubtful("no answer"))
    talk.answers(bound(POD))

    assert talk.result == BOUND


def test_a_binding_without_answer_that_did_not_happen_is_sent_again() -> None:
    _, talk = at_the_binding()

    talk.fails(effects.Doubtful("no answer"))
    talk.answers(POD)

    assert talk.expects(effects.BindPod).resource_version == "5"


def test_a_binding_in_doubt_keeps_the_reservation_and_the_lock() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Doubtful("no answer"))
    talk.fails(effects.Doubtful("no answer either"))

    assert "it is unknown whether team-a/p1 was bound" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 1000}
    assert LOCK in held.nodes["node-a"].locks
    assert len(held.turns) == 0


def test_a_binding_that_is_never_answered_stays_in_doubt_although_reads_show_it_unbound() -> None:
    held, talk = at_the_binding()

    for _ in range(5):
        talk.fails(effects.Doubtful("no answer"))
        talk.answers(POD)

    assert "it is unknown whether team-a/p1 was bound" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 1000}
    assert LOCK in held.nodes["node-a"].locks


def test_a_binding_in_doubt_that_is_refused_the_second_time_stays_in_doubt() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Doubtful("no answer"))
    talk.answers(POD)
    talk.fails(effects.Denied("403"))

    assert "it is unknown whether team-a/p1 was bound" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_binding_in_doubt_is_void_once_the_pod_has_moved_on() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Doubtful("no answer"))
    talk.answers(MOVED)
    talk.fails(effects.Denied("403 pods/binding is forbidden"))
    released(talk)

    assert "cannot be bound to node-a: 403" in talk.result.error
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_binding_that_is_refused_frees_cards_and_lock() -> None:
    held, talk = at_the_binding()

    talk.fails(effects.Denied("403 pods/binding is forbidden"))
    released(talk)

    assert talk.result.error == (
        "team-a/p1 cannot be bound to node-a: 403 pods/binding is forbidden"
    )
    assert used_mib(held) == {"GPU-a0": 0}
    assert held.nodes["node-a"].locks == {}
    assert len(held.turns) == 0


def test_a_list_that_fails_frees_cards_and_lock() -> None:
    held = open_books()
    put_node(held)
    held.ledger.observe(POD)
    talk = Dialogue(bind.bind(held, bind_args(POD), NOW))
    talk.answers("11")
    talk.expects(effects.ListNodePods)

    talk.fails(effects.Doubtful("503"))
    released(talk)

    assert talk.result.error == "the pods of node-a cannot be listed: 503"
    assert used_mib(held) == {"GPU-a0": 0}


def test_a_pod_that_the_list_shows_bound_here_by_us_is_success_and_keeps_its_lock() -> None:
    """An earlier Binding without answer has happened after all."""
    held = open_books()
    put_node(held)
    held.ledger.observe(POD)
    talk = Dialogue(bind.bind(held, bind_args(POD), NOW))
    talk.answers("11")

    talk.answers((bound(POD),))

    assert talk.result == BOUND
    assert LOCK in held.nodes["node-a"].locks


def test_a_pod_that_the_watch_shows_bound_here_by_us_while_it_waits_is_success() -> None:
    held = open_books()
    put_node(held, lock=lock_of("p1"))
    held.ledger.observe(bound(pending("p1")))
    pod = pending("p2")
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.expects(effects.AwaitChange)

    held.ledger.observe(bound(pod))
    talk.answers(later(1))

    assert talk.result == BOUND


def test_only_our_own_lock_is_removed_after_a_failure() -> None:
    """Case 79: the lock that by now names another pod stays."""
    held, talk = at_the_binding()
    put_node(held, version="14", lock=lock_of("p9", at="2026-01-15T10:00:00Z"))

    talk.fails(effects.Denied("403"))

    assert talk.ended
    assert held.nodes["node-a"].locks == {LOCK: "2026-01-15T10:00:00Z,team-a,p9"}


def test_a_release_that_meets_a_conflict_waits_in_the_queue_for_the_watch() -> None:
    """Only those in the queue are woken by a node's events."""
    held, talk = at_the_binding()
    talk.fails(effects.Denied("403"))

    talk.fails(effects.Conflict("409"))
    talk.expects(effects.AwaitChange)
    assert held.turns.waiting_at("node-a") == (POD.key.uid,)
    put_node(held, version="14", lock="2026-01-15T10:00:00Z,team-a,p1")
    talk.answers(later(1))

    assert talk.expects(effects.PatchNode).resource_version == "14"
    talk.answers("15")
    assert talk.ended
    assert len(held.turns) == 0


def test_a_release_whose_conflict_the_watch_has_shown_already_waits_for_nothing() -> None:
    held, talk = at_the_binding()
    talk.fails(effects.Denied("403"))
    talk.expects(effects.PatchNode)
    put_node(held, version="14", lock="2026-01-15T10:00:00Z,team-a,p1")

    talk.fails(effects.Conflict("409"))

    assert talk.expects(effects.PatchNode).resource_version == "14"


def test_a_release_in_doubt_is_looked_at_again() -> None:
    held, talk = at_the_binding()
    talk.fails(effects.Denied("403"))

    talk.fails(effects.Doubtful("no answer"))
    talk.expects(effects.AwaitChange)
    put_node(held, version="14", lock=None)
    talk.answers(later(1))

    assert talk.ended


def test_cards_that_no_longer_fit_under_the_lock_are_chosen_again_on_that_node() -> None:
    pod = pending("p1", clusters.asks(memory_mib=20000))
    held = open_books()
    put_node(held, register=TWO_CARDS)
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    reserved = used_mib(held)
    taken = next(card for card, mib in reserved.items() if mib)
    free = next(card for card, mib in reserved.items() if not mib)

    talk.answers("11")
    late = bound(pending("p9", clusters.asks(memory_mib=20000)), card=taken, memory_mib=20000)
    talk.answers((late,))

    text = talk.expects(effects.BindPod).annotations["hami.io/vgpu-devices-allocated"]
    assert text == f"{free},NVIDIA,20000,0:;"
    assert used_mib(held) == {taken: 20000, free: 20000}


def test_a_pod_that_fits_nowhere_on_the_node_under_the_lock_is_refused_and_frees_the_lock() -> None:
    pod = pending("p1", clusters.asks(memory_mib=20000))
    held = open_books()
    put_node(held)
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.answers("11")
    talk.answers((bound(pending("p9", clusters.asks(memory_mib=20000)), memory_mib=20000),))
    released(talk)

    assert talk.result.error == "team-a/p1 no longer fits on node-a: 1/1 CardInsufficientMemory"
    assert used_mib(held) == {"GPU-a0": 20000}
