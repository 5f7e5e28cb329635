"""Values of the node agent: of real nodes, and of nodes that are objects only."""

import enum
from typing import Annotated, Literal

import pydantic
from chart_kinds import Labels, Objects, Open, Values

from vgpu_operator.model.vendor_settings import section

Seconds = Annotated[float, pydantic.Field(ge=0, le=section.LONGEST_S)]

_FOLDER = "^/.*[^/]$"

Folder = Annotated[str, pydantic.Field(pattern=_FOLDER)]
"""An absolute path, without a slash at its end."""


class AgentBackend(enum.StrEnum):
    """Where the cards of a real node come from."""

    SIMULATED = "simulated"
    NVML = "nvml"


class AgentFailures(Values):
    """What goes wrong on purpose, to try what then happens. Nothing by default."""

    slow: Seconds = 0
    """Seconds that each Allocate call takes longer."""
    never: bool = False
    """Allocate calls are never answered."""
    fail: bool = False
    """Each Allocate call finds its pod and then breaks down."""
    crash_after: Annotated[int, pydantic.Field(ge=0)] = 0
    """The agent crashes at this Allocate call; 0: at none."""
    wrong_count: bool = False
    """The agent believes that the kubelet asks for one device more than it does."""
    unhealthy_after: Seconds = 0
    """Seconds after which the first card turns unhealthy; 0: it does not."""
    clock_skew: Annotated[float, pydantic.Field(ge=-section.LONGEST_S, le=section.LONGEST_S)] = 0
    """Seconds by which the agent's clock is ahead; less than 0: behind."""


class Agent(Values):
    """The node agent (docs/node-agent.md), and simulated nodes (docs/simulated-nodes.md)."""

    enabled: bool = False
    """Run `vgpu agent`: on real nodes with `backend`, for nodes that are objects only with
    `simulate.nodes`, or both."""
    backend: AgentBackend | Literal[""] = ""
    """Cards of real nodes: `simulated`, or NVIDIA's by `nvml`. Empty: no real node has an
    agent."""
    cards: Open = {}
    """The simulated cards of each real node, as a node of docs/simulated-nodes.md has them, all
    of one vendor: `{cards: 4, memory: 24576}`. The agents read a change within two minutes,
    without a restart. Empty: four of the usual NVIDIA cards."""
    ignored_xids: list[Annotated[int, pydantic.Field(ge=0)]] = []
    """`nvml`: XIDs of NVIDIA's driver that do not make a card unhealthy, besides those that
    applications cause. How many pods share a card, and how much memory it has, is said by
    `devicePlugin.deviceSplitCount`, `deviceMemoryScaling` and `preConfiguredDeviceMemory`."""
    node_selector: Labels = {"gpu": "on"}
    """Real nodes that get an agent. Helm merges maps: to select by another label only, or
    every node, take this one away with `gpu: null`."""
    tolerations: Objects = []
    """Tolerations of the agents on real nodes."""
    affinity: Open = {}
    """Affinity of the agents on real nodes."""
    pod_annotations: Labels = {}
    """Annotations of the agents' pods on real nodes."""
    priority_class_name: str = "system-node-critical"
    """PriorityClass of the agents on real nodes."""
    runtime_class_name: str = ""
    """RuntimeClass of the agents on real nodes and, with `nvml`, of pods with NVIDIA cards where
    `devicePlugin.runtimeClassName` names none: NVIDIA's, where that is not the default."""
    create_runtime_class: bool = False
    """Make that RuntimeClass."""
    update_strategy: Open = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    """How the DaemonSet of the agents is updated."""
    plugin_path: Folder = "/var/lib/kubelet/device-plugins"
    """The kubelet's folder of device plugins on the host: the same wherever its own folder is."""
    pod_resources_path: Folder = "/var/lib/kubelet/pod-resources"
    """The kubelet's folder of the pod-resources API on the host; another one where the kubelet
    has another `--root-dir`."""
    host_dir: Annotated[str, pydantic.Field(pattern=f"^$|{_FOLDER}")] = ""
    """Folder of the host for what containers with cards see: the enforcement library, the
    simulated `nvidia-smi`. Empty: `vgpu` in `global.gpuHookPath`."""
    security_context: Open = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    """Security context of the agents' containers on real nodes. They run as root, for the
    kubelet's folders are root's; not privileged."""
    extra_envs: Objects = []
    """Environment of the agents on real nodes: a list as in a container."""
    failures: AgentFailures = AgentFailures()
    simulate: Open = {}
    """The file that says which nodes to play that are objects only: docs/simulated-nodes.md."""
    resources: Open = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    """Resources of each agent's container."""
