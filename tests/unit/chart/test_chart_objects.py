"""What the chart makes: safe defaults, one checksum for each configuration, all versions."""

import re
from typing import Any

import pytest
import yaml

from support.helm import NAMESPACE, Helm, one
from vgpu_operator.cli.cluster import scheduler_config

HAMI_OBJECTS = {
    *(("ConfigMap", "-device-plugin"), ("DaemonSet", "-device-plugin")),
    *(("ClusterRole", "-device-plugin-monitor"), ("ClusterRoleBinding", "-device-plugin")),
    *(("Service", "-device-plugin-monitor"), ("ServiceAccount", "-device-plugin")),
    *(("ClusterRole", "-scheduler"), ("ClusterRoleBinding", "-scheduler-kube")),
    *(("ClusterRoleBinding", "-scheduler-volume"), ("ClusterRoleBinding", "-scheduler")),
    *(("ConfigMap", "-scheduler"), ("ConfigMap", "-scheduler-device")),
    *(("Deployment", "-scheduler"), ("Role", "-scheduler"), ("RoleBinding", "-scheduler")),
    *(("Service", "-scheduler"), ("ServiceAccount", "-scheduler")),
    ("MutatingWebhookConfiguration", "-webhook"),
}
"""HAMi's release objects with its defaults; the seven of its hooks make its certificate."""


def scheduler_pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = one(objects, "Deployment", "-scheduler")["spec"]["template"]
    return pod


def container(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [c for c in scheduler_pod(objects)["spec"]["containers"] if c["name"] == name]
    return found


def scheduler_configuration(objects: list[dict[str, Any]]) -> dict[str, Any]:
    text = one(objects, "ConfigMap", "-scheduler")["data"]["config.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def settings_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    text = one(objects, "ConfigMap", "-scheduler")["data"]["settings.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_lint_finds_nothing(helm: Helm) -> None:
    from support.helm import CHART

    answer = helm.run("lint", "--strict", str(CHART))

    assert answer.code == 0, answer.out + answer.complaint
    assert "0 chart(s) failed" in answer.out


def test_every_object_of_hamis_chart_has_its_counterpart(helm: Helm) -> None:
    objects = helm.template()
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}

    missing = [
        (kind, end)
        for kind, end in HAMI_OBJECTS
        if not any(kind == found and name.endswith(end) for found, name in names)
    ]
    assert missing == []


def test_no_object_is_a_custom_resource_by_default(helm: Helm) -> None:
    groups = {item["apiVersion"].partition("/")[0] for item in helm.template()}

    assert groups <= {
        *("v1", "apps", "policy", "rbac.authorization.k8s.io"),
        "admissionregistration.k8s.io",
        "batch",
    }


def test_the_scheduler_is_configured_as_on_a_local_cluster(helm: Helm) -> None:
    ours = scheduler_configuration(helm.template())
    known = scheduler_config.scheduler_configuration(
        scheduler_name="hami-scheduler",
        extender_url="http://127.0.0.1:8080",
        managed_resources=[item["name"] for item in ours["extenders"][0]["managedResources"]],
    )

    assert ours["percentageOfNodesToScore"] == 100
    assert ours["apiVersion"] == known["apiVersion"]
    assert ours["profiles"] == known["profiles"]
    limit = ours["extenders"][0].pop("httpTimeout")
    assert limit == "600s"
    assert known["extenders"][0].pop("httpTimeout") == "10m"  # type: ignore[index]
    assert ours["extenders"] == known["extenders"]


def test_binds_wait_as_long_as_kube_scheduler_does(helm: Helm) -> None:
    objects = helm.template({"settings": {"bind": {"timeLimitS": 120}}})

    assert scheduler_configuration(objects)["extenders"][0]["httpTimeout"] == "120s"
    assert settings_of(objects)["bind"]["timeLimitS"] == 120


def test_the_operator_follows_the_lease_that_its_kube_scheduler_takes(helm: Helm) -> None:
    objects = helm.template({"schedulerName": "gpu-scheduler"})

    election = scheduler_configuration(objects)["leaderElection"]
    assert election["leaderElect"] is True
    lease = f"{election['resourceNamespace']}/{election['resourceName']}"
    assert lease == f"{NAMESPACE}/gpu-scheduler"
    assert f"--leader-lease={lease}" in container(objects, "vgpu-operator")["args"]
    (rule,) = [
        r for r in one(objects, "Role", "-scheduler")["rules"] if r["resources"] == ["leases"]
    ]
    assert rule["resourceNames"] == ["gpu-scheduler"]


def test_after_a_leaders_death_another_leads_within_the_leases_time_and_two_seconds(
    helm: Helm,
) -> None:
    election = scheduler_configuration(helm.template())["leaderElection"]

    units = {"ms": 0.001, "s": 1.0}
    lease_s, renew_s, retry_s = (
        float(number) * units[unit]
        for name in ("leaseDuration", "renewDeadline", "retryPeriod")
        for number, unit in re.findall(r"^(\d+)(ms|s)$", election[name])
    )
    # client-go's leaderelection: a follower waits retryPeriod times 1 to 2.2 between two looks.
    # It may see the last renewal one wait late, and the end of the Lease one wait late.
    longest_wait_s = 2.2 * retry_s
    assert lease_s == 15
    assert 2 * longest_wait_s < 2
    # Without these kube-scheduler refuses to start.
    assert lease_s > renew_s > 1.2 * retry_s


def test_without_a_lease_one_replica_runs_and_never_two(helm: Helm) -> None:
    objects = helm.template({"scheduler": {"leaderElect": False, "replicas": 3}})

    deployment = one(objects, "Deployment", "-scheduler")["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    assert "--leader-lease=none" in container(objects, "vgpu-operator")["args"]
    assert not [item for item in objects if item["kind"] == "PodDisruptionBudget"]


@pytest.mark.parametrize("name", ["kube-scheduler", "vgpu-operator"])
def test_containers_have_no_right_that_they_do_not_need(helm: Helm, name: str) -> None:
    objects = helm.template()

    pod = scheduler_pod(objects)["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["hostNetwork"] is False
    assert container(objects, name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container(objects, name)["resources"]["requests"].keys() == {"cpu", "memory"}
    assert {"livenessProbe", "readinessProbe"} <= container(objects, name).keys()


def test_the_extender_is_not_in_the_service(helm: Helm) -> None:
    objects = helm.template()

    assert "--extender-bind=127.0.0.1:8080" in container(objects, "vgpu-operator")["args"]
    ports = {port["targetPort"] for port in one(objects, "Service", "-scheduler")["spec"]["ports"]}
    named = {
        port["name"]: port["containerPort"] for port in container(objects, "vgpu-operator")["ports"]
    }
    assert ports == {"webhook", "metrics"}
    assert named == {"metrics": 9395, "webhook": 9443}


def test_case_166_the_service_leads_to_every_replica_and_not_to_the_leader_alone(
    helm: Helm,
) -> None:
    selector = one(helm.template(), "Service", "-scheduler")["spec"]["selector"]

    assert all(key.startswith("app.kubernetes.io/") for key in selector)


def test_case_177_replicas_are_spread_by_wish_and_an_update_needs_no_second_node(
    helm: Helm,
) -> None:
    objects = helm.template({"scheduler": {"replicas": 1}})

    pod = scheduler_pod(objects)["spec"]
    assert {c["whenUnsatisfiable"] for c in pod["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    assert "affinity" not in pod
    strategy = one(objects, "Deployment", "-scheduler")["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def checksums(objects: list[dict[str, Any]], kind: str) -> dict[str, str]:
    end = {"Deployment": "-scheduler", "DaemonSet": "-device-plugin"}[kind]
    found = one(objects, kind, end)["spec"]["template"]["metadata"]["annotations"]
    return {key: text for key, text in found.items() if key.startswith("checksum/")}


@pytest.mark.parametrize(
    ("values", "rolled"),
    [
        pytest.param(
            {"resourceName": "a.com/b"}, {"Deployment", "DaemonSet"}, id="device configuration"
        ),
        pytest.param({"schedulerName": "s"}, {"Deployment"}, id="kube-scheduler's configuration"),
        pytest.param({"settings": {"lock": {"expiryS": 9}}}, {"Deployment"}, id="settings"),
        pytest.param(
            {"devicePlugin": {"nodeConfiguration": {"config": "{}"}}},
            {"DaemonSet"},
            id="configuration of single nodes",
        ),
        pytest.param({"admissionPolicy": {"action": "Deny"}}, set(), id="what no pod mounts"),
    ],
)
def test_case_183_a_changed_configuration_rolls_who_mounts_it_and_nobody_else(
    helm: Helm, values: dict[str, Any], rolled: set[str]
) -> None:
    before, after = helm.template(), helm.template(values)

    changed = {
        kind
        for kind in ("Deployment", "DaemonSet")
        if checksums(before, kind) != checksums(after, kind)
    }
    assert changed == rolled


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("v1.25.0", "v1.25.0"),
        ("v1.34.1", "v1.34.1"),
        ("v1.36.3", "v1.36.3"),
        ("v1.32.3-gke.100", "v1.32.3"),
        ("v1.29.11-eks-1ef7f5e", "v1.29.11"),
        ("v1.34.1+k3s1", "v1.34.1"),
    ],
)
def test_case_170_versions_of_managed_clusters_are_taken_and_name_the_image(
    helm: Helm, version: str, tag: str
) -> None:
    objects = helm.template(kubernetes=version)

    image = container(objects, "kube-scheduler")["image"]
    assert image == f"registry.k8s.io/kube-scheduler:{tag}"
    api = scheduler_configuration(objects)["apiVersion"]
    assert api == "kubescheduler.config.k8s.io/v1"  # case 172


def test_case_172_a_version_without_that_configuration_is_refused(helm: Helm) -> None:
    from support.helm import CHART

    answer = helm.run("template", "x", str(CHART), "--kube-version", "v1.22.0")

    assert answer.code != 0
    assert "chart requires kubeVersion: >=1.25.0-0" in answer.complaint


def test_a_registry_replaces_that_of_every_image(helm: Helm) -> None:
    objects = helm.template(
        {
            "global": {"imageRegistry": "registry.example.com", "imagePullSecrets": ["key"]},
            "operator": {"image": {"tag": "sha256:0123"}},
        }
    )

    pods = [
        item["spec"]["template"]["spec"] for item in objects if "template" in item.get("spec", {})
    ]
    images = {c["image"] for pod in pods for c in pod["containers"]}
    assert images == {
        "registry.example.com/kube-scheduler:v1.36.3",
        "registry.example.com/vgpu-operator@sha256:0123",
        "registry.example.com/projecthami/hami:v2.10.0",
    }
    assert all(pod["imagePullSecrets"] == [{"name": "key"}] for pod in pods)


def hook_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (hook,) = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    found: dict[str, Any] = hook
    return found


IGNORED = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}


def test_case_125_an_unreachable_webhook_stops_nothing_by_default(helm: Helm) -> None:
    hook = hook_of(helm.template())

    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] <= 10
    assert hook["objectSelector"]["matchExpressions"] == [IGNORED]
    assert hook["namespaceSelector"]["matchExpressions"] == [
        IGNORED,
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        },
    ]


def test_case_127_selectors_of_the_webhook_can_be_set(helm: Helm) -> None:
    more = {"key": "team", "operator": "In", "values": ["ml"]}
    hook = hook_of(
        helm.template(
            {
                "scheduler": {
                    "admissionWebhook": {
                        "whitelistNamespaces": ["quiet", "kube-system"],
                        "namespaceSelector": {"matchExpressions": [more]},
                        "objectSelector": {"matchLabels": {"gpu": "yes"}},
                    }
                }
            }
        )
    )

    namespaces = hook["namespaceSelector"]["matchExpressions"]
    assert namespaces[0] == IGNORED
    assert namespaces[1]["values"] == ["kube-system", NAMESPACE, "quiet"]
    assert namespaces[2] == more
    assert hook["objectSelector"] == {
        "matchLabels": {"gpu": "yes"},
        "matchExpressions": [IGNORED],
    }


def test_a_platform_may_own_the_namespace_selector(helm: Helm) -> None:
    objects = helm.template({"scheduler": {"admissionWebhook": {"manageNamespaceSelector": False}}})

    assert "namespaceSelector" not in hook_of(objects)
    assert "webhookLeavesOut" not in settings_of(objects)


def test_the_operator_knows_the_namespaces_that_its_webhook_leaves_out(helm: Helm) -> None:
    objects = helm.template(
        {
            "scheduler": {"admissionWebhook": {"whitelistNamespaces": ["quiet"]}},
            "settings": {"webhookLeavesOut": ["labelled", "quiet"]},
        }
    )

    left_out = hook_of(objects)["namespaceSelector"]["matchExpressions"][1]["values"]
    assert left_out == ["kube-system", NAMESPACE, "quiet"]
    assert settings_of(objects)["webhookLeavesOut"] == [*left_out, "labelled"]


def test_pods_of_the_chart_pass_every_webhook_of_the_protocol(helm: Helm) -> None:
    objects = helm.template(
        {"agent": {"enabled": True, "simulate": {"nodes": [{"prefix": "sim-", "count": 1}]}}}
    )

    pods = [item["spec"]["template"] for item in objects if "template" in item.get("spec", {})]
    assert len(pods) == 4
    assert all(pod["metadata"]["labels"]["hami.io/webhook"] == "ignore" for pod in pods)


@pytest.mark.parametrize(
    ("values", "arguments", "kinds"),
    [
        pytest.param(
            {},
            {"--webhook-secret", "--webhook-configuration", "--webhook-host"},
            {"Secret"},
            id="the operator",
        ),
        pytest.param(
            {"certManager": {"enabled": True}},
            {"--webhook-cert", "--webhook-key"},
            {"Issuer", "Certificate"},
            id="cert-manager",
        ),
        pytest.param(
            {
                "certManager": {
                    "enabled": True,
                    "issuerRef": {"name": "ca", "kind": "ClusterIssuer"},
                }
            },
            {"--webhook-cert", "--webhook-key"},
            {"Certificate"},
            id="cert-manager with an issuer of one's own",
        ),
        pytest.param(
            {"patch": {"enabled": False}},
            {"--webhook-cert", "--webhook-key"},
            set(),
            id="a Secret of one's own",
        ),
        pytest.param({"admissionWebhook": {"enabled": False}}, set(), set(), id="no webhook"),
    ],
)
def test_somebody_makes_the_certificate(
    helm: Helm, values: dict[str, Any], arguments: set[str], kinds: set[str]
) -> None:
    objects = helm.template({"scheduler": values})

    given = {argument.split("=")[0] for argument in container(objects, "vgpu-operator")["args"]}
    webhook = {name for name in given if name.startswith("--webhook") and name != "--webhook-bind"}
    assert webhook == arguments
    assert {item["kind"] for item in objects} & {"Secret", "Issuer", "Certificate"} == kinds
    has_webhook = any(item["kind"] == "MutatingWebhookConfiguration" for item in objects)
    assert has_webhook == bool(arguments)
    rules = one(objects, "Role", "-scheduler")["rules"]
    reads_secrets = any("secrets" in rule["resources"] for rule in rules)
    assert reads_secrets == ("--webhook-secret" in arguments)


def test_options_make_their_objects(helm: Helm) -> None:
    usual = {item["kind"] for item in helm.template()}
    objects = helm.template(
        {
            "prometheus": {"enabled": True, "labels": {"release": "prometheus"}},
            "networkPolicy": {"enabled": True},
            "devicePlugin": {"runtimeClassName": "nvidia", "createRuntimeClass": True},
        }
    )

    assert {item["kind"] for item in objects} - usual == {
        *("ServiceMonitor", "NetworkPolicy", "RuntimeClass"),
    }
    monitors = [item for item in objects if item["kind"] == "ServiceMonitor"]
    for monitor in monitors:
        service = next(
            item
            for item in objects
            if item["kind"] == "Service"
            and monitor["spec"]["selector"]["matchLabels"].items()
            <= item["metadata"]["labels"].items()
        )
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert monitor["spec"]["endpoints"][0]["port"] in ports


def test_the_device_plugin_can_be_left_to_another_release(helm: Helm) -> None:
    objects = helm.template({"devicePlugin": {"enabled": False}})

    assert not [item for item in objects if "device-plugin" in item["metadata"]["name"]]
