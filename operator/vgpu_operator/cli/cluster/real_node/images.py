"""The two images that pods of a real node can use, made from the static busybox.

No registry is asked: an image is a tar archive of a file system, its configuration and
a manifest (the format of ``docker save``, which containerd imports).
"""

import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass, field

PAUSE = "localhost/pause:1"
"""Keeps a pod's namespaces, as ``registry.k8s.io/pause`` does."""

SHELL = "localhost/shell:1"
"""A shell with busybox's commands. Its own command prints the environment and waits."""

END_OF_ENVIRONMENT = "(end of the environment)"
"""The line after which the shell image's own command has printed all."""

WAIT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
"""Shell commands that wait until the kubelet wants the container to end, and then do.

The first process of a container gets only those signals that it asks for.
"""

SHOW = f"env; echo '{END_OF_ENVIRONMENT}'; {WAIT}"
"""Shell commands of the shell image's own command."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr", "usr/bin", "var")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    tag: str
    command: list[str]
    layer: bytes
    environment: list[str] = field(default_factory=lambda: ["PATH=/bin:/usr/bin"])

    @property
    def layer_digest(self) -> str:
        return hashlib.sha256(self.layer).hexdigest()

    @property
    def configuration(self) -> bytes:
        content = {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": self.command, "Env": self.environment},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{self.layer_digest}"]},
        }
        return json.dumps(content, sort_keys=True).encode()

    @property
    def configuration_name(self) -> str:
        return f"{hashlib.sha256(self.configuration).hexdigest()}.json"


def archive(busybox: bytes, commands: list[str]) -> bytes:
    """Return one archive with both images.

    Args:
        busybox: The static program.
        commands: Its applets (``busybox --list``), each of which becomes a command.
    """
    layer = _layer(busybox, commands)
    images = [
        _Image(tag=PAUSE, command=["sleep", "2147483647"], layer=layer),
        _Image(tag=SHELL, command=["sh", "-c", SHOW], layer=layer),
    ]
    manifest = [
        {
            "Config": image.configuration_name,
            "RepoTags": [image.tag],
            "Layers": [f"{image.layer_digest}/layer.tar"],
        }
        for image in images
    ]
    files = {image.configuration_name: image.configuration for image in images}
    files |= {f"{image.layer_digest}/layer.tar": image.layer for image in images}
    files["manifest.json"] = json.dumps(manifest).encode()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            _add(tar, tarfile.TarInfo(name), content)
    return target.getvalue()


def applets(text: str) -> list[str]:
    """Return the commands that ``busybox --list`` names.

    >>> applets("[\\ncat\\nbusybox\\nsh\\n")
    ['[', 'cat', 'sh']
    """
    return [line for line in text.split() if line != "busybox"]


def _layer(busybox: bytes, commands: list[str]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        program = tarfile.TarInfo("bin/busybox")
        program.mode = 0o755
        _add(tar, program, busybox)
        for command in commands:
            link = tarfile.TarInfo(f"bin/{command}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return target.getvalue()


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, content: bytes) -> None:
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
