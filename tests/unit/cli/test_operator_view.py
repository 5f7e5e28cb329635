"""The operator's own view beside the annotations'."""

import json

import pytest

from vgpu_operator.cli import cluster_view, operator_view
from vgpu_operator.kube import errors
from vgpu_operator.model import settings

LABELS = 'zone="vGPU",node="n1",device_uuid="GPU-a0",device_index="0",device_type="NVIDIA A10"'


def page(memory_mib=3000, cores=30, shared=1):
    """Return a leader's page as HAMi names its series: bytes, percent, containers."""
    return (
        "# HELP hami_gpu_memory_allocated_bytes Memory promised to pods.\n"
        "# TYPE hami_gpu_memory_allocated_bytes gauge\n"
        f'hami_gpu_memory_allocated_bytes{{{LABELS},device_cores="100"}} {memory_mib * 2**20}\n'
        f"hami_gpu_core_allocated_ratio{{{LABELS}}} {cores}\n"
        f"hami_gpu_shared_count{{{LABELS}}} {shared}\n"
        f"hami_gpu_memory_limit_bytes{{{LABELS}}} 1\n"
    )


@pytest.fixture
def proxied(command_line, monkeypatch):
    """A chart's Service through which the page of a leader is read."""
    command_line.kube.put(
        "/api/v1/namespaces/gpu/services/x-scheduler",
        {
            "metadata": {
                "labels": {
                    "app.kubernetes.io/component": "scheduler",
                    "helm.sh/chart": "vgpu-operator-0.1.0",
                }
            },
            "spec": {
                "selector": {"app.kubernetes.io/component": "scheduler"},
                "ports": [{"name": "http"}, {"name": "monitor"}],
            },
        },
    )
    command_line.kube.put(
        "/api/v1/namespaces/gpu/pods/x-1",
        {
            "metadata": {"labels": {"app.kubernetes.io/component": "scheduler"}},
            "spec": {
                "containers": [{"ports": [{"name": "metrics", "containerPort": 9395}]}],
            },
        },
    )
    pages = {}

    async def text(self, path, params=None):
        found = pages.get(path)
        if found is None:
            raise errors.Denied(f"GET {path}: 403", status=403)
        return found

    monkeypatch.setattr(type(command_line.kube), "text", text)
    command_line.pages = pages
    return command_line


SERVICE = "/api/v1/namespaces/gpu/services/http:x-scheduler:monitor/proxy/metrics"
POD = "/api/v1/namespaces/gpu/pods/http:x-1:9395/proxy/metrics"


def test_the_same_view_is_no_news(proxied):
    proxied.pages[SERVICE] = page()

    assert proxied.run("nodes") == 0
    assert proxied.err == ""
    proxied.run("nodes", "-o", "json")
    assert json.loads(proxied.out)["operatorDiffers"] == []


@pytest.mark.parametrize("command", [("nodes",), ("top",), ("pods", "-A")])
def test_another_view_is_one_line_a_card(proxied, command):
    proxied.pages[SERVICE] = page(memory_mib=9000, cores=60, shared=2)

    proxied.run(*command)

    assert proxied.err == (
        "operator differs: card GPU-a0 on n1: the annotations say 3000 MiB, 30% cores and"
        " 1 slots are held, the operator says 9000 MiB, 60% cores and 2 slots\n"
    )


def test_explain_notes_it_too(proxied):
    proxied.pages[SERVICE] = page(memory_mib=9000)

    proxied.run("explain", "p1", "-n", "team-a")
    assert "the operator says 9000 MiB" in proxied.out

    proxied.run("explain", "p1", "-n", "team-a", "-o", "json")
    assert [one["card"] for one in json.loads(proxied.out)["operatorDiffers"]] == ["GPU-a0"]


def test_a_followers_empty_page_leads_to_the_other_replicas(proxied):
    proxied.pages[SERVICE] = "# nothing\n"
    proxied.pages[POD] = page(memory_mib=9000)

    proxied.run("nodes")

    assert "the operator says 9000 MiB" in proxied.err


def test_no_rights_and_no_operator_make_no_noise(proxied, command_line):
    assert proxied.run("nodes") == 0
    assert proxied.err == ""
    proxied.run("nodes", "-o", "json")
    assert "403" in json.loads(proxied.out)["operatorNotRead"]


def test_an_address_that_was_given_must_answer(command_line):
    assert command_line.run("nodes", "--operator", "http://127.0.0.1:1") == 1
    assert "http://127.0.0.1:1/metrics" in command_line.err
    assert command_line.run("nodes", "--operator", "nowhere") == 2


def test_cards_of_vendors_that_the_operator_leaves_off_are_no_difference(command_line):
    nodes = [
        raw for path, raw in command_line.kube.objects.items() if path.startswith("/api/v1/nodes/")
    ]
    view = cluster_view.view_of(nodes, (), settings.build({}))
    other = operator_view.View(cards={("n9", "x"): {}})

    assert operator_view.differences(view.ledger, view.vendors, other) == []


def test_a_card_that_the_operator_does_not_know_is_named(command_line):
    nodes = [command_line.kube.objects["/api/v1/nodes/n2"]]
    view = cluster_view.view_of(nodes, (), settings.build({}))
    nothing = {"memoryMiB": 0, "coresPercent": 0, "slots": 0}
    theirs = operator_view.View(cards={("n2", "GPU-b0"): nothing})

    (found,) = operator_view.differences(view.ledger, view.vendors, theirs)

    assert (found["card"], found["operator"]) == ("GPU-b1", None)
    assert found["sentence"].endswith("the operator does not know the card")
