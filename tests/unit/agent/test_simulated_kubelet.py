import asyncio

import pytest

from support.agent_world import LOCK, PHASE, TO_ALLOCATE, bound_pod, pod_path, world
from support.fake_kube import FakeKube
from vgpu_operator.kube import errors

ONE_NODE = {"name": "sim-1", "cards": 2}
ENTRY = "GPU-sim-1-0,NVIDIA,1000,10:;"


def requests(w):
    return [(r.verb, r.path.rsplit("/api/v1/", 1)[1]) for r in w.kube.requests if r.verb != "WATCH"]


async def settle():
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_bound_pod_is_served_in_four_requests_and_one_for_its_status():
    async with world(ONE_NODE) as w:
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Running")

        assert w.notes("p1")[TO_ALLOCATE] == ";;"
        assert w.notes("p1")[PHASE] == "success"
        assert LOCK not in w.node_notes()
        assert w.pod("p1")["status"]["startTime"] == "2026-01-15T10:00:00Z"
        assert requests(w) == [
            ("GET", "nodes/sim-1"),
            ("PATCH", "namespaces/default/pods/p1"),
            ("PATCH", "namespaces/default/pods/p1"),
            ("PATCH", "nodes/sim-1"),
            ("PATCH", "namespaces/default/pods/p1/status"),
        ]


async def test_containers_are_served_one_by_one_init_containers_first():
    async with world(ONE_NODE) as w:
        text = "GPU-sim-1-0,NVIDIA,1,1:;;GPU-sim-1-0,NVIDIA,2,2:GPU-sim-1-1,NVIDIA,2,2:;"
        w.bind("p1", text, init_asks=[1], asks=[0, 2])
        await w.until_phase("p1", "Running")

        blanks = [
            r.body["metadata"]["annotations"].get(TO_ALLOCATE)
            for r in w.kube.sent("PATCH", "pods/p1")
            if "status" not in r.path
        ]
        assert blanks == [
            ";;GPU-sim-1-0,NVIDIA,2,2:GPU-sim-1-1,NVIDIA,2,2:;;",
            ";;;;;",
            None,
        ]
        init = w.pod("p1")["status"]["initContainerStatuses"][0]
        assert init["state"]["terminated"]["exitCode"] == 0
        assert "running" in w.pod("p1")["status"]["containerStatuses"][1]["state"]


async def test_a_pod_without_cards_simply_runs():
    async with world(ONE_NODE) as w:
        w.kube.put(pod_path("plain"), bound_pod("plain", None, asks=[0]))
        await w.until_phase("plain", "Running")

        assert [verb for verb, _ in requests(w)] == ["PATCH"]


async def test_pods_of_other_nodes_and_pods_that_run_are_left_alone():
    async with world(ONE_NODE) as w:
        w.kube.put(pod_path("other"), bound_pod("other", ENTRY, node="real-1"))
        running = bound_pod("runs", ENTRY)
        w.kube.put(pod_path("runs"), {**running, "status": {"phase": "Running", "startTime": "x"}})
        await settle()

        assert requests(w) == []


async def test_without_a_kubelet_no_status_is_written():
    async with world({**ONE_NODE, "kubelet": False}) as w:
        w.bind("p1", ENTRY)
        await w.kube.until(lambda: LOCK not in w.node_notes())
        await settle()

        assert w.pod("p1")["status"] == {"phase": "Pending"}
        assert w.notes("p1")[PHASE] == "success"


async def test_a_pod_that_cannot_be_served_is_rejected_as_a_kubelet_does():
    async with world(ONE_NODE) as w:
        w.bind("p1", ENTRY, asks=[2])
        await w.until_phase("p1", "Failed")

        assert w.pod("p1")["status"]["reason"] == "UnexpectedAdmissionError"
        assert w.pod("p1")["status"]["message"] == (
            "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = "
            "device number not matched, which is unexpected"
        )
        assert w.notes("p1")[PHASE] == "failed"
        assert LOCK not in w.node_notes()


async def test_two_containers_and_one_entry_is_success_then_failed():
    async with world(ONE_NODE) as w:
        w.bind("p1", ENTRY, asks=[1, 1])
        await w.until_phase("p1", "Failed")

        phases = [
            r.body["metadata"]["annotations"][PHASE]
            for r in w.kube.sent("PATCH", "pods/p1")
            if PHASE in r.body["metadata"].get("annotations", {})
        ]
        assert phases == ["success", "failed"]


async def test_the_lock_of_a_running_pod_harms_that_pod_and_rejects_the_new_one():
    async with world(ONE_NODE) as w:
        w.bind("victim", ENTRY)
        await w.until_phase("victim", "Running")
        w.lock("2026-01-15T10:00:00Z,default,victim")
        w.kube.put(pod_path("stranger"), bound_pod("stranger", ENTRY))
        await w.until_phase("stranger", "Failed")

        assert w.notes("victim")[PHASE] == "failed"
        assert w.phase("victim") == "Running"
        assert w.notes("stranger")[PHASE] == "allocating"
        assert LOCK not in w.node_notes()


async def test_a_lock_that_was_handed_over_is_left_alone():
    async with world({**ONE_NODE, "delay": "1s"}) as w:
        w.bind("p1", ENTRY)
        await w.kube.until(lambda: w.pod("p1") != {})
        await settle()
        w.kube.fail_next("PATCH", "nodes/sim-1", errors.Conflict("moved on", status=409))
        w.sleep.end(1.0)
        await w.kube.until(lambda: w.notes("p1")[PHASE] == "success")
        w.lock("2026-01-15T10:00:01Z,default,p2")
        await w.until_phase("p1", "Running")

        assert w.node_notes()[LOCK] == "2026-01-15T10:00:01Z,default,p2"


async def test_pods_of_one_node_wait_for_each_other_and_other_nodes_do_not():
    async with world({"prefix": "sim-", "count": 2, "cards": 2, "delay": 1}) as w:
        w.bind("p1", ENTRY)
        w.kube.put(pod_path("p2"), bound_pod("p2", ENTRY))
        w.bind("p3", "GPU-sim-2-0,NVIDIA,1,1:;", node="sim-2")
        await settle()

        assert w.sleep.asleep(1.0) == 2
        w.sleep.end(1.0)
        await w.until_phase("p1", "Running")
        await w.until_phase("p3", "Running")
        assert w.phase("p2") == "Pending"
        w.lock("2026-01-15T10:00:01Z,default,p2")
        await settle()
        w.sleep.end(1.0)
        await w.until_phase("p2", "Running")


async def test_a_plugin_that_never_answers_holds_up_the_node_until_it_does():
    async with world({**ONE_NODE, "failures": {"neverAnswer": True}}) as w:
        w.bind("p1", ENTRY)
        w.kube.put(pod_path("plain"), bound_pod("plain", None, asks=[0]))
        await settle()
        assert requests(w) == []

        w.sim.node("sim-1").set_failure(never_answer=False)
        await w.until_phase("p1", "Running")
        await w.until_phase("plain", "Running")


async def test_a_plugin_that_fails_marks_the_pod_and_frees_the_lock():
    async with world({**ONE_NODE, "failures": {"fail": True}}) as w:
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Failed")

        assert w.notes("p1")[PHASE] == "failed"
        assert w.notes("p1")[TO_ALLOCATE] == ENTRY
        assert LOCK not in w.node_notes()


async def test_a_node_that_dies_after_the_first_container_goes_on_when_it_is_back():
    async with world({**ONE_NODE, "failures": {"dieAfterFirstContainer": True}}) as w:
        w.bind("p1", "GPU-sim-1-0,NVIDIA,1,1:;GPU-sim-1-1,NVIDIA,2,2:;", asks=[1, 1])
        await w.kube.until(lambda: w.pod("p1") and w.notes("p1")[TO_ALLOCATE].startswith(";"))
        await settle()
        assert w.notes("p1")[TO_ALLOCATE] == ";GPU-sim-1-1,NVIDIA,2,2:;;"
        assert w.notes("p1")[PHASE] == "allocating"
        assert w.node_notes()[LOCK].endswith(",p1")

        w.sim.node("sim-1").resume()
        await w.until_phase("p1", "Running")
        assert w.notes("p1")[PHASE] == "success"


async def test_a_paused_node_does_nothing_and_catches_up_when_resumed():
    async with world(ONE_NODE) as w:
        w.sim.node("sim-1").pause()
        w.bind("p1", ENTRY)
        await settle()
        assert requests(w) == []

        w.sim.node("sim-1").resume()
        await w.until_phase("p1", "Running")


async def test_a_kubelet_without_plugin_rejects_and_leaves_annotations_and_lock():
    async with world(ONE_NODE) as w:
        await w.sim.node("sim-1").vanish()
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Failed")

        assert w.pod("p1")["status"]["message"] == (
            "Pod was rejected: Allocate failed due to no healthy devices present; "
            "cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
        )
        assert w.notes("p1")[PHASE] == "allocating"
        assert w.node_notes()[LOCK].endswith(",p1")


async def test_a_deleted_pod_is_let_go():
    async with world(ONE_NODE) as w:
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Running")
        await w.kube.delete(pod_path("p1"))
        await w.kube.until(lambda: w.pod("p1") == {})


async def test_a_pod_deleted_while_the_plugin_does_not_answer_frees_the_queue():
    async with world({**ONE_NODE, "failures": {"neverAnswer": True}}) as w:
        w.bind("p1", ENTRY)
        w.kube.put(pod_path("plain"), bound_pod("plain", None, asks=[0]))
        await settle()
        await w.kube.delete(pod_path("p1"))
        await w.until_phase("plain", "Running")
        await w.kube.until(lambda: w.pod("p1") == {})
        assert [r.verb for r in w.kube.sent("PATCH", "pods/p1")] == []


@pytest.mark.parametrize(
    ("left", "phase", "ends"),
    [
        pytest.param(ENTRY + ENTRY, "allocating", "Running", id="nothing served"),
        pytest.param(f";{ENTRY};", "allocating", "Running", id="one of two served"),
        pytest.param(";;;;", "success", "Running", id="all served, not yet running"),
        pytest.param(";;;;", "allocating", "Failed", id="died between entry and phase"),
    ],
)
async def test_a_started_agent_serves_what_is_bound_already(left, phase, ends):
    kube = FakeKube()
    pod = bound_pod("p1", ENTRY + ENTRY, asks=[1, 1], left=left, phase=phase)
    kube.put(pod_path("p1"), pod)
    kube.put(
        "/api/v1/nodes/sim-1",
        {"metadata": {"annotations": {LOCK: "2026-01-15T10:00:00Z,default,p1"}}},
    )

    async with world(ONE_NODE, kube) as w:
        await w.until_phase("p1", ends)

        assert w.notes("p1")[PHASE] == ("success" if ends == "Running" else "failed")


async def test_a_watch_that_is_too_old_lists_again_and_loses_nothing():
    async with world(ONE_NODE) as w:
        await settle()
        w.kube.fail_next("WATCHING", "pods", errors.Expired("410", status=410))
        w.kube.put(pod_path("plain"), bound_pod("plain", None, asks=[0], node="real-1"))
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Running")

        assert ("GET", "pods") in requests(w)


async def test_a_watch_that_breaks_is_opened_again():
    async with world(ONE_NODE) as w:
        await settle()
        w.kube.fail_next("WATCHING", "pods", errors.Unreachable("reset"))
        w.kube.put(pod_path("other"), bound_pod("other", ENTRY, node="real-1"))
        await settle()
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Running")

        assert len(w.kube.sent("WATCH")) == 2


async def test_an_api_server_that_is_away_costs_no_pod():
    async with world(ONE_NODE) as w:
        w.kube.fail_next("PATCH", "pods/p1", errors.Unreachable("refused"))
        w.kube.fail_next("GET", "nodes/sim-1", errors.TooMany("slow down", status=429))
        w.bind("p1", ENTRY)
        for _ in range(2):
            await settle()
            w.sleep.end(0.5)
        await w.until_phase("p1", "Running")

        assert w.notes("p1")[PHASE] == "success"


async def test_a_deletion_that_an_answer_shows_before_the_watch_is_seen():
    async with world(ONE_NODE) as w:
        w.bind("p1", ENTRY)
        await w.until_phase("p1", "Running")
        raw = w.pod("p1")
        version = str(int(raw["metadata"]["resourceVersion"]) + 1000)
        going = {"deletionTimestamp": "2026-01-15T10:00:00Z", "resourceVersion": version}
        answer = {**raw, "metadata": {**raw["metadata"], **going}}

        w.sim.node("sim-1").kubelet.remember_pod(answer)

        await w.kube.until(lambda: w.pod("p1") == {})


async def test_containers_end_after_their_time_and_within_the_grace_period():
    async with world({**ONE_NODE, "stop": "4s"}) as w:
        for name, grace_s in (("patient", 9), ("hasty", 3), ("at-once", 0)):
            w.bind(name, ENTRY)
            await w.until_phase(name, "Running")
            raw = w.pod(name)
            going = {
                "deletionTimestamp": "2026-01-15T10:00:00Z",
                "deletionGracePeriodSeconds": grace_s,
            }
            w.kube.put(pod_path(name), {**raw, "metadata": {**raw["metadata"], **going}})
            await settle()

        await w.kube.until(lambda: w.pod("at-once") == {})
        assert (w.sleep.asleep(4.0), w.sleep.asleep(3.0)) == (1, 1)
        assert w.phase("patient") == w.phase("hasty") == "Running"
        w.sleep.end(3.0)
        await w.kube.until(lambda: w.pod("hasty") == {})
        w.sleep.end(4.0)
        await w.kube.until(lambda: w.pod("patient") == {})
