"""Turns a program's go.mod to another version of Kubernetes.

The sources are pinned to one version, with sums. Any other is for trying the
operator against older and newer API servers: its go.mod is derived from the
pinned one, and ``go mod tidy`` then writes what follows from it.
"""

import re

from vgpu_operator.cli.cluster.errors import ClusterError

PINNED = "1.36.3"
"""The version that go.mod and go.sum name."""

_VERSION = re.compile(r"1\.(\d+)\.(\d+)")
_ETCD_SERVER = "go.etcd.io/etcd/server/v3"
_REQUIRED = re.compile(r"^\s*(\S+) (v\S+)", re.MULTILINE)
_STAGED = re.compile(r"^\s*(?:require )?(k8s\.io/[\w.-]+) v0\.0\.0(?:\s|$)", re.MULTILINE)


def minor_of(kubernetes_version: str) -> int:
    """Return 36 for ``1.36.3``.

    Raises:
        ClusterError: The text is no full version of Kubernetes 1.
    """
    match = _VERSION.fullmatch(kubernetes_version)
    if match is None:
        raise ClusterError(
            f"{kubernetes_version!r} is no version of Kubernetes; write it as 1.36.3"
        )
    return int(match.group(1))


def linker_flags(kubernetes_version: str) -> str:
    """Return the flags that make the program tell its version, without symbols.

    Clients and feature gates go by that version; a build from modules would
    else call itself v0.0.0-master.
    """
    package = "k8s.io/component-base/version"
    stamps = {
        "gitVersion": f"v{kubernetes_version}",
        "gitMajor": "1",
        "gitMinor": str(minor_of(kubernetes_version)),
    }
    return " ".join(["-s -w", *(f"-X {package}.{key}={value}" for key, value in stamps.items())])


def derive_go_mod(pinned: str, *, kubernetes_go_mod: str, kubernetes_version: str) -> str:
    """Return a go.mod for another version.

    Kubernetes requires its own staged modules at v0.0.0, a version that no
    proxy has: each one that *its* go.mod names so is replaced by the release
    that goes with it.

    Args:
        pinned: Our go.mod as it is.
        kubernetes_go_mod: The go.mod of ``k8s.io/kubernetes`` at the version wanted.
        kubernetes_version: Such as ``1.35.2``.
    """
    staged_version = "v0." + kubernetes_version.removeprefix("1.")
    head, _, rest = pinned.partition("require (")
    # The first block is what the program itself imports; the second follows from it.
    required = dict(_REQUIRED.findall(rest.partition(")")[0])) | {
        "k8s.io/component-base": staged_version,
        "k8s.io/kubernetes": f"v{kubernetes_version}",
    }
    if _ETCD_SERVER in required:
        etcd = re.search(r"go\.etcd\.io/etcd/client/v3 (v\S+)", kubernetes_go_mod)
        if etcd is None:
            raise ClusterError(
                f"the go.mod of Kubernetes {kubernetes_version} names no etcd; try another version"
            )
        required[_ETCD_SERVER] = etcd.group(1)
    requires = [f"{module} {version}" for module, version in required.items()]
    staged = sorted(set(_STAGED.findall(kubernetes_go_mod)))
    replaces = [f"{module} => {module} {staged_version}" for module in staged]
    return head + _block("require", requires) + "\n" + _block("replace", replaces)


def _block(verb: str, lines: list[str]) -> str:
    return "\n".join([f"{verb} (", *(f"\t{line}" for line in lines), ")\n"])
