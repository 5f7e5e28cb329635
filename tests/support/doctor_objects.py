"""Raw objects for the tests of ``vgpu doctor``: a cluster in which all is well.

The same objects go into a played API server and onto the real one.
"""

import base64
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_operator.webhook import issue
from vgpu_operator.wire import clock_text, handshake

Json = dict[str, Any]
Objects = dict[str, Json]

SYSTEM = "vgpu-system"
OPERATOR = "vgpu-vgpu-operator-scheduler"
OPERATOR_POD = f"{OPERATOR}-7d9f-abcde"
SETTINGS = "vgpu-vgpu-operator-settings"
PLUGIN = "vgpu-vgpu-operator-device-plugin"
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices/{OPERATOR}-1"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{OPERATOR}"
WEBHOOK = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vgpu-vgpu-operator-webhook"
)
CARD = '{"id":"%s","count":10,"devmem":%d,"devcore":100,"type":"NVIDIA A10","health":true}'
BROKEN_IMAGE = "registry.example/train:20.04"


def at(now: datetime.datetime, seconds: float) -> str:
    """Return a moment before now as the API writes it."""
    return clock_text.encode_rfc3339(now - datetime.timedelta(seconds=seconds))


def stamped(now: datetime.datetime, seconds: float) -> str:
    """Return the handshake that was stamped so long before now."""
    return handshake.encode_requesting(now - datetime.timedelta(seconds=seconds))


def register(*cards: str, memory_mib: int = 24576) -> str:
    """Return the register text of these cards."""
    return "[" + ",".join(CARD % (card, memory_mib) for card in cards) + "]"


def node(
    now: datetime.datetime,
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    cards: int | None = None,
    port: int = 1,
    heartbeat_s: float = 1,
    offers: Mapping[str, str] | None = None,
) -> Objects:
    """Return a Node.

    Args:
        now: the time.
        name: its name.
        annotations: its annotations.
        labels: its labels.
        cards: how many ``nvidia.com/gpu`` are allocatable; None = it does not say.
        port: of its kubelet, on loopback.
        heartbeat_s: how long ago, by its own clock, its kubelet reported.
        offers: what else is allocatable.
    """
    counts = {} if cards is None else {"nvidia.com/gpu": str(cards)}
    counts |= offers or {}
    return {
        f"/api/v1/nodes/{name}": {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": dict(annotations or {}),
                # As kubelets write it; the fields of an object that came without any are
                # not managed by the API server.
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            },
            "status": {
                "allocatable": counts,
                "capacity": counts,
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "lastHeartbeatTime": at(now, heartbeat_s),
                        "lastTransitionTime": at(now, 86_400),
                    }
                ],
            },
        }
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    limits: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "hami-scheduler",
    status: Mapping[str, Any] | None = None,
    owner: tuple[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Objects:
    """Return a Pod of one container."""
    metadata: Json = {
        "name": name,
        "namespace": namespace,
        "annotations": dict(annotations or {}),
        "labels": {},
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner[0],
                "name": owner[1],
                "uid": "6e5ff3ee-0d54-4c2c-8d1c-3f8e0d3cbd9d",
                "controller": True,
            }
        ]
    container: Json = {"name": "main", "image": BROKEN_IMAGE}
    if limits:
        container["resources"] = {"limits": dict(limits), "requests": dict(limits)}
    whole: Json = {"schedulerName": scheduler, "containers": [container], **(spec or {})}
    if node:
        whole["nodeName"] = node
    return {
        f"/api/v1/namespaces/{namespace}/pods/{name}": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": whole,
            "status": {"phase": "Running" if node else "Pending", **(status or {})},
        }
    }


def unplaced(message: str) -> Json:
    """Return the status of a pod that its scheduler could not place, for that reason."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**condition, "message": message}]}


def promise(
    now: datetime.datetime,
    node: str,
    text: str,
    *,
    phase: str = "success",
    left: str = ";",
    bound_s: float = 600,
) -> Json:
    """Return the annotations of a pod that was bound so long ago."""
    bound = clock_text.encode_unix_s(now - datetime.timedelta(seconds=bound_s))
    return {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": bound,
        "hami.io/bind-time": bound,
        "hami.io/bind-phase": phase,
        "hami.io/vgpu-devices-to-allocate": left,
        "hami.io/vgpu-devices-allocated": text,
    }


def shares(memory_mib: int, cores: int = 10) -> Json:
    """Return what a container that takes a part of one NVIDIA card asks for."""
    return {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": str(memory_mib),
        "nvidia.com/gpucores": str(cores),
    }


def plugin_spec(name: str = "device-plugin", *words: str, runtime_class: str = "") -> Json:
    """Return the spec of a device plugin's pods."""
    spec: Json = {
        "containers": [
            {
                "name": name,
                "image": "docker.io/projecthami/hami:v2.10.0",
                "command": list(words or ("nvidia-device-plugin",)),
                "volumeMounts": [
                    {"name": "sockets", "mountPath": "/var/lib/kubelet/device-plugins"}
                ],
            }
        ],
        "volumes": [{"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    }
    if runtime_class:
        spec["runtimeClassName"] = runtime_class
    return spec


def plugin_pod(
    now: datetime.datetime,
    name: str,
    node: str,
    *,
    owner: str = PLUGIN,
    spec: Json | None = None,
    container: Mapping[str, Any] | None = None,
    phase: str = "Running",
) -> Objects:
    """Return a pod of a device plugin that was started an hour ago.

    Args:
        now: the time.
        name: its name.
        node: where it runs.
        owner: its DaemonSet.
        spec: as ``plugin_spec``.
        container: status of its container; None = ready.
        phase: of the pod.
    """
    made = spec or plugin_spec()
    fine = {"ready": True, "started": True, "state": {"running": {"startedAt": at(now, 3600)}}}
    status = {
        "name": made["containers"][0]["name"],
        "image": "hami",
        "imageID": "hami",
        "restartCount": 0,
        **(fine if container is None else {"ready": False, **container}),
    }
    statuses = {"containerStatuses": [status]} if phase == "Running" else {}
    return pod(
        name,
        namespace=SYSTEM,
        node=node,
        scheduler="default-scheduler",
        owner=("DaemonSet", owner),
        spec=made,
        status={"phase": phase, "startTime": at(now, 3600), **statuses},
    )


def daemon_set(
    name: str, *, desired: int, spec: Json | None = None, selector: Mapping[str, str] | None = None
) -> Objects:
    """Return a DaemonSet of a device plugin."""
    labels = {"app": name}
    made = {**(spec or plugin_spec()), "nodeSelector": dict(selector or {})}
    return {
        f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/{name}": {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": SYSTEM, "generation": 1},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": made},
            },
            "status": {
                "observedGeneration": 1,
                "desiredNumberScheduled": desired,
                "currentNumberScheduled": desired,
                "numberMisscheduled": 0,
                "numberReady": desired,
            },
        }
    }


def lease(now: datetime.datetime, *, namespace: str, holder: str, age_s: float = 1) -> Objects:
    """Return the Lease of a kube-scheduler."""
    renewed = now - datetime.timedelta(seconds=age_s)
    return {
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/hami-scheduler": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "hami-scheduler", "namespace": namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
            },
        }
    }


def event(now: datetime.datetime, about: Json, reason: str, message: str) -> Objects:
    """Return an Event of a minute ago."""
    namespace = about["namespace"]
    return {
        f"/api/v1/namespaces/{namespace}/events/{about['name']}.1": {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about['name']}.1", "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", **about},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": at(now, 60),
        }
    }


def quota(name: str, namespace: str, hard: Mapping[str, str]) -> Objects:
    """Return a ResourceQuota."""
    return {
        f"/api/v1/namespaces/{namespace}/resourcequotas/{name}": {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hard": dict(hard)},
        }
    }


def bundle(now: datetime.datetime, *, lifetime_days: float, left_days: float) -> str:
    """Return a caBundle whose one authority has so many days left."""
    lifetime = datetime.timedelta(days=lifetime_days)
    made = now - lifetime + datetime.timedelta(days=left_days)
    authority, _ = issue.authority(made, lifetime=lifetime)
    return base64.b64encode(authority).decode()


def operator_spec() -> Json:
    """Return the spec of the operator's pods, as far as it matters."""
    return {
        "containers": [
            {
                "name": "vgpu-operator",
                "image": "vgpu-operator",
                "args": ["run", "--extender-bind=127.0.0.1:8080", "--webhook-bind=:9443"],
            }
        ],
        "volumes": [{"name": "settings", "configMap": {"name": SETTINGS}}],
    }


def settings_map() -> Objects:
    """Return the ConfigMap with the operator's settings: the usual ones."""
    return {
        f"/api/v1/namespaces/{SYSTEM}/configmaps/{SETTINGS}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": SETTINGS, "namespace": SYSTEM},
            "data": {"settings.yaml": "schedulerName: hami-scheduler\n"},
        }
    }


def deployment(name: str, namespace: str, spec: Json, *, ready: int = 1) -> Objects:
    """Return a Deployment."""
    labels = {"app": name}
    return {
        f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
            "status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": ready},
        }
    }


def hook(ca_bundle: str) -> Json:
    """Return the webhook as the chart has it, as far as it matters."""
    return {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 1,
        "clientConfig": {
            "service": {"namespace": SYSTEM, "name": OPERATOR, "path": "/webhook"},
            "caBundle": ca_bundle,
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", SYSTEM],
                }
            ]
        },
    }


def webhook(ca_bundle: str) -> Objects:
    """Return the configuration that sends new pods to the operator."""
    return {
        WEBHOOK: {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": WEBHOOK.rpartition("/")[2]},
            "webhooks": [hook(ca_bundle)],
        }
    }


def endpoints(*, ready: bool = True) -> Objects:
    """Return what stands behind the webhook's Service."""
    return {
        SLICE: {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": SLICE.rpartition("/")[2],
                "namespace": SYSTEM,
                "labels": {"kubernetes.io/service-name": OPERATOR},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": ready}}],
            "ports": [{"name": "webhook", "port": 9443, "protocol": "TCP"}],
        }
    }


def healthy(now: datetime.datetime, *, port: int = 1) -> Objects:
    """Return a whole cluster in which nothing is wrong."""
    return {
        **node(
            now,
            "n1",
            labels={"gpu": "on"},
            cards=20,
            annotations={
                "hami.io/node-nvidia-register": register("GPU-a0", "GPU-a1"),
                # NVIDIA's plugin never answers: an old stamp is its healthy state.
                "hami.io/node-handshake": stamped(now, 86_400),
            },
        ),
        **node(
            now,
            "n2",
            labels={"gpu": "on"},
            cards=10,
            annotations={
                "hami.io/node-nvidia-register": register("GPU-b0"),
                "hami.io/node-handshake": stamped(now, 5),
            },
        ),
        **node(now, "n3", port=port),
        "/apis/node.k8s.io/v1/runtimeclasses/nvidia": {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
        **daemon_set(PLUGIN, desired=2, selector={"gpu": "on"}),
        **plugin_pod(now, "plugin-n1", "n1"),
        **plugin_pod(now, "plugin-n2", "n2"),
        **settings_map(),
        **deployment(OPERATOR, SYSTEM, operator_spec()),
        **pod(
            OPERATOR_POD,
            namespace=SYSTEM,
            node="n3",
            owner=("ReplicaSet", f"{OPERATOR}-7d9f"),
            spec=operator_spec(),
            scheduler="default-scheduler",
        ),
        **lease(now, namespace=SYSTEM, holder=f"{OPERATOR_POD}_0f1e"),
        **webhook(bundle(now, lifetime_days=1825, left_days=1800)),
        **endpoints(),
        **pod(
            "train",
            node="n1",
            limits=shares(3000, 30),
            annotations=promise(now, "n1", "GPU-a0,NVIDIA,3000,30:;"),
            status={"startTime": at(now, 590)},
        ),
        **pod(
            "waits",
            limits=shares(99_999),
            status=unplaced("0/3 nodes are available: 2/2 CardInsufficientMemory."),
        ),
        **pod("web", node="n3", scheduler="default-scheduler"),
        **quota("shares", "default", {"limits.nvidia.com/gpumem": "200000"}),
    }


def managed(item: Json, manager: str, now: datetime.datetime) -> Json:
    """Return an object with the managed fields that a real API server would add."""
    notes = {f"f:{key}": {} for key in item["metadata"].get("annotations", {})}
    entries = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": at(now, 0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, **notes}}},
        }
    ]
    conditions: Sequence[Json] = item.get("status", {}).get("conditions", ())
    beats = [one["type"] for one in conditions if "lastHeartbeatTime" in one]
    fields = {f'k:{{"type":"{kind}"}}': {"f:lastHeartbeatTime": {}} for kind in beats}
    if fields:
        entries.append(
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": at(now, 0),
                "subresource": "status",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:conditions": fields}},
            }
        )
    return {**item, "metadata": {**item["metadata"], "managedFields": entries}}
