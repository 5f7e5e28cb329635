"""Pods that show that they never passed the webhook, whatever scheduler they name."""

from typing import Any

import pytest

from support import json_patch
from support.operator_books import NOW, open_books, put_node
from support.world import nvidia_pod
from vgpu_operator.flows import admit, books, effects, outcomes, pod_events, reading
from vgpu_operator.vendors import base

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
    seen = pod_events.pod_seen(held, reading.decode_pod(held, pod))
    return [one.message for one in seen.effects if isinstance(one, effects.PostEvent)]


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler"])
def test_a_pod_that_names_memory_and_no_card_is_told(scheduler: str) -> None:
    pod = with_limits(stored(scheduler=scheduler), memory="500")

    assert told(one_node(), pod) == [
        "it never passed the webhook, which would have set nvidia.com/gpu: 1 for container c0,"
        " which gets no card else; create it again; if that changes nothing, the webhook leaves"
        " its namespace out: change the pod itself"
    ]


def test_a_privileged_pod_that_asks_for_a_card_is_told() -> None:
    (sentence,) = told(one_node(), privileged(stored()))

    assert "would have refused it: container c0 is privileged" in sentence


def test_it_is_told_once_and_counts_until_the_pod_is_bound() -> None:
    """Whoever begins later cannot tell of a bound one: all replicas are to count alike."""
    held = one_node()
    pod = with_limits(stored(), memory="500")
    assert len(told(held, pod)) == 1
    outcomes.note(held, effects.Reaction(pods=frozenset({"uid-p1"})), NOW)
    assert held.tallies.bypassed == {"uid-p1"}

    pod["metadata"]["resourceVersion"] = "6"
    pod["spec"]["nodeName"] = "node-a"
    assert told(held, pod) == []
    outcomes.note(held, effects.Reaction(pods=frozenset({"uid-p1"})), NOW)
    later = one_node()
    assert told(later, pod) == []
    outcomes.note(later, effects.Reaction(pods=frozenset({"uid-p1"})), NOW)

    assert held.tallies.bypassed == later.tallies.bypassed == set()


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


class Counted:
    """A vendor that counts how often it is asked about a container."""

    def __init__(self, vendor: base.Vendor, asked: list[str]) -> None:
        self._vendor = vendor
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vendor, name)

    def admit(self, container: Json, pod: Json) -> base.ContainerChanges:
        self._asked.append(container["name"])
        return self._vendor.admit(container, pod)


LEFT_OUT = {"webhookLeavesOut": ["default"]}


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        (
            with_limits(stored(), memory="500"),
            "it never passed the webhook, which would have set nvidia.com/gpu: 1 for container c0,"
            " which gets no card else; it leaves namespace default out: change the pod itself",
        ),
        (
            stored(scheduler="default-scheduler"),
            "it asks for devices but its scheduler is default-scheduler: it never passed the"
            " webhook, which leaves namespace default out; set schedulerName: hami-scheduler",
        ),
    ],
    ids=["amounts", "default scheduler"],
)
def test_a_pod_that_the_webhook_never_sees_is_told_what_helps_and_counts_for_nobody(
    pod: Json, sentence: str
) -> None:
    held = one_node(**LEFT_OUT)

    assert told(held, pod) == [sentence]

    outcomes.note(held, effects.Reaction(pods=frozenset({"uid-p1"})), NOW)
    assert held.tallies.bypassed == set(), "nobody is called for what creating it again keeps"


def with_containers(n_containers: int) -> Json:
    """Return a pod of that many containers, of which each asks for a card and the last is odd."""
    pod = with_limits(stored(), gpu="1")
    (first,) = pod["spec"]["containers"]
    every = [dict(first, name=f"c{number}") for number in range(n_containers)]
    every[-1] = dict(every[-1], securityContext={"privileged": True})
    pod["spec"]["containers"] = every
    return pod


def test_of_each_container_only_the_vendors_that_it_names_are_asked() -> None:
    """All replicas judge every new pod on the thread that also schedules."""
    held = one_node()
    asked: list[str] = []
    vendors: Any = [Counted(vendor, asked) for vendor in held.vendors]

    sentence = admit.passed_by(with_containers(50), settings=held.settings, vendors=vendors)

    assert sentence.startswith("refused it: container c49 is privileged")
    assert asked == [f"c{number}" for number in range(50)]


def test_a_pod_of_more_containers_than_may_be_is_told_unjudged() -> None:
    held = one_node()
    asked: list[str] = []
    vendors: Any = [Counted(vendor, asked) for vendor in held.vendors]
    pod = with_containers(admit.MOST_CONTAINERS + 1)

    sentence = admit.passed_by(pod, settings=held.settings, vendors=vendors)

    assert sentence == (
        "refused it: the pod has 513 containers, and one that asks for cards may have 512;"
        " put them into several pods"
    )
    assert asked == []
    pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert not admit.passed_by(pod, settings=held.settings, vendors=vendors)


def test_a_pod_that_was_bound_before_it_was_first_seen_is_not_judged() -> None:
    held = one_node()
    pod = privileged(stored())
    pod["spec"]["nodeName"] = "node-a"

    assert reading.decode_pod(held, pod).passed_by == ""
