"""A bind that goes well, as a conversation."""

import dataclasses

import pytest

from support import clusters
from support.dialogue import Dialogue
from support.operator_books import (
    LOCK,
    NOW,
    TWO_CARDS,
    bind_args,
    bound,
    open_books,
    pending,
    plain,
    put_node,
    used_mib,
)
from vgpu_operator.flows import bind, books, effects
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import records, request
from vgpu_operator.vendors import base, roster

BOUND = effects.BindResult()
INIT, APP = request.ContainerKind.INIT, request.ContainerKind.APP


def known(*pods: records.PodRecord, **values: object) -> books.Books:
    """Return books with node-a, trusted, and these pods."""
    found = open_books(**values)
    put_node(found)
    for pod in pods:
        found.ledger.observe(pod)
    found.trusted_nodes.add("node-a")
    return found


def test_a_bind_costs_two_calls_the_lock_and_the_binding() -> None:
    pod = pending()

    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))
    talk.expects(effects.PatchNode)
    talk.answers("11")
    talk.expects(effects.BindPod)
    talk.answers()

    assert talk.result == BOUND
    assert len(talk.asked) == 2


def test_the_lock_names_the_pod_and_is_conditioned_on_the_version_that_the_watch_has_shown() -> (
    None
):
    pod = pending()

    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    assert talk.expects(effects.PatchNode) == effects.PatchNode(
        node="node-a",
        annotations={LOCK: "2026-01-15T10:00:00Z,team-a,p1"},
        resource_version="10",
    )


def test_the_binding_carries_every_annotation_with_the_pods_uid_and_version() -> None:
    pod = pending()
    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    talk.answers("11")

    assert talk.expects(effects.BindPod) == effects.BindPod(
        pod=pod.key,
        node="node-a",
        resource_version="5",
        annotations={
            "hami.io/vgpu-node": "node-a",
            "hami.io/vgpu-time": "1768471200",
            "hami.io/bind-time": "1768471200",
            "hami.io/bind-phase": "allocating",
            "hami.io/vgpu-devices-to-allocate": "GPU-a0,NVIDIA,1000,0:;",
            "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,1000,0:;",
        },
        labels={"hami.io/vgpu-node": "node-a"},
    )


def test_the_cards_are_reserved_before_anything_is_asked_of_the_api_server() -> None:
    pod = pending()
    held = known(pod)

    Dialogue(bind.bind(held, bind_args(pod), NOW))

    assert used_mib(held) == {"GPU-a0": 1000}


def test_case_95_the_lock_stays_after_a_good_bind() -> None:
    pod = pending()
    held = known(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.answers("11")
    talk.answers()

    assert held.nodes["node-a"].locks == {LOCK: "2026-01-15T10:00:00Z,team-a,p1"}
    assert used_mib(held) == {"GPU-a0": 1000}
    assert len(held.turns) == 0


def test_the_first_bind_on_a_node_lists_its_pods_and_finds_what_the_watch_has_not_shown() -> None:
    pod = pending("p1", clusters.asks(memory_mib=20000))
    held = open_books()
    put_node(held, register=TWO_CARDS)
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    first_choice = held.ledger.holding(pod.key.uid)
    assert first_choice is not None
    (card,) = first_choice.charges["NVIDIA"]
    other = {"GPU-a0": "GPU-a1", "GPU-a1": "GPU-a0"}[card]

    talk.answers("11")
    assert talk.expects(effects.ListNodePods).node == "node-a"
    stranger = bound(
        pending("p9", clusters.asks(memory_mib=20000)),
        card=card,
        memory_mib=20000,
        phase=records.BindPhase.SUCCESS,
    )
    talk.answers((stranger,))

    text = talk.expects(effects.BindPod).annotations["hami.io/vgpu-devices-allocated"]
    assert text == f"{other},NVIDIA,20000,0:;"


def test_the_second_bind_on_a_node_lists_nothing() -> None:
    pod, second = pending("p1"), pending("p2")
    held = open_books()
    put_node(held)
    held.ledger.observe(pod)
    held.ledger.observe(second)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.answers(())
    talk.answers()
    held.ledger.observe(bound(pod, phase=records.BindPhase.SUCCESS))

    talk = Dialogue(bind.bind(held, bind_args(second), NOW))
    talk.passes_brief_waits(NOW)
    talk.answers("12")

    talk.expects(effects.BindPod)


def test_case_1_and_3_every_container_has_one_segment_and_those_without_device_an_empty_one() -> (
    None
):
    pod = pending(
        "p1",
        clusters.container(),
        clusters.asks(memory_mib=1000),
        clusters.container(),
        clusters.container(),
        clusters.container(),
    )
    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    talk.answers("11")

    texts = talk.expects(effects.BindPod).annotations
    assert texts["hami.io/vgpu-devices-allocated"] == ";GPU-a0,NVIDIA,1000,0:;;;;"
    assert texts["hami.io/vgpu-devices-to-allocate"] == ";GPU-a0,NVIDIA,1000,0:;;;;"


def test_case_4_init_containers_come_first() -> None:
    pod = pending(
        "p1",
        clusters.container(kind=INIT, name="init"),
        clusters.container(clusters.asks(memory_mib=2000), kind=APP, name="one"),
        clusters.container(clusters.asks(memory_mib=2000), kind=APP, name="two"),
    )
    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    talk.answers("11")

    text = talk.expects(effects.BindPod).annotations["hami.io/vgpu-devices-allocated"]
    assert text == ";GPU-a0,NVIDIA,2000,0:;GPU-a0,NVIDIA,2000,0:;"


def test_protocol_keys_that_the_pod_carries_are_blanked_or_overwritten() -> None:
    carried = frozenset({"hami.io/dcu-devices-allocated", "hami.io/vgpu-devices-allocated"})
    pod = pending(carried=carried)
    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    talk.answers("11")

    texts = talk.expects(effects.BindPod).annotations
    assert texts["hami.io/dcu-devices-allocated"] == ""
    assert texts["hami.io/vgpu-devices-allocated"] == "GPU-a0,NVIDIA,1000,0:;"


def test_a_node_name_that_is_no_label_value_gets_no_label() -> None:
    name = "n" * 64
    pod = pending()
    held = known(pod)
    put_node(held, name)
    held.trusted_nodes.add(name)
    talk = Dialogue(bind.bind(held, bind_args(pod, name), NOW))

    talk.answers("11")

    binding = talk.expects(effects.BindPod)
    assert binding.labels == {}
    assert binding.annotations["hami.io/vgpu-node"] == name


def test_where_a_bindings_labels_are_not_merged_one_patch_writes_the_label() -> None:
    pod = pending()
    held = known(pod)
    held.label_in_binding = False
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.answers("11")
    talk.answers()

    assert talk.expects(effects.PatchPod) == effects.PatchPod(
        pod=pod.key, labels={"hami.io/vgpu-node": "node-a"}
    )
    talk.fails(effects.Doubtful("no answer"))
    assert talk.result == BOUND


def test_a_pod_without_devices_is_bound_by_one_call_without_lock_or_annotations() -> None:
    pod = plain()

    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    assert talk.expects(effects.BindPod) == effects.BindPod(
        pod=pod.key, node="node-a", resource_version="5", annotations={}, labels={}
    )
    talk.answers()
    assert talk.result == BOUND


def test_a_pod_without_devices_whose_binding_is_in_doubt_gets_a_sentence() -> None:
    pod = plain()
    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    talk.fails(effects.Doubtful("no answer"))
    talk.expects(effects.ReadPod)
    talk.fails(effects.Doubtful("no answer either"))

    assert "it is unknown whether team-a/p1 was bound" in talk.result.error


def test_a_pod_that_the_watch_has_not_shown_is_read() -> None:
    pod = pending()
    talk = Dialogue(bind.bind(known(), bind_args(pod), NOW))

    assert talk.expects(effects.ReadPod) == effects.ReadPod(namespace="team-a", name="p1")
    talk.answers(pod)

    assert talk.expects(effects.PatchNode).node == "node-a"


def test_case_89_a_pod_that_is_gone_gets_an_error_and_its_reservation_ends() -> None:
    pod = pending("p1", clusters.asks(percent=100))
    held = known()
    granted = clusters.promise("node-a", [clusters.share("GPU-a0", 24576)])
    held.ledger.assume(pod.request, granted)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.expects(effects.ReadPod)
    talk.answers(None)

    assert talk.result.error == "pod team-a/p1 with UID uid-of-p1 does not exist any more"
    assert used_mib(held) == {"GPU-a0": 0}


def test_case_91_a_pod_replaced_by_one_of_the_same_name_gets_an_error_and_nothing_is_written() -> (
    None
):
    old, new = pending("web-0", uid="u1"), pending("web-0", uid="u2")
    talk = Dialogue(bind.bind(known(), bind_args(old), NOW))

    talk.answers(new)

    assert talk.result.error == "pod team-a/web-0 with UID u1 does not exist any more"
    assert [type(effect) for effect in talk.asked] == [effects.ReadPod]


def test_a_pod_that_cannot_be_read_keeps_its_reservation() -> None:
    pod = pending()
    held = known()
    granted = clusters.promise("node-a", [clusters.share("GPU-a0", 1000)])
    held.ledger.assume(pod.request, granted)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.fails(effects.Doubtful("503"))

    assert talk.result.error == "pod team-a/p1 cannot be read: 503"
    assert used_mib(held) == {"GPU-a0": 1000}


@pytest.mark.parametrize(
    ("node", "error"),
    [("node-a", ""), ("node-b", "pod team-a/p1 is bound to node-b already")],
    ids=["there", "elsewhere"],
)
def test_a_pod_that_is_bound_already_is_not_bound_again(node: str, error: str) -> None:
    pod = pending()
    held = known(bound(pod, node))

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    assert talk.result == effects.BindResult(error=error)
    assert talk.asked == []


def test_a_pod_whose_cards_are_taken_is_refused_with_the_reason_before_any_call() -> None:
    pod = pending("p1", clusters.asks(memory_mib=20000))
    other = bound(pending("p9", clusters.asks(memory_mib=10000)), memory_mib=10000)
    held = known(pod, other)

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    assert talk.result.error == "team-a/p1 no longer fits on node-a: 1/1 CardInsufficientMemory"
    assert talk.asked == []
    assert not held.ledger.assumed(pod.key.uid)


def test_a_node_with_nothing_allocatable_takes_no_pod() -> None:
    pod = pending()
    held = known(pod)
    put_node(held, version="11", allocatable=0)

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    assert "no longer fits on node-a: node unregistered" in talk.result.error


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"phase": "Failed"}, "pod team-a/p1 has ended"),
        ({"deleting": True}, "pod team-a/p1 is being deleted"),
    ],
)
def test_a_pod_that_will_never_run_is_not_bound(change: dict[str, object], error: str) -> None:
    pod = dataclasses.replace(pending(), **change)  # type: ignore[arg-type]

    talk = Dialogue(bind.bind(known(pod), bind_args(pod), NOW))

    assert talk.result.error == error
    assert talk.asked == []


def test_the_success_event_is_sent_only_when_asked_for() -> None:
    pod = pending()
    talk = Dialogue(bind.bind(known(pod, events={"success": True}), bind_args(pod), NOW))

    talk.answers("11")
    talk.answers()

    event = talk.expects(effects.PostEvent)
    assert (event.reason, event.pod) == ("BindingSucceed", pod.key)
    talk.answers()
    assert talk.result == BOUND


def test_pods_of_a_listed_node_that_never_concern_us_are_not_kept() -> None:
    pod = pending()
    held = open_books()
    put_node(held)
    held.ledger.observe(pod)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")

    talk.answers((plain("daemon", scheduler="default-scheduler", node="node-a"),))

    talk.expects(effects.BindPod)
    assert held.ledger.records() == (pod,)


def test_a_pod_without_lock_is_never_sure_of_its_node_and_lists_it_each_time() -> None:
    pod = pending()
    held = known(pod)
    unlocked = dataclasses.replace(held.vendors[0].spec, lock=None)
    held.vendors = roster.of((_Renamed(unlocked),))

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.expects(effects.ListNodePods)
    talk.answers(())
    talk.expects(effects.BindPod)
    talk.answers()
    assert talk.result == BOUND


class _Renamed(base.Common):
    """A vendor of whom only the names are asked."""

    def __init__(self, spec: base.VendorSpec) -> None:
        self.spec = spec


def test_a_pod_that_we_have_bound_and_the_watch_has_not_shown_keeps_its_cards_there() -> None:
    """kube-scheduler may have lost our answer and ask for another node."""
    pod = pending()
    held = known(pod)
    put_node(held, "node-b", register=TWO_CARDS.replace("GPU-a", "GPU-b"))
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.answers()

    again = Dialogue(bind.bind(held, bind_args(pod, "node-b"), NOW))
    again.expects(effects.ReadPod)
    again.answers(bound(pod))

    assert again.result.error == "pod team-a/p1 is bound to node-a already"
    assert used_mib(held) == {"GPU-a0": 1000}


def test_a_usual_bind_sets_nothing_free_so_nobody_is_woken_for_it() -> None:
    pod = pending()
    held = known(pod)
    flow_filter.filter_nodes(held, pod, ["node-a"], NOW)
    before = held.ledger.generation
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))

    talk.answers("11")
    talk.answers()

    assert talk.result == BOUND
    assert held.ledger.freed_since(before) == frozenset()


def test_cards_are_chosen_again_under_the_lock_when_the_node_has_changed_meanwhile() -> None:
    pod = pending("p1", clusters.asks(memory_mib=20000))
    held = known(pod)
    put_node(held, version="11", register=TWO_CARDS)
    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    held_by_pod = held.ledger.holding(pod.key.uid)
    assert held_by_pod is not None
    (card,) = held_by_pod.charges["NVIDIA"]
    put_node(held, version="12", register=TWO_CARDS, cordoned=[card])

    talk.fails(effects.Conflict("409"))
    talk.answers("13")

    text = talk.expects(effects.BindPod).annotations["hami.io/vgpu-devices-allocated"]
    other = {"GPU-a0": "GPU-a1", "GPU-a1": "GPU-a0"}[card]
    assert text == f"{other},NVIDIA,20000,0:;"


def test_a_binding_that_the_watch_shows_before_its_answer_is_not_waited_for() -> None:
    pod = pending()
    held = known(pod)

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.expects(effects.BindPod)
    held.ledger.observe(bound(pod))
    talk.answers()

    assert talk.result == BOUND
    assert not held.bound, "no later event of that pod may ever come"


def test_a_binding_whose_pod_is_gone_before_its_answer_is_not_waited_for() -> None:
    pod = pending()
    held = known(pod)

    talk = Dialogue(bind.bind(held, bind_args(pod), NOW))
    talk.answers("11")
    talk.expects(effects.BindPod)
    held.ledger.forget(pod.key.uid)
    talk.answers()

    assert not held.bound
