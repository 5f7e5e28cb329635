"""What a real node's programs are given: images, configuration, network."""

import hashlib
import io
import json
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_operator.cli.cluster import layout
from vgpu_operator.cli.cluster.real_node import images, kubelet, runtime

PROGRAMS = runtime.Programs(
    containerd=Path("/usr/bin/containerd"),
    ctr=Path("/usr/bin/ctr"),
    runc=Path("/usr/sbin/runc"),
    busybox=Path("/usr/bin/busybox"),
)


def opened(archive: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(archive))


def member(archive: bytes, name: str) -> bytes:
    with opened(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def containerd_configuration(folder: Path, *, overlay: bool = True) -> Any:
    runtime.Runtime(folder, PROGRAMS).write(overlay=overlay)
    return tomllib.loads((folder / "containerd.toml").read_text())


def kubelet_configuration(folder: Path) -> Any:
    told = kubelet.Kubelet(
        name="real-1",
        folder=folder,
        kubeconfig=folder / "kubeconfig",
        runtime_socket=folder / "containerd.sock",
        pod_logs=folder / "pod-logs",
        cgroup="/vgpu-node-1",
    )
    told.write(layout.Layout(folder), port=1001, health_port=1002)
    return yaml.safe_load((folder / "kubelet.yaml").read_text())


def test_archive_names_two_images_whose_digests_are_those_of_their_contents() -> None:
    archive = images.archive(b"busybox", ["sh", "env"])

    manifest = json.loads(member(archive, "manifest.json"))
    assert [entry["RepoTags"] for entry in manifest] == [
        ["localhost/pause:1"],
        ["localhost/shell:1"],
    ]
    for entry in manifest:
        configuration = member(archive, entry["Config"])
        (layer,) = entry["Layers"]
        digest = hashlib.sha256(member(archive, layer)).hexdigest()
        assert entry["Config"] == f"{hashlib.sha256(configuration).hexdigest()}.json"
        assert json.loads(configuration)["rootfs"]["diff_ids"] == [f"sha256:{digest}"]


def test_image_has_the_program_and_a_link_for_each_command() -> None:
    archive = images.archive(b"the program", ["sh", "["])

    (layer, *_) = json.loads(member(archive, "manifest.json"))[0]["Layers"]
    with opened(member(archive, layer)) as tar:
        program = tar.getmember("bin/busybox")
        assert program.mode == 0o755
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert tar.getmember("bin/[").linkname == "busybox"
        assert tar.getmember("tmp").isdir()


@pytest.mark.parametrize(("overlay", "snapshotter"), [(True, "overlayfs"), (False, "native")])
def test_layers_are_copied_where_overlays_do_not_work(
    tmp_path: Path, *, overlay: bool, snapshotter: str
) -> None:
    told = containerd_configuration(tmp_path, overlay=overlay)

    plugin = told["plugins"]["io.containerd.grpc.v1.cri"]
    assert plugin["containerd"]["snapshotter"] == snapshotter
    assert plugin["sandbox_image"] == "localhost/pause:1"


def test_containerd_keeps_everything_in_its_folder(tmp_path: Path) -> None:
    told = containerd_configuration(tmp_path)

    network = told["plugins"]["io.containerd.grpc.v1.cri"]["cni"]
    places = [told["root"], told["state"], told["grpc"]["address"], *network.values()]
    assert all(Path(place).is_relative_to(tmp_path) for place in places)


def test_kubelet_listens_on_loopback_only_and_lets_nobody_in_without_a_certificate(
    tmp_path: Path,
) -> None:
    told = kubelet_configuration(tmp_path)

    assert (told["address"], told["port"], told["readOnlyPort"]) == ("127.0.0.1", 1001, 0)
    assert (told["healthzBindAddress"], told["healthzPort"]) == ("127.0.0.1", 1002)
    assert told["authentication"]["anonymous"] == {"enabled": False}


def test_pods_are_below_the_nodes_own_control_group(tmp_path: Path) -> None:
    told = kubelet_configuration(tmp_path)

    assert told["cgroupRoot"] == "/vgpu-node-1"
    assert told["podLogsDir"] == str(tmp_path / "pod-logs")
