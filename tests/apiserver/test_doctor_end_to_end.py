"""``vgpu doctor`` on the real control plane: every fault made and named, health not."""

import asyncio
import contextlib
import dataclasses
import datetime
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support import (
    chart_cluster,
    cluster_roles,
    doctor_faults,
    doctor_objects,
    played_kubelet,
    waiting,
)
from support.world import nvidia_pod
from vgpu_operator.agent import simulator, spec
from vgpu_operator.cli import doctor_reader, grounds, installed_settings, main
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.flows.doctor import catalogue
from vgpu_operator.flows.doctor.cluster import Cluster, Source
from vgpu_operator.kube import client, clock, errors, paths
from vgpu_operator.model import settings

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]
LIMIT_S = 30.0


@dataclasses.dataclass(slots=True, kw_only=True)
class Stage:
    """A control plane on which faults are made."""

    plane: ControlPlane
    kube: client.KubeClient
    kubelet: played_kubelet.PlayedKubelet
    now: datetime.datetime = dataclasses.field(default_factory=lambda: clock.SystemClock().now())

    @property
    def scene(self) -> doctor_faults.Scene:
        return doctor_faults.Scene(now=self.now, port=self.kubelet.port)

    async def put(self, objects: doctor_objects.Objects, *, manager: str) -> None:
        """Create objects, or change them; each with its status, which has a path of its own."""
        wanted = {"fieldManager": manager}
        for path, item in objects.items():
            without = {key: value for key, value in item.items() if key != "status"}
            try:
                if "kind" in item:
                    collection = path.rpartition("/")[0]
                    await self.kube.request("POST", collection, body=without, params=wanted)
            except errors.Conflict:
                await self.kube.patch(path, without, params=wanted)
            else:
                if "kind" not in item and without:
                    await self.kube.patch(path, without, params=wanted)
            if "status" in item:
                status = {"status": item["status"]}
                await self.kube.patch(f"{path}/status", status, params=wanted)

    @contextlib.asynccontextmanager
    async def made(self, fault: doctor_faults.Fault) -> AsyncIterator[None]:
        """Make a fault, and take it away at the end of the block."""
        for path, text in fault.logs.items():
            namespace, pod = path.split("/")[4], path.split("/")[6]
            self.kubelet.logs[namespace, pod] = text
        await self.put(fault.objects, manager=fault.manager)
        try:
            yield
        finally:
            sound = doctor_objects.healthy(self.now, port=self.kubelet.port)
            for path in fault.objects:
                if path in sound:
                    await self.put({path: sound[path]}, manager="vgpu-operator")
                else:
                    with contextlib.suppress(errors.NotFound):
                        await self.kube.delete(path, grace_s=0)
            self.kubelet.logs.clear()
            self.kubelet.asked.clear()

    async def look(self, *, later_s: float = 0.0, **options: Any) -> Cluster:
        reader = doctor_reader.Reader(self.kube, settings.Settings())
        cluster, _ = await reader.read(**options)
        return dataclasses.replace(cluster, now=cluster.now + datetime.timedelta(seconds=later_s))

    async def until(self, what: str, condition: Any) -> Any:
        return await waiting.until(what, condition, limit_s=LIMIT_S, every_s=0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(control_plane_program: Path) -> AsyncIterator[Stage]:
    """Give a control plane with a cluster in which nothing is wrong."""
    async with (
        ControlPlane(ControlPlaneOptions(audit=True)) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
        played_kubelet.kubelet() as kubelet,
    ):
        here = Stage(plane=plane, kube=kube, kubelet=kubelet)
        for name in (doctor_objects.SYSTEM, "tight"):
            await kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
        sound = doctor_objects.healthy(here.now, port=kubelet.port)
        await here.put(sound, manager="vgpu-operator")
        yield here


def signatures(cluster: Cluster) -> dict[str, list[str]]:
    """Return what is found, with its evidence: so that a failure shows it."""
    found: dict[str, list[str]] = {}
    for one in catalogue.examine(cluster).findings:
        found.setdefault(one.signature, []).append(" | ".join((str(one.place), *one.evidence)))
    return found


async def test_a_healthy_cluster_gives_no_finding(stage: Stage) -> None:
    cluster = await stage.look()

    assert signatures(cluster) == {}
    assert cluster.missing == {}
    assert len(cluster.nodes) == 3


@pytest.mark.parametrize("signature", doctor_faults.MAKERS)
async def test_a_fault_is_named_and_nothing_else(stage: Stage, signature: str) -> None:
    fault = doctor_faults.MAKERS[signature](stage.scene)
    async with stage.made(fault):
        cluster = await stage.look(later_s=fault.later_s)
        asked = [query for *_, query in stage.kubelet.asked]

    report = catalogue.examine(cluster)
    assert {one.signature for one in report.findings} == {signature}, signatures(cluster)
    assert (report.findings[0].place.kind, report.findings[0].place.name) == fault.about
    shown = "\n".join(
        " ".join((one.title, *one.evidence, one.cause, one.fix)) for one in report.findings
    )
    for words in fault.evidence:
        assert words in shown
    assert cluster.missing == {}
    # Of a log, which may be of any size, the end is asked for.
    assert all("tailLines=40" in query and "limitBytes=16384" in query for query in asked)
    assert asked or not fault.logs


async def test_a_count_that_goes_and_comes_back_is_seen_while_it_is_watched(stage: Stage) -> None:
    looking = asyncio.create_task(stage.look(watch_for_s=1.0))
    path = f"{paths.node('n2')}/status"
    while not looking.done():
        for count in ("1", "10"):
            await stage.kube.patch(path, {"status": {"allocatable": {"nvidia.com/gpu": count}}})

    found = signatures(await looking)

    assert set(found) == {"allocatable-flapping"}
    assert " 10 → 1 → 10" in found["allocatable-flapping"][0]


async def test_the_operators_clock_is_judged_by_the_pods_that_it_binds(stage: Stage) -> None:
    early = stage.now - datetime.timedelta(seconds=300)
    pod = doctor_objects.pod("skewed", limits=doctor_objects.shares(1000))
    notes = doctor_objects.promise(early, "n2", "GPU-b0,NVIDIA,1000,10:;", bound_s=0)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "skewed", "annotations": notes},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n2"},
    }
    await stage.put(pod, manager="vgpu-operator")
    await stage.kube.create(paths.binding("default", "skewed"), binding)

    found = signatures(await stage.look())
    await stage.kube.delete(paths.pod("default", "skewed"), grace_s=0)

    assert set(found) == {"clock-skew"}
    assert "behind the API server's clock" in found["clock-skew"][0]


async def test_the_audit_log_names_the_user_and_says_when_none_is_left(stage: Stage) -> None:
    kubeconfig = str(stage.plane.kubeconfig_for("mallory", ["system:masters"]))
    log = stage.plane.audit_log
    nobody = doctor_faults.policy(writer="mallory")
    async with stage.made(
        doctor_faults.Fault(objects=doctor_faults.policy(), evidence=(), about=("", ""))
    ):
        async with await client.KubeClient.connect(kubeconfig=kubeconfig) as mallory:
            turn = iter(range(10**6))

            async def noted() -> bool:
                texts = {"hami.io/mutex.lock": f"2026-01-01T00:00:00Z,a,b{next(turn)}"}
                await mallory.patch(paths.node("n3"), {"metadata": {"annotations": texts}})
                return bool(doctor_reader.read_audit(log).unknown)

            await stage.until("the policy notes mallory", noted)
            gone: Json = {"metadata": {"annotations": {"hami.io/mutex.lock": None}}}
            await mallory.patch(paths.node("n3"), gone)

        found = signatures(await stage.look(audit_file=log))

        assert set(found) == {"unknown-writer"}
        assert found["unknown-writer"][0].startswith("User mallory | ")
        assert "on nodes/n3" in found["unknown-writer"][0]

        # Once he is among the policy's writers, nobody unknown is left.
        spec_of_it = {"spec": nobody[doctor_faults.POLICY]["spec"]}
        await stage.kube.patch(doctor_faults.POLICY, spec_of_it)
        report = catalogue.examine(await stage.look(audit_file=log))

    assert report.findings == ()
    (note,) = report.notes
    assert "no unknown writer is left in" in note
    assert "look at a day of it at least" in note


async def test_the_policy_of_the_chart_is_known(stage: Stage, helm: Any) -> None:
    documents = helm.template({"admissionPolicy": {"protocolWriters": ["friend"]}})
    made = [one for one in documents if one["kind"].startswith("ValidatingAdmissionPolicy")]
    objects = {chart_cluster.object_path(one): one for one in made}
    async with stage.made(doctor_faults.Fault(objects=objects, evidence=(), about=("", ""))):
        cluster = await stage.look()

    (policy,) = cluster.policies
    assert policy.actions == {"Warn", "Audit"}
    assert "friend" in policy.writers
    assert "system:serviceaccount:vgpu-system:vgpu-vgpu-operator-scheduler" in policy.writers
    (note,) = catalogue.examine(cluster).notes
    assert "no unknown writer is left on the annotations as they stand" in note


async def test_few_rights_are_enough_and_what_is_missing_is_said(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    subject = {"kind": "User", "name": "reader"}
    await cluster_roles.grant(stage.kube, "looks", rules, subject=subject)
    kubeconfig = str(stage.plane.kubeconfig_for("reader"))

    async def answers() -> bool:  # RBAC follows its objects by a watch
        code = await asyncio.to_thread(main.answer, ["doctor", "--kubeconfig", kubeconfig])
        said.append((code, *capsys.readouterr()))
        return code == 0

    said: list[tuple[int, str, str]] = []
    await stage.until("reader may list nodes", answers)

    _, out, err = said[-1]
    assert out.startswith("nothing found in what could be read (")
    lines = err.splitlines()
    assert any(line.startswith("not looked at: leases, because GET ") for line in lines)
    (left,) = [line for line in lines if line.startswith("so these were not looked for: ")]
    assert "two-schedulers" in left
    assert f"note: {installed_settings.ASSUMED}" in lines
    assert "Traceback" not in err


async def test_the_command_ends_with_1_and_shows_what_programs_read(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["doctor", "--kubeconfig", str(stage.plane.kubeconfig)]
    async with stage.made(doctor_faults.lock_malformed(stage.scene)):
        code = await asyncio.to_thread(main.answer, [*command, "-o", "json"])
        shown = json.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(main.answer, command) == 1
        text = capsys.readouterr().out

    assert code == 1
    (item,) = shown["items"]
    assert item["signature"] == "lock-malformed"
    assert item["object"] == {"kind": "Node", "namespace": "", "name": "n4"}
    assert shown["checked"]["nodes"] == 4
    assert text.startswith("WARNING  node lock cannot be read (lock-malformed)\n  Node n4\n")
    assert "  fix:   " in text


async def test_the_cluster_is_as_it_was(stage: Stage) -> None:
    """The faults were taken away: whatever a test found was its own."""
    assert signatures(await stage.look()) == {}
    assert Source.LOGS not in (await stage.look()).missing


async def test_a_cluster_in_which_the_operator_works_gives_no_finding(stage: Stage) -> None:
    """The last one: the scheduler that it starts works as long as the control plane."""
    card = {"vendor": "NVIDIA", "count": 2, "memory": 80_000}
    simulation = spec.Simulation.model_validate(
        {"nodes": [{"name": "sim", "cards": [card]}], "roundInterval": 0.5}
    )
    async with (
        cli_stack.running(grounds.LocalGround(stage.plane), stage.kube),
        simulator.Simulator(stage.kube, simulation, clock.SystemClock()),
    ):
        # It fits on the simulated node only, where there is somebody to serve it.
        pod = nvidia_pod("served", memory=50_000)
        await stage.kube.create(paths.namespaced("default", "pods"), pod)

        async def served() -> bool:
            found = await stage.kube.get(paths.pod("default", "served"))
            phase = found["metadata"].get("annotations", {}).get("hami.io/bind-phase")
            return bool(phase == "success")

        await stage.until("the pod is served", served)

        assert signatures(await stage.look()) == {}
