"""``vgpu cleanup`` stops the operator first, and says what it has removed."""

from typing import Any

import pytest

from support.fake_kube import FakeKube
from vgpu_operator.cli import cleanup, main, render
from vgpu_operator.flows import cleanup as flow
from vgpu_operator.model import errors

DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/vgpu-scheduler"
POD = "/api/v1/namespaces/ns/pods/vgpu-scheduler-1"


@pytest.fixture
def kube() -> FakeKube:
    fake = FakeKube()
    fake.put(
        DEPLOYMENT,
        {
            "metadata": {"name": "vgpu-scheduler", "namespace": "ns"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "vgpu"}}},
        },
    )
    return fake


def pod(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "vgpu-scheduler-1", "namespace": "ns", "labels": labels}}


async def test_the_operator_is_stopped_and_waited_for(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "LOOK_EVERY_S", 0.01)
    kube.put(POD, pod({"app": "vgpu"}))
    looks = []
    listing = kube.list

    async def gone_at_the_second_look(path: str, **options: Any) -> Any:
        looks.append(path)
        if len(looks) == 2:
            kube.remove(POD)
        return await listing(path, **options)

    monkeypatch.setattr(kube, "list", gone_at_the_second_look)

    await cleanup.stop(kube, "ns", "vgpu-scheduler")

    assert (await kube.get(DEPLOYMENT))["spec"]["replicas"] == 0
    assert len(looks) == 2


async def test_pods_that_do_not_go_are_said(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(cleanup, "STOP_LIMIT_S", 0.03)
    kube.put(POD, pod({"app": "vgpu"}))

    with pytest.raises(errors.SettingsError, match="ns/vgpu-scheduler are still there after"):
        await cleanup.stop(kube, "ns", "vgpu-scheduler")


async def test_an_operator_that_is_gone_already_is_no_fault() -> None:
    await cleanup.stop(FakeKube(), "ns", "vgpu-scheduler")


async def test_what_may_go_is_removed_and_a_node_that_has_gone_is_passed_over() -> None:
    kube = FakeKube()
    kube.put(
        "/api/v1/nodes/n1",
        {"metadata": {"name": "n1", "annotations": {"hami.io/mutex.lock": "x", "a": "b"}}},
    )

    await cleanup.remove(
        kube,
        [
            flow.Left(node="n1", remove=("hami.io/mutex.lock",)),
            flow.Left(node="n2", remove=("hami.io/mutex.lock",)),
        ],
    )

    assert (await kube.get("/api/v1/nodes/n1"))["metadata"]["annotations"] == {"a": "b"}


def test_every_annotation_is_told_with_what_became_of_it() -> None:
    found = [flow.Left(node="n1", remove=("a",), keep=("b",), because="pod x/y is being served")]

    text = render.render(
        cleanup.table_of(found, dry_run=True), render.Output.TABLE, render.Screen()
    )

    assert [line.split(maxsplit=2) for line in text.splitlines()] == [
        ["NODE", "ANNOTATION", "STATE"],
        ["n1", "a", "left"],
        ["n1", "b", "kept: pod x/y is being served"],
    ]


@pytest.mark.parametrize("option", ["--deployment", "--lease"])
def test_a_name_without_its_namespace_is_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.answer(["cleanup", option, "vgpu"]) == 1
    assert f"{option} 'vgpu' is not NAMESPACE/NAME" in capsys.readouterr().err
