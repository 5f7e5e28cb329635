"""The operator's rights are the requests in its code: not one fewer, and not one more."""

import ast
import importlib.resources
from pathlib import Path
from typing import Final

import yaml

import vgpu_operator
from support import requests_sent
from vgpu_operator.kube import client

SOURCE: Final = Path(vgpu_operator.__file__).parent
SHELLS: Final = ("app.py", "handlers", "kube", "extender", "webhook", "metrics", "state")
"""What ``vgpu run`` consists of; the commands and the agent log in as somebody else."""

REQUESTS: Final = {
    "app.py _until_reachable get": (),  # /version, which Kubernetes shows to everybody
    "handlers/leader.py refresh request": (("get", "leases"),),  # and /version
    "kube/events.py run create": (("create", "events"),),
    "kube/intake.py _each pages": (
        ("list", "nodes"),
        ("list", "pods"),
        ("list", "resourcequotas"),
    ),
    "kube/perform.py _call list": (("list", "pods"),),
    "kube/perform.py _call delete": (("delete", "pods"),),
    "kube/perform.py _patch_node patch": (("patch", "nodes"),),
    "kube/perform.py _patch_pod patch": (("patch", "pods"),),
    "kube/perform.py _bind create": (("create", "pods/binding"),),
    "kube/perform.py _evict create": (("create", "pods/eviction"),),
    "kube/perform.py _nominate patch": (("patch", "pods/status"),),
    "kube/perform.py _read_pod get": (("get", "pods"),),
    "kube/pod_watch.py _events watch": (("watch", "pods"),),
    "kube/preemptor.py _list_budgets list": (("list", "poddisruptionbudgets"),),
    "state/access.py _answer_to create": (
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    ),
    "webhook/keeper.py _read_secret get": (("get", "secrets"),),
    "webhook/keeper.py _write_secret patch": (("patch", "secrets"),),
    "webhook/keeper.py _read_trust get": (("get", "mutatingwebhookconfigurations"),),
    "webhook/keeper.py _write_trust patch": (("patch", "mutatingwebhookconfigurations"),),
}
"""Every place that sends a request, and what it asks for."""

KOPF: Final = {
    ("list", "nodes"),
    ("watch", "nodes"),
    ("list", "resourcequotas"),
    ("watch", "resourcequotas"),
}
"""What Kopf's event handlers ask for: no discovery, no peering, no event, no patch."""

OPT_IN: Final = {("delete", "pods")}
"""``bind.stuckPod: delete``."""

PREEMPTION: Final = {
    ("list", "poddisruptionbudgets"),
    ("create", "pods/eviction"),
    ("patch", "pods/status"),
}
"""``preemption.enabled``."""

CERTIFICATE: Final = {
    (verb, resource)
    for verb in ("get", "patch")
    for resource in ("secrets", "mutatingwebhookconfigurations")
}
"""``--webhook-secret``."""

STATE: Final = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
"""The state page beyond loopback, and ``--state-access token``."""


def rules() -> dict[str, set[tuple[str, str]]]:
    """Return what each role of ``rbac.yaml`` grants, as verbs and resources."""
    text = importlib.resources.files("vgpu_operator.cli").joinpath("rbac.yaml").read_text()
    granted = {}
    for document in yaml.safe_load_all(text):
        if document["kind"] != "ClusterRole":
            continue
        granted[document["metadata"]["name"]] = {
            (verb, resource)
            for rule in document["rules"]
            for verb in rule["verbs"]
            for resource in rule["resources"]
        }
        assert all("resourceNames" not in rule for rule in document["rules"])
    return granted


def test_every_place_that_sends_a_request_is_known() -> None:
    assert requests_sent.places(*SHELLS) == set(REQUESTS)


def test_every_method_of_the_client_that_sends_is_looked_for() -> None:
    public = {
        name
        for name, value in vars(client.KubeClient).items()
        if not name.startswith("_") and callable(value)
    }

    assert public - {"close", "connect", "credentials", "wait_until_reachable"} == set(
        requests_sent.CALLS
    )


def test_every_request_has_a_rule_and_every_rule_a_request() -> None:
    asked = {request for requests in REQUESTS.values() for request in requests} | KOPF

    assert rules() == {
        "vgpu-operator": asked - OPT_IN - CERTIFICATE - STATE - PREEMPTION,
        "vgpu-operator-preemption": PREEMPTION,
        "vgpu-operator-stuck-pods": OPT_IN,
        "vgpu-operator-certificate": CERTIFICATE,
        "vgpu-operator-state": STATE,
    }


def test_kopf_has_event_handlers_only_of_what_it_may_see() -> None:
    text = (SOURCE / "handlers" / "watches.py").read_text()
    decorators = [
        ast.unparse(decorator)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.AsyncFunctionDef)
        for decorator in function.decorator_list
    ]

    assert sorted(decorators) == [
        "kopf.on.cleanup(registry=registry)",
        "kopf.on.event('', 'v1', 'nodes', registry=registry)",
        "kopf.on.event('', 'v1', 'resourcequotas', registry=registry)",
        "kopf.on.login(registry=registry)",
        "kopf.on.startup(registry=registry)",
    ]


def test_no_rule_reaches_secrets_or_everything() -> None:
    for role, granted in rules().items():
        if role == "vgpu-operator-certificate":
            continue  # bound by name only: test_the_chart_grants_what_rbac_yaml_argues
        if role == "vgpu-operator-state":
            continue  # reviews are questions: nothing is read or kept
        for verb, resource in granted:
            assert verb not in ("*", "update", "deletecollection", "escalate", "impersonate")
            assert resource in (
                "nodes",
                "pods",
                "pods/binding",
                "pods/eviction",
                "pods/status",
                "poddisruptionbudgets",
                "events",
                "resourcequotas",
                "leases",
            )
