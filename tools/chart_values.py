"""The chart's values as models: names, kinds, defaults and what they mean.

``values.yaml``, ``values.schema.json``, ``files/ignored.yaml`` and the page of values
follow from them (``chart_files``). Names and defaults are those of HAMi's chart
v2.10.0 where the meaning is the same; a field made by ``ignored`` is accepted from a
HAMi values file and does nothing.
"""

import enum
from typing import Annotated, Any, Final

import pydantic
from chart_agent import Agent
from chart_device_plugin import DevicePlugin
from chart_kinds import (
    Image,
    Labels,
    Objects,
    Open,
    OptionalResource,
    Resource,
    Values,
    YesOrNo,
    ignored,
)
from chart_scheduler import Scheduler

from vgpu_operator.model import device_config, settings


class Global(Values):
    """What holds for all pods of the chart."""

    image_registry: str = ""
    """Registry that replaces the registry of every image."""
    image_pull_secrets: list[Open | str] = []
    """Pull secrets of all pods: names, or `{name: …}`."""
    image_tag: str = "v2.10.0"
    """Tag of HAMi's images (device plugin and monitor) where they name none."""
    gpu_hook_path: str = "/usr/local"
    """Folder of the host that gets `vgpu/` with HAMi's library."""
    labels: Labels = {}
    """Labels of every object."""
    annotations: Labels = {}
    """Annotations of every object."""
    managed_node_selector_enable: Any = ignored("nothing reads what it sets, in HAMi neither")
    managed_node_selector: Any = ignored("nothing reads what it sets, in HAMi neither")


class LogLevel(enum.StrEnum):
    """How much is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogFormat(enum.StrEnum):
    """How a line of the log is written."""

    JSON = "json"
    TEXT = "text"


class OperatorImage(Image):
    """The operator's own image."""

    repository: str = "vgpu-operator"


class Operator(Values):
    """The operator's container."""

    image: OperatorImage = OperatorImage()
    """The operator's image; without a tag that of the chart's version."""
    log_level: LogLevel = LogLevel.INFO
    """How much it logs."""
    log_format: LogFormat = LogFormat.JSON
    """`json`: an object a line; `text`: for people."""


class AscendDevices(Values):
    """Ascend."""

    enabled: bool = False
    """Whether pods may ask for Ascend cards."""
    runtime_class_name: str = ""
    """RuntimeClass of pods with Ascend cards."""
    hami_vnpu_core: bool = False
    """Share cards by hami-vnpu-core; a node's own annotation wins."""
    customresources: Any = ignored("the names are those of the device configuration")
    image: Any = ignored("no template of HAMi's chart uses it")
    image_pull_policy: Any = ignored("no template of HAMi's chart uses it")
    extra_args: Any = ignored("no template of HAMi's chart uses it")
    node_selector: Any = ignored("no template of HAMi's chart uses it")
    tolerations: Any = ignored("no template of HAMi's chart uses it")


class IluvatarDevices(Values):
    """Iluvatar."""

    enabled: bool = False
    """Whether pods may ask for Iluvatar cards."""
    customresources: Any = ignored("the names are those of the device configuration")


class VendorDevices(Values):
    """A vendor that is on by default."""

    enabled: bool = True
    """Whether pods may ask for its cards; where not, kube-scheduler counts them as it does
    any resource."""
    customresources: Any = ignored("the names are those of the device configuration")


class PlainDevices(Values):
    """A vendor without a switch."""

    customresources: Any = ignored("the names are those of the device configuration")


class NvidiaDevices(Values):
    """NVIDIA."""

    gpu_core_policy: str = "default"
    """`GPU_CORE_UTILIZATION_POLICY` of pods with cards."""
    lib_cuda_log_level: Annotated[int, pydantic.Field(ge=0, le=4)] = 1
    """How much HAMi's library logs inside containers."""


class Devices(Values):
    """Switches of vendors."""

    nvidia: NvidiaDevices = NvidiaDevices()
    ascend: AscendDevices = AscendDevices()
    iluvatar: IluvatarDevices = IluvatarDevices()
    kunlun: VendorDevices = VendorDevices()
    enflame: VendorDevices = VendorDevices()
    mthreads: VendorDevices = VendorDevices()
    vastai: VendorDevices = VendorDevices()
    biren: VendorDevices = VendorDevices()
    amd: PlainDevices = PlainDevices()
    awsneuron: PlainDevices = PlainDevices()


class DeviceConfig(Values):
    """The device configuration that operator and device plugins read."""

    content: str = ""
    """A whole `device-config.yaml`; it then stands as it is, and the names of resources
    above are not looked at."""
    overrides: device_config.Document = device_config.Document()
    """Single fields over the device configuration that the chart makes, such as
    `nvidia: {defaultMemory: 4000}`."""


class Prometheus(Values):
    """Prometheus Operator."""

    enabled: bool = False
    """Make ServiceMonitors. Needs `monitoring.coreos.com/v1` in the cluster."""
    labels: Labels = {}
    """Labels of the ServiceMonitors, by which a Prometheus selects them."""
    interval: str = "30s"
    """How often metrics are read."""


class Dashboards(Values):
    """Grafana dashboards."""

    enabled: bool = False
    """Make a ConfigMap for each dashboard; Grafana's sidecar finds them by their label."""
    label: Annotated[str, pydantic.Field(min_length=1)] = "grafana_dashboard"
    """The label that the sidecar looks for."""
    label_value: str = "1"
    """Its value."""
    annotations: Labels = {}
    """Annotations of the ConfigMaps, such as `grafana_folder: vGPU`."""
    namespace: str = ""
    """Where the sidecar looks; empty: the release's namespace."""


class PrometheusRule(Values):
    """Alert rules."""

    enabled: bool = False
    """Make a PrometheusRule. Needs `monitoring.coreos.com/v1` in the cluster."""
    labels: Labels = {}
    """Labels of the PrometheusRule, by which a Prometheus selects it."""
    runbook_url: str = ""
    """Where you publish docs/runbooks, such as `https://docs.example.com/runbooks/`: each
    alert gets this and its own name as `runbook_url`. Empty: no such annotation."""


class StateAccess(enum.StrEnum):
    """Who may read the state page on loopback."""

    OPEN = "open"
    TOKEN = "token"  # noqa: S105  # a word, not a token


STATE_ADDRESS: Final = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):[1-9][0-9]{0,4}$"
"""HOST:PORT, :PORT or [IPv6]:PORT."""


class State(Values):
    """The state page: which cards there are, who holds them, who waits and why; read-only."""

    enabled: bool = True
    """Serve it."""
    bind_address: Annotated[str, pydantic.Field(pattern=STATE_ADDRESS)] = "127.0.0.1:9396"
    """Where it listens. On loopback, in the pod, whoever may forward a port to the pod reaches
    it: `vgpu ui`. Another address, such as `:9396`, shows the webhook's certificate, asks for
    tokens, and is a port of the Service, unless that is open on the nodes (`NodePort`)."""
    access: StateAccess = StateAccess.OPEN
    """`token` asks on loopback, too, for a token of somebody who may list nodes and pods."""


class NetworkPolicy(Values):
    """Who may reach the operator."""

    enabled: bool = False
    """Let in callers of the webhook, and those of `metricsFrom` to the metrics."""
    metrics_from: Objects = []
    """Peers as in a NetworkPolicy's `from`; empty: whoever reaches the pod."""
    state_from: Objects = []
    """The same for the state page, where it listens beyond loopback."""


class PolicyAction(enum.StrEnum):
    """What happens to a write of the protocol's keys by somebody unknown."""

    WARN = "Warn"
    DENY = "Deny"


class AdmissionPolicy(Values):
    """Who may write the protocol's annotations."""

    enabled: bool = True
    """Make a ValidatingAdmissionPolicy (Kubernetes 1.30 and newer)."""
    action: PolicyAction = PolicyAction.WARN
    """`Warn` warns the writer and notes it in the audit log, `Deny` refuses."""
    protocol_writers: list[str] = []
    """Further users that may write them, such as
    `system:serviceaccount:kube-system:hami-ascend-device-plugin`."""


class Cleanup(Values):
    """What happens before the release is removed."""

    enabled: bool = True
    """Stop the operator and run `vgpu cleanup`: a Job, as Helm's pre-delete hook."""


def _own_settings() -> type[pydantic.BaseModel]:
    """Return the settings that have no value of their own elsewhere."""
    elsewhere = {
        "scheduler_name",
        "force_overwrite_default_scheduler",
        "default_scheduler_policy",
        "vendors",
    }
    fields: Any = {
        name: (field.annotation, field)
        for name, field in settings.Settings.model_fields.items()
        if name not in elsewhere
    }
    return pydantic.create_model("Settings", __config__=settings.Settings.model_config, **fields)


OwnSettings = _own_settings()


class Chart(Values):
    """All values."""

    global_: Global = pydantic.Field(default=Global(), alias="global")
    name_override: str = ""
    """Replaces the chart's name in names of objects."""
    fullname_override: str = ""
    """Replaces the whole first part of the objects' names."""
    namespace_override: str = ""
    """Namespace of the objects; empty: the release's."""

    scheduler_name: Annotated[str, pydantic.Field(min_length=1, max_length=253)] = "hami-scheduler"
    """Name of the scheduler's profile, of its Lease, and what pods with cards are given."""

    resource_name: Resource = "nvidia.com/gpu"
    """NVIDIA: counts cards."""
    resource_mem: OptionalResource = "nvidia.com/gpumem"
    """NVIDIA: memory on each card in MiB."""
    resource_mem_percentage: OptionalResource = "nvidia.com/gpumem-percentage"
    """NVIDIA: memory on each card in percent."""
    resource_cores: OptionalResource = "nvidia.com/gpucores"
    """NVIDIA: cores in percent of one card."""
    resource_priority: OptionalResource = "nvidia.com/priority"
    """NVIDIA: priority of a container among those on its card."""
    mlu_resource_name: Resource = "cambricon.com/vmlu"
    """Cambricon: counts cards."""
    mlu_resource_mem: Resource = "cambricon.com/mlu.smlu.vmemory"
    """Cambricon: memory in units of 256 MiB."""
    mlu_resource_cores: Resource = "cambricon.com/mlu.smlu.vcore"
    """Cambricon: cores in percent of one card."""
    dcu_resource_name: Resource = "hygon.com/dcunum"
    """Hygon: counts cards."""
    dcu_resource_mem: OptionalResource = "hygon.com/dcumem"
    """Hygon: memory on each card."""
    dcu_resource_cores: OptionalResource = "hygon.com/dcucores"
    """Hygon: cores in percent of one card."""
    metax_resource_name: OptionalResource = "metax-tech.com/sgpu"
    """MetaX: counts cards of which a container gets a share."""
    metax_resource_core: OptionalResource = "metax-tech.com/vcore"
    """MetaX: a share's cores."""
    metax_resource_mem: OptionalResource = "metax-tech.com/vmemory"
    """MetaX: a share's memory."""
    metaxs_gpu_topology_aware: YesOrNo = pydantic.Field(
        default="false", alias="metaxsGPUTopologyAware"
    )
    """MetaX: prefer nodes whose MetaLink zones stay whole."""
    enflame_resource_name_drsgcu: OptionalResource = pydantic.Field(
        default="enflame.com/drs-gcu", alias="enflameResourceNameDRSGCU"
    )
    """Enflame: slices of one card."""
    enflame_resource_name_gcu_memory: OptionalResource = pydantic.Field(
        default="enflame.com/gcu-memory", alias="enflameResourceNameGCUMemory"
    )
    """Enflame: memory of a partition."""
    enflame_resource_name_gcu_core: OptionalResource = pydantic.Field(
        default="enflame.com/gcu-core", alias="enflameResourceNameGCUCore"
    )
    """Enflame: cores of a partition."""
    kunlun_resource_name: OptionalResource = "kunlunxin.com/xpu"
    """Kunlun: counts whole cards."""
    kunlun_resource_v_count_name: OptionalResource = "kunlunxin.com/vxpu"
    """Kunlun: counts slices."""
    kunlun_resource_v_memory_name: OptionalResource = "kunlunxin.com/vxpu-memory"
    """Kunlun: a slice's memory."""
    vastai_resource_name: Resource = "vastaitech.com/va"
    """Vastai: counts cards or dies."""
    biren_resource_name: Resource = "birentech.com/gpu"
    """Biren: counts cards."""

    operator: Operator = Operator()
    settings: OwnSettings = OwnSettings()  # type: ignore[valid-type]
    """Settings of the operator, as in docs/configuration.md. What other values say
    (`schedulerName`, policies, vendors) is not repeated here."""
    scheduler: Scheduler = Scheduler()
    device_plugin: DevicePlugin = DevicePlugin()
    devices: Devices = Devices()
    device_config: DeviceConfig = pydantic.Field(default=DeviceConfig(), alias="device-config")
    agent: Agent = Agent()
    cleanup: Cleanup = Cleanup()
    admission_policy: AdmissionPolicy = AdmissionPolicy()
    state: State = State()
    network_policy: NetworkPolicy = NetworkPolicy()
    prometheus: Prometheus = Prometheus()
    prometheus_rule: PrometheusRule = PrometheusRule()
    dashboards: Dashboards = Dashboards()
    legacy_metrics: bool = False
    """The operator, and HAMi's monitor on the nodes, also show their metrics' older names."""
    pod_security_policy: Any = ignored("Kubernetes 1.25 has removed PodSecurityPolicies")
    mock_device_plugin: Any = ignored("`agent` plays nodes without cards here")
