"""Where built programs are kept, and how two processes share that folder."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import IO

from vgpu_operator.cli.cluster.errors import Aborted, ClusterError

_RETRY_S = 0.2
_REPORT_EVERY_S = 15.0


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the cache folder: ``$VGPU_CACHE_DIR``, else the XDG one, else ``~/.cache``.

    Only an absolute ``$XDG_CACHE_HOME`` counts, as the XDG specification demands.
    """
    own = environment.get("VGPU_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    xdg = environment.get("XDG_CACHE_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "vgpu-operator"
    return Path(environment.get("HOME") or Path.home()) / ".cache" / "vgpu-operator"


@contextlib.contextmanager
def exclusive(folder: Path, *, report: Callable[[str], None], abort: Event) -> Iterator[None]:
    """Hold the folder's lock, so that two processes never build at once.

    The kernel frees the lock with its holder, however that one dies; the lock
    file itself stays, since deleting it would let two processes lock two files.

    Raises:
        ClusterError: The folder cannot be written.
        Aborted: ``abort`` was set while somebody else held the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock_file = (folder / "lock").open("a")
    except OSError as fault:
        raise ClusterError(
            f"the cache folder {folder} cannot be written ({fault.strerror}); "
            "set VGPU_CACHE_DIR to a folder of yours"
        ) from fault
    with lock_file:
        _lock(lock_file, report=report, abort=abort)
        yield


def _lock(lock_file: IO[str], *, report: Callable[[str], None], abort: Event) -> None:
    started = time.monotonic()
    next_report_s = 0.0
    while not _try_lock(lock_file):
        waited_s = time.monotonic() - started
        if waited_s >= next_report_s:
            report(f"another process is building here; waiting for it ({waited_s:.0f} s)")
            next_report_s = waited_s + _REPORT_EVERY_S
        if abort.wait(_RETRY_S):
            raise Aborted("stopped while waiting for another build")


def _try_lock(lock_file: IO[str]) -> bool:
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
