"""Processes and mounts of a real node, in namespaces that end with their owner.

containerd's shims and the containers are children of nobody here: they outlive
containerd, as they must. In a PID namespace they cannot outlive its first process:

    owner --- hold --- first process of the namespace (reaps, does nothing else)
      |         .            |-- shim, container, …
      |         .
      |------ enter --- containerd        ``enter`` joins the namespaces of ``hold``
      |------ enter --- kubelet

When the first process ends, for whatever reason, the kernel kills all others in its
namespace, and with the last one go the mount namespace and every mount in it. ``hold``
and ``enter`` are run by ``process.Component``, which binds them to its owner's life.

This file is run as a script, with the standard library only.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1

KILL_INSIDE = signal.SIGUSR2
"""What ``enter`` turns into SIGKILL for its program: SIGKILL itself cannot be passed on."""


def hold_command(*, binds: Mapping[Path, Path], empty: list[Path], ready_file: Path) -> list[str]:
    """Return the command line that makes the namespaces and keeps them until it ends.

    Args:
        binds: Folder that the processes inside see -> folder that it really is. One
            that is not there is made, outside too, except below an empty one.
        empty: Folders that are empty inside at first, and forgotten at the end.
        ready_file: Written once all is there; ``overlay_works`` reads it.
    """
    plan = _Plan(
        binds={str(target): str(source) for target, source in binds.items()},
        empty=[str(folder) for folder in empty],
        ready_file=str(ready_file),
    )
    return [*_script(), "hold", json.dumps(dataclasses.asdict(plan))]


def probe_command(folder: Path) -> list[str]:
    """Return the command line that makes such namespaces once and leaves them.

    It ends with 0 where that is allowed; else the last line it writes says why not.
    """
    plan = _Plan(binds={}, empty=[], ready_file=str(folder / "ready"))
    return [*_script(), "probe", json.dumps(dataclasses.asdict(plan))]


def enter_command(holder_pid: int, argv: list[str]) -> list[str]:
    """Return the command line that runs a program in the namespaces of a holder.

    SIGTERM and SIGINT are passed on to the program, and ``KILL_INSIDE`` as SIGKILL.
    """
    return [*_script(), "enter", str(holder_pid), *argv]


def overlay_works(ready_file: Path) -> bool:
    """Tell from the ready file whether the folder can hold overlay file systems."""
    return bool(json.loads(ready_file.read_text())["overlay"])


def _script() -> list[str]:
    # -I and -S: nothing of the user's Python setup may run in between.
    return [sys.executable, "-I", "-S", str(Path(__file__).absolute())]


@dataclasses.dataclass(frozen=True)
class _Plan:
    binds: dict[str, str]
    empty: list[str]
    ready_file: str


class _Kernel:
    """The system calls that this Python does not offer itself."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def unshare(self, flags: int) -> None:
        self._check("unshare", self._libc.unshare(flags))

    def join(self, *paths: str) -> None:
        # All are opened before the first is joined: /proc may be another one after.
        for descriptor in [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]:
            self._check("setns", self._libc.setns(descriptor, 0))
            os.close(descriptor)

    def mount(
        self, source: str, target: str, *, kind: str = "", flags: int = 0, data: str = ""
    ) -> None:
        result = self._libc.mount(
            source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
        )
        self._check(f"mount({target})", result)

    def unmount(self, target: str) -> None:
        self._check(f"umount({target})", self._libc.umount2(target.encode(), 0))

    def die_with_parent(self) -> None:
        self._check("prctl", self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))

    def _check(self, what: str, result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")


class _ParentsLife:
    """Tells a forked child whether its parent lives, whatever namespace that is in."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def bind_child(self, kernel: _Kernel) -> None:
        """In the child: die with the parent, now if it is dead already."""
        os.close(self._writer)
        kernel.die_with_parent()
        try:
            os.read(self._reader, 1)
        except BlockingIOError:
            return  # Nothing to read, and nobody has closed it: the parent is there.
        sys.exit("the process that wanted this one is gone")


def _hold(plan: _Plan, *, stay: bool) -> int:
    kernel = _Kernel()
    kernel.unshare(_CLONE_NEWNS | _CLONE_NEWPID)
    # Or every mount made here would show up outside too.
    kernel.mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    life = _ParentsLife()
    first = os.fork()
    if first == 0:
        life.bind_child(kernel)
        _first_process(kernel, plan, stay=stay)
        os._exit(0)

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    # It is gone only after everybody else in its namespace is.
    _, status = os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(status)
    return 0 if code == -signal.SIGKILL else code


def _first_process(kernel: _Kernel, plan: _Plan, *, stay: bool) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    kernel.mount("proc", "/proc", kind="proc")
    for target in plan.empty:
        kernel.mount("tmpfs", target, kind="tmpfs", data="mode=755")
    for target, source in plan.binds.items():
        Path(target).mkdir(parents=True, exist_ok=True)
        kernel.mount(source, target, flags=_MS_BIND)
    ready_file = Path(plan.ready_file)
    overlay = _can_overlay(kernel, ready_file.parent)
    unfinished = ready_file.with_suffix(".new")
    unfinished.write_text(json.dumps({"overlay": overlay}))
    unfinished.rename(ready_file)
    while stay:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _can_overlay(kernel: _Kernel, folder: Path) -> bool:
    """Try it: not every file system can be below or above (an overlay itself cannot)."""
    names = {name: folder / f"overlay-{name}" for name in ("lower", "upper", "work", "merged")}
    for path in names.values():
        path.mkdir(exist_ok=True)
    data = f"lowerdir={names['lower']},upperdir={names['upper']},workdir={names['work']}"
    merged = str(names["merged"])
    try:
        kernel.mount("overlay", merged, kind="overlay", data=data)
    except OSError:
        return False
    kernel.unmount(merged)
    return True


def _enter(holder_pid: str, argv: list[str]) -> int:
    kernel = _Kernel()
    spaces = f"/proc/{holder_pid}/ns"
    kernel.join(f"{spaces}/mnt", f"{spaces}/pid_for_children")
    life = _ParentsLife()
    child = os.fork()
    if child == 0:
        life.bind_child(kernel)
        # Python ignores SIGPIPE, and what is ignored stays ignored in the program.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606  # to become it is the point

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if number == KILL_INSIDE else number)

    for number in (signal.SIGTERM, signal.SIGINT, KILL_INSIDE):
        signal.signal(number, pass_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    try:
        if sys.argv[1] == "enter":
            sys.exit(_enter(sys.argv[2], sys.argv[3:]))
        sys.exit(_hold(_Plan(**json.loads(sys.argv[2])), stay=sys.argv[1] == "hold"))
    except OSError as fault:
        sys.exit(str(fault.strerror or fault))
