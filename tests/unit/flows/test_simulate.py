import json

from support import operator_books, pods
from vgpu_operator.flows import simulate
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

NOW = operator_books.NOW


def world(**values):
    configured = settings.build(values)
    return simulate.Simulation(configured, registry.build(configured))


def node(name="node-a", *, register=operator_books.TWO_CARDS, lock=None, allocatable="20"):
    notes = {"hami.io/node-nvidia-register": register}
    if lock:
        notes["hami.io/mutex.lock"] = lock
    return {
        "metadata": {"name": name, "annotations": notes},
        "status": {"allocatable": {"nvidia.com/gpu": allocatable}},
    }


def pod(name="p1", **spec):
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-of-{name}"},
        "spec": {"containers": [pods.container(gpu=1, mem=1000)], **spec},
    }


def placed(one, raw=None, nodes=("node-a",)):
    record = one.record(one.admit(raw or pod()).pod)
    return one.place(record, nodes, NOW)


def test_a_pod_is_admitted_filtered_and_bound_on_paper():
    one = world()
    one.see_nodes([node()], NOW)

    found = placed(one)

    assert found.node == "node-a"
    assert found.scores == {"node-a": 0.0}
    assert found.bound.error == ""
    assert found.bound.annotations["hami.io/vgpu-devices-allocated"] == "GPU-a1,NVIDIA,1000,0:;"
    assert found.annotations == found.bound.annotations
    assert found.bound.node_annotations == {"hami.io/mutex.lock": "2026-01-15T10:00:00Z,team-a,p1"}
    assert [(card.device.id, card.used_memory_mib) for card in found.usage] == [("GPU-a1", 1000)]


def test_the_next_pod_sees_what_the_first_one_holds():
    one = world()
    one.see_nodes([node()], NOW)

    placed(one)

    assert [(card.device.id, card.used_slots) for card in one.usage("node-a")] == [("GPU-a1", 1)]


def test_a_held_lock_ends_the_bind_in_hamis_words():
    one = world()
    other = pod("other", nodeName="node-a")
    one.see_pods([{**other, "status": {"phase": "Running"}}])
    one.see_nodes([node(lock="2026-01-15T09:59:30Z,team-a,other")], NOW)

    found = placed(one)

    assert found.node == "node-a"
    assert found.bound.waited == ("node node-a has been locked within 5m0s: node lock contention")
    assert found.bound.error
    assert found.bound.node_annotations == {}


def test_members_of_a_group_wait_longer_in_hamis_words():
    one = world()
    other = pod("other", nodeName="node-a")
    one.see_pods([{**other, "status": {"phase": "Running"}}])
    one.see_nodes([node(lock="2026-01-15T09:59:30Z,team-a,other")], NOW)
    member = pod()
    member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}

    assert placed(one, member).bound.waited.startswith("timed out after 28s waiting for node")


def test_binpack_takes_the_fullest_node_and_spread_the_emptiest():
    for policy, wanted in (("binpack", "node-b"), ("spread", "node-a")):
        one = world(defaultSchedulerPolicy={"nodeSchedulerPolicy": policy})
        cards = operator_books.register_text(("GPU-b0", 24576))
        old = pod("old", nodeName="node-b")
        old["metadata"]["annotations"] = {
            "hami.io/vgpu-node": "node-b",
            "hami.io/vgpu-devices-allocated": "GPU-b0,NVIDIA,1000,0:;",
        }
        one.see_pods([old])
        one.see_nodes([node(), node("node-b", register=cards)], NOW)

        assert placed(one, nodes=("node-a", "node-b")).node == wanted


def test_what_registration_writes_is_returned_by_node():
    one = world()

    written = one.see_nodes([node(), node("node-b", register="[]")], NOW)

    stamp = {"hami.io/node-handshake": "Requesting_2026-01-15 10:00:00"}
    assert written == {"node-a": stamp, "node-b": stamp}


def test_a_node_that_is_no_longer_named_is_gone_and_may_come_again():
    one = world()
    one.see_nodes([node()], NOW)
    one.see_nodes([], NOW)

    assert one.devices("node-a") == {}
    assert placed(one).node is None

    one.see_nodes([node()], NOW)

    assert [card.id for card in one.devices("node-a")["NVIDIA"]] == ["GPU-a0", "GPU-a1"]


def test_nothing_that_is_handed_in_is_changed():
    raw_node, raw_pod = node(), pod()
    before = json.dumps([raw_node, raw_pod])
    one = world()
    one.see_nodes([raw_node], NOW)

    placed(one, raw_pod)

    assert json.dumps([raw_node, raw_pod]) == before
