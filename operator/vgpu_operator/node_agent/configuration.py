"""How one node agent is set up, and what is to go wrong with it."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What goes wrong, for tests and for people who learn; nothing by default.

    Attributes:
        slow_s: how long each Allocate call takes at least.
        never: Allocate calls are taken and never answered.
        fail: the pod is found, and failed.
        crash_after: the process ends inside that Allocate call, counted from 1,
            once the entry is taken; None never.
        wrong_count: one device more is counted than the kubelet asks for.
        unhealthy_after_s: the first card is unhealthy so long after the start; None never.
        clock_skew_s: how far the agent's time of day is ahead of the clock.
    """

    slow_s: float = 0.0
    never: bool = False
    fail: bool = False
    crash_after: int | None = None
    wrong_count: bool = False
    unhealthy_after_s: float | None = None
    clock_skew_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the command line says.

    Attributes:
        node: name of this machine's Node.
        backend: ``simulated`` or ``nvml``.
        cards: the file of the simulated cards.
        resource: what the kubelet counts; empty means what the vendor counts by.
        kubelet_dir: the kubelet's folder of device plugin sockets.
        pod_resources: the kubelet's socket that tells who holds which devices.
        host_dir: folder of the host with what is mounted into containers.
        split_count: how many containers may share one of NVML's cards.
        memory_scaling: what the memory of NVML's cards is multiplied by.
        memory_where_untold_mib: memory of those that tell of none; 0 leaves them out.
        ignored_xids: faults that do not make them unhealthy, besides those of applications.
    """

    node: str
    backend: str
    kubelet_dir: Path
    pod_resources: Path
    host_dir: Path
    cards: Path | None = None
    resource: str = ""
    split_count: int = 10
    memory_scaling: float = 1.0
    memory_where_untold_mib: int = 0
    ignored_xids: frozenset[int] = frozenset()
    switches: Switches = field(default_factory=Switches)
