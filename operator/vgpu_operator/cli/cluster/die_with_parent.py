"""Starts a program that dies with whoever started it, even by SIGKILL.

This file is run as a script between the two, not imported by the child: it
asks the kernel for a signal at the parent's death and then becomes the
program. The same request from ``preexec_fn`` would run Python in a forked copy
of a process that may have threads, which can deadlock; a fresh interpreter
costs about 20 ms and cannot.

The kernel watches the *thread* that started the child, not its process. Start
long-lived children from a thread that lives as long as they should.
"""

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000


def wrapped(argv: list[str], *, hostname: str | None = None) -> list[str]:
    """Return the command line that runs ``argv`` bound to the calling thread's life.

    Args:
        argv: Program and arguments.
        hostname: A host name that only this program sees (its own UTS
            namespace). Components put it into their identity, which is how
            replicas on one machine are told apart.
    """
    if not sys.platform.startswith("linux"):
        return argv  # No such request elsewhere: the owner's clean stop has to do.
    # -I and -S: nothing of the user's Python setup may run in between.
    script = [sys.executable, "-I", "-S", str(Path(__file__).absolute())]
    return [*script, str(os.getpid()), hostname or "", *argv]


def _become(parent_pid: int, hostname: str, argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if hostname:
        _leave_uts_namespace(libc)
        socket.sethostname(hostname)
    # Entering a user namespace clears the request, so it comes after.
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        sys.exit("the process that wanted this program is gone")
    # Python ignores SIGPIPE, and what is ignored stays ignored in the program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(argv[0], argv)  # noqa: S606  # to become it is the point


def _leave_uts_namespace(libc: ctypes.CDLL) -> None:
    if libc.unshare(_CLONE_NEWUTS) == 0:
        return
    # Without root, a user namespace of our own brings the right to do so.
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWUTS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"a host name of its own needs root here: {os.strerror(number)}")


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
