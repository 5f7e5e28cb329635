import importlib.resources
import re

import pytest

from vgpu_operator.cli.cluster import versions
from vgpu_operator.cli.cluster.errors import ClusterError

KUBERNETES_GO_MOD = """module k8s.io/kubernetes

require (
	github.com/spf13/cobra v1.9.1
	go.etcd.io/etcd/client/v3 v3.6.5
	k8s.io/api v0.0.0
	k8s.io/client-go v0.0.0
	k8s.io/utils v0.0.0-20260210185600-b8788abfbbc2
)

require k8s.io/kms v0.0.0 // indirect
"""


def pinned_go_mod(program: str = "controlplane") -> str:
    folder = importlib.resources.files("vgpu_operator.cli.cluster") / program
    return (folder / "go.mod").read_text()


@pytest.mark.parametrize("program", ["controlplane", "kubelet"])
def test_pinned_version_is_the_one_that_go_mod_names(program: str) -> None:
    assert f"k8s.io/kubernetes v{versions.PINNED}" in pinned_go_mod(program)


def test_other_version_of_the_kubelet_asks_for_no_etcd() -> None:
    derived = versions.derive_go_mod(
        pinned_go_mod("kubelet"), kubernetes_go_mod=KUBERNETES_GO_MOD, kubernetes_version="1.35.2"
    )

    assert "etcd" not in derived
    assert "\tk8s.io/component-base v0.35.2\n\tk8s.io/kubernetes v1.35.2\n)" in derived


def test_linker_flags_stamp_the_version() -> None:
    assert versions.linker_flags("1.35.2") == (
        "-s -w"
        " -X k8s.io/component-base/version.gitVersion=v1.35.2"
        " -X k8s.io/component-base/version.gitMajor=1"
        " -X k8s.io/component-base/version.gitMinor=35"
    )


@pytest.mark.parametrize("text", ["v1.36.3", "1.36", "2.0.1", "latest", ""])
def test_text_that_is_no_full_version_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match=re.escape(f"{text!r} is no version")):
        versions.minor_of(text)


def test_other_version_replaces_just_the_modules_that_kubernetes_stages() -> None:
    derived = versions.derive_go_mod(
        pinned_go_mod(), kubernetes_go_mod=KUBERNETES_GO_MOD, kubernetes_version="1.35.2"
    )

    assert derived == (
        "module vgpu-operator.example/controlplane\n\n"
        "go 1.26.0\n\n"
        "godebug default=go1.26\n\n"
        "require (\n"
        "\tgithub.com/spf13/cobra v1.10.2\n"
        "\tgo.etcd.io/etcd/server/v3 v3.6.5\n"
        "\tk8s.io/component-base v0.35.2\n"
        "\tk8s.io/kubernetes v1.35.2\n"
        ")\n\n"
        "replace (\n"
        "\tk8s.io/api => k8s.io/api v0.35.2\n"
        "\tk8s.io/client-go => k8s.io/client-go v0.35.2\n"
        "\tk8s.io/kms => k8s.io/kms v0.35.2\n"
        ")\n"
    )
