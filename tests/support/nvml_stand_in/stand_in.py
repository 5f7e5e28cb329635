"""The stand-in NVML library: built here, and the back end run against it."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from support import missing_tools

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "operator"
LIMIT_S = 120


def build(folder):
    """Compile the library into the folder, which a process then finds it in."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        missing_tools.skip_or_fail("no C compiler (cc, gcc or clang) for the stand-in of NVML")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, HERE / "nvml.c"]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    return folder


class Played:
    """A process that runs the back end, and the file that says which cards there are."""

    def __init__(self, library, folder, lines, **options):
        self._cards = folder / "cards"
        self._fifo = folder / "faults"
        os.mkfifo(self._fifo)
        self.put(*lines)
        self._process = subprocess.Popen(
            [sys.executable, HERE / "play.py", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(SOURCES),
                "LD_LIBRARY_PATH": str(library),
                "VGPU_STAND_IN_NVML": str(self._cards),
            },
        )
        self.logged = []
        self._guard = threading.Timer(LIMIT_S, self._process.kill)
        self._guard.daemon = True
        self._guard.start()

    def stop(self):
        """Let go of the process, whatever it is at."""
        self._guard.cancel()
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._process.stdin.close()
        self._process.stdout.close()

    def put(self, *lines):
        """Say which cards there are from now on."""
        text = "\n".join([f"faults fifo={self._fifo}", *lines, ""])
        new = self._cards.with_suffix(".new")
        new.write_bytes(text.encode(errors="surrogateescape"))
        new.rename(self._cards)

    def fault(self, uuid, xid):
        """Have the driver report a fault; once cards were told, as nobody listens before."""
        # For reading too: a process that has ended cannot hold this one up.
        pipe = os.open(self._fifo, os.O_RDWR)
        try:
            os.write(pipe, f"{uuid} {xid}\n".encode())
        finally:
            os.close(pipe)

    def say(self, word):
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def next(self):
        """Return the next thing told; what was logged before it is kept."""
        while "log" in (told := self._read()):
            self.logged.append(told["log"])
        return told

    def until_logged(self, text):
        """Return once a line that holds this text was logged."""
        while not any(text in str(entry) for entry in self.logged):
            told = self._read()
            if "log" in told:
                self.logged.append(told["log"])

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError("the process ended, or was ended for it took too long")
        return json.loads(line)

    def until(self, holds):
        """Return the cards of the first news for which this holds."""
        while not holds(cards := self.next().get("cards", [])):
            pass
        return cards

    def until_health(self, **health):
        """Return once each of the cards named is healthy, or not, as said."""
        wanted = {uuid.replace("_", "-"): well for uuid, well in health.items()}
        return self.until(lambda cards: {c["id"]: c["healthy"] for c in cards} == wanted)

    def end(self):
        """End the back end; return what it left running, and what it logged in all."""
        self.say("close")
        while "left" not in (told := self.next()):
            pass
        return told["left"], self.logged
