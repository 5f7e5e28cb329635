"""What machine this is, and what others did on it meanwhile."""

import os
import platform
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """CPU seconds so far: of the whole machine, and of us and our children that ended."""

    at_s: float
    all_s: float
    own_s: float


def describe() -> dict[str, Any]:
    """Return what a reader must know to compare."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "loop_ms": round(_loop_ms()),
    }


def _loop_ms() -> float:
    """Return how long a million additions in plain Python take, the fastest of three."""
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        total = 0
        for number in range(1_000_000):
            total += number
        took.append(time.perf_counter() - begun)
    return 1000 * min(took)


def busy_s() -> Busy:
    """Return the CPU time used until now."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    # user, nice, system, idle, iowait, irq, softirq, steal
    ticks = [int(field) for field in fields[:8]]
    return Busy(
        at_s=time.monotonic(),
        all_s=(sum(ticks) - ticks[3] - ticks[4]) / TICKS_PER_S,
        own_s=sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ),
    )


def cores_of_others(before: Busy) -> float:
    """Return how many cores others used on average since then."""
    now = busy_s()
    others_s = (now.all_s - before.all_s) - (now.own_s - before.own_s)
    return round(max(0.0, others_s) / (now.at_s - before.at_s), 2)


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_mib(pid: int) -> float:
    """Return the resident memory of one process."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0
