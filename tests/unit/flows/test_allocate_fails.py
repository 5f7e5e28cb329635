"""Wrong annotations and locks: recorded with HAMi v2.10.0's NVIDIA plugin."""

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
from vgpu_operator.flows import effects, effects_agent


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("a,b;", "4 fields", id="fields are missing"),
        pytest.param("GPU-a0,NVIDIA,much,30:;", "memory", id="memory is a word"),
        pytest.param("garbage;", "no pending device allocation found", id="no device in it"),
        pytest.param(None, "device request not found", id="annotation missing"),
        pytest.param(
            "GPU-a0,NVIDIA,1,1:GPU-a1,NVIDIA,1,1:;", "device number not matched", id="one too many"
        ),
    ],
)
def test_a_pod_that_cannot_be_served_is_failed_and_unlocked(text, error):
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(text)),
            (write(PHASE, "failed"), pod(text, "failed")),
            (unlock(), node(None)),
        ],
    )

    assert error in result.error
    assert result.shares == ()


def test_a_second_call_without_a_second_entry_fails_the_served_pod():
    result = converse(
        call(),
        [
            (GET_NODE, node(None)),
            (LIST_PODS, (pod(";;", "success"),)),
            (write(PHASE, "failed"), pod(";;", "failed")),
            (GET_NODE, node(None)),
        ],
    )

    assert result.error == "no pending device allocation found"


def test_a_lock_of_a_running_pod_fails_that_pod():
    victim = pod(";;", "success", status="Running")

    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, victim),
            (write(PHASE, "failed"), pod(";;", "failed", status="Running")),
            (unlock(), node(None)),
        ],
    )

    assert result.error == "no pending device allocation found"
    assert result.pod == victim


def test_nobody_to_serve_writes_nothing():
    result = converse(call(), [(GET_NODE, node(None)), (LIST_PODS, ())])

    assert result.error == "no binding pod found on node n1"
    assert result.pod is None


@pytest.mark.parametrize(
    "left_out", ["hami.io/bind-time", "hami.io/bind-phase", "hami.io/vgpu-node"]
)
def test_without_a_lock_every_binding_annotation_is_needed(left_out):
    whole = pod("GPU-a0,NVIDIA,3000,30:;")
    notes = {key: text for key, text in whole.annotations.items() if key != left_out}
    lacking = effects_agent.PodSeen(namespace="default", name="p1", annotations=notes)

    result = converse(call(), [(GET_NODE, node(None)), (LIST_PODS, (lacking,))])

    assert result.error == "no binding pod found on node n1"


def test_a_lock_of_a_pod_that_is_gone_stays():
    result = converse(call(), [(GET_NODE, node()), (GET_POD, effects.Missing("p1 not found"))])

    assert result.error == "p1 not found"
    assert result.pod is None


def test_a_malformed_lock_stays():
    result = converse(call(), [(GET_NODE, node("x,y"))])

    assert "malformed lock" in result.error
    assert "3 parts" in result.error


def test_a_node_that_cannot_be_read_ends_the_call():
    result = converse(call(), [(GET_NODE, effects.Missing("no node"))])

    assert result.error == "no node"


def test_a_breakdown_of_the_plugin_fails_the_pod_that_it_found():
    result = converse(
        call(breakdown="driver lost"),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(PHASE, "failed"), pod("GPU-a0,NVIDIA,3000,30:;", "failed")),
            (unlock(), node(None)),
        ],
    )

    assert result.error == "driver lost"


def test_a_pod_deleted_before_its_entry_is_blanked_still_frees_the_lock():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(TO_ALLOCATE, ";;"), effects.Missing("p1 not found")),
            (write(PHASE, "failed"), effects.Missing("p1 not found")),
            (unlock(), node(None)),
        ],
    )

    assert result.error == "p1 not found"


def test_a_release_that_is_refused_is_given_up():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-a0,NVIDIA,3000,30:;")),
            (write(TO_ALLOCATE, ";;"), pod(";;")),
            (write(PHASE, "success"), pod(";;", "success")),
            (unlock(), effects.Denied("no right")),
        ],
    )

    assert result.error == ""
