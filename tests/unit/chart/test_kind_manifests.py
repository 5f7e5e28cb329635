"""The kind configuration and its values: they give a cluster that holds what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import ROOT, Helm, one
from vgpu_operator.agent import spec
from vgpu_operator.cli import run as cli_run
from vgpu_operator.vendors import registry

KIND = ROOT / "manifests" / "kind"
PAGE = (ROOT / "docs" / "kind.md").read_text()
VALUES = (KIND / "values.yaml").read_text()


@pytest.fixture
def objects(helm: Helm) -> list[dict[str, Any]]:
    return helm.template(VALUES)


def simulation(objects: list[dict[str, Any]]) -> spec.Simulation:
    text = one(objects, "ConfigMap", "-agent")["data"]["simulation.yaml"]
    return spec.build(yaml.safe_load(text))


def test_the_cluster_is_one_that_kind_makes_and_has_the_name_that_the_page_loads_into() -> None:
    cluster = yaml.safe_load((KIND / "cluster.yaml").read_text())

    assert (cluster["apiVersion"], cluster["kind"]) == ("kind.x-k8s.io/v1alpha4", "Cluster")
    assert [node["role"] for node in cluster["nodes"]] == ["control-plane"]
    assert f"--name {cluster['name']}\n" in PAGE


def test_the_nodes_of_the_page_are_played_and_do_not_fall_silent(
    objects: list[dict[str, Any]],
) -> None:
    played = simulation(objects)

    names = {name for node in played.nodes for name in node.names}
    (removed,) = re.findall(r"`kubectl delete node ([^`]+)`", PAGE)
    assert names == set(removed.split())
    assert played.heartbeat
    assert played.round_interval < 40


def test_the_operator_knows_every_vendor_that_is_played(
    objects: list[dict[str, Any]], tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(one(objects, "ConfigMap", "-scheduler")["data"]["settings.yaml"])

    known = {v.spec.keyword for v in registry.build(cli_run.load_settings(settings))}

    vendors = {node.vendor for node in simulation(objects).nodes}
    assert len(vendors) == 3
    assert vendors <= known


def test_what_runs_stays_off_the_simulated_nodes_and_pulls_no_operator(
    objects: list[dict[str, Any]],
) -> None:
    pods = [
        item["spec"]["template"]["spec"]
        for item in objects
        if item["kind"] in {"Deployment", "Job"}
    ]

    assert len(pods) == 3  # scheduler, agent, cleanup
    for pod in pods:
        assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
        assert [t["key"] for t in pod["tolerations"]] == ["node-role.kubernetes.io/control-plane"]
        ours = [c for c in pod["containers"] if c["image"] == "vgpu-operator:0.1.0"]
        assert [c["imagePullPolicy"] for c in ours] == ["Never"]
    assert "docker build -t vgpu-operator:0.1.0 ." in PAGE
    assert not [item for item in objects if item["kind"] == "DaemonSet"]


@pytest.mark.parametrize("said", [True, False])
def test_a_heartbeat_that_the_values_name_is_left_as_it_is(helm: Helm, said: bool) -> None:
    nodes = [{"prefix": "sim-", "count": 1, "cards": 1}]
    values = {"agent": {"enabled": True, "simulate": {"nodes": nodes, "heartbeat": said}}}

    assert simulation(helm.template(values)).heartbeat is said
