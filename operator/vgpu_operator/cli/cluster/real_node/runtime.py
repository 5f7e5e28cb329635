"""containerd as the node's container runtime: its configuration, network and images."""

import json
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import layout
from vgpu_operator.cli.cluster.real_node import images

_NETWORK = {"cniVersion": "0.4.0", "name": "none", "type": "none"}

# Written as configuration version 2: containerd 1.6 reads no other, and newer ones do.
_CONFIGURATION = """\
version = 2
root = "{root}"
state = "{state}"

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE nobody may lower a process's OOM score.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{network_programs}"
    conf_dir = "{network_configuration}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
"""

# A pod talks to nobody: its network namespace has the loopback device and no other. The
# address is what the runtime wants to hear; it stands nowhere but in the pod's status.
_NO_NETWORK = """\
#!/bin/sh
cat >/dev/null
case "$CNI_COMMAND" in
ADD)
  printf '{"cniVersion":"0.4.0","interfaces":[{"name":"%s","sandbox":"%s"}],' \\
    "$CNI_IFNAME" "$CNI_NETNS"
  echo '"ips":[{"version":"4","address":"10.88.0.2/16","interface":0}]}'
  ;;
VERSION) echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}' ;;
esac
"""

_LOOPBACK = """\
#!/bin/sh
cat >/dev/null
case "$CNI_COMMAND" in
ADD)
  '@busybox@' nsenter --net="$CNI_NETNS" '@busybox@' ip link set lo up || exit 1
  printf '{"cniVersion":"0.4.0","interfaces":[{"name":"lo","sandbox":"%s"}],' "$CNI_NETNS"
  echo '"ips":[{"version":"4","address":"127.0.0.1/8","interface":0}]}'
  ;;
VERSION) echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}' ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What Debian's packages containerd, runc and busybox-static bring."""

    containerd: Path
    ctr: Path
    runc: Path
    busybox: Path


@dataclass(frozen=True, slots=True)
class Runtime:
    """containerd's files, all in one folder; its path is short, for the sockets in it."""

    folder: Path
    programs: Programs

    @property
    def socket(self) -> Path:
        """Return where it listens."""
        return self.folder / "containerd.sock"

    @property
    def arguments(self) -> list[str]:
        """Return its command line."""
        return [str(self.programs.containerd), f"--config={self.folder / 'containerd.toml'}"]

    def import_arguments(self, archive: Path) -> list[str]:
        """Return the command line that gives the kubelet's pods the images of an archive."""
        return [*self.ctr, "images", "import", str(archive)]

    @property
    def ctr(self) -> list[str]:
        """Return how its client is called for what the kubelet sees."""
        return [str(self.programs.ctr), f"--address={self.socket}", "--namespace=k8s.io"]

    def write(self, *, overlay: bool) -> None:
        """Write its configuration and the network's programs."""
        programs, configuration = self.folder / "cni/bin", self.folder / "cni/net.d"
        programs.mkdir(parents=True)
        configuration.mkdir()
        text = _CONFIGURATION.format(
            root=self.folder / "containerd/root",
            state=self.folder / "containerd/state",
            socket=self.socket,
            pause=images.PAUSE,
            network_programs=programs,
            network_configuration=configuration,
            snapshotter="overlayfs" if overlay else "native",
            runc=self.programs.runc,
        )
        layout.write_private(self.folder / "containerd.toml", text.encode())
        (configuration / "10-none.conf").write_text(json.dumps(_NETWORK))
        loopback = _LOOPBACK.replace("@busybox@", str(self.programs.busybox))
        for name, script in (("none", _NO_NETWORK), ("loopback", loopback)):
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
