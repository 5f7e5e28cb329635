"""Right annotations and locks: recorded with HAMi v2.10.0's NVIDIA plugin."""

import dataclasses
import json

import pytest

from support.allocate_script import (
    GET_NODE,
    GET_POD,
    LIST_PODS,
    PHASE,
    TO_ALLOCATE,
    call,
    node,
    pod,
    unlock,
    write,
)
from support.conversation import converse
from vgpu_operator.flows import effects
from vgpu_operator.model import allocation

GPU_A = allocation.DeviceShare(
    device_id="GPU-a0", vendor_word="NVIDIA", memory_mib=3000, cores_percent=30
)


def test_one_container_is_served_in_the_four_requests_and_a_watched_pod():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock(), node(None, version="8")),
        ],
    )

    assert result.error == ""
    assert result.entry == 0
    assert result.shares == (GPU_A,)
    assert result.pod == pod(";;", "success")


def test_the_first_of_two_containers_leaves_phase_and_lock_alone():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,2000,10:;GPU-a1,NVIDIA,5000,40:;")),
            (
                write(TO_ALLOCATE, ";GPU-a1,NVIDIA,5000,40:;;"),
                pod(";GPU-a1,NVIDIA,5000,40:;;"),
            ),
        ],
    )

    assert (result.error, result.entry) == ("", 0)


def test_the_second_of_two_containers_ends_the_turn():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(";GPU-a1,NVIDIA,5000,40:;;")),
            (write(TO_ALLOCATE, ";;;;"), pod(";;;;")),
            (write(PHASE, "success"), pod(";;;;", "success")),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.entry) == ("", 1)


@pytest.mark.parametrize(
    ("text", "left", "entry"),
    [
        pytest.param(";GPU-a0,NVIDIA,3000,30:;", ";;;", 1, id="plain container first"),
        pytest.param("GPU-a0,NVIDIA,3000,30:;;", ";;;", 0, id="plain container last"),
        pytest.param("GPU-a0,Tesla T4,3000,30:;", ";;", 0, id="model name as type word"),
        pytest.param("GPU-zz,NVIDIA,3000,30:;", ";;", 0, id="card that the node does not have"),
    ],
)
def test_position_picks_the_container_and_the_entry_is_believed(text, left, entry):
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(text)),
            (write(TO_ALLOCATE, left), pod(left)),
            (write(PHASE, "success"), pod(left, "success")),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.entry) == ("", entry)


def test_two_cards_of_one_container_are_one_call():
    result = converse(
        call(2),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a3,NVIDIA,7000,25:GPU-a2,NVIDIA,7000,25:;")),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock(), node(None)),
        ],
    )

    assert [share.device_id for share in result.shares] == ["GPU-a3", "GPU-a2"]


@pytest.mark.parametrize("phase", ["allocating", "failed", None])
def test_a_pod_that_the_lock_names_needs_nothing_but_its_entries(phase):
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;", phase)),
            (write(TO_ALLOCATE, ";;"), pod(";;", phase)),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


def test_without_a_lock_the_first_pending_pod_of_the_node_is_served():
    text = "GPU-a0,NVIDIA,3000,30:;"
    others = (
        pod(text, name="runs", status="Running"),
        pod(text, "failed", name="failed"),
        pod(text, None, name="phaseless"),
    )

    result = converse(
        call(),
        [
            (GET_NODE, node(None)),
            (LIST_PODS, (*others, pod(text), pod(text, name="later"))),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (GET_NODE, node(None)),
        ],
    )

    assert result.error == ""


def test_a_lock_that_appeared_during_the_call_is_freed_too():
    converse(
        call(),
        [
            (GET_NODE, node(None)),
            (LIST_PODS, (pod("GPU-a0,NVIDIA,3000,30:;"),)),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (GET_NODE, node(version="9")),
            (unlock("9"), node(None)),
        ],
    )


def test_a_lock_in_the_old_form_names_nobody_and_is_freed():
    converse(
        call(),
        [
            (GET_NODE, node("2026-01-15T10:00:00Z")),
            (LIST_PODS, (pod("GPU-a0,NVIDIA,3000,30:;"),)),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock(), node(None)),
        ],
    )


def test_a_conflict_at_the_release_reads_the_node_again():
    converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock("7"), effects.Conflict("moved on")),
            (GET_NODE, node(version="9")),
            (unlock("9"), node(None)),
        ],
    )


def test_a_lock_handed_over_at_success_is_left_alone():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock("7"), effects.Conflict("moved on")),
            (GET_NODE, node("2026-01-15T10:00:01Z,default,p2", version="8")),
        ],
    )

    assert result.error == ""


def test_a_part_of_a_card_is_named_in_the_same_request():
    key = "hami.io/vgpu-mig-allocations"
    layout = (
        '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb",'
        '"placement":{"start":6,"size":1}},'
        '{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb",'
        '"placement":{"start":2,"size":2}}]'
    )
    waiting = pod(";GPU-a,NVIDIA,10240,28:;")
    waiting = dataclasses.replace(waiting, annotations={**waiting.annotations, key: layout})
    steps = call()
    steps.send(None)
    steps.send(node())

    written = steps.send(waiting).annotations

    first, second = json.loads(written[key])
    assert written[TO_ALLOCATE] == ";;;"
    assert "migUUID" not in first
    assert second["migUUID"].startswith("MIG-")
    assert (second["gpuInstanceID"], second["computeInstanceID"]) == (3, 0)
