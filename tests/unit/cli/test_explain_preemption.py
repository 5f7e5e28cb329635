"""``vgpu explain`` on preemption: who leaves, who would, or why nobody does."""

import json

import pytest
import yaml

from support.cli_cluster import put_operator
from vgpu_operator.kube import errors

PODS = "/api/v1/namespaces/team-a/pods"
BUDGETS = "/apis/policy/v1/namespaces/team-a/poddisruptionbudgets"
MIB = 24576


@pytest.fixture
def full(command_line):
    """The one card that would do is held by ``low`` (priority 10); ``p2`` (1000) waits for it."""
    kube = command_line.kube
    kube.put(
        f"{PODS}/low",
        {
            **pod(mem=MIB, priority=10, nodeName="n2"),
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {
                    "hami.io/vgpu-node": "n2",
                    "hami.io/vgpu-devices-allocated": f"GPU-b0,NVIDIA,{MIB},0:;",
                    "hami.io/bind-phase": "success",
                },
            },
            "status": {"phase": "Running", "startTime": "2026-01-15T09:00:00Z"},
        },
    )
    kube.put(f"{PODS}/p2", pod(mem=MIB, priority=1000))
    return command_line


def pod(*, mem, **spec):
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem)}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {
        "spec": {"schedulerName": "hami-scheduler", "containers": containers, **spec},
        "status": {"phase": "Pending"},
    }


def change(command_line, name, **spec):
    raw = command_line.kube.objects[f"{PODS}/{name}"]
    command_line.kube.put(f"{PODS}/{name}", {**raw, "spec": {**raw["spec"], **spec}})


def nominate(command_line, *victims, gone=(), until="2026-01-15T10:03:00Z"):
    raw = command_line.kube.objects[f"{PODS}/p2"]
    uids = [command_line.kube.objects[f"{PODS}/{name}"]["metadata"]["uid"] for name in victims]
    mark = json.dumps({"node": "n2", "until": until, "victims": [*uids, *gone]})
    metadata = {**raw["metadata"], "annotations": {"vgpu-operator.io/nomination": mark}}
    status = {**raw["status"], "nominatedNodeName": "n2"}
    command_line.kube.put(f"{PODS}/p2", {**raw, "metadata": metadata, "status": status})


def section(command_line):
    """Return the lines under PREEMPTION; empty where there is no such part."""
    lines = command_line.out.splitlines()
    if "PREEMPTION" not in lines:
        return []
    rest = lines[lines.index("PREEMPTION") + 1 :]
    return [line.strip() for line in rest[: (*rest, "").index("")]]


def test_who_would_leave_is_said(full):
    assert full.run("explain", "p2", "-n", "team-a") == 1

    assert section(full) == ["Evicting team-a/low (priority 10) from n2 makes room for it."]


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ({"preemptionPolicy": "Never"}, "", "its preemptionPolicy is Never"),
        ({"priority": 10}, "", "without pods of a lower priority than its own (10)"),
        ({}, "preemption: {enabled: false}", "preemption.enabled is off"),
        ({}, "preemption: {dryRun: true}", "preemption.dryRun is on, so nothing is evicted"),
        ({}, "preemption: {minPriorityGap: 991}", "less than preemption.minPriorityGap (991)"),
        ({}, "preemption: {exemptNamespaces: [team-a]}", "holds its namespace team-a"),
    ],
    ids=["never", "equal", "off", "dry run", "gap", "exempt"],
)
def test_why_nobody_leaves_is_said(full, spec, settings, words):
    put_operator(full.kube, settings)
    change(full, "p2", **spec)

    full.run("explain", "p2", "-n", "team-a")

    assert words in " ".join(section(full))


def test_the_budget_that_forbids_it_is_named(full):
    selector = {"matchLabels": {"app": "web"}}
    full.kube.put(
        f"{BUDGETS}/keep", {"spec": {"selector": selector}, "status": {"disruptionsAllowed": 0}}
    )

    full.run("explain", "p2", "-n", "team-a")

    assert section(full) == [
        "Evicting team-a/low (priority 10) from n2 would make room for it, but PodDisruptionBudget"
        " team-a/keep allows no more evictions now, so nothing is evicted."
    ]


def test_budgets_that_may_not_be_listed_are_a_note(full):
    full.kube.fail_next("GET", "/poddisruptionbudgets", errors.Denied("403", status=403))

    full.run("explain", "p2", "-n", "team-a")

    assert "PodDisruptionBudgets may not be listed" in full.out


def test_a_live_nomination_tells_until_when_and_who_has_yet_to_leave(full):
    nominate(full, "low", gone=["uid-of-somebody"])

    full.run("explain", "p2", "-n", "team-a")

    assert section(full) == [
        "Cards of n2 are held for it until 10:03:00 UTC, for 2m.",
        "team-a/low (priority 10) is not evicted yet.",
        "1 of 2 pods that had to leave for it are gone.",
    ]


def test_programs_read_the_nomination(full):
    nominate(full, "low")
    raw = full.kube.objects[f"{PODS}/low"]
    raw["metadata"]["deletionTimestamp"] = "2026-01-15T10:00:20Z"

    full.run("explain", "p2", "-n", "team-a", "-o", "json")

    uid = raw["metadata"]["uid"]
    assert json.loads(full.out)["preemption"] == {
        "nomination": {
            "node": "n2",
            "until": "2026-01-15T10:03:00+00:00",
            "live": True,
            "victims": [{"uid": uid, "pod": "team-a/low", "priority": 10, "state": "leaving"}],
        }
    }


def test_a_nomination_whose_time_is_over_is_told_as_such(full):
    nominate(full, "low", until="2026-01-15T10:00:00Z")

    full.run("explain", "p2", "-n", "team-a")

    assert section(full)[0] == (
        "Cards of n2 were held for it until 10:00:00 UTC; the leader takes the mark off."
    )


def test_a_pod_that_has_to_leave_is_told_for_whom(full):
    nominate(full, "low")

    full.run("explain", "low", "-n", "team-a")

    assert section(full) == ["It is to leave n2 for team-a/p2, whose priority is 1000."]


def test_what_is_held_for_another_pod_is_not_free(full):
    nominate(full, "low")
    full.kube.remove(f"{PODS}/low")
    full.kube.put(f"{PODS}/p3", pod(mem=MIB, priority=500))

    assert full.run("explain", "p3", "-n", "team-a") == 1
    assert full.run("explain", "p2", "-n", "team-a") == 0


def test_a_pod_that_fits_has_no_such_part(full):
    full.kube.remove(f"{PODS}/low")

    full.run("explain", "p2", "-n", "team-a")

    assert section(full) == []


def test_a_manifest_gets_the_priority_of_its_class(full, tmp_path):
    kube = full.kube
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kube.put(f"{path}/high", {"metadata": {"name": "high"}, "value": 1000})
    manifest = tmp_path / "pod.yaml"
    raw = pod(mem=MIB, priorityClassName="high")
    raw |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "team-a"}}
    manifest.write_text(yaml.safe_dump(raw), encoding="utf-8")

    assert full.run("explain", "-f", str(manifest)) == 1

    assert section(full) == ["Evicting team-a/low (priority 10) from n2 makes room for it."]
