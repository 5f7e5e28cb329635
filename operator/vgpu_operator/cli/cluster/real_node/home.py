"""The folder of a real node, and what is left of one whose owner was killed."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO

from vgpu_operator.cli.cluster.real_node import cgroups

_PREFIX = "vgpu-node-"
_LOCK = "lock"


class Home:
    """A folder with a short path, since sockets are in it, and a control group of its name.

    A killed owner cannot remove them. Its lock on the folder ends with it, so
    the next real node on this machine finds and removes what nobody holds.

    Attributes:
        folder: where all files are.
        cgroup: the name of the control group.
    """

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.cgroup = self.folder.name
        self._lock = _lock_new(self.folder)
        try:
            cgroups.make(self.cgroup)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove folder and control group; no process of the node may be left."""
        cgroups.remove(self.cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def _lock_new(folder: Path) -> IO[bytes]:
    # Locked before it has its name: nobody may find it unlocked and think us dead.
    unnamed = folder / f"{_LOCK}.new"
    file = unnamed.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(folder / _LOCK)
    return file


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _open_ours(folder / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cgroups.remove(folder.name)
            shutil.rmtree(folder, ignore_errors=True)


def _open_ours(path: Path) -> IO[bytes]:
    """Open a file of this user's to read; anybody may put one of that name where all write.

    Raises:
        OSError: it is somebody else's, or no plain file: a pipe would hold us up for ever.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    found = os.fstat(file.fileno())
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        file.close()
        raise PermissionError(f"{path} is not ours")
    return file
