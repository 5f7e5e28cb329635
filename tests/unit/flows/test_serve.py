"""Allocate as our node agent answers it: the right slice to the pod of the lock, or none."""

import pytest

from support.conversation import converse
from support.serve_script import (
    CARDS,
    DCU_TO_ALLOCATE,
    GET_FRESH,
    GET_NODE,
    GET_POD,
    LIST_PODS,
    PAUSE,
    PLUGIN,
    A,
    B,
    call,
    card,
    node,
    pod,
    prepare,
    tidy,
    unlock,
    whole_call,
    write,
)
from vgpu_operator.flows import effects, effects_agent, serve

# Served.


def test_one_container_is_served_in_two_reads_and_two_writes():
    served = pod(";", noted={"c0": ["GPU-a-0"]}, bind_phase="success", resource_version="6")
    result = converse(
        call("GPU-a-0"),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"), served),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""
    assert (result.pod, result.container) == (served, "c0")
    assert [(one.device_id, one.memory_mib, one.cores_percent) for one in result.shares] == [
        ("GPU-a", 3000, 30)
    ]


def test_the_first_of_two_containers_leaves_phase_and_lock_alone():
    result = converse(
        call("GPU-a-0"),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A + B, asks=(1, 1))),
            (
                write(left=";" + B, noted={"c0": ["GPU-a-0"]}),
                pod(";" + B, asks=(1, 1), noted={"c0": ["GPU-a-0"]}),
            ),
        ],
    )

    assert (result.error, result.container) == ("", "c0")


def test_the_second_of_two_containers_ends_the_turn():
    half = pod(";" + B, asks=(1, 1), noted={"c0": ["GPU-a-0"]}, resource_version="6")
    noted = {"c0": ["GPU-a-0"], "c1": ["GPU-b-3"]}
    result = converse(
        call("GPU-b-3", served={"u1": ("c0",)}),
        [
            (GET_NODE, node()),
            (GET_POD, half),
            (
                write("6", left=";;", noted=noted, phase="success"),
                pod(";;", asks=(1, 1), noted=noted, bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.container, result.shares[0].device_id) == ("", "c1", "GPU-b")


@pytest.mark.parametrize(
    ("text", "asks", "container"),
    [
        pytest.param(";" + A, (0, 1), "c1", id="a segment for each container"),
        pytest.param(A, (0, 1), "c1", id="HAMi's, that leaves out the empty ones before"),
        pytest.param(A + ";", (1, 0), "c0", id="the empty one behind"),
    ],
)
def test_an_entry_goes_to_the_container_that_asks(text, asks, container):
    left = text.replace(A, ";")
    result = converse(
        call("GPU-a-0"),
        [
            (GET_NODE, node()),
            (GET_POD, pod(text, asks=asks)),
            (
                write(left=left, noted={container: ["GPU-a-0"]}, phase="success"),
                pod(left, asks=asks, bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.container) == ("", container)


def test_noted_ids_of_a_copied_manifest_are_forgotten_with_the_first_container():
    result = converse(
        call("GPU-a-0"),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A, noted={"other": ["GPU-b-1"]})),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


def test_a_node_that_was_written_meanwhile_is_read_again_for_the_lock():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock("7"), effects.Conflict("the Node has moved on")),
            (GET_NODE, node(version="9")),
            (unlock("9"), node(None)),
        ],
    )

    assert result.error == ""


@pytest.mark.parametrize(
    "lock",
    [
        pytest.param("2026-01-15T10:00:01Z,default,p2", id="the next pod's"),
        pytest.param("2026-01-15T10:00:01Z,default,p1", id="a new pod's of the same name"),
        pytest.param(None, id="removed"),
    ],
)
def test_a_lock_that_was_handed_over_meanwhile_is_left_alone(lock):
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock("7"), effects.Conflict("the Node has moved on")),
            (GET_NODE, node(lock, version="9")),
        ],
    )

    assert result.error == ""


def test_a_pod_that_has_changed_is_read_and_judged_again():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                effects.Conflict("the Pod has moved on"),
            ),
            (GET_FRESH, pod("GPU-a,NVIDIA,4000,30:;", resource_version="8")),
            (
                write("8", left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert (result.error, result.shares[0].memory_mib) == ("", 4000)


def test_a_write_whose_answer_was_lost_is_not_made_twice():
    """A second container's entry must not go to the first because the first write came through."""
    noted = {"c0": ["GPU-a-0"]}
    result = converse(
        call("GPU-a-0"),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A + B, asks=(1, 1))),
            (write(left=";" + B, noted=noted), effects.Conflict("our own, sent again")),
            (GET_FRESH, pod(";" + B, asks=(1, 1), noted=noted, resource_version="6")),
        ],
    )

    assert (result.error, result.container, result.shares[0].device_id) == ("", "c0", "GPU-a")


def test_a_failure_whose_answer_was_lost_still_frees_the_lock_and_names_the_cause():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("garbage;")),
            (write(phase="failed"), effects.Conflict("our own, sent again")),
            (GET_FRESH, pod("garbage;", bind_phase="failed", resource_version="6")),
            (unlock(), node(None)),
        ],
    )

    assert "4 fields are wanted, got 'garbage'" in result.error
    assert result.pod is not None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("garbage;", bind_phase="failed", uid="u2"), id="a new pod of that name"),
        pytest.param(pod(A, bind_phase="failed"), id="promised something else"),
    ],
)
def test_a_failure_of_something_else_is_not_taken_for_our_own(other):
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("garbage;")),
            (write(phase="failed"), effects.Conflict("it has moved on")),
            (GET_FRESH, other),
            (GET_FRESH, other),
        ],
    )

    assert "whose hami.io/bind-phase is failed" in result.error
    assert result.pod is None


# What a container is given is made before its entry is taken.


def test_what_the_container_is_given_is_made_ready_before_its_entry_is_taken():
    result = converse(
        whole_call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (prepare(pod(A)), None),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


def test_a_pod_whose_things_cannot_be_made_is_failed():
    result = converse(
        whole_call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (prepare(pod(A)), effects.Denied("no space left on device")),
            (write(phase="failed"), pod(A, bind_phase="failed")),
            (unlock(), node(None)),
        ],
    )

    assert result.error == "pod default/p1, container c0: no space left on device"


# Whose call it cannot be: nothing is written.


@pytest.mark.parametrize(
    ("lock", "says"),
    [
        (None, "no pod holds the lock hami.io/mutex.lock of node n1"),
        ("2026-01-15T10:00:00Z", "names no pod"),
        ("x,y", "malformed lock: 3 parts are wanted"),
    ],
)
def test_a_lock_that_names_no_pod_refuses_the_call(lock, says):
    """Must hold 5."""
    result = converse(
        call(), [(GET_NODE, node(lock)), (LIST_PODS, ())][: 1 if lock == "x,y" else 2]
    )

    assert says in result.error
    assert result.pod is None


def test_a_lock_of_a_pod_that_is_gone_refuses_the_call():
    result = converse(
        call(), [(GET_NODE, node()), (GET_POD, effects.Missing("404")), (LIST_PODS, ())]
    )

    assert "names pod default/p1, which is gone" in result.error


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (pod(A, node=""), "is bound to no node"),
        (pod(A, node="n2"), "is bound to n2"),
        (pod(A, phase="Running"), "is Running"),
        (pod(A, phase="Failed"), "is Failed"),
        (pod(A, admitted=True), "the kubelet has taken in already"),
        (pod(A, promised="n2"), "promised on n2"),
        (pod(A, bind_phase="failed"), "whose hami.io/bind-phase is failed"),
        (pod(A, bind_phase="success"), "whose hami.io/bind-phase is success"),
        (pod(A, bind_phase=None), "whose hami.io/bind-phase is not set"),
        (pod(";"), "nothing left to allocate"),
        (pod(None), "nothing left to allocate"),
        (pod(A, asks=(0,)), "nothing left to allocate"),
        (pod("GPU-a,NVIDIA,1,1:GPU-b,NVIDIA,1,1:;", asks=(2,)), "asks for 2 of nvidia.com/gpu"),
    ],
)
def test_a_pod_whose_call_this_cannot_be_is_not_touched(seen, says):
    """Must hold 5: a by-passed pod's call harms nobody; what was remembered is read first."""
    result = converse(
        call(), [(GET_NODE, node()), (GET_POD, seen), (GET_FRESH, seen), (LIST_PODS, (seen,))]
    )

    assert says in result.error
    assert "create that one again" in result.error
    assert result.pod is None


def test_a_remembered_pod_is_read_before_its_call_is_refused():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(";", bind_phase="success")),
            (GET_FRESH, pod(A, resource_version="9")),
            (
                write("9", left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


# The pod is certain, and cannot be served: it fails, and its lock is freed.


@pytest.mark.parametrize(
    ("seen", "kinds", "says"),
    [
        (pod("GPU-a,NVIDIA,1,1:GPU-b,NVIDIA,1,1:;"), {}, "names 2 devices, and the kubelet asks"),
        (pod("GPU-a,NVIDIA,much,1:;"), {}, "memory must be an integer, got 'much'"),
        (pod("garbage;"), {}, "4 fields are wanted, got 'garbage'"),
        (pod("GPU-x,NVIDIA,1,1:;"), {}, "card GPU-x is not on this node"),
        (
            pod(A),
            {"cards": {**CARDS, "GPU-a": card("GPU-a", healthy=False)}},
            "card GPU-a is not healthy",
        ),
        (pod("GPU-a[0-1],NVIDIA,1,1:;"), {}, "is cut in MIG instances"),
        (pod("GPU-a,NVIDIA,24577,1:;"), {}, "card GPU-a has 24576 MiB and 100 % of its cores"),
        (pod("GPU-a,NVIDIA,1,101:;"), {}, "less than the 1 MiB and 101 % of the entry"),
        (pod(A + B), {}, "more entries left than containers that ask"),
        (pod(A + ";", asks=(0, 1)), {}, "stands at the place of container c0"),
        (pod(A), {"breakdown": "the agent was told to fail"}, "the agent was told to fail"),
        (pod(A), {"miscounted": 1}, "names 1 devices, and the kubelet asks for 2"),
    ],
)
def test_a_wrong_entry_fails_its_pod_and_names_the_cause(seen, kinds, says):
    result = converse(
        call(**kinds),
        [
            (GET_NODE, node()),
            (GET_POD, seen),
            (write(phase="failed"), pod(A, bind_phase="failed")),
            (unlock(), node(None)),
        ],
    )

    assert says in result.error
    assert "pod default/p1, container c" in result.error
    assert result.pod == pod(A, bind_phase="failed")


@pytest.mark.parametrize(
    ("noted", "served"),
    [
        pytest.param({"c0": ["GPU-a-0"]}, {}, id="kubelet or agent were restarted"),
        pytest.param({}, {"u1": ("c0",)}, id="another plugin served the first"),
        pytest.param({"c0": ["GPU-a-0"]}, {"u0": ("c0",)}, id="an earlier pod of that name"),
    ],
)
def test_a_half_served_pod_is_failed_when_the_next_container_cannot_be_told(noted, served):
    """Must hold 2, 5: after a restart the kubelet may begin again with the first container."""
    half = pod(";" + B, asks=(1, 1), noted=noted)
    _half_served_is_failed(half, served)


def test_another_pod_s_note_tells_nothing_of_a_half_served_pod():
    half = pod(";" + B, asks=(1, 1), noted={"c0": ["GPU-a-0"]}, noted_of="u0")
    _half_served_is_failed(half, {"u1": ("c0",)})


def _half_served_is_failed(half, served):
    result = converse(
        call("GPU-b-0", served=served),
        [
            (GET_NODE, node()),
            (GET_POD, half),
            (write(phase="failed"), half),
            (unlock(), node(None)),
        ],
    )

    assert "half served when kubelet or agent were restarted" in result.error


def test_a_pod_that_has_changed_is_not_failed_for_what_it_was():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("GPU-x,NVIDIA,1,1:;")),
            (write(phase="failed"), effects.Conflict("the Pod has moved on")),
            (GET_FRESH, pod(A, resource_version="6")),
            (GET_FRESH, pod(A, resource_version="6")),
            (
                write("6", left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


# The API server.


def test_an_api_server_that_does_not_answer_is_named():
    result = converse(
        call(), [(GET_NODE, effects.Doubtful("the API server has not answered in time"))]
    )

    assert "the container cannot be served" in result.error
    assert "the API server has not answered in time" in result.error
    assert result.unsure


def test_a_lock_that_cannot_be_freed_spoils_no_served_container():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A)),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success"),
            ),
            (unlock(), effects.Doubtful("no answer")),
        ],
    )

    assert (result.error, result.container) == ("", "c0")
    assert result.unsure, "nobody would look after the lock"


def test_a_lock_that_cannot_be_freed_after_a_failure_is_looked_after():
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod("garbage;")),
            (write(phase="failed"), pod("garbage;", bind_phase="failed")),
            (unlock(), effects.Doubtful("no answer")),
        ],
    )

    assert result.unsure


def test_a_pod_that_is_written_all_the_time_is_given_up():
    again = [
        step
        for _ in range(serve.MOST_TRIES - 1)
        for step in (
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                effects.Conflict("it has moved on"),
            ),
            (GET_FRESH, pod(A)),
        )
    ]
    last = (
        write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
        effects.Conflict("it has moved on"),
    )

    result = converse(call(), [(GET_NODE, node()), (GET_POD, pod(A)), *again, last])

    assert "it has moved on" in result.error
    assert result.unsure, "the kubelet fails the pod, and somebody has to free its lock"


# Several vendors on one node, one lock.


def test_phase_and_lock_are_left_to_a_plugin_that_still_owes_the_pod_its_part():
    both = {DCU_TO_ALLOCATE: "DCU-0,DCU,1,1:;"}
    result = converse(
        call(),
        [
            (GET_NODE, node()),
            (GET_POD, pod(A, more=both)),
            (write(left=";", noted={"c0": ["GPU-a-0"]}), pod(";", more=both)),
        ],
    )

    assert result.error == ""


def test_a_pod_that_another_plugin_has_ended_still_gets_its_part():
    ended = pod(A, bind_phase="success", more={DCU_TO_ALLOCATE: ";;"})
    result = converse(
        call(),
        [
            (GET_NODE, node(None)),
            (LIST_PODS, (ended,)),
            (PAUSE, None),
            (GET_NODE, node()),
            (GET_POD, ended),
            (
                write(left=";", noted={"c0": ["GPU-a-0"]}, phase="success"),
                pod(";", bind_phase="success", more={DCU_TO_ALLOCATE: ";;"}),
            ),
            (unlock(), node(None)),
        ],
    )

    assert result.error == ""


def test_a_lock_that_does_not_come_back_is_not_waited_for_for_ever():
    ended = pod(A, bind_phase="success", more={DCU_TO_ALLOCATE: ";;"})
    looks = round(serve.LOCK_RETURN_S / PAUSE.seconds)
    wait = [(GET_NODE, node(None)), (LIST_PODS, (ended,)), (PAUSE, None)]

    result = converse(call(), [*(wait * looks), (GET_NODE, node(None))])

    assert "no pod holds the lock" in result.error


# What an agent that died has left.


@pytest.mark.parametrize("phase", ["success", "failed"])
def test_the_lock_of_a_pod_whose_turn_had_ended_is_freed_at_the_start(phase):
    """Must hold 2: the agent died between the pod's write and the node's."""
    text = ";" if phase == "success" else A
    seen = pod(text, bind_phase=phase, noted={"c0": ["GPU-a-0"]})

    done = converse(tidy(), [(GET_NODE, node()), (GET_FRESH, seen), (unlock(), node(None))])

    assert done == f"ended the turn of default/p1: {phase}"


def test_a_pod_that_was_served_but_not_ended_is_ended_at_the_start():
    served = pod(";", noted={"c0": ["GPU-a-0"]})
    done = converse(
        tidy(),
        [
            (GET_NODE, node()),
            (GET_FRESH, served),
            (write(phase="success"), pod(";", bind_phase="success")),
            (unlock(), node(None)),
        ],
    )

    assert done == "ended the turn of default/p1: success"


def test_the_lock_of_a_pod_that_has_ended_is_freed_at_the_start():
    seen = pod(A, phase="Failed")

    done = converse(tidy(), [(GET_NODE, node()), (GET_FRESH, seen), (unlock(), node(None))])

    assert done == "freed the lock of default/p1, which has ended"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(pod(A), id="its call is to come"),
        pytest.param(pod(";" + B, asks=(1, 1)), id="half served"),
        pytest.param(pod(";", node="n2"), id="another node's"),
        pytest.param(pod(None), id="another vendor's"),
        pytest.param(pod(";", more={DCU_TO_ALLOCATE: "DCU-0,DCU,1,1:;"}), id="owed by another"),
        pytest.param(pod(";", bind_phase=None), id="not of the protocol"),
    ],
)
def test_a_turn_that_goes_on_is_left_alone_at_the_start(seen):
    assert converse(tidy(), [(GET_NODE, node()), (GET_FRESH, seen)]) == ""


@pytest.mark.parametrize("lock", [None, "x,y", "2026-01-15T10:00:00Z"])
def test_a_node_without_a_named_lock_needs_no_tidying(lock):
    assert converse(tidy(), [(GET_NODE, node(lock))]) == ""


# Which cards the kubelet's ids should speak of.


def test_the_cards_of_the_next_entry_are_preferred():
    text = "GPU-b,NVIDIA,1,1:GPU-a,NVIDIA,1,1:;"
    cards = converse(
        serve.wanted_cards(PLUGIN, 2), [(GET_NODE, node()), (GET_POD, pod(text, asks=(2,)))]
    )

    assert cards == ("GPU-b", "GPU-a")


def test_nothing_is_preferred_where_the_pod_is_not_known():
    script = [(GET_NODE, node(None)), (GET_NODE, node(None))]

    assert converse(serve.wanted_cards(PLUGIN, 1), script) == ()


def test_a_lock_as_it_was_a_moment_ago_is_read_again_before_nothing_is_preferred():
    before = "2026-01-15T09:59:59Z,default,p0"
    cards = converse(
        serve.wanted_cards(PLUGIN, 1),
        [
            (GET_NODE, node(before)),
            (
                effects_agent.GetPod(namespace="default", name="p0"),
                pod(";", name="p0", bind_phase="success"),
            ),
            (GET_NODE, node()),
            (GET_FRESH, pod(B)),
        ],
    )

    assert cards == ("GPU-b",)
