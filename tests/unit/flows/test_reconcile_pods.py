"""Pod events: what is charged, what is freed, and what somebody is told."""

import dataclasses

import pytest

from support import clusters
from support.operator_books import (
    FRESH_STAMP,
    NOW,
    NVIDIA,
    ONE_CARD,
    bound,
    later,
    lock_of,
    node,
    open_books,
    pending,
    plain,
    put_node,
    register_text,
    used_mib,
)
from vgpu_operator.flows import books, effects, pod_events, reconcile
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import errors, records, request

SUCCESS, FAILED = records.BindPhase.SUCCESS, records.BindPhase.FAILED
INIT, SIDECAR = request.ContainerKind.INIT, request.ContainerKind.SIDECAR


def one_node(**values: object) -> books.Books:
    held = open_books(**values)
    put_node(held)
    return held


def words(reaction: effects.Reaction) -> list[str]:
    return [effect.reason for effect in reaction.effects if isinstance(effect, effects.PostEvent)]


def test_a_bound_pod_is_charged_and_a_deleted_one_is_free() -> None:
    held = one_node()
    pod = bound(pending())

    pod_events.pod_seen(held, pod)
    assert used_mib(held) == {"GPU-a0": 1000}
    pod_events.pod_gone(held, pod.key)

    assert used_mib(held) == {"GPU-a0": 0}


def test_case_102_a_terminating_pod_keeps_its_cards_until_it_is_gone() -> None:
    held = one_node()

    pod_events.pod_seen(held, dataclasses.replace(bound(pending()), deleting=True, phase="Running"))

    assert used_mib(held) == {"GPU-a0": 1000}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_case_102_an_ended_pod_frees_its_cards(phase: str) -> None:
    held = one_node()
    pod = bound(pending())
    pod_events.pod_seen(held, pod)

    pod_events.pod_seen(held, dataclasses.replace(pod, phase=phase, resource_version="21"))

    assert used_mib(held) == {"GPU-a0": 0}


def test_a_failed_phase_frees_no_card_and_is_told_once() -> None:
    held = one_node()
    pod = bound(pending(), phase=FAILED)

    told = words(pod_events.pod_seen(held, pod))
    again = words(pod_events.pod_seen(held, dataclasses.replace(pod, resource_version="21")))

    assert used_mib(held) == {"GPU-a0": 1000}
    assert (told, again) == (["AllocationFailed"], [])


def test_case_105_init_containers_charge_their_largest_not_their_sum() -> None:
    wish = [
        clusters.container(clusters.asks(memory_mib=10240), kind=INIT, name=f"i{n}")
        for n in range(3)
    ]
    pod = pending("p1", *wish, clusters.asks(memory_mib=4096))
    held = open_books()
    put_node(held, register=register_text(("GPU-a0", 16384)))

    assert flow_filter.filter_nodes(held, pod, ["node-a"], NOW).fitting == ("node-a",)
    share = (clusters.share("GPU-a0", 10240),)
    shares = (share, share, share, (clusters.share("GPU-a0", 4096),))
    pod_events.pod_seen(held, bound(pod, promised={NVIDIA: shares}, init_done=False))

    assert used_mib(held) == {"GPU-a0": 10240}


def test_case_106_a_sidecar_runs_beside_later_init_containers_and_the_apps() -> None:
    pod = pending(
        "p1",
        clusters.container(clusters.asks(memory_mib=4096), kind=SIDECAR, name="side"),
        clusters.container(clusters.asks(memory_mib=8192), kind=INIT, name="init"),
        clusters.asks(memory_mib=6144),
    )
    held = one_node()
    shares = tuple((clusters.share("GPU-a0", mib),) for mib in (4096, 8192, 6144))
    starting = bound(pod, promised={NVIDIA: shares}, init_done=False)

    pod_events.pod_seen(held, starting)
    assert used_mib(held) == {"GPU-a0": 12288}
    pod_events.pod_seen(held, dataclasses.replace(starting, init_done=True, resource_version="21"))

    assert used_mib(held) == {"GPU-a0": 10240}


def test_case_108_an_unbound_pod_with_an_old_decision_is_not_charged() -> None:
    held = one_node()
    stale = dataclasses.replace(bound(pending()), node="", phase="Pending")

    pod_events.pod_seen(held, stale)

    assert used_mib(held) == {"GPU-a0": 0}
    assert flow_filter.filter_nodes(held, stale, ["node-a"], NOW).fitting == ("node-a",)


def test_a_promise_for_another_node_than_the_pods_is_not_charged() -> None:
    held = one_node()

    pod_events.pod_seen(held, dataclasses.replace(bound(pending()), promised_node="node-b"))

    assert used_mib(held) == {"GPU-a0": 0}


def test_case_16_what_is_still_to_allocate_is_not_charged_twice() -> None:
    held = one_node()
    pod = bound(pending("p1", clusters.asks(memory_mib=2000)), memory_mib=2000)

    pod_events.pod_seen(held, pod)
    pod_events.pod_seen(
        held,
        dataclasses.replace(
            pod, to_allocate=frozenset(), bind_phase=SUCCESS, resource_version="21"
        ),
    )

    assert used_mib(held) == {"GPU-a0": 2000}


def test_case_111_pods_of_every_owner_count_and_a_new_one_waits_for_the_old() -> None:
    held = open_books()
    put_node(held, register=register_text(*((f"GPU-a{n}", 24576) for n in range(2))))
    whole = clusters.asks(percent=100)
    for n in range(2):
        wish = pending(f"p{n}", whole, scheduler="default-scheduler")
        pod_events.pod_seen(held, bound(wish, card=f"GPU-a{n}", memory_mib=24576))
    newcomer = pending("p9", whole)

    assert flow_filter.filter_nodes(held, newcomer, ["node-a"], NOW).fitting == ()
    pod_events.pod_gone(held, pending("p0").key)

    assert flow_filter.filter_nodes(held, newcomer, ["node-a"], NOW).fitting == ("node-a",)


def test_case_114_a_pod_that_found_no_node_fits_when_the_node_is_back() -> None:
    held = open_books()
    pod = pending()
    assert flow_filter.filter_nodes(held, pod, ["node-a"], NOW).fitting == ()

    put_node(held)

    assert flow_filter.filter_nodes(held, pod, ["node-a"], NOW).fitting == ("node-a",)


def test_case_115_a_hundred_pods_that_come_and_go_leave_the_ledger_at_zero() -> None:
    held = one_node()
    for n in range(100):
        pod = pending(f"p{n}")
        flow_filter.filter_nodes(held, pod, ["node-a"], NOW)
        granted = clusters.promise("node-a", [clusters.share("GPU-a0", 1000)])
        held.ledger.assume(pod.request, granted)
        pod_events.pod_seen(held, bound(pod, phase=SUCCESS))
        pod_events.pod_gone(held, pod.key)

    (usage,) = held.ledger.usage("node-a", NVIDIA)
    assert (usage.used_slots, usage.used_memory_mib, usage.used_cores_percent) == (0, 0, 0)
    assert held.ledger.records() == ()
    assert (held.refused, held.bound, held.stuck) == ({}, set(), {})


def test_case_115_four_cards_take_eight_pods_of_which_two_fit_on_each() -> None:
    held = open_books()
    put_node(held, register=register_text(*((f"GPU-a{n}", 23552) for n in range(4))))
    accepted = 0
    for n in range(9):
        pod = pending(f"p{n}", clusters.asks(memory_mib=10240))
        if flow_filter.filter_nodes(held, pod, ["node-a"], NOW).fitting:
            accepted += 1

    assert accepted == 8


def test_case_99_a_pod_that_bypassed_the_webhook_holds_nothing_and_is_told_once() -> None:
    held = one_node()
    stranger = pending(scheduler="default-scheduler")

    told = words(pod_events.pod_seen(held, stranger))
    failed = dataclasses.replace(stranger, node="node-a", phase="Failed", resource_version="6")
    again = words(pod_events.pod_seen(held, failed))

    assert (told, again) == (["WebhookBypassed"], [])
    assert used_mib(held) == {"GPU-a0": 0}


def test_case_99_a_bypassed_pod_that_has_failed_before_we_saw_it_is_told_too() -> None:
    held = one_node()
    failed = dataclasses.replace(
        pending(scheduler="default-scheduler"), node="node-a", phase="Failed"
    )

    assert words(pod_events.pod_seen(held, failed)) == ["WebhookBypassed"]
    assert used_mib(held) == {"GPU-a0": 0}


@pytest.mark.parametrize(
    ("pod", "values"),
    [
        (pending(scheduler="default-scheduler", opted_out=True), {}),
        (pending(scheduler="volcano"), {}),
        (plain(scheduler="default-scheduler"), {}),
        (pending(scheduler="default-scheduler"), {"forceOverwriteDefaultScheduler": False}),
        (pending(scheduler="default-scheduler"), {"schedulerName": "default-scheduler"}),
        (bound(pending(scheduler="default-scheduler")), {}),
    ],
    ids=["opted out", "another scheduler", "no devices", "not forced", "same name", "has cards"],
)
def test_pods_that_are_rightly_not_ours_are_no_bypass(
    pod: records.PodRecord, values: dict[str, object]
) -> None:
    assert words(pod_events.pod_seen(one_node(**values), pod)) == []


def test_a_pod_that_never_concerns_us_is_not_kept() -> None:
    held = one_node()

    reaction = pod_events.pod_seen(held, plain(scheduler="default-scheduler"))

    assert reaction == effects.NOTHING
    assert held.ledger.records() == ()


def unreadable(pod: records.PodRecord) -> records.PodRecord:
    fault = errors.DecodeError("bad number 'abc'", key="hami.io/vgpu-devices-allocated")
    return dataclasses.replace(pod, faults={NVIDIA: fault})


def test_an_unreadable_pod_that_is_listed_again_is_no_difference() -> None:
    held = one_node()
    first = pod_events.pod_seen(held, unreadable(bound(pending())))

    again = pod_events.pod_seen(held, unreadable(bound(pending())))

    assert (len(first.pods), len(again.pods)) == (1, 0)


def test_case_6_a_bound_pod_that_cannot_be_read_blocks_new_pods_and_is_told_once() -> None:
    held = one_node()
    pod = unreadable(bound(pending()))

    told = words(pod_events.pod_seen(held, pod))
    again = words(pod_events.pod_seen(held, dataclasses.replace(pod, resource_version="21")))

    assert (told, again) == (["AllocationUnreadable"], [])
    result = flow_filter.filter_nodes(held, pending("p2"), ["node-a"], NOW)
    assert "cannot be read" in str(result.rejections["node-a"])
    assert used_mib(held) == {"GPU-a0": 1000}, "what can be read is charged"


def test_an_unreadable_text_that_was_there_before_the_binding_is_told_at_the_binding() -> None:
    held = one_node()
    assert words(pod_events.pod_seen(held, unreadable(pending()))) == []

    assert words(pod_events.pod_seen(held, unreadable(bound(pending())))) == [
        "AllocationUnreadable"
    ]


def test_a_promise_beyond_what_the_pod_asks_for_is_charged_as_asked_and_told_once() -> None:
    held = one_node()
    forged = bound(pending(), memory_mib=24576)

    told = words(pod_events.pod_seen(held, forged))
    again = words(pod_events.pod_seen(held, dataclasses.replace(forged, resource_version="21")))

    assert (told, again) == (["AllocationSurplus"], [])
    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_surplus_that_was_written_before_the_binding_is_told_at_the_binding() -> None:
    """HAMi writes its annotations first and binds afterwards."""
    held = one_node()
    forged = bound(pending(), memory_mib=24576)
    pod_events.pod_seen(held, dataclasses.replace(forged, node="", resource_version="19"))

    assert words(pod_events.pod_seen(held, forged)) == ["AllocationSurplus"]


def test_an_ended_pod_is_not_complained_about() -> None:
    held = one_node()
    pod = dataclasses.replace(unreadable(bound(pending(), phase=FAILED)), phase="Failed")

    assert words(pod_events.pod_seen(held, pod)) == []


def test_a_pod_shown_unschedulable_gives_up_its_claim() -> None:
    held = one_node()
    pod = pending("p1", clusters.asks(percent=100))
    flow_filter.filter_nodes(held, pod, ["node-a"], NOW)
    other = pending("p2", clusters.asks(percent=100))
    assert flow_filter.filter_nodes(held, other, ["node-a"], NOW).fitting == ()

    pod_events.pod_seen(held, dataclasses.replace(pod, refused=True, resource_version="6"))

    assert flow_filter.filter_nodes(held, other, ["node-a"], NOW).fitting == ("node-a",)


def test_a_pod_bound_by_somebody_else_costs_its_node_our_trust() -> None:
    held = one_node()
    held.trusted_nodes.add("node-a")

    pod_events.pod_seen(held, bound(pending()))

    assert "node-a" not in held.trusted_nodes


def test_a_pod_bound_by_us_does_not() -> None:
    held = one_node()
    held.trusted_nodes.add("node-a")
    pod = pending()
    held.ledger.assume(pod.request, clusters.promise("node-a", [clusters.share("GPU-a0", 1000)]))

    pod_events.pod_seen(held, bound(pod))

    assert "node-a" in held.trusted_nodes


def test_a_pod_that_we_wanted_elsewhere_costs_the_node_where_it_is_our_trust() -> None:
    held = one_node()
    held.trusted_nodes.add("node-b")
    pod = pending()
    held.ledger.assume(pod.request, clusters.promise("node-a", [clusters.share("GPU-a0", 1000)]))

    pod_events.pod_seen(held, bound(pod, "node-b"))

    assert "node-b" not in held.trusted_nodes


def test_who_waits_for_the_lock_of_a_pod_hears_of_it_wherever_the_lock_is() -> None:
    held = one_node()
    put_node(held, "node-b", lock=lock_of("p1"), register=None)
    pod = bound(pending())

    assert pod_events.pod_seen(held, pod).nodes == {"node-a", "node-b"}
    assert pod_events.pod_gone(held, pod.key).nodes == {"node-a", "node-b"}


def test_an_older_state_that_comes_late_changes_nothing() -> None:
    held = one_node()
    pod_events.pod_seen(held, bound(pending(), version="20"))

    reaction = pod_events.pod_seen(held, pending(version="5"))

    assert reaction == effects.NOTHING
    assert used_mib(held) == {"GPU-a0": 1000}


def test_nothing_revives_a_pod_that_is_gone() -> None:
    held = one_node()
    pod = bound(pending())
    pod_events.pod_gone(held, pod.key)

    pod_events.pod_seen(held, pod)

    assert used_mib(held) == {"GPU-a0": 0}


def test_a_tick_of_a_quiet_cluster_asks_for_nothing() -> None:
    held = one_node()
    pod_events.pod_seen(held, bound(pending(), phase=SUCCESS))

    assert reconcile.tick(held, later(15)).effects == ()
    assert held.nodes["node-a"] == node(handshake=FRESH_STAMP, register=ONE_CARD)


def test_what_is_wrong_with_pods_that_were_seen_before_is_told_as_it_stands() -> None:
    held = one_node()
    held.leader = False
    failed = bound(pending("p1"), phase=records.BindPhase.FAILED)
    for pod in (failed, unreadable(bound(pending("p2"))), pending("p3")):
        pod_events.pod_seen(held, pod)

    told = [words(effects.Reaction(effects=some)) for some in reconcile.standing_complaints(held)]

    assert [some for some in told if some] == [["AllocationFailed"], ["AllocationUnreadable"]]
