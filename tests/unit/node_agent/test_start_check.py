"""Whose devices a container starts with: what the kubelet tells against what was served."""

import dataclasses

import pytest

from support.serve_script import note
from vgpu_operator.flows import effects_agent
from vgpu_operator.node_agent import start_check

DEVICE_IDS = "vgpu-operator.io/device-ids"
PHASE = "hami.io/bind-phase"
IDS = frozenset({"GPU-a-0"})


def pod(
    name: str = "p1",
    *,
    noted: object = None,
    noted_of: str | None = None,
    phase: str = "Pending",
    **kinds: str,
) -> object:
    """Return a pod whose containers are ``init``, ``app`` or, where they ran before, ``again``.

    Args:
        name: of the pod; its UID is made of it.
        noted: ids by container, or the note's text.
        noted_of: the UID of the pod that they were served to; its own by default.
        phase: of its life.
        kinds: by container.
    """
    containers = tuple(
        effects_agent.ContainerSeen(
            name=container, asked=1, passing=kind == "init", ran=kind == "again"
        )
        for container, kind in (kinds or {"c0": "app"}).items()
    )
    notes = {}
    if noted is not None:
        whose = noted_of or f"uid-{name}"
        text = noted if isinstance(noted, str) else note(noted, uid=whose)
        notes = {PHASE: "success", DEVICE_IDS: text}
    return effects_agent.PodSeen(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        phase=phase,
        annotations=notes,
        containers=containers,
    )


def held(ids: frozenset[str] = IDS, *, name: str = "p1", container: str = "c0") -> object:
    return start_check.Held(namespace="default", pod=name, container=container, ids=ids)


@pytest.mark.parametrize(
    ("seen", "listed"),
    [
        pytest.param(pod(noted={"c0": ["GPU-a-0"]}), [held()], id="served"),
        pytest.param(
            pod(noted={"c0": ["GPU-a-0"], "c1": ["GPU-b-0"]}, c0="app", c1="app"),
            [held(), held(frozenset({"GPU-b-0"}), container="c1")],
            id="one of two containers",
        ),
        pytest.param(
            pod(noted={"i0": ["GPU-a-0"], "c0": ["GPU-a-0", "GPU-b-0"]}, i0="init", c0="app"),
            [held(frozenset({"GPU-a-0", "GPU-b-0"}))],
            id="an init container's, which the kubelet does not list",
        ),
        pytest.param(pod(c0="again"), [held()], id="another plugin's that starts again"),
    ],
)
def test_a_container_starts_with_what_was_served_to_it(seen, listed):
    assert start_check.holder_of(IDS, listed) == ("default", "p1")
    assert start_check.refusal(seen, IDS, listed) == ""


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        pytest.param(pod(), "it was never served", id="by-passed"),
        pytest.param(
            pod(noted={"c0": ["GPU-a-0"]}, noted_of="uid-before"),
            "it was never served",
            id="a copied manifest, with the very ids that its model was served",
        ),
        pytest.param(
            pod(noted='{"c0":["GPU-a-0"]}'),
            "a uid and lists of ids by container",
            id="a note without a UID, which anybody can write beforehand",
        ),
        pytest.param(pod(noted={"c0": ["GPU-b-0"]}), "names others", id="other ids"),
        pytest.param(
            pod(noted={"c1": ["GPU-a-0"]}, c0="app", c1="app"),
            "names others",
            id="another container's",
        ),
        pytest.param(pod(noted="{"), "JSON is wanted", id="unreadable"),
        pytest.param(pod(noted={"c0": "GPU-a-0"}), "lists of ids by container", id="no list"),
        pytest.param(
            pod(noted={}, c0="again"), "names others", id="ran before, and was served by us"
        ),
    ],
)
def test_a_container_with_other_devices_does_not_start(seen, says):
    """Must hold 5."""
    why = start_check.refusal(seen, IDS, [held()])

    assert says in why
    assert why.startswith("pod default/p1 may not use the devices that it holds: ")
    assert "delete it and let the scheduler place it again" in why


def test_devices_that_nobody_is_listed_with_have_no_holder():
    assert start_check.holder_of(IDS, [held(frozenset({"GPU-a-1"}))]) is None


def test_an_init_container_starts_with_what_was_served_to_it():
    others = pod("p2", noted={"i0": ["GPU-b-0"]}, i0="init")
    mine = pod(noted={"i0": ["GPU-a-0"]}, i0="init")

    assert start_check.refusal_of_unlisted([others, mine], IDS) == ""


def test_an_init_container_that_another_plugin_served_starts_again():
    """After the move from HAMi's plugin, when the node was restarted."""
    container = effects_agent.ContainerSeen(name="i0", asked=1, passing=True, ran=True)
    moved = effects_agent.PodSeen(
        namespace="default",
        name="moved",
        uid="uid-moved",
        annotations={PHASE: "success"},
        containers=(container,),
    )
    new = dataclasses.replace(moved, containers=(dataclasses.replace(container, ran=False),))

    assert start_check.refusal_of_unlisted([moved], IDS) == ""
    bare = dataclasses.replace(moved, annotations={})
    assert start_check.refusal_of_unlisted([bare], IDS) == "", "NVIDIA's plugin writes no phase"
    mine = pod(noted={"i0": ["GPU-a-0"]}, i0="init")
    assert start_check.refusal_of_unlisted([bare, mine], IDS) == "", "it harms no other"
    assert "no pod of this node was served" in start_check.refusal_of_unlisted([new], IDS)


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        pytest.param([], "no pod of this node was served", id="nobody"),
        pytest.param(
            [pod(noted={"i0": ["GPU-b-0"]}, i0="init")],
            "no pod of this node was served the devices GPU-a-0",
            id="others only",
        ),
        pytest.param(
            [pod(noted={"i0": ["GPU-a-0"]}, i0="init"), pod("thief", i0="init")],
            "are pod default/p1's or pod default/thief's cannot be told",
            id="a by-passed pod may have got them too",
        ),
        pytest.param(
            [
                pod("thief", noted={"i0": ["GPU-b-0"]}, noted_of="uid-before", i0="init"),
                pod(noted={"i0": ["GPU-a-0"]}, i0="init"),
            ],
            "are pod default/p1's or pod default/thief's cannot be told",
            id="so may a copied manifest",
        ),
        pytest.param(
            [
                pod(noted={"i0": ["GPU-a-0"]}, i0="init"),
                pod("thief", noted={"other": ["GPU-a-0"]}, i0="init"),
            ],
            "are pod default/p1's or pod default/thief's cannot be told",
            id="so may one whose note names another of its containers",
        ),
        pytest.param(
            [pod(noted={"i0": ["GPU-a-0"]}, i0="init", phase="Failed")],
            "no pod of this node was served",
            id="a pod that has ended",
        ),
        pytest.param(
            [pod(noted="nonsense", i0="init")], "no pod of this node was served", id="unreadable"
        ),
    ],
)
def test_an_init_container_with_devices_of_nobody_or_of_two_does_not_start(pods, says):
    assert says in start_check.refusal_of_unlisted(pods, IDS)
