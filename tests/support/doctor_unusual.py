"""Clusters in which nothing is wrong though much looks like a known failure."""

from collections.abc import Mapping
from dataclasses import dataclass

from support.doctor_faults import Scene
from support.doctor_objects import (
    Objects,
    at,
    daemon_set,
    deployment,
    lease,
    node,
    plugin_pod,
    plugin_spec,
    pod,
    shares,
    unplaced,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusual:
    """What is put into a healthy cluster; ``later_s`` is when one looks after that."""

    objects: Objects
    later_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A plugin as its maker installs it: by an image without a command."""

    daemon_set: str
    container: str
    image: str
    offers: Mapping[str, str]


def installed_plugin(scene: Scene, plugin: Installed, *, on: str = "x1") -> Objects:
    """Return the plugin and its pod on a node that offers what it brings."""
    spec = plugin_spec(plugin.container)
    spec["containers"][0]["image"] = plugin.image
    del spec["containers"][0]["command"]
    return {
        **daemon_set(plugin.daemon_set, desired=1, spec=spec),
        **plugin_pod(
            scene.now, f"{plugin.daemon_set}-{on}", on, owner=plugin.daemon_set, spec=spec
        ),
    }


OTHER_DEVICES = {
    "network cards that pods share": Installed(
        daemon_set="rdma-shared-dp-ds",
        container="rdma-shared-dp",
        image="nvcr.io/nvidia/cloud-native/k8s-rdma-shared-dev-plugin:v1.5.2",
        offers={"rdma/rdma_shared_device_a": "63"},
    ),
    "network cards' functions": Installed(
        daemon_set="nvidia-sriov-device-plugin",
        container="kube-sriovdp",
        image="nvcr.io/nvidia/mellanox/sriov-network-device-plugin:v3.9.0",
        offers={"mellanox.example/vf": "8"},
    ),
    "cards for virtual machines": Installed(
        daemon_set="nvidia-sandbox-device-plugin-daemonset",
        container="nvidia-sandbox-device-plugin-ctr",
        image="nvcr.io/nvidia/kubevirt-gpu-device-plugin:v1.2.10",
        offers={},
    ),
    "Intel's cards": Installed(
        daemon_set="intel-xpu-plugin",
        container="plugin",
        image="intel/intel-xpu-device-plugin:0.32",
        offers={"gpu.intel.com/xe": "8"},
    ),
    "NVIDIA's daemon for processes that share": Installed(
        daemon_set="nvidia-device-plugin-mps-control-daemon",
        container="mps-control-daemon-ctr",
        image="nvcr.io/nvidia/k8s-device-plugin:v0.17.0",
        offers={},
    ),
}
"""Plugins of makers of cards, and of others, that bring no such card to the kubelet."""

WHOLE_CARDS = {
    "nvidia.com/gpu": ("gke-nvidia", "gke.gcr.io/nvidia-gpu-device-plugin"),
    "nvidia.com/gpu.shared": ("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"),
    "nvidia.com/mig-1g.10gb": ("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"),
    "amd.com/gpu": ("amdgpu-device-plugin", "docker.io/rocm/k8s-device-plugin"),
    "aws.amazon.com/neuron": ("neuron-device-plugin", "public.ecr.aws/neuron/neuron-device-plugin"),
    "cambricon.com/mlu": ("cambricon-device-plugin", "cambricon/device-plugin"),
    "hygon.com/dcu": ("dcu-plugin", "hygon/k8s-device-plugin"),
    "huawei.com/Ascend910": ("ascend-device-plugin", "ascend-k8sdeviceplugin:v6.0.0"),
}
"""By what it offers to the kubelet: a maker's own plugin, with its image."""


def other_devices(scene: Scene, name: str) -> Unusual:
    """Beside our plugin on n1, and alone on a node without cards."""
    plugin = OTHER_DEVICES[name]
    return Unusual(
        objects={
            **node(scene.now, "x1", offers=plugin.offers),
            **installed_plugin(scene, plugin),
            **installed_plugin(scene, plugin, on="n1"),
        }
    )


def whole_cards(scene: Scene, resource: str) -> Unusual:
    """A maker's own plugin serves its node, and no register text names a card."""
    name, image = WHOLE_CARDS[resource]
    plugin = Installed(daemon_set=name, container=name, image=image, offers={resource: "8"})
    return Unusual(
        objects={
            **node(scene.now, "x1", offers=plugin.offers),
            **installed_plugin(scene, plugin),
        }
    )


def _queued(scene: Scene, scheduler: str, limits: Mapping[str, str] | None = None) -> Objects:
    """Return a pod that its scheduler has said nothing of for 5 minutes."""
    made = pod("queued", limits=limits or shares(1000), scheduler=scheduler)
    for item in made.values():
        item["metadata"]["creationTimestamp"] = at(scene.now, 300)
    return made


def queue_of_volcano(scene: Scene) -> Unusual:
    """A pod waits in a queue; its scheduler says nothing of it until its turn comes."""
    volcano = {
        "containers": [
            {
                "name": "volcano-scheduler",
                "image": "volcanosh/vc-scheduler:v1.10.0",
                "args": ["--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf"],
            }
        ]
    }
    return Unusual(
        objects={
            **deployment("volcano-scheduler", "volcano-system", volcano),
            **_queued(scene, "volcano"),
        }
    )


def scheduler_that_only_its_lease_shows(scene: Scene) -> Unusual:
    """What runs it may not be a Deployment."""
    (held,) = lease(scene.now, namespace="kube-system", holder="runai-scheduler-0_9a").values()
    place = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/batch"
    named = {**held, "metadata": {"name": "batch", "namespace": "kube-system"}}
    return Unusual(
        objects={
            place: named,
            **_queued(scene, "runai-scheduler"),
        }
    )


def scheduler_that_only_its_configuration_shows(scene: Scene) -> Unusual:
    """A second profile of a kube-scheduler has no Lease of its own."""
    spec = {
        "containers": [{"name": "kube-scheduler", "image": "kube-scheduler"}],
        "volumes": [{"configMap": {"name": "profiles"}}],
    }
    config = "profiles:\n  - schedulerName: bin-packing\n"
    return Unusual(
        objects={
            **deployment("second-scheduler", "packing", spec),
            "/api/v1/namespaces/packing/configmaps/profiles": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "profiles", "namespace": "packing"},
                "data": {"config.yaml": config},
            },
            **_queued(scene, "bin-packing"),
        }
    )


def vendor_that_is_off(scene: Scene) -> Unusual:
    """Huawei's own plugin and schedulers serve its cards; the operator leaves them alone."""
    limits = {"huawei.com/Ascend310P": "1"}
    message = "0/4 nodes are available: 4 Insufficient huawei.com/Ascend310P-memory."
    return Unusual(
        objects={
            **node(scene.now, "x1", offers={"huawei.com/Ascend310P": "4"}),
            **pod("placed", limits=limits, scheduler="default-scheduler", node="x1"),
            **_queued(scene, "npu-queue", limits),
            **pod(
                "waits",
                limits=limits,
                scheduler="default-scheduler",
                status=unplaced(message),
            ),
        }
    )


def cards_that_have_just_come(scene: Scene) -> Unusual:
    """AMD's plugin answers no handshake; the kubelet offers its cards a moment later."""
    card = '{"id":"0","count":1,"devmem":196000,"devcore":100,"type":"AMD-MI300X","health":true}'
    notes = {"hami.io/node-amd-register": f"[{card}]"}
    return Unusual(objects=node(scene.now, "x1", annotations=notes), later_s=59)


OTHERS = (
    queue_of_volcano,
    scheduler_that_only_its_lease_shows,
    scheduler_that_only_its_configuration_shows,
    vendor_that_is_off,
    cards_that_have_just_come,
)
