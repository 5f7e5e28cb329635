"""The chart grants what ``rbac.yaml`` argues: not one right fewer, and not one more."""

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from support.helm import NAMESPACE, ROOT, Helm, one
from support.rights_used import SYSTEM_ROLES

RIGHTS = ROOT / "operator" / "vgpu_operator" / "cli" / "rbac.yaml"

KUBE_SCHEDULER_OWN = {("update", "coordination.k8s.io", "leases")}
"""Its Lease has another name than the one in its system role."""

DEFAULT = {"vgpu-operator", "vgpu-operator-certificate", "vgpu-operator-preemption"}
"""Roles of ``rbac.yaml`` that the chart gives where no value says otherwise."""

Right = tuple[str, str, str]


def rights(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def argued() -> dict[str, set[Right]]:
    documents = yaml.safe_load_all(RIGHTS.read_text())
    return {
        document["metadata"]["name"]: rights(document["rules"])
        for document in documents
        if document["kind"] == "ClusterRole"
    }


def granted(objects: list[dict[str, Any]]) -> set[Right]:
    """Follow every binding of the operator's account to the chart's own roles."""
    account = one(objects, "ServiceAccount", "-scheduler")["metadata"]["name"]
    found: set[Right] = set()
    for binding in objects:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        if {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE} not in (
            binding["subjects"]
        ):
            continue
        role = binding["roleRef"]
        if role["name"] not in SYSTEM_ROLES:
            (rules,) = [
                item["rules"]
                for item in objects
                if (item["kind"], item["metadata"]["name"]) == (role["kind"], role["name"])
            ]
            found |= rights(rules)
    return found


@pytest.mark.parametrize(
    ("values", "roles"),
    [
        pytest.param({}, DEFAULT, id="defaults"),
        pytest.param(
            {"scheduler": {"patch": {"enabled": False}}},
            {"vgpu-operator", "vgpu-operator-preemption"},
            id="a certificate of one's own",
        ),
        pytest.param(
            {"state": {"access": "token"}},
            DEFAULT | {"vgpu-operator-state"},
            id="the state page asks for tokens",
        ),
        pytest.param(
            {"state": {"bindAddress": ":9396"}},
            DEFAULT | {"vgpu-operator-state"},
            id="the state page beyond loopback",
        ),
        pytest.param(
            {"state": {"enabled": False, "access": "token"}},
            DEFAULT,
            id="no state page",
        ),
        pytest.param(
            {"settings": {"bind": {"stuckPod": "delete"}}},
            DEFAULT | {"vgpu-operator-stuck-pods"},
            id="stuck pods are deleted",
        ),
        pytest.param(
            {"settings": {"preemption": {"enabled": False}}},
            {"vgpu-operator", "vgpu-operator-certificate"},
            id="no preemption",
        ),
    ],
)
def test_the_chart_grants_what_rbac_yaml_argues(
    helm: Helm, values: dict[str, Any], roles: set[str]
) -> None:
    wanted = set().union(*(argued()[role] for role in roles))

    assert granted(helm.template(values)) == wanted | KUBE_SCHEDULER_OWN


def test_a_dry_run_of_preemption_may_read_budgets_and_evict_nobody(helm: Helm) -> None:
    allowed = granted(helm.template({"settings": {"preemption": {"dryRun": True}}}))

    assert ("list", "policy", "poddisruptionbudgets") in allowed
    assert not {("create", "", "pods/eviction"), ("patch", "", "pods/status")} & allowed


def test_secrets_and_webhooks_are_reached_by_name_only(helm: Helm) -> None:
    objects = helm.template()
    by_name = {
        resource: rule.get("resourceNames")
        for item in objects
        if item["kind"] in ("Role", "ClusterRole")
        and item["metadata"]["name"].endswith("-scheduler")
        for rule in item["rules"]
        for resource in rule["resources"]
    }

    assert by_name["secrets"] == [one(objects, "Secret")["metadata"]["name"]]
    assert by_name["leases"] == ["hami-scheduler"]
    assert by_name["mutatingwebhookconfigurations"] == [
        one(objects, "MutatingWebhookConfiguration")["metadata"]["name"]
    ]


def test_every_rule_has_its_reason_beside_it(helm: Helm) -> None:
    from support.helm import CHART, KUBERNETES, RELEASE

    answer = helm.run(
        *("template", RELEASE, str(CHART), "-n", NAMESPACE, "--kube-version", KUBERNETES)
    )

    lines = answer.out.splitlines()
    rules = [number for number, line in enumerate(lines) if line.strip().startswith("- apiGroups")]
    assert len(rules) >= 10
    for number in rules:
        if "mutatingwebhookconfigurations" not in lines[number - 1] and lines[number].startswith(
            "  "
        ):
            before = lines[number - 1].strip()
            webhook_rule = "apiVersions" in lines[number + 1]
            assert webhook_rule or before.startswith("#"), lines[number - 1 : number + 3]
