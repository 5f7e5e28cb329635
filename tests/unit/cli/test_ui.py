"""``vgpu ui`` finds the replica that leads, forwards a port to it and says where the page is."""

import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vgpu_operator.cli import main, ui
from vgpu_operator.model import errors

LEASE = ("gpu", "hami-scheduler")


def pod(name: str, *arguments: str, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "gpu"},
        "spec": {
            "containers": [
                {"name": "kube-scheduler", "command": ["kube-scheduler", "--config=/c.yaml"]},
                {
                    "name": "vgpu-operator",
                    "args": ["run", "--leader-lease=gpu/hami-scheduler", *arguments],
                },
            ]
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def chosen(*pods: dict[str, Any], holder: str = "") -> ui.Replica:
    return ui.chosen(list(ui.replicas_in(pods)), {LEASE: holder}, selector=ui.SELECTOR)


def test_the_replica_that_holds_the_lease_is_shown() -> None:
    found = chosen(pod("a-1"), pod("a-11"), pod("a-2"), holder="a-11_5b1c")

    assert (found.pod, found.namespace, found.port, found.scheme) == ("a-11", "gpu", "9396", "http")


def test_where_nobody_is_known_to_lead_one_that_is_ready_is_shown() -> None:
    assert chosen(pod("a-1", ready=False), pod("a-2")).pod == "a-2"


def test_a_pod_that_goes_or_is_no_operator_is_left_out() -> None:
    going = pod("a-1")
    going["metadata"]["deletionTimestamp"] = "2026-01-15T10:00:00Z"
    other = pod("a-0")
    other["spec"]["containers"].pop()

    assert chosen(going, other, pod("a-2"), holder="a-1_x").pod == "a-2"


@pytest.mark.parametrize(
    ("bind", "port", "scheme"),
    [
        ("127.0.0.1:1234", "1234", "http"),
        ("[::1]:1", "1", "http"),
        (":9396", "9396", "https"),
        ("0.0.0.0:80", "80", "https"),
    ],
)
def test_port_and_scheme_are_those_of_its_arguments(bind: str, port: str, scheme: str) -> None:
    found = chosen(pod("a-1", f"--state-bind={bind}"))

    assert (found.port, found.scheme) == (port, scheme)


def test_no_pod_and_a_page_that_is_switched_off_are_told_with_what_to_do() -> None:
    with pytest.raises(errors.SettingsError, match="is it installed"):
        chosen()
    with pytest.raises(errors.SettingsError, match=r"state\.enabled"):
        chosen(pod("a-1", "--state-bind="))


def test_the_port_is_forwarded_on_loopback_and_with_the_users_own_login() -> None:
    command = ui.forwarding("kubectl", chosen(pod("a-1")), port=4000, login=("--context", "prod"))

    assert command == [
        *("kubectl", "--context", "prod", "--namespace", "gpu"),
        *("port-forward", "--address", "127.0.0.1", "pod/a-1", "4000:9396"),
    ]
    assert ui.forwarding("kubectl", chosen(pod("a-1")), port=0)[-1] == ":9396"


def kubectl(folder: Path, script: str) -> str:
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_address_is_said_once_the_port_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = kubectl(
        tmp_path, "echo 'Forwarding from 127.0.0.1:40123 -> 9396'; echo 'Handling connection'"
    )
    replica = chosen(pod("a-1"))

    with pytest.raises(errors.SettingsError, match="has ended; start vgpu ui again"):
        ui.forward(ui.forwarding(program, replica, port=0), replica, browser=False)

    assert capsys.readouterr().out == "http://127.0.0.1:40123/\n"


def test_a_port_that_cannot_be_forwarded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = chosen(pod("a-1"))
    command = ui.forwarding(kubectl(tmp_path, "exit 1"), replica, port=0)

    with pytest.raises(errors.SettingsError, match="pods/portforward"):
        ui.forward(command, replica, browser=False)

    assert capsys.readouterr().out == ""


def test_an_interrupted_command_leaves_no_kubectl_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = kubectl(tmp_path, "echo 'Forwarding from 127.0.0.1:1 -> 9396'; exec sleep 600")
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def noted(*args: Any, **kinds: Any) -> subprocess.Popen[str]:
        started.append(popen(*args, **kinds))
        return started[-1]

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(ui, "_show", interrupt)
    replica = chosen(pod("a-1"))

    with pytest.raises(KeyboardInterrupt):
        ui.forward(ui.forwarding(program, replica, port=0), replica, browser=False)

    assert started[0].returncode is not None


def test_without_kubectl_the_user_is_told_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    code = main.answer(["ui"])

    assert code == 1
    assert "install it, or forward one yourself" in capsys.readouterr().err


def test_a_page_that_is_named_is_only_opened(capsys: pytest.CaptureFixture[str]) -> None:
    code = main.answer(["ui", "--operator", "127.0.0.1:9396", "--no-browser"])

    assert (code, capsys.readouterr().out) == (0, "http://127.0.0.1:9396\n")
