"""Each invariant's check finds the hand-made case that it is for, and passes what is right."""

import copy
import json
from typing import Any

import pytest

from simulation import history, invariants, oracle, preemption
from simulation.invariants import Capacities
from simulation.server import Change
from vgpu_operator.flows import books as flow_books
from vgpu_operator.model import settings

REGISTER = '[{"id":"g0","count":2,"devmem":1000,"devcore":100,"type":"T","health":true}]'
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


def node(**more: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "metadata": {"name": "n1", "annotations": {"hami.io/node-nvidia-register": REGISTER}},
        "status": {"allocatable": {"nvidia.com/gpu": "2"}},
    }
    raw["metadata"]["annotations"] |= more
    return raw


def pod(name: str, text: str = "g0,NVIDIA,500,50:;", **changes: Any) -> dict[str, Any]:
    """Return a pod that is bound to n1 with that promise and waits for its plugin."""
    limits = {"nvidia.com/gpu": "1"}
    raw: dict[str, Any] = {
        "metadata": {
            "name": name,
            "annotations": {
                "hami.io/vgpu-node": "n1",
                "hami.io/bind-phase": "allocating",
                ALLOCATED: text,
                TO_ALLOCATE: text,
            },
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }
    for place, value in changes.items():
        raw[place] = {**raw[place], **value}
    return raw


def cluster(*pods: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {f"/api/v1/namespaces/team/pods/{raw['metadata']['name']}": raw for raw in pods}
    return {"/api/v1/nodes/n1": node(), **found}


def capacities() -> Capacities:
    made = Capacities()
    made.learn(node())
    return made


@pytest.mark.parametrize(
    ("texts", "broken"),
    [
        (["g0,NVIDIA,500,50:;", "g0,NVIDIA,500,50:;"], False),
        (["g0,NVIDIA,500,50:;", "g0,NVIDIA,501,50:;"], True),
        (["g0,NVIDIA,500,51:;", "g0,NVIDIA,500,50:;"], True),
        (["g0,NVIDIA,1,1:;", "g0,NVIDIA,1,1:;", "g0,NVIDIA,1,1:;"], True),
        (["elsewhere,NVIDIA,1,1:;"], True),
    ],
    ids=["full", "memory", "cores", "slots", "no such card"],
)
def test_1_a_card_that_is_promised_too_often_is_found(texts: list[str], broken: bool) -> None:
    objects = cluster(*(pod(f"p{i}", text) for i, text in enumerate(texts)))
    assert bool(list(invariants.overpromised(objects, capacities(), "n1"))) is broken


def test_1_an_ended_pod_holds_nothing() -> None:
    over = pod("over", "g0,NVIDIA,900,90:;", status={"phase": "Succeeded"})
    objects = cluster(over, pod("runs", "g0,NVIDIA,900,90:;"))
    assert not list(invariants.overpromised(objects, capacities(), "n1"))


def test_1_init_containers_count_at_their_most_until_they_are_done() -> None:
    text = "g0,NVIDIA,900,90:;g0,NVIDIA,400,40:;"
    early = pod("early", text)
    early["spec"] = {**early["spec"], "initContainers": early["spec"]["containers"]}
    late = copy.deepcopy(early)
    late["status"] = {"phase": "Running", "containerStatuses": [{}]}
    card = ("n1", "NVIDIA", "g0")
    assert oracle.held(early)[card] == oracle.Amount(slots=1, memory=900, cores=90)
    assert oracle.held(late)[card] == oracle.Amount(slots=1, memory=400, cores=40)


def test_2_a_binding_without_promise_and_a_promise_without_binding_are_found() -> None:
    whole = pod("whole")
    unpromised = pod("p", metadata={"annotations": {}})
    unbound = pod("p")
    unbound["spec"] = {"containers": unbound["spec"]["containers"]}
    elsewhere = pod("p")
    elsewhere["spec"] = {**elsewhere["spec"], "nodeName": "n2"}
    assert not list(invariants.torn(whole))
    for raw in (unpromised, unbound, elsewhere):
        assert list(invariants.torn(raw))


def test_2_a_container_without_entry_is_found() -> None:
    raw = pod("p")
    raw["spec"] = {**raw["spec"], "containers": raw["spec"]["containers"] * 2}
    assert list(invariants.torn(raw))


def test_4_a_card_may_leave_when_it_is_delisted_or_its_node_goes_or_it_has_expired() -> None:
    card = ("n1", "NVIDIA", "g0")
    asked = {"hami.io/node-handshake": "Requesting_2026-03-01 08:00:00"}
    at_eight = 1772352000.0

    def may(before: Any, after: Any, seconds: float = 100.0) -> bool:
        change = Change(version=1, path="/api/v1/nodes/n1", before=before, after=after)
        return invariants.may_have_left([change], card, now_s=at_eight + seconds, limit_s=60)

    nothing = node(**asked)
    nothing["status"] = {"allocatable": {"nvidia.com/gpu": "0"}}
    assert may(node(), None)
    assert may(node(), node(**{"hami.io/node-nvidia-register": "[]"}))
    assert may(node(**asked), nothing)
    assert not may(node(**asked), nothing, seconds=59)
    assert not may(node(), node(**asked))
    assert not may(node(), node(**{"hami.io/node-nvidia-register": "nonsense"}))
    assert not may(None, node())


def test_6_two_pods_of_one_node_that_wait_for_their_plugin_are_found() -> None:
    served = pod("served")
    served["metadata"]["annotations"] |= {"hami.io/bind-phase": "success", TO_ALLOCATE: ";"}
    admitted = pod("admitted", status={"phase": "Pending", "startTime": "2026-03-01T08:00:00Z"})
    assert list(invariants.crowded(cluster(pod("a"), pod("b")), "n1"))
    assert not list(invariants.crowded(cluster(pod("a"), served, admitted), "n1"))


def test_6_a_pod_that_gets_anothers_cards_is_found() -> None:
    assert list(invariants.misserved("n1", "team/a", "team/b"))
    assert not list(invariants.misserved("n1", "team/a", "team/a"))


def test_7_a_node_that_is_refused_without_a_reason_is_found() -> None:
    answer = {"NodeNames": ["n1"], "FailedNodes": {"n2": "1/1 CardInsufficientMemory"}}
    assert not list(invariants.unexplained(pod("p"), ("n1", "n2"), answer))
    assert list(invariants.unexplained(pod("p"), ("n1", "n2", "n3"), answer))
    silent = {"NodeNames": [], "FailedNodes": {"n1": ""}}
    assert list(invariants.unexplained(pod("p"), ("n1",), silent))


# Preemption.


def ranked(name: str, priority: int, victims: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a pod of that priority, nominated where others leave for it."""
    raw = pod(name)
    raw["spec"] = {**raw["spec"], "priority": priority}
    mark = {"node": "n1", "until": "2026-03-01T08:05:00Z", "victims": list(victims)}
    notes = {oracle.NOMINATION: json.dumps(mark)} if victims else {}
    raw["metadata"] = {"name": name, "uid": f"uid-{name}", "annotations": notes}
    return raw


def marks(*pods: dict[str, Any]) -> preemption.Marks:
    made = preemption.Marks()
    for raw in pods:
        path = f"/api/v1/namespaces/team/pods/{raw['metadata']['name']}"
        made.learn(Change(version=1, path=path, before=None, after=raw))
    return made


def test_10_an_eviction_that_no_nomination_names_is_found() -> None:
    told = history.write(0)
    high = ranked("high", 1000, ("uid-low",))

    assert not list(marks(high).evicted(ranked("low", 0), told))
    assert list(marks(high).evicted(ranked("other", 0), told))
    assert list(marks().evicted(ranked("low", 0), told))


def test_10_an_eviction_for_an_equal_or_a_lower_priority_is_found() -> None:
    told = history.write(0)

    for priority in (1000, 1001):
        victim = ranked("low", priority)
        assert list(marks(ranked("high", 1000, ("uid-low",))).evicted(victim, told))


def test_11_an_exchange_is_counted_over_all_that_come_in_a_pods_place() -> None:
    told = history.write(0)
    made = marks(ranked("high", 1000, ("uid-low", "uid-low.1", "uid-low.2")))
    for name in ("low", "low.1", "low.2"):
        list(made.evicted(ranked(name, 0), told))

    assert list(made.exchanges(2)) == ["low was evicted 3 times for high"]
    assert not list(made.exchanges(3))


def test_11_a_nomination_that_is_left_on_a_pod_is_found() -> None:
    books = flow_books.open_books(settings.Settings(), ())
    objects = {"/api/v1/namespaces/team/pods/high": ranked("high", 1000, ("uid-low",))}

    assert list(preemption.unended(objects, books)) == ["high still carries a nomination"]
    assert not list(preemption.unended({}, books))
