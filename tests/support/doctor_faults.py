"""One fault for each signature of ``vgpu doctor``: the objects that make it.

The unit tests put them into a played API server, the end-to-end test makes them on the
real one. Each must be named, and nothing else.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.doctor_objects import (
    DEPLOYMENT,
    SYSTEM,
    WEBHOOK,
    Objects,
    at,
    bundle,
    daemon_set,
    endpoints,
    event,
    hook,
    lease,
    node,
    plugin_pod,
    plugin_spec,
    pod,
    promise,
    quota,
    register,
    shares,
    stamped,
    unplaced,
)

NVML = (
    "I0402 12:47:47.247350 1 factory.go:104] Detected non-NVML platform: could not load NVML"
    " library: libnvidia-ml.so.1: cannot open shared object file: No such file or directory\n"
    "E0402 12:47:47.247405 1 factory.go:112] Incompatible platform detected\n"
)
GLIBC = (
    "/bin/sh: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by"
    " /usr/local/vgpu/libamvgpu.so)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How to make one fault.

    Attributes:
        objects: by path; one that is there already is changed by it, and put back after.
        evidence: words that the finding must show.
        about: kind and name of the object that must be named.
        later_s: how much later it is judged.
        manager: who writes the objects.
        logs: by path of the log.
    """

    objects: Objects
    evidence: tuple[str, ...]
    about: tuple[str, str]
    later_s: float = 0.0
    manager: str = "vgpu-operator"
    logs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the faults are made of: the time, and where the played kubelet listens."""

    now: datetime.datetime
    port: int = 1


Maker = Callable[[Scene], Fault]


def _log(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}/log"


def plugin_without_nvml(scene: Scene) -> Fault:
    return Fault(
        objects=plugin_pod(scene.now, "plugin-n3", "n3"),
        logs={_log(SYSTEM, "plugin-n3"): NVML},
        evidence=("could not load NVML library", "runtimeClassName (none)"),
        about=("Pod", "plugin-n3"),
    )


def runtime_class_missing(scene: Scene) -> Fault:
    spec = plugin_spec(runtime_class="nvidia-cdi")
    return Fault(
        objects=daemon_set("other-plugin", desired=1, spec=spec),
        evidence=("runtimeClassName nvidia-cdi; RuntimeClasses: nvidia",),
        about=("DaemonSet", "other-plugin"),
    )


def runtime_not_configured(scene: Scene) -> Fault:
    about = {"kind": "Pod", "namespace": SYSTEM, "name": "plugin-n3"}
    words = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox"
        ' runtime: no runtime for "nvidia" is configured'
    )
    spec = plugin_spec(runtime_class="nvidia")
    return Fault(
        objects={
            **plugin_pod(scene.now, "plugin-n3", "n3", spec=spec, phase="Pending"),
            **event(scene.now, about, "FailedCreatePodSandBox", words),
        },
        evidence=('no runtime for "nvidia" is configured',),
        about=("Pod", "plugin-n3"),
    )


def plugin_selects_no_node(scene: Scene) -> Fault:
    both = {"gpu": "on", "gpu-vendor": "NVIDIA"}
    return Fault(
        objects=daemon_set("other-plugin", desired=0, selector=both),
        evidence=("DESIRED 0", "gpu=on on 2; gpu-vendor=NVIDIA on 0", "Helm merges", "gpu: null"),
        about=("DaemonSet", "other-plugin"),
    )


def plugin_without_devices(scene: Scene) -> Fault:
    amd = {"feature.node.kubernetes.io/pci-0300_1002.present": "true"}
    return Fault(
        objects={
            **node(scene.now, "n4", labels=amd, port=scene.port),
            **plugin_pod(scene.now, "plugin-n4", "n4"),
        },
        evidence=("no card of nvidia is registered", "made by amd"),
        about=("Pod", "plugin-n4"),
    )


def plugin_not_running(scene: Scene) -> Fault:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    status = {"restartCount": 7, "state": {"waiting": waiting}}
    return Fault(
        objects=plugin_pod(scene.now, "plugin-n3", "n3", container=status),
        logs={_log(SYSTEM, "plugin-n3"): "panic: no configuration\n"},
        evidence=("CrashLoopBackOff, 7 restarts", "panic: no configuration"),
        about=("Pod", "plugin-n3"),
    )


def two_plugins(scene: Scene) -> Fault:
    theirs = plugin_spec("nvidia-device-plugin-ctr", "nvidia-device-plugin")
    return Fault(
        objects={
            **node(
                scene.now,
                "n4",
                cards=1,
                annotations={
                    "hami.io/node-nvidia-register": register("GPU-d0"),
                    "hami.io/node-handshake": stamped(scene.now, 5),
                },
            ),
            **plugin_pod(scene.now, "plugin-n4", "n4"),
            **plugin_pod(scene.now, "nvidia-n4", "n4", owner="nvidia-plugin", spec=theirs),
        },
        evidence=("nvidia-n4", "plugin-n4", "nvidia.com/gpu 1, and the registered cards offer 10"),
        about=("Node", "n4"),
    )


def no_node_registered(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "amd", limits={"amd.com/gpu": "1"}, status=unplaced("0/3 nodes are available.")
        ),
        evidence=("1 pods wait: default/amd", "hami.io/node-amd-register"),
        about=("Resource", "amd.com/gpu"),
    )


def register_unreadable(scene: Scene) -> Fault:
    notes = {"hami.io/node-nvidia-register": "GPU-d0,ten,24576,100,NVIDIA-A10,0,true:"}
    return Fault(
        objects=node(scene.now, "n4", cards=10, annotations=notes),
        evidence=("hami.io/node-nvidia-register", "ten"),
        about=("Node", "n4"),
    )


def plugin_gone(scene: Scene) -> Fault:
    notes = {
        "hami.io/node-nvidia-register": register("GPU-d0"),
        "hami.io/node-handshake": stamped(scene.now, 600),
    }
    return Fault(
        objects=node(scene.now, "n4", cards=0, annotations=notes),
        evidence=("allocatable nvidia.com/gpu 0; hami.io/node-handshake: Requesting_",),
        about=("Node", "n4"),
    )


def lock_stuck(scene: Scene) -> Fault:
    notes = {"hami.io/mutex.lock": f"{at(scene.now, 120)},default,gone"}
    return Fault(
        objects=node(scene.now, "n4", annotations=notes),
        evidence=(" s old", "pod default/gone, which is no more"),
        about=("Node", "n4"),
    )


def lock_malformed(scene: Scene) -> Fault:
    return Fault(
        objects=node(scene.now, "n4", annotations={"hami.io/mutex.lock": "taken"}),
        evidence=("hami.io/mutex.lock: malformed lock", "'taken'"),
        about=("Node", "n4"),
    )


def allocation_stuck(scene: Scene) -> Fault:
    text = "GPU-b0,NVIDIA,1000,10:;"
    return Fault(
        objects=pod(
            "slow",
            node="n2",
            limits=shares(1000),
            annotations=promise(scene.now, "n2", text, phase="allocating", left=text),
            status={"phase": "Pending"},
        ),
        evidence=("bind phase allocating", "no kubelet has seen it"),
        about=("Pod", "slow"),
    )


def allocation_failed(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "failed",
            node="n2",
            limits=shares(1000),
            annotations=promise(scene.now, "n2", "GPU-b0,NVIDIA,1000,10:;", phase="failed"),
        ),
        evidence=("bind phase failed on n2",),
        about=("Pod", "failed"),
    )


def allocation_surplus(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "forged",
            node="n2",
            limits=shares(1000),
            annotations=promise(scene.now, "n2", "GPU-b0,NVIDIA,9000,10:;"),
        ),
        evidence=("8000 MiB",),
        about=("Pod", "forged"),
    )


def allocation_dangling(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "dangling",
            node="n2",
            limits=shares(1000),
            annotations=promise(scene.now, "n2", "GPU-lost,NVIDIA,1000,10:;"),
        ),
        evidence=("GPU-lost", "registered: GPU-b0"),
        about=("Pod", "dangling"),
    )


def allocation_unreadable(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "garbled",
            node="n2",
            limits=shares(1000),
            annotations=promise(scene.now, "n2", "GPU-b0,NVIDIA,many,10:;"),
        ),
        evidence=("hami.io/vgpu-devices-allocated", "many"),
        about=("Pod", "garbled"),
    )


def card_overpromised(scene: Scene) -> Fault:
    text = "GPU-d0,NVIDIA,6000,10:;"
    notes = {
        "hami.io/node-nvidia-register": register("GPU-d0", memory_mib=10_000),
        "hami.io/node-handshake": stamped(scene.now, 5),
    }
    both: Objects = {}
    for name in ("one", "two"):
        both |= pod(
            name, node="n4", limits=shares(6000), annotations=promise(scene.now, "n4", text)
        )
    return Fault(
        objects={**node(scene.now, "n4", cards=10, annotations=notes), **both},
        evidence=("12000 of 10000 MiB", "default/one 6000 MiB, default/two 6000 MiB"),
        about=("Card", "GPU-d0 of node n4"),
    )


def shares_without_scheduler(scene: Scene) -> Fault:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpumem."
    return Fault(
        objects=pod(
            "lost", limits=shares(1000), scheduler="default-scheduler", status=unplaced(words)
        ),
        evidence=("schedulerName default-scheduler", "Insufficient nvidia.com/gpumem"),
        about=("Pod", "lost"),
    )


def webhook_bypassed(scene: Scene) -> Fault:
    return Fault(
        objects=pod(
            "bypassed", node="n2", limits={"nvidia.com/gpu": "1"}, scheduler="default-scheduler"
        ),
        evidence=("schedulerName default-scheduler, bound to n2",),
        about=("Pod", "bypassed"),
    )


def unknown_scheduler(scene: Scene) -> Fault:
    return Fault(
        objects=pod("old", limits=shares(1000), scheduler="4pd-scheduler"),
        evidence=("schedulerName 4pd-scheduler", "today's is hami-scheduler"),
        about=("Pod", "old"),
        later_s=90,
    )


def scheduler_not_running(scene: Scene) -> Fault:
    down = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 0}
    old = lease(scene.now, namespace=SYSTEM, holder="somebody_1", age_s=3600)
    return Fault(
        objects={
            **pod("unseen", limits=shares(1000)),
            **old,
            DEPLOYMENT: {"status": down},
        },
        evidence=("default/unseen", "somebody_1", "0 of 1 ready"),
        about=("Scheduler", "hami-scheduler"),
        later_s=90,
    )


def two_schedulers(scene: Scene) -> Fault:
    return Fault(
        objects=lease(scene.now, namespace="kube-system", holder="hami-scheduler-5c7_9a"),
        evidence=("kube-system/hami-scheduler is held by hami-scheduler-5c7_9a",),
        about=("Scheduler", "hami-scheduler"),
    )


def webhook_down(scene: Scene) -> Fault:
    return Fault(
        objects=endpoints(ready=False),
        evidence=("has no ready end point", "Ignore: new pods go past it"),
        about=("MutatingWebhookConfiguration", WEBHOOK.rpartition("/")[2]),
    )


def certificate_ends(scene: Scene) -> Fault:
    ca_bundle = bundle(scene.now, lifetime_days=90, left_days=3)
    return Fault(
        objects={WEBHOOK: {"webhooks": [hook(ca_bundle)]}},
        evidence=("ends at",),
        about=("MutatingWebhookConfiguration", WEBHOOK.rpartition("/")[2]),
    )


def quota_blocks(scene: Scene) -> Fault:
    return Fault(
        objects={
            **pod(
                "large", namespace="tight", limits=shares(1000), status=unplaced("0/3 nodes fit.")
            ),
            **quota("small", "tight", {"limits.nvidia.com/gpumem": "500"}),
        },
        evidence=("the pod takes at least 1000 of nvidia.com/gpumem",),
        about=("Pod", "large"),
    )


def quota_ignored(scene: Scene) -> Fault:
    return Fault(
        objects=quota("wrong", "tight", {"requests.nvidia.com/gpumem": "500"}),
        evidence=("write limits.nvidia.com/gpumem",),
        about=("ResourceQuota", "wrong"),
    )


def image_glibc(scene: Scene) -> Fault:
    ended = {"exitCode": 127, "reason": "Error", "message": GLIBC}
    status = {
        "name": "main",
        "image": "train",
        "imageID": "train",
        "ready": False,
        "restartCount": 3,
        "lastState": {"terminated": ended},
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    return Fault(
        objects=pod(
            "rocm",
            node="n3",
            limits={"amd.com/gpu": "1"},
            status={"containerStatuses": [status]},
        ),
        evidence=("GLIBC_2.34' not found", "registry.example/train:20.04"),
        about=("Pod", "rocm"),
    )


def clock_skew(scene: Scene) -> Fault:
    return Fault(
        objects=node(scene.now, "n4", heartbeat_s=300),
        evidence=("behind the API server's",),
        about=("Node", "n4"),
        manager="kubelet",
    )


def unknown_writer(scene: Scene) -> Fault:
    return Fault(
        objects={
            **policy(),
            **node(scene.now, "n4", annotations={"hami.io/mutex.lock": f"{at(scene.now, 1)},a,b"}),
        },
        evidence=("hami.io/mutex.lock", "node n4", "not its account"),
        about=("Program", "mallory"),
        manager="mallory",
    )


POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/vgpu-protocol"
POLICY_BINDING = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/vgpu-protocol"
)


def policy(actions: tuple[str, ...] = ("Warn", "Audit"), writer: str = "friend") -> Objects:
    """Return the chart's admission policy, as far as it matters; on nodes only."""
    changed = (
        "variables.protocolKeys.filter(key,"
        " oldObject.metadata.?annotations[?key].orValue('')"
        " != object.metadata.?annotations[?key].orValue(''))"
    )
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["nodes"],
    }
    spec: dict[str, Any] = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {
                "name": "not-a-program-of-the-protocol",
                "expression": f'!(request.userInfo.username in ["{writer}"])',
            }
        ],
        "variables": [
            {"name": "protocolKeys", "expression": '["hami.io/mutex.lock"]'},
            {"name": "changed", "expression": changed},
        ],
        "validations": [
            {
                "expression": "variables.changed.size() == 0",
                "message": "no program of the accelerator protocol",
            }
        ],
    }
    group = "admissionregistration.k8s.io/v1"
    name = POLICY.rpartition("/")[2]
    return {
        POLICY: {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec,
        },
        POLICY_BINDING: {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": list(actions)},
        },
    }


MAKERS: dict[str, Maker] = {
    "plugin-without-nvml": plugin_without_nvml,
    "runtime-class-missing": runtime_class_missing,
    "runtime-not-configured": runtime_not_configured,
    "plugin-selects-no-node": plugin_selects_no_node,
    "plugin-without-devices": plugin_without_devices,
    "plugin-not-running": plugin_not_running,
    "two-plugins": two_plugins,
    "no-node-registered": no_node_registered,
    "register-unreadable": register_unreadable,
    "plugin-gone": plugin_gone,
    "lock-stuck": lock_stuck,
    "lock-malformed": lock_malformed,
    "allocation-stuck": allocation_stuck,
    "allocation-failed": allocation_failed,
    "allocation-surplus": allocation_surplus,
    "allocation-dangling": allocation_dangling,
    "allocation-unreadable": allocation_unreadable,
    "card-overpromised": card_overpromised,
    "shares-without-scheduler": shares_without_scheduler,
    "webhook-bypassed": webhook_bypassed,
    "unknown-scheduler": unknown_scheduler,
    "scheduler-not-running": scheduler_not_running,
    "two-schedulers": two_schedulers,
    "webhook-down": webhook_down,
    "certificate-ends": certificate_ends,
    "quota-blocks": quota_blocks,
    "quota-ignored": quota_ignored,
    "image-glibc": image_glibc,
    "clock-skew": clock_skew,
    "unknown-writer": unknown_writer,
}
"""By signature; ``allocatable-flapping`` is made while the doctor watches."""
