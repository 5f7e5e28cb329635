"""The folder of a real node, and what is left of one whose owner was killed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vgpu_operator.cli.cluster.real_node import home

PATIENCE_S = 20.0


def left(parent: Path, *, lock: Callable[[Path], object] = Path.touch) -> Path:
    """Lay out a folder as a killed owner leaves it."""
    folder = parent / "vgpu-node-abandoned"
    folder.mkdir()
    lock(folder / "lock")
    return folder


def test_a_folder_that_nobody_holds_is_removed(tmp_path: Path):
    folder = left(tmp_path)

    home._remove_abandoned(tmp_path)

    assert not folder.exists()


def test_a_folder_whose_owner_lives_stays(tmp_path: Path):
    folder = tmp_path / "vgpu-node-alive"
    folder.mkdir()
    with home._lock_new(folder):
        home._remove_abandoned(tmp_path)

        assert folder.is_dir()


def test_a_pipe_in_place_of_the_lock_holds_nobody_up(tmp_path: Path):
    folder = left(tmp_path, lock=os.mkfifo)
    looking = threading.Thread(target=home._remove_abandoned, args=(tmp_path,), daemon=True)

    looking.start()
    looking.join(PATIENCE_S)

    assert not looking.is_alive()
    assert folder.is_dir()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path):
    other = tmp_path / "other"
    other.touch()
    folder = left(tmp_path, lock=lambda lock: lock.symlink_to(other))

    home._remove_abandoned(tmp_path)

    assert folder.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_stays(tmp_path: Path):
    folder = left(tmp_path)
    os.chown(folder / "lock", 12345, 12345)

    home._remove_abandoned(tmp_path)

    assert folder.is_dir()
