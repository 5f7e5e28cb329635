"""All knobs, built from a mapping that is handed in: no file, no environment.

The file that people write is YAML in camelCase; ``build`` turns the mapping
into a frozen ``Settings`` or raises one ``SettingsError`` that names every
wrong path.
"""

import enum
from collections.abc import Mapping
from typing import Any

import pydantic

from vgpu_operator.model import errors, policy
from vgpu_operator.model.vendor_settings import resources, section
from vgpu_operator.model.vendor_settings.amd import AmdSettings
from vgpu_operator.model.vendor_settings.ascend import AscendSettings
from vgpu_operator.model.vendor_settings.awsneuron import AwsNeuronSettings
from vgpu_operator.model.vendor_settings.biren import BirenSettings
from vgpu_operator.model.vendor_settings.cambricon import CambriconSettings
from vgpu_operator.model.vendor_settings.enflame import EnflameSettings
from vgpu_operator.model.vendor_settings.hygon import HygonSettings
from vgpu_operator.model.vendor_settings.iluvatar import IluvatarSettings
from vgpu_operator.model.vendor_settings.kunlun import KunlunSettings
from vgpu_operator.model.vendor_settings.metax import MetaxSettings
from vgpu_operator.model.vendor_settings.mthreads import MthreadsSettings
from vgpu_operator.model.vendor_settings.nvidia import NvidiaSettings as NvidiaSettings
from vgpu_operator.model.vendor_settings.vastai import VastaiSettings


class Trust(enum.StrEnum):
    """How far a pod's annotations are believed.

    ``REQUESTS`` charges a pod at most what its own containers ask for, so a
    forged annotation harms nobody. ``ANNOTATIONS`` is HAMi's way.
    """

    REQUESTS = "requests"
    ANNOTATIONS = "annotations"


class StuckPod(enum.StrEnum):
    """What happens to a bound pod that no kubelet has seen when its lock expires."""

    REPORT = "report"
    DELETE = "delete"


class VendorSettings(section.Section):
    """One section per vendor."""

    nvidia: NvidiaSettings = NvidiaSettings()
    cambricon: CambriconSettings = CambriconSettings()
    hygon: HygonSettings = HygonSettings()
    enflame: EnflameSettings = EnflameSettings()
    mthreads: MthreadsSettings = MthreadsSettings()
    metax: MetaxSettings = MetaxSettings()
    kunlun: KunlunSettings = KunlunSettings()
    awsneuron: AwsNeuronSettings = AwsNeuronSettings()
    amd: AmdSettings = AmdSettings()
    vastai: VastaiSettings = VastaiSettings()
    biren: BirenSettings = BirenSettings()
    ascend: AscendSettings = AscendSettings()
    iluvatar: IluvatarSettings = IluvatarSettings()


class HandshakeSettings(section.Section):
    """Times of the handshake with the device plugins."""

    interval_s: section.Seconds = pydantic.Field(default=15.0, gt=0)
    """How often every node's handshake is looked at, besides its own events."""
    expiry_s: section.Seconds = pydantic.Field(default=60.0, gt=0)
    """How old a stamp is when it counts as unanswered."""


class LockSettings(section.Section):
    """Times of the node lock."""

    expiry_s: section.Seconds = pydantic.Field(default=300.0, gt=0)
    """How old a lock is when it may pass on; never while its owner's Allocate may come."""
    release_after_s: section.Seconds = pydantic.Field(default=3.0, ge=0)
    """How long a plugin may take to remove the lock of a pod it has served
    before the leader removes it."""


class BindSettings(section.Section):
    """The bind step."""

    time_limit_s: section.Seconds = pydantic.Field(default=600.0, gt=2)
    """kube-scheduler's ``httpTimeout`` for the extender; waiting ends 2 s earlier."""
    stuck_after_s: section.Seconds = pydantic.Field(default=60.0, gt=0)
    """How long a pod may be ``allocating`` before an event says so."""
    stuck_pod: StuckPod = StuckPod.REPORT
    """What happens to a bound pod that no kubelet has seen when its lock expires:
    ``report`` sends an event on the node, ``delete`` deletes the pod too, without
    grace, which needs the verb ``delete`` on pods that the operator's ClusterRole
    does not give by itself."""


class ContainerSeparator(enum.StrEnum):
    """What stands between the containers of a devices text in the older dialect."""

    SEMICOLON = ";"
    COLON = ":"


class ForerunnerSettings(section.Section):
    """The dialect of k8s-vgpu-scheduler."""

    container_separator: ContainerSeparator = ContainerSeparator.SEMICOLON
    """What is written between a pod's containers: ``;``, or ``:`` for plugins whose
    texts run on; both are read."""
    handshake_expiry_s: section.Seconds = pydantic.Field(default=300.0, gt=0)
    """How old a stamp is when it counts as unanswered, instead of ``handshake.expiryS``."""


class DialectSettings(section.Section):
    """Older dialects of the protocol, by name; a node's keys tell which one it speaks."""

    forerunner: ForerunnerSettings = pydantic.Field(default=ForerunnerSettings(), alias="4pd")


class ClaimSettings(section.Section):
    """How long a filter's expectation holds cards for other filters."""

    lifetime_s: section.Seconds = pydantic.Field(default=1.0, ge=0)
    """For ordinary pods; 0 makes no claims."""
    slow_lifetime_s: section.Seconds = pydantic.Field(default=30.0, ge=0)
    """For pods with volumes or in a group."""


class LedgerSettings(section.Section):
    """What the ledger believes."""

    trust: Trust = Trust.REQUESTS
    """``requests`` charges a pod at most what its own containers ask for,
    ``annotations`` whatever its annotations say, as HAMi does."""
    audit_interval_s: section.Seconds = pydantic.Field(default=60.0, gt=0, le=1800)
    """How often the ledger is compared with a fresh list of pods."""


class ScoringSettings(section.Section):
    """Node scores."""

    max_score: int = pydantic.Field(default=100, ge=1, le=1_000_000)
    """Score of the node that is preferred most; the others lie between 0 and it."""
    avoid_busy_nodes: bool = True
    """Put nodes whose lock is taken just behind those where it is free. Without it a
    burst under ``binpack`` stands in line at one node."""


class PolicySettings(section.Section):
    """Defaults of the policies that a pod may set by annotation."""

    node_scheduler_policy: policy.NodePolicy = policy.NodePolicy.BINPACK
    """Which nodes are filled first: ``binpack`` the fullest, ``spread`` the emptiest."""
    gpu_scheduler_policy: policy.CardChain = policy.CardPolicy.SPREAD.value
    """The same for the cards of a node; also ``numa``, ``topology-aware``, ``mutex``, or
    several with commas (``mutex,binpack``)."""


class EventSettings(section.Section):
    """Events on pods and nodes."""

    success: bool = False
    """Send HAMi's ``FilteringSucceed`` and ``BindingSucceed`` too."""


class MetricsSettings(section.Section):
    """Families of ``/metrics`` that not everybody needs."""

    legacy_names: bool = False
    """Export HAMi's series a second time under the names that they had before HAMi 2.9
    (``GPUDeviceMemoryLimit``, ``vGPUMemoryAllocated``, …), for older dashboards."""
    web_ui_names: bool = False
    """Export the series that HAMi-WebUI makes and that follow from the ledger
    (``hami_vgpu_count``, ``hami_container_vgpu_allocated``, …); leave it off where a
    HAMi-WebUI exports them itself."""


class WakeSettings(section.Section):
    """Waking of pods that were refused and now might fit."""

    delay_s: section.Seconds = pydantic.Field(default=0.1, ge=0)
    """How long kube-scheduler's own retry may take before we cause one."""
    catch_up_s: section.Seconds = pydantic.Field(default=0.05, ge=0)
    """How long a retried pod's refusal waits for the watch to catch up."""


class PreemptionSettings(section.Section):
    """Eviction of pods of lower priority, so that one of higher priority gets their cards.

    A pod's own ``priorityClassName`` says how high its priority is, and its
    ``preemptionPolicy: Never`` that it evicts nobody.
    """

    enabled: bool = True
    """Evict pods for one of higher priority that fits nowhere. Takes the rights to evict pods,
    to write ``pods/status`` and to list PodDisruptionBudgets, which the chart gives while it
    is on."""
    dry_run: bool = False
    """Only report, by event and metric, who would be evicted."""
    min_priority_gap: int = pydantic.Field(default=1, ge=1, le=section.LARGEST)
    """How much lower the priority of an evicted pod is at least."""
    exempt_namespaces: tuple[str, ...] = ("kube-system",)
    """Namespaces whose pods take no part: they are not evicted and evict nobody."""
    exempt_priority_classes: tuple[str, ...] = ()
    """PriorityClasses whose pods take no part. Pods of ``system-node-critical`` and
    ``system-cluster-critical`` are never evicted."""
    time_limit_s: section.Seconds = pydantic.Field(default=300.0, gt=0)
    """How long cards are held for the pod, from the plan until it is bound. While evicted pods
    are still ending then, their cards are held for it anew."""


class Settings(section.Section):
    """Everything that can be set."""

    scheduler_name: str = pydantic.Field(default="hami-scheduler", min_length=1, max_length=253)
    """Scheduler that pods with devices are given to: the profile's name."""
    force_overwrite_default_scheduler: bool = True
    """Take over pods that name ``default-scheduler``, which is what the API server
    writes where a pod names none."""
    webhook_leaves_out: tuple[str, ...] = ()
    """Namespaces that the API server does not ask the webhook about: their pods are told to
    change themselves, and are not counted as passed by."""
    default_scheduler_policy: PolicySettings = PolicySettings()
    vendors: VendorSettings = VendorSettings()
    resource_aliases: Mapping[section.ResourceName, tuple[section.ResourceName, ...]] = {}
    """Earlier names of a resource, by today's name: a running pod that asks by
    an earlier name keeps its promise."""
    handshake: HandshakeSettings = HandshakeSettings()
    dialects: DialectSettings = DialectSettings()
    lock: LockSettings = LockSettings()
    bind: BindSettings = BindSettings()
    claims: ClaimSettings = ClaimSettings()
    ledger: LedgerSettings = LedgerSettings()
    scoring: ScoringSettings = ScoringSettings()
    events: EventSettings = EventSettings()
    wake: WakeSettings = WakeSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    metrics: MetricsSettings = MetricsSettings()


def with_every_vendor(configured: Settings) -> Settings:
    """Return the settings with the vendors switched on that are off by default.

    For those who read what is there, which does not depend on what pods may ask for.
    """
    families = ((name, getattr(configured.vendors, name)) for name in VendorSettings.model_fields)
    switched_on = {
        name: family.model_copy(update={"enabled": True})
        for name, family in families
        if hasattr(family, "enabled")
    }
    vendors = configured.vendors.model_copy(update=switched_on)
    return configured.model_copy(update={"vendors": vendors})


def build(values: Mapping[str, Any]) -> Settings:
    """Return the settings that ``values`` describe; absent means the default.

    Raises:
        SettingsError: one sentence that names each wrong path and what is
            wrong there.
    """
    try:
        configured = Settings.model_validate(values)
    except pydantic.ValidationError as fault:
        wrong = section.told(
            (
                ".".join(str(part) for part in error["loc"]) or "the file",
                section.complaint(error, unknown="there is no such setting"),
            )
            for error in fault.errors()
        )
        raise errors.SettingsError(f"the configuration is wrong at {wrong}") from fault
    vendors = [("vendors." + path, name) for path, name in resources.named(configured.vendors)]
    every = with_every_vendor(configured).vendors
    clashes = [
        *resources.clashes(vendors),
        *resources.wrong_aliases(
            configured.resource_aliases,
            now={name for _, name in vendors},
            ever={name for _, name in resources.named(every)},
        ),
    ]
    if clashes:
        raise errors.SettingsError(f"the configuration is wrong at {'; '.join(clashes)}")
    return configured
