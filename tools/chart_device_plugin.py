"""Values of HAMi's NVIDIA device plugin and its monitor."""

from typing import Annotated

import pydantic
from chart_kinds import Image, Labels, Objects, Open, Port, Values, YesOrNo
from chart_scheduler import ServiceType

from vgpu_operator.model.vendor_settings import section


class HamiImage(Image):
    """HAMi's image."""

    registry: str = "docker.io"
    repository: str = "projecthami/hami"


class NodeConfiguration(Values):
    """Settings of single nodes."""

    config: str = '{"nodeconfig": []}\n'
    """The plugin's `config.json`."""
    external_config_name: str = ""
    """A ConfigMap of yours that holds it instead."""


class ToolkitReady(Values):
    """Wait for NVIDIA's GPU operator."""

    enabled: bool = False
    """Start when its container toolkit is there."""
    host_path: str = "/run/nvidia/validations"
    """Where it says so."""
    security_context: Open = {"privileged": True, "runAsUser": 0}
    """Of the container that waits."""


class PluginService(Values):
    """The Service of the monitor's metrics."""

    type: ServiceType = ServiceType.NODE_PORT
    """Kind of Service."""
    http_port: Port = 31992
    """Its port; also on the nodes, with `NodePort`."""
    labels: Labels = {}
    """Labels of the Service."""
    annotations: Labels = {}
    """Annotations of the Service."""


class Monitor(Values):
    """HAMi's monitor, beside the plugin."""

    image: HamiImage = HamiImage()
    ctr_path: str = "/usr/local/vgpu/containers"
    """Folder of the host with what containers use."""
    resync_interval: str = "5m"
    """How often it looks at everything again."""
    extra_args: list[str] = ["-v=4"]
    """Arguments."""
    extra_envs: Objects | Open = {}
    """Environment: a list as in a container."""
    security_context: Open = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    """Security context."""
    resources: Open = {}
    """Resources."""


class DevicePlugin(Values):
    """HAMi's NVIDIA device plugin, on the nodes with NVIDIA cards."""

    enabled: bool = True
    """Run it. Off where another release of HAMi's plugin runs already."""
    image: HamiImage = HamiImage()
    monitor: Monitor = Monitor()
    device_split_count: Annotated[int, pydantic.Field(ge=0, le=section.LARGEST)] = 10
    """Pods that may share a card."""
    device_memory_scaling: Annotated[float, pydantic.Field(ge=0)] = 1
    """More than 1 promises more memory than there is."""
    device_core_scaling: Annotated[float, pydantic.Field(ge=0)] = 1
    """More than 1 promises more cores than there are."""
    enable_numa_topology: bool = False
    """Tell kubelet each card's NUMA node."""
    pre_configured_device_memory: Annotated[int, pydantic.Field(ge=0, le=section.LARGEST)] = 0
    """MiB of cards that do not tell their memory."""
    node_configuration: NodeConfiguration = NodeConfiguration()
    runtime_class_name: str = ""
    """RuntimeClass of the plugin, and of pods with NVIDIA cards."""
    create_runtime_class: bool = False
    """Make that RuntimeClass."""
    mig_strategy: Annotated[str, pydantic.Field(pattern="^(none|mixed)$")] = "none"
    """`none` or `mixed`."""
    disablecorelimit: YesOrNo = "false"
    """Do not limit cores."""
    pass_device_specs_enabled: bool = False
    """Hand device files to kubelet."""
    device_list_strategy: str = "envvar"
    """How containers are told their cards."""
    nvidia_hook_path: str | None = None
    """NVIDIA's CDI hook."""
    nvidia_driver_root: str | None = None
    """Folder of the host that holds NVIDIA's driver."""
    gdrcopy_enabled: bool | None = None
    """GDRCopy."""
    gds_enabled: bool | None = None
    """GPUDirect Storage."""
    mofed_enabled: bool | None = None
    """Mellanox OFED."""
    gpu_operator_toolkit_ready: ToolkitReady = ToolkitReady()
    extra_args: list[str] = ["-v=4"]
    """Arguments."""
    extra_envs: Objects | Open = {}
    """Environment: a list as in a container."""
    plugin_path: str = "/var/lib/kubelet/device-plugins"
    """kubelet's folder of device plugins on the host."""
    lib_path: str = "/usr/local/vgpu"
    """Folder of the host for HAMi's library."""
    pod_annotations: Labels = {}
    """Annotations of the pods."""
    host_pid: bool = pydantic.Field(default=True, alias="hostPID")
    """See the node's processes."""
    host_network: bool = False
    """Use the node's network."""
    tolerations: Objects = []
    """Tolerations of the pods."""
    security_context: Open = {
        "privileged": True,
        "allowPrivilegeEscalation": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    """Security context of the plugin: it mounts into other containers."""
    resources: Open = {}
    """Resources of the plugin."""
    nvidia_node_selector: Labels = {"gpu": "on"}
    """Nodes with NVIDIA cards. Helm merges maps: to select by another label only, take
    this one away with `gpu: null`."""
    update_strategy: Open = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    """How the DaemonSet is updated."""
    service: PluginService = PluginService()
