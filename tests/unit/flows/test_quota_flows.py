"""A namespace's quota in the filter, the reservation, the waking and the dry run."""

import pytest

from support import clusters
from support.dialogue import Dialogue
from support.operator_books import (
    NOW,
    TWO_CARDS,
    bind_args,
    bound,
    open_books,
    pending,
    put_node,
)
from support.resource_quotas import MEMORY, limit
from vgpu_operator.flows import (
    bind,
    books,
    dry_run,
    effects,
    pod_events,
    quotas,
    reconcile,
    wake,
)
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import quota, records

OVER = "1/1 ResourceQuotaNotFit"
INIT, SIDECAR = clusters.request.ContainerKind.INIT, clusters.request.ContainerKind.SIDECAR


def limited(most: int, *pods: records.PodRecord) -> books.Books:
    """Return books with node-a, these pods, and that many MiB for the namespace."""
    held = open_books()
    put_node(held)
    limit(held, {MEMORY: most})
    for pod in pods:
        pod_events.pod_seen(held, pod)
    return held


def reasons(held: books.Books, pod: records.PodRecord) -> dict[str, str]:
    """Return why nodes do not take the pod; empty when they do."""
    found = flow_filter.filter_nodes(held, pod, ["node-a"], NOW)
    return {name: str(why) for name, why in found.rejections.items()}


def hold(held: books.Books) -> int:
    """Return the MiB that the namespace holds."""
    return held.ledger.quota_standing("team-a").used.get("NVIDIA", quota.NOTHING).memory_mib


def test_the_filter_refuses_what_the_quota_does_not_cover() -> None:
    held = limited(1999, bound(pending("p9")))

    assert reasons(held, pending("p1")) == {"node-a": OVER}
    assert flow_filter.score_nodes(held, pending("p1"), ["node-a"]) == [0]
    assert reasons(limited(2000, bound(pending("p9"))), pending("p1")) == {}


def test_a_burst_of_binds_never_passes_the_quota() -> None:
    """Each reserves before it waits for the lock, in one step of the event loop."""
    pods = [pending(f"p{number}") for number in range(8)]
    held = limited(3000, *pods)
    assert all(not reasons(held, pod) for pod in pods), "no filter has reserved anything"

    talks = [Dialogue(bind.bind(held, bind_args(pod), NOW)) for pod in pods]

    refused = [talk.result.error for talk in talks if talk.ended]
    assert len(refused) == 5
    assert refused[0] == f"team-a/p3 no longer fits on node-a: {OVER}"
    assert hold(held) == 3000


def test_a_pod_that_is_filtered_again_does_not_count_against_itself() -> None:
    pod = pending("p1")
    held = limited(1000, pod)
    bind.reserve(held, pod.request, "node-a", priority=0)
    held.binding.add(pod.key.uid)

    assert reasons(held, pod) == {}


def test_a_refusal_is_not_repeated_from_before_the_quota_was_raised() -> None:
    held = limited(500)
    assert reasons(held, pending("p1")) == {"node-a": OVER}
    assert reasons(held, pending("p1")) == {"node-a": OVER}

    limit(held, {MEMORY: 1000}, version="2")

    assert reasons(held, pending("p1")) == {}


def test_a_quota_that_is_lowered_refuses_at_once() -> None:
    held = limited(1000)

    limit(held, {MEMORY: 999}, version="2")

    assert reasons(held, pending("p1")) == {"node-a": OVER}


@pytest.mark.parametrize("how", ["raised", "deleted", "a pod ended", "another quota deleted"])
def test_more_room_in_the_quota_wakes_the_pod_that_it_held_back(how: str) -> None:
    holder = bound(pending("p9"))
    held = limited(1500, holder)
    if how == "another quota deleted":
        limit(held, {MEMORY: 5000})
        limit(held, {MEMORY: 1500}, name="second")
    reasons(held, pending("p1"))
    held.woken_generation = held.ledger.generation
    assert not wake.is_due(held)

    if how == "raised":
        limit(held, {MEMORY: 2000}, version="2")
    elif how == "deleted":
        quotas.quota_gone(held, "team-a", "cards")
    elif how == "another quota deleted":
        quotas.quota_gone(held, "team-a", "second")
    else:
        pod_events.pod_gone(held, holder.key)

    assert wake.is_due(held)
    assert Dialogue(wake.wake(held)).expects(effects.PatchNode).node == "node-a"


def test_a_pod_elsewhere_that_frees_the_quota_wakes_on_the_node_that_refused() -> None:
    """No card of node-a has become free; the namespace may hold more of it."""
    held = open_books()
    put_node(held)
    put_node(held, "node-b", register=TWO_CARDS)
    limit(held, {MEMORY: 1500})
    holder = bound(pending("p9"), "node-b")
    pod_events.pod_seen(held, holder)
    assert reasons(held, pending("p1")) == {"node-a": OVER}
    held.woken_generation = held.ledger.generation

    pod_events.pod_gone(held, holder.key)

    assert Dialogue(wake.wake(held)).expects(effects.PatchNode).node == "node-a"


def test_too_little_more_wakes_nobody() -> None:
    held = limited(500)
    reasons(held, pending("p1"))
    held.woken_generation = held.ledger.generation

    limit(held, {MEMORY: 999}, version="2")

    assert Dialogue(wake.wake(held)).ended
    assert not wake.is_due(held), "this change is settled"


def test_namespaces_that_come_and_go_leave_nothing_behind() -> None:
    held = open_books()
    put_node(held)
    for number in range(1000):
        limit(held, {MEMORY: 1000}, name=f"q{number}", namespace=f"team-{number}")
        quotas.quota_gone(held, f"team-{number}", f"q{number}")

    reconcile.tick(held, NOW)

    assert held.ledger.quota_freed_since(0) == frozenset()


@pytest.mark.parametrize("leads", [True, False])
def test_a_pod_that_a_quota_held_back_keeps_what_wakes_it_until_it_is_gone(leads: bool) -> None:
    held = limited(1999, bound(pending("p9")), pending("p1"))
    reasons(held, pending("p1"))
    quotas.quota_gone(held, "team-a", "cards")
    held.leader = leads

    reconcile.tick(held, NOW)
    assert held.ledger.quota_freed_since(0) == {"team-a"}

    pod_events.pod_gone(held, pending("p1").key)
    reconcile.tick(held, NOW)
    assert held.ledger.quota_freed_since(0) == frozenset()


def test_a_namespace_with_a_quota_keeps_what_became_available_in_it() -> None:
    held = limited(1999)
    limit(held, {MEMORY: 2500}, version="2")

    reconcile.tick(held, NOW)

    assert held.ledger.quota_freed_since(0) == {"team-a"}


def test_a_lowered_quota_wakes_nobody() -> None:
    held = limited(500)
    reasons(held, pending("p1"))
    held.woken_generation = held.ledger.generation

    limit(held, {MEMORY: 400}, version="2")

    assert not wake.is_due(held)


def test_a_new_node_does_not_help_a_pod_that_the_quota_holds_back() -> None:
    """The autoscaler would add one for nothing."""
    raw = {
        "metadata": {
            "name": "new",
            "annotations": {"hami.io/node-nvidia-register": TWO_CARDS},
        }
    }

    assert dry_run.filter_objects(limited(999), pending("p1"), [raw]).fitting == ()
    assert dry_run.filter_objects(limited(1000), pending("p1"), [raw]).fitting == ("new",)


def test_an_older_event_that_comes_late_changes_nothing() -> None:
    held = limited(1000)
    limit(held, {MEMORY: 500}, version="9")

    limit(held, {MEMORY: 5000}, version="8")

    assert reasons(held, pending("p1")) == {"node-a": OVER}


def test_a_late_deletion_of_an_earlier_quota_of_that_name_leaves_the_present_one() -> None:
    held = limited(500)

    quotas.quota_gone(held, "team-a", "cards", uid="uid-of-an-earlier-one")

    assert reasons(held, pending("p1")) == {"node-a": OVER}


def test_the_least_cost_counts_init_containers_as_the_ledger_does() -> None:
    (nvidia,) = (vendor for vendor in open_books().vendors if vendor.spec.keyword == "NVIDIA")
    wish = clusters.wish(
        clusters.container(clusters.asks(memory_mib=1000, cores_percent=10), kind=SIDECAR),
        clusters.container(clusters.asks(memory_mib=3000), kind=INIT),
        clusters.container(clusters.asks(2, memory_mib=1200, cores_percent=20)),
    )

    # Memory: 1000 + 3000 while init runs, 1000 + 2 x 1200 later; cores: 10 + 2 x 20.
    assert quotas.cost(wish, nvidia) == quota.Amount(memory_mib=4000, cores=50)
