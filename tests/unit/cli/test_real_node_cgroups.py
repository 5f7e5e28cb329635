"""Control groups, on folders that stand in for the kernel's."""

from pathlib import Path

import pytest

from vgpu_operator.cli.cluster.real_node import cgroups


def first_version(folder: Path, *controllers: str) -> Path:
    """Lay out one hierarchy for each controller, and return the list of mounts."""
    lines = ["proc /proc proc rw 0 0"]
    for name in controllers:
        (folder / name).mkdir()
        lines.append(f"cgroup {folder / name} cgroup rw,{name} 0 0")
    mounts = folder / "mounts"
    mounts.write_text("\n".join(lines))
    return mounts


def second_version(folder: Path, *, offered: str, enabled: str) -> tuple[Path, Path]:
    """Lay out the one hierarchy, and return the list of mounts and the file that enables."""
    top = folder / "top"
    top.mkdir()
    (top / "cgroup.controllers").write_text(offered)
    control = top / "cgroup.subtree_control"
    control.write_text(enabled)
    mounts = folder / "mounts"
    mounts.write_text(f"cgroup2 {top} cgroup2 rw 0 0\n")
    return mounts, control


def test_group_is_made_and_removed_in_every_hierarchy(tmp_path: Path) -> None:
    mounts = first_version(tmp_path, "cpu", "memory")

    cgroups.make("node", mounts=mounts)
    made = cgroups.remaining("node", mounts=mounts)
    (tmp_path / "cpu/node/kubepods/pod-1").mkdir(parents=True)
    cgroups.remove("node", mounts=mounts)

    assert made == [tmp_path / "cpu/node", tmp_path / "memory/node"]
    assert cgroups.remaining("node", mounts=mounts) == []


@pytest.mark.parametrize(
    ("offered", "enabled", "written"),
    [
        pytest.param("cpu io memory pids", "", "+cpu +memory +pids", id="none is enabled"),
        pytest.param("cpu io memory pids", "cpu io", "+memory +pids", id="one is"),
        pytest.param("cpu memory", "cpu memory", "cpu memory", id="all are: left alone"),
        pytest.param("io", "", "", id="the kernel has none of them"),
    ],
)
def test_what_a_kubelet_asks_for_is_enabled_below_the_top(
    tmp_path: Path, offered: str, enabled: str, written: str
) -> None:
    mounts, control = second_version(tmp_path, offered=offered, enabled=enabled)

    cgroups.make("node", mounts=mounts)

    assert control.read_text() == written
    assert (tmp_path / "top/node").is_dir()
