"""One component of the cluster: a program that runs until it is told to stop."""

import asyncio
import contextlib
import signal
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path

from vgpu_operator.cli.cluster import die_with_parent
from vgpu_operator.cli.cluster.errors import ClusterError, ComponentDied

_STOP_LIMIT_S = 15.0
_TAIL_LINES = 12
_TAIL_BYTES = 64 * 1024


class Component:
    """A child process with a name and a log file.

        new -> running <-> paused
                 |  ^        |
                 v  |        v
               ended (stopped, killed, or by itself)

    It never outlives its owner: it dies with the thread that called ``start``
    (Linux), and with this object. It runs in a session of its own, so Ctrl-C
    in a terminal reaches the owner alone, who stops components in order.

    Attributes:
        name: what it is called.
        argv: program and arguments.
        log_file: where its output goes.
        hostname: a host name that only it sees; None for the machine's own.
    """

    def __init__(
        self, name: str, argv: Sequence[str], *, log_file: Path, hostname: str | None = None
    ) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log_file = log_file
        self.hostname = hostname
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """Return the process id of the latest run; None before the first."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return how the latest run ended (negative: by that signal); None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        """Tell whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; what it writes is appended to the log file.

        Call it from a thread that lives as long as the component should.
        """
        if self.is_running:
            raise ClusterError(f"{self.name} runs already; stop it first")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            process = subprocess.Popen(
                die_with_parent.wrapped(list(self.argv), hostname=self.hostname),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._process = process
        # Should nobody stop it, the end of this object or of Python does.
        weakref.finalize(self, _kill, process)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM); a paused one is woken, or it could not hear."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL), paused or not, and wait until it is gone."""
        if self._process is not None:
            _kill(self._process)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): alive, holding its connections, answering nothing."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused one go on (SIGCONT)."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self._process is not None:
            # Popen looks first whether the process is there still.
            self._process.send_signal(number)

    def wait(self, limit_s: float) -> bool:
        """Block until it has ended; False when the limit passed first."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def stop(self, limit_s: float = _STOP_LIMIT_S) -> None:
        """Ask it to end, and end it by force when the limit has passed."""
        self.terminate()
        try:
            if not await asyncio.to_thread(self.wait, limit_s):
                self.kill()
        except BaseException:
            self.kill()
            raise

    async def restart(self, stop_limit_s: float = _STOP_LIMIT_S) -> None:
        """Stop it if it runs, and start it with the same arguments."""
        await self.stop(stop_limit_s)
        # Not in a worker thread: the component would end with that thread.
        self.start()

    def check_running(self) -> None:
        """Raise ``ComponentDied`` with its last lines when it is not running."""
        if self.is_running:
            return
        written = self._latest_output()
        tail = "\n".join(written.splitlines()[-_TAIL_LINES:])
        raise ComponentDied(
            f"{self.name} ended by itself with exit code {self.exit_code}; "
            f"its log ends so:\n{tail}",
            port_taken="address already in use" in written,
        )

    def log_tail(self, n_lines: int = _TAIL_LINES) -> str:
        """Return the last lines that the latest run wrote."""
        return "\n".join(self._latest_output().splitlines()[-n_lines:])

    def _latest_output(self) -> str:
        with contextlib.suppress(FileNotFoundError), self.log_file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(self._log_start, size - _TAIL_BYTES))
            return log.read().decode(errors="replace")
        return ""

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else f"exit code {self.exit_code}"
        return f"Component({self.name!r}, {state})"


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
