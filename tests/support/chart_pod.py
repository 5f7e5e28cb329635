"""One pod of the chart's Deployment: what its two containers would be run with.

No kubelet runs it. Its containers are processes of this machine, with the arguments,
files and the ServiceAccount that the chart gives them; only addresses and paths are
those of here.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support import chart_cluster
from vgpu_operator.cli.cluster import ports
from vgpu_operator.kube import client

Json = dict[str, Any]

OPERATOR = "vgpu-operator"
SCHEDULER = "kube-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where one pod's operator listens; in a cluster each pod has an address of its own."""

    extender: ports.ReservedPort
    metrics: ports.ReservedPort
    webhook: ports.ReservedPort

    @classmethod
    def reserve(cls) -> "Addresses":
        return cls(
            extender=ports.ReservedPort(),
            metrics=ports.ReservedPort(),
            webhook=ports.ReservedPort(),
        )

    def release(self) -> None:
        for port in (self.extender, self.metrics, self.webhook):
            port.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The operator's command, and kube-scheduler's configuration."""

    operator: list[str]
    scheduler: Json


def container(template: Json, name: str) -> Json:
    """Return one container of a pod template."""
    (found,) = [one for one in template["spec"]["containers"] if one["name"] == name]
    return dict(found)


async def mounted(kube: client.KubeClient, template: Json) -> dict[str, str]:
    """Return the files of the ConfigMaps that the template mounts, as they are now."""
    texts: dict[str, str] = {}
    for volume in template["spec"]["volumes"]:
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            found = await kube.get(f"{chart_cluster.collection('ConfigMap')}/{name}")
            texts |= found["data"]
    return texts


def commands(
    template: Json,
    texts: Mapping[str, str],
    *,
    folder: Path,
    at: Addresses,
    access: tuple[Path, str],
) -> Commands:
    """Return what the pod runs.

    Args:
        template: the Deployment's pod template.
        texts: files of its ConfigMaps.
        folder: where they are put.
        at: where its operator listens.
        access: kubeconfig of its ServiceAccount, and the pod's name.
    """
    for name, text in texts.items():
        (folder / name).write_text(text)
    kubeconfig, hostname = access
    here = {
        "--config": str(folder / "settings.yaml"),
        "--device-config": str(folder / "device-config.yaml"),
        "--extender-bind": f"127.0.0.1:{at.extender.number}",
        "--metrics-bind": f"127.0.0.1:{at.metrics.number}",
        "--webhook-bind": f"127.0.0.1:{at.webhook.number}",
        "--state-bind": "127.0.0.1:0",
    }
    arguments = []
    for argument in container(template, OPERATOR)["args"]:
        option, _, value = argument.partition("=")
        arguments.append(f"{option}={here.get(option, value)}" if value else option)
    if not any(argument.startswith("--state-bind") for argument in arguments):
        # An earlier chart does not name it, and its default is one address for all pods here.
        arguments.append(f"--state-bind={here['--state-bind']}")
    config = yaml.safe_load(texts["config.yaml"])
    config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{at.extender.number}"
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    return Commands(
        operator=[
            *(sys.executable, "-m", "vgpu_operator", *arguments),
            *("--kubeconfig", str(kubeconfig), "--leader-hostname", hostname),
        ],
        scheduler=config,
    )
