"""A node that changes its dialect while a pod is on its way there: other locks, other texts."""

from support.dialogue import Dialogue
from support.operator_books import (
    FRESH_STAMP,
    NOW,
    bind_args,
    later,
    open_books,
    register_text,
)
from support.pods import container, pod
from vgpu_operator.flows import bind, books, effects, pod_events, register
from vgpu_operator.flows.turns import Turns, Waiter
from vgpu_operator.model import records
from vgpu_operator.vendors import records as readers

OLD_LOCK, LOCK = "4pd.io/mutex.lock", "hami.io/mutex.lock"
CARD = register_text(("GPU-a0", 24576))
OLD = {"4pd.io/node-nvidia-register": CARD, "4pd.io/node-handshake": FRESH_STAMP}
TODAY = {"hami.io/node-nvidia-register": CARD, "hami.io/node-handshake": FRESH_STAMP}
OLD_TEXT = "2026-01-15T10:00:00Z"


def see(held: books.Books, version: int, texts: dict[str, str]) -> None:
    """Let the books see node-a with those annotations."""
    raw = {
        "metadata": {
            "name": "node-a",
            "uid": "n1",
            "resourceVersion": str(version),
            "annotations": texts,
        },
        "status": {"allocatable": {"nvidia.com/gpu": "10"}},
    }
    register.node_seen(held, readers.node_record(raw, held.vendors), NOW)


def see_pod(
    held: books.Books, name: str, *, version: int = 5, node: str = "", **annotations: str
) -> records.PodRecord:
    raw = pod(container(gpu=1, mem=1000), annotations=annotations, schedulerName="hami-scheduler")
    raw["metadata"] |= {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    if node:
        raw["spec"]["nodeName"] = node
    record = readers.pod_record(raw, held.vendors, aliases={})
    pod_events.pod_seen(held, record)
    return record


def begun(held: books.Books, name: str) -> Dialogue:
    """Return the bind of that pod, under way as the shell would have it."""
    record = see_pod(held, name)
    held.binding.add(record.key.uid)
    return Dialogue(bind.bind(held, bind_args(record), NOW))


def test_a_pod_that_waits_takes_the_lock_that_the_node_has_when_its_turn_comes() -> None:
    held = open_books()
    owner = {
        "4pd.io/vgpu-node": "node-a",
        "4pd.io/vgpu-ids-new": "GPU-a0,NVIDIA,1000,0:",
        "4pd.io/bind-phase": "allocating",
    }
    see(held, 10, OLD | {OLD_LOCK: OLD_TEXT})
    due = {"4pd.io/devices-to-allocate": "GPU-a0,NVIDIA,1000,0:"}
    see_pod(held, "p0", version=6, node="node-a", **owner, **due)
    talk = begun(held, "p1")
    talk.expects(effects.AwaitChange)

    see(held, 11, TODAY | {OLD_LOCK: OLD_TEXT})
    talk.answers(NOW)
    talk.expects(effects.AwaitChange)
    served = owner | {"4pd.io/bind-phase": "success", "4pd.io/devices-to-allocate": ";"}
    see_pod(held, "p0", version=7, node="node-a", **served)
    talk.answers(later(1))

    assert talk.expects(effects.PatchNode).annotations == {LOCK: "2026-01-15T10:00:01Z,team-a,p1"}
    talk.answers("12")
    talk.expects(effects.ListNodePods)
    talk.answers(())
    assert talk.expects(effects.BindPod).annotations["hami.io/bind-phase"] == "allocating"


def test_a_move_while_the_locks_write_is_out_gives_it_back_and_takes_the_other() -> None:
    held = open_books()
    see(held, 10, OLD)
    talk = begun(held, "p1")
    assert talk.expects(effects.PatchNode).annotations == {OLD_LOCK: OLD_TEXT}

    see(held, 12, TODAY | {OLD_LOCK: OLD_TEXT})
    talk.answers("11")
    talk.expects(effects.ListNodePods)
    talk.answers(())

    back = talk.expects(effects.PatchNode)
    assert (back.annotations, back.resource_version) == ({OLD_LOCK: None}, "12")
    talk.answers("13")
    lock = talk.expects(effects.PatchNode)
    assert lock.annotations == {LOCK: "2026-01-15T10:00:00Z,team-a,p1"}
    assert lock.resource_version == "13"
    talk.answers("14")
    binding = talk.expects(effects.BindPod)
    assert binding.annotations["hami.io/vgpu-devices-to-allocate"] == "GPU-a0,NVIDIA,1000,0:;"
    talk.answers()
    assert talk.result.error == ""


def test_a_move_while_the_pods_are_listed_is_seen_before_the_binding() -> None:
    held = open_books()
    see(held, 10, TODAY)
    talk = begun(held, "p1")
    talk.answers("11")
    talk.expects(effects.ListNodePods)

    see(held, 12, OLD | {LOCK: "2026-01-15T10:00:00Z,team-a,p1"})
    talk.answers(())

    assert talk.expects(effects.PatchNode).annotations == {LOCK: None}
    talk.answers("13")
    assert talk.expects(effects.PatchNode).annotations == {OLD_LOCK: OLD_TEXT}


def test_a_node_that_never_stops_moving_is_given_up_with_nothing_left_there() -> None:
    held = open_books()
    see(held, 10, OLD)
    talk = begun(held, "p1")
    standing = OLD
    for number in range(3):
        written = talk.expects(effects.PatchNode)
        standing = TODAY if standing is OLD else OLD
        version = 20 + 10 * number
        texts = {key: text for key, text in written.annotations.items() if text}
        see(held, version + 1, standing | texts)
        talk.answers(str(version))
        if isinstance(talk.asked[-1], effects.ListNodePods):
            talk.answers(())
        assert talk.expects(effects.PatchNode).annotations == dict.fromkeys(written.annotations)
        talk.answers(str(version + 2))

    assert talk.result.error == "node-a keeps changing its dialect; kube-scheduler tries again"
    assert held.nodes["node-a"].locks == {}
    assert held.ledger.holding("u-p1") is None
    assert len(held.turns) == 0


def test_a_waiter_keeps_its_place_when_it_wants_other_locks() -> None:
    turns = Turns()
    for uid in ("u1", "u2"):
        turns.join("node-a", Waiter(uid=uid, keys=(OLD_LOCK,)))

    turns.join("node-a", Waiter(uid="u1", keys=(LOCK,)))

    assert turns.heads("node-a") == ("u1", "u2")
    turns.join("node-a", Waiter(uid="u2", keys=(LOCK,)))
    assert turns.heads("node-a") == ("u1",)
    assert turns.waiting_at("node-a") == ("u1", "u2")
