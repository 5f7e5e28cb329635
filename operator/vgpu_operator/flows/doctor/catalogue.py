"""Every failure signature that is known, and the look at a cluster that judges them all.

One table: the command, the page ``docs/doctor.md`` and the tests follow from it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_operator.flows.doctor import (
    clocks,
    finding,
    nodes,
    plugins,
    pods,
    schedulers,
    webhooks,
    writers,
)
from vgpu_operator.flows.doctor.cluster import Cluster, Source
from vgpu_operator.flows.doctor.finding import Finding, Severity

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One known failure.

    Attributes:
        id: what people and scripts call it.
        title: the failure in a few words.
        find: yields the places where it is seen.
        needs: without these it is not judged.
        helped_by: with these more is seen.
        cause: why it comes, where the place does not say it more exactly.
        fix: what to do, likewise.
        page: where the documentation says more, from ``docs/``.
    """

    id: str
    title: str
    severity: Severity
    find: Callable[[Cluster], Iterator[finding.Sight]]
    needs: tuple[Source, ...]
    cause: str
    fix: str
    page: str
    helped_by: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one look has found.

    Attributes:
        findings: the worst first, then in the order of the catalogue.
        judged: ids of the signatures that were looked for.
        skipped: ids of those that were not, because something was not read.
        notes: what else is worth knowing; nothing is wrong by them.
    """

    findings: tuple[Finding, ...]
    judged: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


SIGNATURES: Final = (
    Signature(
        id="plugin-without-nvml",
        title="device plugin cannot reach NVML",
        severity=_ERROR,
        find=plugins.without_nvml,
        needs=(Source.PODS,),
        helped_by=(Source.LOGS, Source.NODES),
        cause="the plugin runs on the node's default runtime (runc), which does not put NVIDIA's"
        " driver into the container",
        fix="set devicePlugin.runtimeClassName: nvidia, or make nvidia the node's default runtime;"
        " on a node without NVIDIA cards keep the plugin off by its nodeSelector",
        page="install.md",
    ),
    Signature(
        id="runtime-class-missing",
        title="RuntimeClass does not exist",
        severity=_ERROR,
        find=plugins.runtime_class_missing,
        needs=(Source.DAEMON_SETS, Source.RUNTIME_CLASSES),
        helped_by=(Source.EVENTS,),
        cause="the DaemonSet names a RuntimeClass that is not there, so the API server refuses"
        " its pods",
        fix="make the RuntimeClass, or leave runtimeClassName out",
        page="values.md",
    ),
    Signature(
        id="runtime-not-configured",
        title="container runtime does not know the runtime",
        severity=_ERROR,
        find=plugins.runtime_not_configured,
        needs=(Source.EVENTS,),
        helped_by=(Source.PODS,),
        cause="the RuntimeClass is there, but the node's container runtime has no handler of"
        " that name: NVIDIA's container toolkit is missing or was not configured",
        fix="run nvidia-ctk runtime configure on the node and restart the container runtime",
        page="install.md",
    ),
    Signature(
        id="plugin-selects-no-node",
        title="DaemonSet of a device plugin runs nowhere (DESIRED 0)",
        severity=_WARNING,
        find=plugins.selects_nothing,
        needs=(Source.DAEMON_SETS, Source.NODES),
        cause="no node has the label that its nodeSelector asks for",
        fix="label the nodes with cards as its nodeSelector asks, or see that whatever writes the"
        " label runs (Node Feature Discovery for feature.node.kubernetes.io/…); where such nodes"
        " come only when they are needed, nothing is wrong",
        page="values.md#helm-merges-maps",
    ),
    Signature(
        id="plugin-without-devices",
        title="device plugin runs but registers no card",
        severity=_ERROR,
        find=plugins.without_devices,
        needs=(Source.PODS, Source.NODES),
        helped_by=(Source.LOGS,),
        cause="the plugin found no card of its maker: the node's cards are another maker's, or"
        " its driver is not loaded",
        fix="compare the node's cards (lspci there) with the plugin; select nodes by a label for"
        " each maker, gpu-vendor say",
        page="values.md#helm-merges-maps",
    ),
    Signature(
        id="plugin-not-running",
        title="device plugin crashes or does not start",
        severity=_ERROR,
        find=plugins.not_running,
        needs=(Source.PODS,),
        helped_by=(Source.LOGS,),
        cause="a container of the device plugin cannot run, so the node offers no card",
        fix="read the container's log, or what kubectl describe says of it where it never ran",
        page="install.md",
    ),
    Signature(
        id="two-plugins",
        title="two device plugins offer one resource",
        severity=_ERROR,
        find=plugins.two_plugins,
        needs=(Source.PODS,),
        helped_by=(Source.NODES,),
        cause="the kubelet keeps whichever plugin registered last, so the node's count changes"
        " with each restart, and pods are served by a plugin that does not know their promise",
        fix="keep one of the two off the node: by nodeSelector (gpu-plugin: hami), or"
        " devicePlugin.enabled: false of NVIDIA's GPU operator",
        page="values.md#helm-merges-maps",
    ),
    Signature(
        id="allocatable-flapping",
        title="allocatable count goes and comes back",
        severity=_ERROR,
        find=plugins.flapping,
        needs=(Source.SAMPLES,),
        cause="two plugins register the same resource in turns, or one restarts again and again",
        fix="see which pods on the node are device plugins (kubectl get pods -A -o wide), and"
        " keep one of each maker",
        page="values.md#helm-merges-maps",
    ),
    Signature(
        id="no-node-registered",
        title="pods wait and no node has registered such a card",
        severity=_ERROR,
        find=nodes.no_node_registered,
        needs=(Source.PODS, Source.NODES),
        cause="no device plugin of that maker has written its cards on any node",
        fix="see that the DaemonSet of the plugin runs on the nodes with these cards",
        page="protocol.md",
    ),
    Signature(
        id="register-unreadable",
        title="register annotation cannot be read",
        severity=_ERROR,
        find=nodes.register_unreadable,
        needs=(Source.NODES,),
        cause="the text is no list of cards; what cannot be read of it is no card",
        fix="restart the device plugin there, which writes it anew; vgpu decode KEY TEXT shows"
        " where it breaks",
        page="runbooks/VgpuRegistrationsUnreadable.md",
    ),
    Signature(
        id="plugin-gone",
        title="cards are listed but nothing is allocatable",
        severity=_ERROR,
        find=nodes.plugin_gone,
        needs=(Source.NODES,),
        cause="the device plugin or the kubelet of the node has gone: the handshake is not"
        " answered, and no new pod is placed there",
        fix="start the device plugin on the node; if its cards are gone for good, remove the"
        " register annotation",
        page="runbooks/VgpuNodesExpired.md",
    ),
    Signature(
        id="lock-stuck",
        title="node lock is stuck",
        severity=_ERROR,
        find=nodes.lock_stuck,
        needs=(Source.NODES, Source.PODS),
        cause="nobody has removed a lock that nobody needs: no operator leads, or it cannot"
        " write the node; later pods wait for it",
        fix="see that the operator runs and leads; by hand:"
        " kubectl annotate node NAME KEY- with the lock's key",
        page="runbooks/VgpuNodeLocksStuck.md",
    ),
    Signature(
        id="lock-malformed",
        title="node lock cannot be read",
        severity=_WARNING,
        find=nodes.lock_malformed,
        needs=(Source.NODES,),
        cause="somebody else wrote the lock's annotation; it holds the node until it expires",
        fix="find the writer (kubectl get node NAME -o yaml --show-managed-fields), then remove"
        " the annotation",
        page="protocol.md",
    ),
    Signature(
        id="allocation-stuck",
        title="pod is bound and not served",
        severity=_ERROR,
        find=pods.allocation_stuck,
        needs=(Source.PODS,),
        cause="the device plugin on its node has not done its part",
        fix="look at the logs of the kubelet and the device plugin on the node; later pods wait"
        " for this one",
        page="runbooks/VgpuAllocationsStuck.md",
    ),
    Signature(
        id="allocation-failed",
        title="device plugin reports failed and the pod goes on",
        severity=_WARNING,
        find=pods.allocation_failed,
        needs=(Source.PODS,),
        cause="the plugin refused an Allocate; it may have marked the wrong pod, as Allocate"
        " names none",
        fix="look at the plugin's log; delete the pod if it does not run",
        page="runbooks/VgpuAllocationsFailing.md",
    ),
    Signature(
        id="allocation-surplus",
        title="annotations promise more than the pod asks for (forged?)",
        severity=_WARNING,
        find=pods.allocation_surplus,
        needs=(Source.PODS, Source.NODES),
        cause="somebody wrote the pod's annotations by hand, or copied them from another pod;"
        " only what its containers ask for is charged",
        fix="find the writer (kubectl get pod NAME -o yaml --show-managed-fields), create the"
        " pod again, and let the admission policy refuse such writes",
        page="security.md",
    ),
    Signature(
        id="allocation-dangling",
        title="pod is promised cards that are not there",
        severity=_WARNING,
        find=pods.allocation_dangling,
        needs=(Source.PODS, Source.NODES),
        cause="the card has left the node (failed, moved, renamed), or the promise was copied"
        " from another pod",
        fix="create the pod again; if the card should be there, look at the plugin's log",
        page="protocol.md",
    ),
    Signature(
        id="allocation-unreadable",
        title="promise of a bound pod cannot be read",
        severity=_ERROR,
        find=pods.allocation_unreadable,
        needs=(Source.PODS,),
        cause="nobody can know what it holds, so its node takes no new pod of that vendor",
        fix="create the pod again",
        page="protocol.md",
    ),
    Signature(
        id="card-overpromised",
        title="pods hold more of a card than there is",
        severity=_ERROR,
        find=pods.card_overpromised,
        needs=(Source.PODS, Source.NODES),
        cause="two schedulers gave it away, or the card registers less than it did",
        fix="end one of the pods; see that one scheduler works on these nodes, and what the"
        " plugin's split and scaling were changed to",
        page="reliability.md",
    ),
    Signature(
        id="shares-without-scheduler",
        title="pod waits for gpumem or gpucores on a scheduler that cannot count them",
        severity=_ERROR,
        find=pods.waits_for_shares,
        needs=(Source.PODS,),
        cause="memory and cores of cards stand on no Node; only the vgpu scheduler counts them,"
        " and the pod was given to another, because the webhook did not see it",
        fix="create the pod again while the webhook works, or name the scheduler in its template",
        page="events.md",
    ),
    Signature(
        id="webhook-bypassed",
        title="pod with cards has gone past the webhook",
        severity=_ERROR,
        find=pods.bypassed,
        needs=(Source.PODS,),
        helped_by=(Source.WEBHOOKS, Source.NAMESPACES),
        cause="the webhook was not asked when it was created, so nothing sets what it lacks, or"
        " the default scheduler places it and its cards are not accounted for",
        fix="create it again",
        page="runbooks/VgpuPodsBypassed.md",
    ),
    Signature(
        id="unknown-scheduler",
        title="pod waits for a scheduler that is not there",
        severity=_ERROR,
        find=schedulers.unknown_name,
        needs=(Source.PODS, Source.LEASES),
        helped_by=(Source.DEPLOYMENTS,),
        cause="the name is an earlier installation's; any other name is a guess and a warning: no"
        " Lease, running Deployment or scheduler's configuration mentions it",
        fix="see that the scheduler of that name runs, or correct schedulerName in the pod's"
        " template",
        page="upgrade-from-hami.md",
    ),
    Signature(
        id="scheduler-not-running",
        title="pods wait and our scheduler does not work",
        severity=_ERROR,
        find=schedulers.not_running,
        needs=(Source.PODS, Source.LEASES),
        helped_by=(Source.DEPLOYMENTS,),
        cause="no kube-scheduler with that profile holds its Lease",
        fix="look at the pods of the operator's Deployment and the log of kube-scheduler there",
        page="runbooks/VgpuNoLeader.md",
    ),
    Signature(
        id="two-schedulers",
        title="two schedulers give away the same cards",
        severity=_ERROR,
        find=schedulers.two,
        needs=(Source.LEASES,),
        helped_by=(Source.DEPLOYMENTS, Source.PODS),
        cause="each keeps a ledger of its own and neither sees what the other is about to give",
        fix="scale the one that is to go to 0; moving from HAMi's is described step by step",
        page="runbooks/VgpuSeveralLeaders.md",
    ),
    Signature(
        id="webhook-down",
        title="webhook does not answer",
        severity=_ERROR,
        find=webhooks.down,
        needs=(Source.WEBHOOKS,),
        helped_by=(Source.ENDPOINTS, Source.DEPLOYMENTS),
        cause="API servers cannot ask the operator about new pods",
        fix="see that the operator's pods are ready, and that nothing else writes the"
        " configuration",
        page="install.md",
    ),
    Signature(
        id="certificate-ends",
        title="certificate ends soon",
        severity=_WARNING,
        find=webhooks.certificate_ends,
        needs=(Source.WEBHOOKS,),
        helped_by=(Source.METRICS, Source.CERTIFICATES, Source.DEPLOYMENTS),
        cause="it was not renewed when two thirds of its time were over: no operator leads, or"
        " whoever issues it has a fault",
        fix="look at the leader's log; see who wrote caBundle last",
        page="runbooks/VgpuWebhookCertificateExpires.md",
    ),
    Signature(
        id="quota-blocks",
        title="quota of the namespace keeps a pod out",
        severity=_WARNING,
        find=pods.quota_blocks,
        needs=(Source.PODS, Source.QUOTAS),
        helped_by=(Source.EVENTS,),
        cause="the namespace's pods hold what its ResourceQuota allows",
        fix="ask for less, end other pods, or raise the quota",
        page="quotas.md",
    ),
    Signature(
        id="quota-ignored",
        title="entry of a ResourceQuota does not limit what it seems to",
        severity=_WARNING,
        find=pods.quota_ignored,
        needs=(Source.QUOTAS,),
        cause="only limits.<resource> with a whole number counts shares of cards",
        fix="correct the entry as it is said there",
        page="quotas.md",
    ),
    Signature(
        id="image-glibc",
        title="image's C library is too old",
        severity=_ERROR,
        find=pods.glibc,
        needs=(Source.PODS,),
        helped_by=(Source.LOGS,),
        cause="the library that enforces the shares is put into the container and needs a newer"
        " glibc than the image has (2.34 for AMD's)",
        fix="use an image of Ubuntu 22.04, Debian 12, RHEL 9 or newer; Alpine's musl does not do",
        page="vendors/amd.md",
    ),
    Signature(
        id="clock-skew",
        title="clocks do not agree",
        severity=_WARNING,
        find=clocks.skew,
        needs=(Source.NODES,),
        helped_by=(Source.PODS,),
        cause="handshakes and locks are dated by their writer, so they age too fast or too slowly",
        fix="run a time service (chrony) there, in UTC",
        page="protocol.md",
    ),
    Signature(
        id="unknown-writer",
        title="somebody the admission policy does not know writes the protocol's annotations",
        severity=_WARNING,
        find=writers.unknown,
        needs=(Source.POLICIES, Source.NODES),
        helped_by=(Source.PODS, Source.DAEMON_SETS, Source.AUDIT_LOG),
        cause="with admissionPolicy.action: Deny this would be refused",
        fix="if it must write them, add its account to admissionPolicy.protocolWriters (and name"
        " the program with --known-writer); if not, find out who it is",
        page="security.md",
    ),
)


def examine(cluster: Cluster) -> Report:
    """Look for every signature of which enough was read."""
    findings: list[Finding] = []
    judged: list[str] = []
    skipped: list[str] = []
    for one in SIGNATURES:
        if not all(cluster.has(source) for source in one.needs):
            skipped.append(one.id)
            continue
        judged.append(one.id)
        findings.extend(_finding(one, sight) for sight in one.find(cluster))
    may_note = cluster.has(Source.POLICIES) and cluster.has(Source.NODES)
    return Report(
        findings=tuple(sorted(findings, key=lambda one: one.severity is not Severity.ERROR)),
        judged=tuple(judged),
        skipped=tuple(skipped),
        notes=tuple(writers.notes(cluster)) if may_note else (),
    )


def _finding(signature: Signature, sight: finding.Sight) -> Finding:
    return Finding(
        signature=signature.id,
        title=signature.title,
        severity=sight.severity or signature.severity,
        place=sight.place,
        evidence=sight.evidence,
        cause=sight.cause or signature.cause,
        fix=sight.fix or signature.fix,
        page=signature.page,
    )
