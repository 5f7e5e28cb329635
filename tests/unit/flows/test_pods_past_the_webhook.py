"""Pods that show that they never passed the webhook, whatever scheduler they name."""

from typing import Any

import pytest

from support import json_patch
from support.operator_books import open_books, put_node
from support.world import nvidia_pod
from vgpu_operator.flows import admit, books, effects, pod_events
from vgpu_operator.kube import intake

Json = dict[str, Any]


def one_node(**values: object) -> books.Books:
    held = open_books(**values)
    put_node(held)
    return held


def stored(name: str = "p1", *, scheduler: str = "hami-scheduler", **spec: Any) -> Json:
    """Return a pod as the API server stores it, when no webhook has changed it."""
    pod = nvidia_pod(name, scheduler=scheduler)
    pod["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "5"}
    pod["spec"] |= spec
    return pod


def with_limits(pod: Json, **limits: str) -> Json:
    names = {"gpu": "nvidia.com/gpu", "memory": "nvidia.com/gpumem"}
    pod["spec"]["containers"][0]["resources"] = {
        "limits": {names[name]: value for name, value in limits.items()}
    }
    return pod


def privileged(pod: Json) -> Json:
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return pod


def told(held: books.Books, pod: Json) -> list[str]:
    """Return what is said of a pod that is seen."""
    seen = pod_events.pod_seen(held, intake.decode_pod(held, pod))
    return [one.message for one in seen.effects if isinstance(one, effects.PostEvent)]


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler"])
def test_a_pod_that_names_memory_and_no_card_is_told(scheduler: str) -> None:
    pod = with_limits(stored(scheduler=scheduler), memory="500")

    assert told(one_node(), pod) == [
        "it never passed the webhook, which would have set nvidia.com/gpu: 1 for container c0,"
        " which gets no card else; create it again"
    ]


def test_a_privileged_pod_that_asks_for_a_card_is_told() -> None:
    (sentence,) = told(one_node(), privileged(stored()))

    assert "would have refused it: container c0 is privileged" in sentence


def test_it_is_told_once_and_stays_so_while_the_pod_is_there() -> None:
    held = one_node()
    pod = with_limits(stored(), memory="500")
    assert len(told(held, pod)) == 1

    pod["metadata"]["resourceVersion"] = "6"
    pod["spec"]["nodeName"] = "node-a"
    again = intake.decode_pod(held, pod)

    assert told(held, pod) == []
    assert pod_events.bypassed(held, again)


def test_a_new_leader_tells_it_too() -> None:
    held = one_node()
    told(held, with_limits(stored(), memory="500"))

    (complaints,) = pod_events.standing_complaints(held)

    assert [one.reason for one in complaints] == ["WebhookBypassed"]


@pytest.mark.parametrize(
    ("pod", "values"),
    [
        (stored(), {}),
        (stored(scheduler="volcano"), {}),
        (with_limits(stored(scheduler="volcano"), memory="500"), {}),
        (privileged(with_limits(stored())), {}),
        (with_limits(stored(scheduler="default-scheduler"), memory="500"), {"force": False}),
        (with_limits(stored(), gpu="1", memory="x"), {}),
    ],
    ids=[
        "admitted",
        "another scheduler",
        "another scheduler's memory",
        "privileged without cards",
        "not forced",
        "the filter says why",
    ],
)
def test_pods_that_the_webhook_would_have_left_alone_are_not_told(
    pod: Json, values: dict[str, bool]
) -> None:
    settings = {"forceOverwriteDefaultScheduler": values["force"]} if values else {}

    assert told(one_node(**settings), pod) == []


def test_a_pod_that_opted_out_is_not_told() -> None:
    pod = privileged(with_limits(stored(), memory="500"))
    pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}

    assert told(one_node(), pod) == []


def test_what_the_webhook_has_changed_shows_nothing_whatever_the_api_server_writes() -> None:
    held = one_node()
    pod = with_limits(stored(), memory="3000")
    verdict = admit.admit(pod, settings=held.settings, vendors=held.vendors)

    admitted = json_patch.apply(pod, verdict.patch)
    limits = admitted["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/gpumem"] = "3k"  # its own way to write the same amount

    assert limits["nvidia.com/gpu"] == "1"
    assert told(held, admitted) == []


def test_a_pod_that_was_bound_before_it_was_first_seen_is_not_judged() -> None:
    held = one_node()
    pod = privileged(stored())
    pod["spec"]["nodeName"] = "node-a"

    assert intake.decode_pod(held, pod).passed_by == ""
