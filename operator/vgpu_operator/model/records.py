"""What the operator keeps of a Node, a Pod and a ResourceQuota: only what it decides on."""

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.model import allocation, errors, quota, request


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


FINISHED: Final = ("Succeeded", "Failed")
"""Values of ``status.phase`` that a pod never leaves."""


class BindPhase(enum.StrEnum):
    """Value of ``hami.io/bind-phase``."""

    ALLOCATING = "allocating"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderKeys:
    """The node annotations of one vendor in an older dialect of the protocol."""

    register: str
    handshake: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A Node as last seen.

    Texts stay undecoded here: whoever sees that one changed decodes it.

    Attributes:
        registers: register annotation text by vendor keyword; absent = no key.
        handshakes: handshake annotation text by vendor keyword.
        allocatable: the vendor's count resource in ``status.allocatable``;
            absent = the kubelet does not list it.
        locks: lock annotation text by annotation key; absent = unlocked.
        cordoned: card ids of ``hami.io/device-cordon``.
        woken: value of our waking annotation, empty when absent.
        notes: annotations and labels that some vendor's rules read, by key.
        older: by vendor keyword, the keys that ``registers`` and ``handshakes``
            were read from, where they are an older dialect's; absent = HAMi's own.
    """

    name: str
    uid: str
    resource_version: str
    registers: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    handshakes: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    allocatable: Mapping[str, int] = field(default_factory=_nothing, hash=False)
    locks: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    cordoned: frozenset[str] = frozenset()
    woken: str = ""
    notes: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    older: Mapping[str, OlderKeys] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A Pod as last seen.

    Attributes:
        node: ``spec.nodeName``; empty while unbound.
        phase: ``status.phase``.
        scheduler: ``spec.schedulerName``.
        admitted: kubelet has seen the pod (``status.startTime`` is set).
        deleting: ``metadata.deletionTimestamp`` is set.
        leaves_by: ``metadata.deletionTimestamp``: the end of the grace period; None when
            absent or unreadable.
        init_done: every ordinary init container ended with code 0 (True when
            there is none).
        request: what the pod's own containers ask for.
        promised_node: ``hami.io/vgpu-node``, or the like of an older dialect, as
            the next ones; empty when absent.
        promised: shares by vendor from the ``…-allocated`` annotations, one
            entry per container of the text.
        to_allocate: vendors whose plugins use a lock and whose to-allocate text still
            has a non-empty segment; those that never empty it, until kubelet has seen
            the pod.
        bind_phase: None when absent or another word.
        bind_time_s: ``hami.io/bind-time`` in Unix seconds; None when unreadable.
        faults: what could not be read in the pod's annotations, by vendor.
        group: pod group that the pod belongs to; empty when none.
        has_volumes: some volume needs a claim, so binding may take longer.
        refused: kube-scheduler has marked the pod Unschedulable.
        carried: protocol annotations that the pod carries, by key.
        fenced: value of our fence annotation, empty when absent.
        opted_out: label ``hami.io/webhook: ignore`` kept the webhook away.
        created: ``metadata.creationTimestamp``, in whole seconds; None when unreadable.
        passed_by: what shows that the pod never passed the webhook, as
            ``flows.admit.passed_by`` says it; empty when nothing does, or when the pod
            was bound already when it was first seen.
        priority: ``spec.priority``; 0 where it is absent or no number of 32 bits.
        priority_class: ``spec.priorityClassName``; empty when absent.
        never_preempts: ``spec.preemptionPolicy`` is ``Never``.
        labels: ``metadata.labels`` of a pod with devices, our own label of its node left
            out; equal ones are one object.
        ready: its condition ``Ready`` is ``True``.
        started: ``status.startTime``; None when absent or unreadable.
        nominated_node: ``status.nominatedNodeName``; empty when absent.
        nomination: text of our annotation that goes with it; empty when absent.
    """

    key: request.PodKey
    resource_version: str
    node: str
    phase: str
    scheduler: str
    request: request.PodRequest
    admitted: bool = False
    deleting: bool = False
    leaves_by: datetime.datetime | None = None
    init_done: bool = True
    promised_node: str = ""
    promised: Mapping[str, allocation.PodShares] = field(default_factory=_nothing, hash=False)
    to_allocate: frozenset[str] = frozenset()
    bind_phase: BindPhase | None = None
    bind_time_s: int | None = None
    faults: Mapping[str, errors.DecodeError] = field(default_factory=_nothing, hash=False)
    group: str = ""
    has_volumes: bool = False
    refused: bool = False
    carried: frozenset[str] = frozenset()
    fenced: str = ""
    opted_out: bool = False
    created: datetime.datetime | None = None
    passed_by: str = ""
    priority: int = 0
    priority_class: str = ""
    never_preempts: bool = False
    ready: bool = False
    labels: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    started: datetime.datetime | None = None
    nominated_node: str = ""
    nomination: str = ""

    @property
    def ended(self) -> bool:
        """Whether the pod's containers have ended for good."""
        return self.phase in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRecord:
    """A ResourceQuota as last seen.

    Attributes:
        limits: what it limits, by vendor keyword.
        ignored: a sentence for each of its entries that does not limit what it seems to.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    limits: quota.Limits = field(default_factory=_nothing, hash=False)
    ignored: tuple[str, ...] = ()
