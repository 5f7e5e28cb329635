"""The node agent in the chart: where it runs, with what rights, and when it is refused."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from support import requests_sent
from support.helm import KUBERNETES, NAMESPACE, RELEASE, ROOT, Helm, one
from vgpu_operator.cli import agent as agent_command
from vgpu_operator.cli.cluster.real_node import rights
from vgpu_operator.node_agent import configuration
from vgpu_operator.node_agent.backends import simulated

Json = dict[str, Any]

SECURITY = (ROOT / "docs" / "security.md").read_text()
KIND_VALUES = (ROOT / "manifests" / "kind" / "node-agent-values.yaml").read_text()
EARLIER = ROOT / "tests" / "golden" / "chart-0.1.0-alpha.1"
PLAYED = {"nodes": [{"prefix": "sim-", "count": 1, "cards": 1}]}

REQUESTS = {
    "node_agent/desk.py _call get": (("get", "nodes"), ("get", "pods")),
    "node_agent/desk.py _call list": (("list", "pods"),),
    "node_agent/desk.py _call patch": (("patch", "nodes"), ("patch", "pods")),
    "node_agent/node_keeper.py follow_node list": (("list", "nodes"),),
    "node_agent/node_keeper.py follow_node watch": (("watch", "nodes"),),
    "node_agent/node_keeper.py _write patch": (("patch", "nodes"),),
    "node_agent/node_keeper.py _post create": (("create", "events"),),
}
"""Every place in the agent that sends a request, and what it asks for."""


def values(backend: str = "simulated", **agent: Any) -> Json:
    return {
        "devicePlugin": {"enabled": False},
        "agent": {"enabled": True, "backend": backend, **agent},
    }


def pod(objects: list[Json]) -> Json:
    found: Json = one(objects, "DaemonSet", "-node-agent")["spec"]["template"]["spec"]
    return found


def container(objects: list[Json]) -> Json:
    (found,) = pod(objects)["containers"]
    return dict(found)


def names(objects: list[Json]) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


# Which agents there are.


def test_a_back_end_gives_chosen_nodes_an_agent_and_plays_none(helm: Helm) -> None:
    objects = helm.template(values())

    assert pod(objects)["nodeSelector"] == {"gpu": "on"}
    assert ("Deployment", "vgpu-vgpu-operator-agent") not in names(objects)


def test_real_nodes_and_played_ones_may_be_in_one_cluster(helm: Helm) -> None:
    objects = helm.template(values(simulate=PLAYED))

    agents = [name for kind, name in names(objects) if kind in {"DaemonSet", "Deployment"}]
    assert sorted(agents) == [
        *("vgpu-vgpu-operator-agent", "vgpu-vgpu-operator-node-agent"),
        "vgpu-vgpu-operator-scheduler",
    ]


def test_a_values_file_of_the_earlier_chart_makes_what_it_made(helm: Helm) -> None:
    asked = {"agent": {"enabled": True, "simulate": PLAYED}}
    answer = helm.run(
        *("template", RELEASE, str(EARLIER), "-n", NAMESPACE, "--kube-version", KUBERNETES),
        values=asked,
    )
    before = [item for item in yaml.safe_load_all(answer.out) if item]

    after = helm.template(asked)

    def of_the_agent(objects: list[Json]) -> set[tuple[str, str]]:
        return {(kind, name) for kind, name in names(objects) if name.endswith("-agent")}

    assert of_the_agent(after) == of_the_agent(before)
    for part in ("selector", "strategy"):
        old, new = (one(items, "Deployment", "-agent")["spec"] for items in (before, after))
        assert new[part] == old[part]


@pytest.mark.parametrize("enabled", [True, False])
def test_an_agent_without_work_is_told_what_it_can_do(helm: Helm, enabled: bool) -> None:
    asked = {"agent": {"enabled": enabled, "simulate": {"nodes": []}}}
    if not enabled:
        assert helm.template(asked)
        return

    said = helm.refusal(asked)

    assert "agent.backend (simulated or nvml)" in said
    assert "agent.simulate.nodes" in said


# One resource, one plugin on a node.


@pytest.mark.parametrize(
    ("plugin", "agent", "apart"),
    [
        pytest.param({}, {}, False, id="both by the default label"),
        pytest.param({}, {"gpu": None}, False, id="the agent on every node"),
        pytest.param({}, {"gpu": None, "pool": "a"}, False, id="by different labels"),
        pytest.param({"gpu": None}, {"gpu": "ours"}, False, id="the plugin on every node"),
        pytest.param({"pool": "a"}, {"pool": "a", "zone": "b"}, False, id="the same and more"),
        pytest.param({}, {"gpu": "ours"}, True, id="one label, two values"),
        pytest.param({"pool": "a"}, {"pool": "b"}, True, id="one of two labels"),
    ],
)
def test_the_agent_and_hamis_plugin_never_share_a_node(
    helm: Helm, plugin: Json, agent: Json, apart: bool
) -> None:
    asked = values(nodeSelector=agent) | {"devicePlugin": {"nvidiaNodeSelector": plugin}}

    if apart:
        kinds = [kind for kind, _ in names(helm.template(asked))]
        assert kinds.count("DaemonSet") == 2
    else:
        said = helm.refusal(asked)
        assert "two plugins for nvidia.com/gpu" in said
        assert "devicePlugin.enabled: false" in said
        assert "agent.nodeSelector" in said


def test_played_nodes_stay_beside_hamis_plugin(helm: Helm) -> None:
    assert helm.template({"agent": {"enabled": True, "simulate": PLAYED}})


# What it is told.


def started(
    helm: Helm, monkeypatch: pytest.MonkeyPatch, asked: Json
) -> configuration.Configuration:
    """Return how the agent understands the arguments that the chart gives it."""
    found: list[configuration.Configuration] = []

    async def serve(settings: configuration.Configuration, **_: object) -> None:
        found.append(settings)

    monkeypatch.setattr(agent_command, "_serve", serve)
    app = typer.Typer()
    app.callback()(lambda: None)
    agent_command.register(app)
    box = container(helm.template(asked))
    assert box["env"][0] == {
        "name": "NODE_NAME",
        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
    }

    answer = CliRunner().invoke(app, box["args"], env={"NODE_NAME": "gpu-1"})

    assert answer.exit_code == 0, answer.output
    (settings,) = found
    return settings


def test_the_agent_takes_every_argument_and_nothing_fails_by_default(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = started(helm, monkeypatch, values())

    assert settings == configuration.Configuration(
        node="gpu-1",
        backend="simulated",
        cards=Path("/etc/vgpu-agent/cards.yaml"),
        resource="nvidia.com/gpu",
        kubelet_dir=Path("/var/lib/kubelet/device-plugins"),
        pod_resources=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        host_dir=Path("/usr/local/vgpu"),
    )


def test_the_agent_is_ready_once_the_kubelet_has_its_devices(helm: Helm) -> None:
    objects = helm.template(values())
    box = container(objects)
    (told,) = (one.partition("=")[2] for one in box["args"] if one.startswith("--ready-file="))

    assert box["readinessProbe"]["exec"]["command"] == ["test", "-f", told]
    # Its root file system is read-only; a file of the host would outlive the pod.
    volumes = {one["name"]: one for one in pod(objects)["volumes"]}
    mounts = {one["mountPath"]: volumes[one["name"]] for one in box["volumeMounts"]}
    assert "emptyDir" in mounts[str(Path(told).parent)]


def test_every_failure_switch_reaches_the_agent(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {
        *(("slow", 0.5), ("never", True), ("fail", True), ("crashAfter", 3)),
        *(("wrongCount", True), ("unhealthyAfter", 90), ("clockSkew", -1.5)),
    }

    settings = started(helm, monkeypatch, values(failures=dict(failures)))

    assert settings.switches == configuration.Switches(
        slow_s=0.5,
        never=True,
        fail=True,
        crash_after=3,
        wrong_count=True,
        unhealthy_after_s=90,
        clock_skew_s=-1.5,
    )


def test_folders_and_the_resource_are_those_of_the_values(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = values(
        pluginPath="/plugins", podResourcesPath="/k0s/kubelet/pod-resources", backend="nvml"
    )
    asked |= {
        "global": {"gpuHookPath": "/opt/"},
        "device-config": {"overrides": {"nvidia": {"resourceCountName": "example.com/gpu"}}},
    }

    settings = started(helm, monkeypatch, asked)

    assert settings.backend == "nvml"
    assert settings.cards is None
    assert settings.resource == "example.com/gpu"
    assert settings.kubelet_dir == Path("/plugins")
    assert settings.pod_resources == Path("/k0s/kubelet/pod-resources/kubelet.sock")
    assert settings.host_dir == Path("/opt/vgpu")


def test_the_drivers_cards_are_shared_as_the_device_configuration_says(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {"deviceSplitCount": 5, "deviceMemoryScaling": 1.5}
    asked = values("nvml", ignoredXids=[94, 123]) | {
        "devicePlugin": {"enabled": False, **shares},
        "device-config": {"overrides": {"nvidia": {"preConfiguredDeviceMemory": 131072}}},
    }

    settings = started(helm, monkeypatch, asked)

    assert (settings.split_count, settings.memory_scaling) == (5, 1.5)
    assert settings.memory_where_untold_mib == 131072
    assert settings.ignored_xids == {94, 123}


def test_every_path_that_the_agent_is_told_is_mounted_from_the_same_place_of_the_host(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = values(hostDir="/srv/vgpu")
    settings = started(helm, monkeypatch, asked)
    objects = helm.template(asked)
    mounts = {one["mountPath"]: one for one in container(objects)["volumeMounts"]}
    volumes = {one["name"]: one for one in pod(objects)["volumes"]}

    told = {settings.kubelet_dir: True, settings.pod_resources.parent: False}
    # The answers of Allocate name paths of the host: so the agent's own are the same.
    for folder, written in (told | {settings.host_dir: True}).items():
        mount = mounts[str(folder)]
        assert volumes[mount["name"]]["hostPath"]["path"] == str(folder)
        assert mount.get("readOnly", False) is not written
    assert settings.cards is not None
    assert volumes[mounts[str(settings.cards.parent)]["name"]]["configMap"]


@pytest.mark.parametrize(
    "cards",
    [
        pytest.param({"cards": 2, "vendor": "DCU"}, id="alike"),
        pytest.param({"cards": [{"vendor": "DCU"}]}, id="one by one"),
        pytest.param({"devices": [{"vendor": "DCU"}]}, id="one by one, by the other name"),
    ],
)
def test_simulated_cards_of_another_vendor_stand_beside_hamis_plugin(
    helm: Helm, monkeypatch: pytest.MonkeyPatch, cards: Json
) -> None:
    asked = {"agent": values(cards=cards)["agent"]}

    objects = helm.template(asked)

    assert container(objects)["name"] == "dcu-agent"
    assert one(objects, "DaemonSet", "-device-plugin")
    # The kubelet counts them by the vendor's own name.
    assert started(helm, monkeypatch, asked).resource == ""


# Cards.


def cards_of(objects: list[Json]) -> Json:
    text = one(objects, "ConfigMap", "-node-agent")["data"]["cards.yaml"]
    found: Json = yaml.safe_load(text)
    return found


@pytest.mark.parametrize(
    ("cards", "memories"),
    [
        pytest.param({}, [24576] * 4, id="the usual four"),
        pytest.param({"cards": 2, "memory": 40960}, [40960] * 2, id="alike"),
        pytest.param({"cards": [{"memory": 1000}, {}]}, [1000, 24576], id="one by one"),
    ],
)
def test_cards_stand_in_a_config_map_as_the_agent_reads_them(
    helm: Helm, cards: Json, memories: list[int]
) -> None:
    told = cards_of(helm.template(values(cards=cards)))

    vendor, found = simulated.build(told, node="gpu-1", source="cards.yaml")
    assert vendor == "NVIDIA"
    assert [card.memory_mib for card in found] == memories


def test_changed_cards_are_read_again_and_restart_no_agent(helm: Helm) -> None:
    before, after = (helm.template(values(cards={"cards": number})) for number in (1, 2))

    assert cards_of(before) != cards_of(after)
    assert one(before, "DaemonSet") == one(after, "DaemonSet")
    # A file that is mounted by subPath would never change.
    assert not [one for one in container(before)["volumeMounts"] if "subPath" in one]


def test_real_cards_have_no_file(helm: Helm) -> None:
    objects = helm.template(values("nvml"))

    assert ("ConfigMap", "vgpu-vgpu-operator-node-agent") not in names(objects)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container(objects)["env"]


@pytest.mark.parametrize(
    ("asked", "of_pods"),
    [
        pytest.param(values("nvml", runtimeClassName="nvidia"), "nvidia", id="nvml"),
        pytest.param(values("simulated", runtimeClassName="kata"), "", id="simulated"),
        pytest.param(
            values("nvml", runtimeClassName="a")
            | {"devicePlugin": {"enabled": False, "runtimeClassName": "b"}},
            "b",
            id="pods have their own",
        ),
    ],
)
def test_pods_with_real_cards_get_the_agents_runtime_class(
    helm: Helm, asked: Json, of_pods: str
) -> None:
    objects = helm.template(asked)

    assert pod(objects)["runtimeClassName"] == asked["agent"]["runtimeClassName"]
    configuration_text = one(objects, "ConfigMap", "-device")["data"]["device-config.yaml"]
    assert yaml.safe_load(configuration_text)["nvidia"]["runtimeClassName"] == of_pods


# Rights.


@pytest.mark.parametrize("backend", ["simulated", "nvml"])
def test_it_is_root_for_the_kubelets_folders_and_nothing_more(helm: Helm, backend: str) -> None:
    objects = helm.template(values(backend))
    found = pod(objects)

    assert found["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostPID", "hostNetwork", "hostIPC"} & found.keys()
    assert found["priorityClassName"] == "system-node-critical"


def test_selinux_can_be_told_that_it_is_a_device_plugin(helm: Helm) -> None:
    label = {"type": "container_device_plugin_t"}

    box = container(helm.template(values(securityContext={"seLinuxOptions": label})))

    assert box["securityContext"]["seLinuxOptions"] == label
    assert box["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_its_account_is_its_own(helm: Helm) -> None:
    objects = helm.template(values(simulate=PLAYED))

    (subject,) = one(objects, "ClusterRoleBinding", "-node-agent")["subjects"]
    assert subject["name"] == pod(objects)["serviceAccountName"] == "vgpu-vgpu-operator-node-agent"


def test_every_place_of_the_agent_that_sends_a_request_is_known() -> None:
    assert requests_sent.places("node_agent") == set(REQUESTS)


def granted(rules: Iterable[Json]) -> set[tuple[str, str]]:
    """Return verbs and resources of rules, which are all of Kubernetes' first group."""
    rules = list(rules)
    assert all(rule["apiGroups"] == [""] for rule in rules)
    return {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def test_every_request_of_the_agent_has_a_rule_and_every_rule_a_request(helm: Helm) -> None:
    rules = one(helm.template(values()), "ClusterRole", "-node-agent")["rules"]

    asked = {request for requests in REQUESTS.values() for request in requests}
    assert granted(rules) == asked


def test_on_the_local_real_node_the_agent_has_the_charts_rights_and_no_more(helm: Helm) -> None:
    rules = one(helm.template(values()), "ClusterRole", "-node-agent")["rules"]

    assert granted(rights.AGENT) == granted(rules)


def test_every_right_of_the_agent_is_argued(helm: Helm) -> None:
    rules = one(helm.template(values()), "ClusterRole", "-node-agent")["rules"]
    section = SECURITY.partition("## The node agent's rights")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]

    argued = set()
    for row in rows[2:]:
        resource, verbs = row[0].split(": ")
        assert len(row) == len(rows[0]) == 4
        argued |= {(verb, resource) for verb in verbs.split(", ")}
    assert argued == granted(rules)


def test_the_policies_know_its_account(helm: Helm) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:vgpu-vgpu-operator-node-agent"
    objects = helm.template(values())

    writers = one(objects, "ValidatingAdmissionPolicy", "-protocol")["spec"]["matchConditions"]
    own = one(objects, "ValidatingAdmissionPolicy", "-node-agent")["spec"]["matchConditions"]
    assert f'"{account}"' in writers[0]["expression"]
    assert own[0]["expression"] == f'request.userInfo.username == "{account}"'
    # No agent plays nodes here: its account is nobody's.
    assert f'"{account.replace("node-agent", "agent")}"' not in writers[0]["expression"]


def test_the_agents_policy_denies_whatever_the_others_action_is(helm: Helm) -> None:
    objects = helm.template(values() | {"admissionPolicy": {"action": "Warn"}})

    binding = one(objects, "ValidatingAdmissionPolicyBinding", "-node-agent")["spec"]
    assert binding["validationActions"] == ["Deny", "Audit"]


@pytest.mark.parametrize(
    ("asked", "kubernetes"),
    [
        pytest.param(values(), "v1.29.0", id="before such policies"),
        pytest.param(values() | {"admissionPolicy": {"enabled": False}}, "v1.36.3", id="off"),
    ],
)
def test_where_there_are_no_policies_there_is_none_of_the_agent(
    helm: Helm, asked: Json, kubernetes: str
) -> None:
    kinds = {kind for kind, _ in names(helm.template(asked, kubernetes=kubernetes))}

    assert "DaemonSet" in kinds
    assert not {kind for kind in kinds if kind.startswith("Validating")}


# Any kind cluster.


def test_the_values_for_kind_give_every_node_cards_and_pull_nothing(helm: Helm) -> None:
    objects = helm.template(KIND_VALUES)

    found = pod(objects)
    assert "nodeSelector" not in found
    assert container(objects)["imagePullPolicy"] == "Never"
    assert container(objects)["image"] == "vgpu-operator:0.1.0"
    assert cards_of(objects) == {"cards": 2, "memory": 24576, "type": "NVIDIA A10"}
    kinds = [kind for kind, _ in names(objects)]
    assert (kinds.count("DaemonSet"), kinds.count("Deployment")) == (1, 1)
