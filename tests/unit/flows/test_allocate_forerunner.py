"""The forerunner's plugin: no name in its lock, one text for all vendors, no ``;`` at the end."""

import pytest

from support.allocate_script import GET_NODE, LIST_PODS
from support.conversation import converse
from vgpu_operator.flows import allocate, effects_agent
from vgpu_operator.wire import dialects

LOCK, TO_ALLOCATE, PHASE = "4pd.io/mutex.lock", "4pd.io/devices-to-allocate", "4pd.io/bind-phase"
A, B = "GPU-a,NVIDIA,3000,0:", "GPU-b,NVIDIA,5000,0:"


def call(devices: int = 1):
    return allocate.allocate(
        allocate.AllocateCall(
            node="n1",
            device_count=devices,
            to_allocate_key=TO_ALLOCATE,
            lock_key=LOCK,
            dialect=dialects.FORERUNNER,
        )
    )


def node(lock: str | None = "2026-01-15T10:00:00Z") -> effects_agent.NodeSeen:
    notes = {} if lock is None else {LOCK: lock}
    return effects_agent.NodeSeen(name="n1", resource_version="7", annotations=notes)


def pod(text: str, phase: str = "allocating", name: str = "p1") -> effects_agent.PodSeen:
    notes = {
        "4pd.io/bind-time": "1768471200",
        "4pd.io/vgpu-node": "n1",
        PHASE: phase,
        TO_ALLOCATE: text,
    }
    return effects_agent.PodSeen(namespace="default", name=name, phase="Pending", annotations=notes)


def write(key: str, value: str) -> effects_agent.PatchPod:
    return effects_agent.PatchPod(namespace="default", name="p1", annotations={key: value})


def test_the_pod_that_is_allocating_is_served_and_one_that_was_served_is_passed_over():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (LIST_PODS, (pod("", "success", "p0"), pod(A))),
            (write(TO_ALLOCATE, ""), pod("")),
            (write(PHASE, "success"), pod("", "success")),
            (
                effects_agent.PatchNode(name="n1", resource_version="7", annotations={LOCK: None}),
                node(None),
            ),
        ],
    )

    assert (result.error, [share.device_id for share in result.shares]) == ("", ["GPU-a"])


@pytest.mark.parametrize(("text", "left"), [(f"{A};{B}", f";{B}"), (f"{A}{B}", B)])
def test_the_first_containers_part_is_struck_in_either_form(text: str, left: str):
    result = converse(
        call(),
        [(GET_NODE, node()), (LIST_PODS, (pod(text),)), (write(TO_ALLOCATE, left), pod(left))],
    )

    assert (result.error, [share.device_id for share in result.shares]) == ("", ["GPU-a"])
