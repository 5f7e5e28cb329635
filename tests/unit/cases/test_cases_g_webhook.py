"""Cases from real use, area G: the webhook.

Elsewhere: 117 (scheduler names), 119 (privileged), 121 (preset node), 123 (values
in requests) and 129 (every container) in ``tests/unit/flows/test_admit_rules.py``;
125 (the configuration) in ``tests/unit/webhook/test_webhook_configuration.py``.
What 125 and 127 say of the rendered chart waits for the chart
(``case_numbers.WAIT_FOR_THE_CHART``).
"""

from collections.abc import Mapping
from typing import Any

import pytest

from support import json_patch
from support.case_cluster import asks, limited, pod
from vgpu_operator.flows import admit
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry
from vgpu_operator.webhook import configuration

Json = dict[str, Any]

NONE = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
HELPER = {"name": "helper", "image": "busybox"}


def judge(raw: Json, **values: Any) -> admit.Verdict:
    built = settings.build(values)
    return admit.admit(raw, settings=built, vendors=registry.build(built))


def admitted(raw: Json, **values: Any) -> Json:
    """Return the pod as it is stored."""
    verdict = judge(raw, **values)
    assert verdict.allowed, verdict.message
    after: Json = json_patch.apply(raw, verdict.patch)
    return after


# --- 119, 120: privileged --------------------------------------------------------------


def privileged(container: Json) -> Json:
    return container | {"securityContext": {"privileged": True}}


@pytest.mark.parametrize("where", ["itself", "sidecar", "init", "native sidecar"])
def test_case_119_a_privileged_container_of_a_gpu_pod_is_refused_by_name(where: str) -> None:
    gpu, other = asks(1, 1000, name="app"), privileged(HELPER)
    raw = {
        "itself": pod("p1", privileged(gpu)),
        "sidecar": pod("p1", gpu, other),
        "init": pod("p1", gpu, init=(other,)),
        "native sidecar": pod("p1", gpu, init=(other | {"restartPolicy": "Always"},)),
    }[where]

    verdict = judge(raw)

    assert not verdict.allowed
    guilty = "app" if where == "itself" else "helper"
    assert verdict.message.startswith(f"container {guilty} is privileged")


def test_case_120_a_privileged_pod_without_cards_is_allowed_unchanged() -> None:
    assert judge(pod("p1", privileged(HELPER))) == admit.Verdict(allowed=True)


# --- 121: a preset node ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "scheduler", "notes", "allowed"),
    [
        (asks(1, 1000), "", {}, False),
        (HELPER, "", {}, True),
        (asks(1, 1000), "volcano", {}, True),
        (asks(1, 1000), "", {"kubernetes.io/config.mirror": "x"}, True),
    ],
    ids=["with a card", "without", "of another scheduler", "a static pod's copy"],
)
def test_case_121_only_our_pods_with_cards_must_leave_the_node_to_us(
    container: Json, scheduler: str, notes: Mapping[str, str], allowed: bool
) -> None:
    raw = pod("p1", container, node_name="node-a", notes=notes)
    raw["spec"] |= {"schedulerName": scheduler} if scheduler else {}

    verdict = judge(raw)

    assert verdict.allowed is allowed
    assert verdict.patch == ()


# --- 123: limits, requests, neither ----------------------------------------------------

ONE_CARD = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}


@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}], ids=["none", "empty", "some"])
@pytest.mark.parametrize(
    "resources",
    [{"limits": ONE_CARD}, {"requests": ONE_CARD}, {"limits": ONE_CARD, "requests": ONE_CARD}],
    ids=["limits only", "requests only", "both"],
)
def test_case_123_a_card_may_be_asked_for_in_either_map(
    resources: Json, annotations: Mapping[str, str] | None
) -> None:
    raw = pod("p1", {"name": "main", "resources": resources})
    raw["metadata"]["annotations"] = annotations

    after = admitted(raw)

    assert after["spec"]["schedulerName"] == "hami-scheduler"
    # The API server copies limits to requests after the webhooks.
    assert after["spec"]["containers"][0]["resources"]["limits"] == ONE_CARD


@pytest.mark.parametrize(
    "resources", [None, {}, {"limits": None}, {"requests": {}}, {"limits": {}, "requests": None}]
)
def test_case_123_a_container_with_neither_map_asks_for_nothing(resources: Json | None) -> None:
    raw = pod("p1", {"name": "main", "resources": resources})
    del raw["metadata"]["annotations"]

    assert judge(raw) == admit.Verdict(allowed=True)


# --- 125, 127: who is not sent to us ---------------------------------------------------


def webhook(**values: Any) -> Json:
    service = configuration.service(namespace="gpu-operator", name="vgpu-operator")
    built = configuration.webhook_configuration(service=service, ca_bundle="Q0E=", **values)
    (found,) = built["webhooks"]
    return dict(found)


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Judge a label selector of ``NotIn`` expressions as the API server does."""
    expressions = selector["matchExpressions"]
    assert {each["operator"] for each in expressions} == {"NotIn"}
    return all(labels.get(each["key"]) not in each["values"] for each in expressions)


def test_case_125_a_webhook_that_does_not_answer_stops_nobody() -> None:
    found = webhook()

    assert found["failurePolicy"] == "Ignore"
    assert found["timeoutSeconds"] <= 10
    own = {"kubernetes.io/metadata.name": "gpu-operator"}
    assert not matches(found["namespaceSelector"], own)
    assert matches(found["namespaceSelector"], {"kubernetes.io/metadata.name": "team-a"})


@pytest.mark.parametrize("selector", ["objectSelector", "namespaceSelector"])
def test_case_127_the_opt_out_label_counts_on_pods_and_on_namespaces(selector: str) -> None:
    found = webhook()[selector]

    assert not matches(found, {"hami.io/webhook": "ignore"})
    assert matches(found, {"hami.io/webhook": "on"})
    assert matches(found, {})


def test_case_127_a_labelled_pod_that_is_sent_all_the_same_stays_as_it_is() -> None:
    raw = pod("p1", asks(1, 1000))
    raw["metadata"]["labels"] = {"hami.io/webhook": "ignore"}

    assert judge(raw) == admit.Verdict(allowed=True)


def test_case_127_system_namespaces_are_not_sent() -> None:
    system = {"kubernetes.io/metadata.name": "kube-system"}

    assert not matches(webhook()["namespaceSelector"], system)


# --- 128: hiding cards -----------------------------------------------------------------


def hidden(raw: Json, *, by_default: bool) -> list[str]:
    """Return the names of the containers that are kept from seeing cards."""
    after = admitted(raw, vendors={"nvidia": {"overwriteEnv": by_default}})
    spec = after["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    return [each["name"] for each in containers if each.get("env") == NONE]


def with_helpers(notes: Mapping[str, str] | None = None) -> Json:
    second = HELPER | {"name": "second"}
    return pod("p1", asks(1, 1000, name="app"), HELPER, second, notes=notes)


def test_case_128_cards_are_hidden_only_where_it_is_switched_on() -> None:
    assert hidden(with_helpers(), by_default=False) == []
    assert hidden(with_helpers(), by_default=True) == ["helper", "second"]


@pytest.mark.parametrize(
    ("notes", "off", "on"),
    [
        ({"hami.io/overwrite-env": "true"}, ["helper", "second"], ["helper", "second"]),
        ({"hami.io/overwrite-env": "0"}, [], []),
        (
            {"hami.io/overwrite-env-containers": '{"helper": "true"}'},
            ["helper"],
            ["helper", "second"],
        ),
        ({"hami.io/overwrite-env-containers": '{"helper": false}'}, [], ["second"]),
        (
            {
                "hami.io/overwrite-env": "False",
                "hami.io/overwrite-env-containers": '{"second": "t"}',
            },
            ["second"],
            ["second"],
        ),
        ({"hami.io/overwrite-env-containers": '{"app": "true"}'}, [], ["helper", "second"]),
    ],
    ids=["pod on", "pod off", "one on", "one off", "the container's word wins", "has a card"],
)
def test_case_128_a_pod_and_each_container_may_say_otherwise(
    notes: Mapping[str, str], off: list[str], on: list[str]
) -> None:
    assert hidden(with_helpers(notes), by_default=False) == off
    assert hidden(with_helpers(notes), by_default=True) == on


@pytest.mark.parametrize(
    ("notes", "sentence"),
    [
        (
            {"hami.io/overwrite-env": "maybe"},
            "annotation hami.io/overwrite-env: 'maybe' is ignored; write true or false",
        ),
        (
            {"hami.io/overwrite-env-containers": "helper"},
            "annotation hami.io/overwrite-env-containers: 'helper' is ignored; write containers "
            'by name, such as {"main": "true"}',
        ),
        (
            {"hami.io/overwrite-env-containers": '{"helper": 7}'},
            "annotation hami.io/overwrite-env-containers: 7 for 'helper' is ignored; "
            "write true or false",
        ),
    ],
)
def test_case_128_a_word_that_says_nothing_leaves_the_default_with_a_warning(
    notes: Mapping[str, str], sentence: str
) -> None:
    assert hidden(with_helpers(notes), by_default=True) == ["helper", "second"]
    assert judge(with_helpers(notes)).warnings == (sentence,)


def test_case_128_a_pod_without_cards_is_left_alone() -> None:
    raw = pod("p1", HELPER, notes={"hami.io/overwrite-env": "true"})

    assert judge(raw, vendors={"nvidia": {"overwriteEnv": True}}) == admit.Verdict(allowed=True)


# --- 129: every container --------------------------------------------------------------


def test_case_129_every_container_gets_its_count_init_first() -> None:
    memory_only = {"nvidia.com/gpumem": "1000"}
    apps = (limited(memory_only, name=f"app-{n}") for n in range(2))
    raw = pod("p1", *apps, init=(limited(memory_only, name="init"),))

    spec = admitted(raw)["spec"]

    expected = memory_only | {"nvidia.com/gpu": "1"}
    containers = [*spec["initContainers"], *spec["containers"]]
    assert [each["resources"]["limits"] for each in containers] == [expected] * 3


# --- words that are no policy ----------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        (
            "hami.io/node-scheduler-policy",
            "fullest",
            "no policy, and ignored: 'fullest'; known are binpack, spread",
        ),
        (
            "hami.io/gpu-scheduler-policy",
            "binpack, nearest ,numa,far",
            "no policy, and ignored: 'nearest', 'far'; known are binpack, spread, numa, "
            "topology-aware, mutex",
        ),
    ],
)
def test_case_78_a_word_that_is_no_policy_is_told_at_admission(
    key: str, text: str, sentence: str
) -> None:
    """The scheduler takes the default for it (area D); the author should know."""
    verdict = judge(pod("p1", asks(1, 1000), notes={key: text}))

    assert verdict.allowed
    assert verdict.warnings == (f"annotation {key}: {sentence}",)


@pytest.mark.parametrize("text", ["", " ", "spread", "binpack,numa"])
def test_case_78_known_policies_and_blank_ones_are_no_news(text: str) -> None:
    raw = pod("p1", asks(1, 1000), notes={"hami.io/gpu-scheduler-policy": text})

    assert judge(raw).warnings == ()
