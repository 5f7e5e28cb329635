"""The kubelet's configuration and command line."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from vgpu_operator.cli.cluster import flags, layout, ports

ROOT = Path("/var/lib/kubelet")
"""Where it keeps its state; the folder for device plugins is in there whatever it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """What one kubelet is told.

    Attributes:
        name: of its node.
        folder: for its configuration.
        kubeconfig: of the user ``system:node:<name>``.
        runtime_socket: where containerd listens.
        pod_logs: folder for what containers write.
        cgroup: below which all pods are, such as ``/vgpu-node-1``.
    """

    name: str
    folder: Path
    kubeconfig: Path
    runtime_socket: Path
    pod_logs: Path
    cgroup: str

    def arguments(self, program: Path) -> list[str]:
        """Return the command line."""
        return [
            str(program),
            f"--config={self._configuration_file}",
            f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--root-dir={ROOT}",
            f"--cert-dir={ROOT}/pki",
        ]

    def write(self, files: layout.Layout, *, port: int, health_port: int) -> None:
        """Write its configuration, for these ports."""
        content = self._configuration(files, port=port, health_port=health_port)
        layout.write_private(self._configuration_file, yaml.safe_dump(content).encode())

    @property
    def _configuration_file(self) -> Path:
        return self.folder / "kubelet.yaml"

    def _configuration(
        self, files: layout.Layout, *, port: int, health_port: int
    ) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ports.LOOPBACK,
            "port": port,
            "readOnlyPort": 0,
            "healthzBindAddress": ports.LOOPBACK,
            "healthzPort": health_port,
            "tlsCertFile": str(files.server_certificate),
            "tlsPrivateKeyFile": str(files.server_key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(files.ca_file)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self.runtime_socket}",
            "podLogsDir": str(self.pod_logs),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            # There is none. Without an address the kubelet posts an event at every look at a pod.
            "clusterDNS": [ports.LOOPBACK],
            # The default of 10 s is how long a change of the devices would wait.
            "nodeStatusUpdateFrequency": "1s",
            # A status in which nothing is new is written as seldom as elsewhere: every
            # write of the Node is in the way of whoever locks it.
            "nodeStatusReportFrequency": "5m",
            # The machine is somebody's own: its full disk is no reason to evict a pod.
            "evictionHard": {"memory.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
            "kubeAPIQPS": flags.CLIENT_QPS,
            "kubeAPIBurst": flags.CLIENT_QPS,
        }
