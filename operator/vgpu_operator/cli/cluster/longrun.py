"""Runs one command that takes minutes: heartbeat, log file, and a sure end."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

from vgpu_operator.cli.cluster import die_with_parent
from vgpu_operator.cli.cluster.errors import Aborted

T = TypeVar("T")

_POLL_S = 0.2
_HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCommand:
    """A command, where it runs, and where its output goes."""

    argv: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    log_file: Path


def run(command: LongCommand, *, heartbeat: Callable[[float], None], abort: Event) -> int:
    """Run to the end and give the exit code.

    Args:
        command: What to run; its log file is appended to.
        heartbeat: Called with the elapsed seconds every 15 s.
        abort: Setting it (from another thread) ends the command.

    Raises:
        Aborted: ``abort`` was set; the command and its children are dead.
    """
    with command.log_file.open("ab") as log:
        process = subprocess.Popen(
            die_with_parent.wrapped(list(command.argv)),
            cwd=command.directory,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A group of its own: Ctrl-C reaches us alone, and we end all of it.
            start_new_session=True,
        )
    try:
        return _wait(process, heartbeat=heartbeat, abort=abort)
    except BaseException:
        _kill_group(process)
        raise


async def in_thread(work: Callable[[Event], T]) -> T:
    """Run blocking work in a thread; a cancelled caller ends it and waits for its end.

    Args:
        work: Gets the event that it must watch, such as ``run`` does.
    """
    abort = Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, abort))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        abort.set()
        await asyncio.wait([task])
        # Looked at, or asyncio complains about an exception that nobody read.
        task.exception()
        raise


def _wait(
    process: subprocess.Popen[bytes], *, heartbeat: Callable[[float], None], abort: Event
) -> int:
    started = time.monotonic()
    next_heartbeat_s = _HEARTBEAT_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=_POLL_S)
        if abort.is_set():
            raise Aborted("stopped before it was done")
        elapsed_s = time.monotonic() - started
        if elapsed_s >= next_heartbeat_s:
            heartbeat(elapsed_s)
            next_heartbeat_s += _HEARTBEAT_S


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # Not reaped yet, so the number is still its own and nobody else's.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_line(log_file: Path) -> str:
    """Return the last line of a log that is not blank, or an empty string."""
    text = log_file.read_text(errors="replace") if log_file.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
