"""The demo's story on a real node: a kubelet runs the containers, the cards are simulated."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.cli.cluster import process
from vgpu_operator.cli.cluster.real_node import images, node
from vgpu_operator.cli.demo import scene as scenes
from vgpu_operator.cli.demo.scene import CARD_MIB, CARD_TYPE, Check, Json, Step, settled
from vgpu_operator.kube import paths
from vgpu_operator.wire import keys

NODE = "vgpu-demo-real"
RESOURCE = "nvidia.com/gpu"
CARDS: Json = {"cards": 2, "memory": CARD_MIB, "type": CARD_TYPE}
SLOTS = 20
"""What the kubelet counts: ten slots a card, the default."""

_SHOWN = ("CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_SM_LIMIT", "NVIDIA_VISIBLE_DEVICES")
"""Beginnings of the variables that the story prints."""

_PRINTS = f"nvidia-smi; {images.SHOW}"


@dataclass(slots=True, kw_only=True)
class Scene(scenes.Scene):
    """Where this story plays: one real node with the node agent."""

    node: node.RealNode
    agent: process.Component

    def manifest(self, name: str, containers: Sequence[Json]) -> Json:
        """Return a pod of containers that share cards where that is possible."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {keys.CARD_POLICY: "binpack"}},
            "spec": {
                "schedulerName": self.scheduler_name,
                "nodeSelector": {"kubernetes.io/hostname": NODE},
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": list(containers),
            },
        }

    async def environment(self, pod: str, container: str = "main") -> dict[str, str]:
        """Return what a container printed of its environment, once it has."""
        return await self.node.container_env(self.namespace, pod, container)

    async def phase(self, pod: str) -> str:
        """Return how a pod is."""
        return str((await self.pod(pod))["status"].get("phase"))

    async def allocatable(self) -> str | None:
        """Return how many devices the kubelet offers."""
        found = await self.kube.get(paths.node(NODE))
        return (found["status"].get("allocatable") or {}).get(RESOURCE)

    async def offered_by_the_agent(self) -> str | None:
        """Return the same; an agent that ended by itself is told, with its last words."""
        self.agent.check_running()
        return await self.allocatable()


def container(name: str, *, memory: int, count: int = 1, cores: int | None = None) -> Json:
    """Return a container that asks for slices of cards and prints what it got."""
    limits: dict[str, Any] = {RESOURCE: count, "nvidia.com/gpumem": memory}
    if cores is not None:
        limits["nvidia.com/gpucores"] = cores
    return {
        "name": name,
        "image": images.SHELL,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", _PRINTS],
        "resources": {"limits": limits},
    }


def cards_file() -> str:
    """Return the text of the file that describes the node's cards."""
    return json.dumps(CARDS)


def tell(scene: Scene) -> AsyncIterator[Step]:
    """Play the story, step by step."""
    return scenes.play(
        scene,
        (
            _cards_register,
            _two_pods_share,
            _two_containers,
            _third_waits,
            _deletion_lets_it_in,
            _agent_gone,
            _agent_back,
        ),
    )


async def _cards_register(scene: Scene) -> Step:
    cards = [f"GPU-{NODE}-{index}" for index in (0, 1)]
    offered = await settled(scene.offered_by_the_agent, str(SLOTS))
    known = await settled(scene.known_cards, cards)
    return Step(
        title="The node agent registers two cards",
        told="The agent told the kubelet of its devices over gRPC, as a device plugin does, and"
        " wrote the cards on the Node. The kubelet counts ten slots a card; memory and cores are"
        " the operator's to count.",
        checks=(
            Check(what="cards that the operator knows", expected=cards, observed=known),
            Check(what="devices that the kubelet offers", expected=str(SLOTS), observed=offered),
        ),
        shown=scenes.as_kubectl_shows(await scene.kube.get(paths.node(NODE))),
    )


async def _two_pods_share(scene: Scene) -> Step:
    await scene.create(scene.manifest("notebook", [container("main", memory=12000, cores=30)]))
    await scene.create(scene.manifest("inference", [container("main", memory=10000, cores=50)]))
    first, second = await scene.environment("notebook"), await scene.environment("inference")
    return Step(
        title="Two containers share one card, each with its own limit",
        told="notebook asks for 12,000 MiB and 30 % of the cores, inference for 10,000 MiB and"
        " 50 %. The kubelet asked the agent what each container needs; this is what the containers"
        " print themselves. No GPU is behind it: nvidia-smi is a stand-in that shows the slice.",
        checks=(
            _limit("notebook's memory limit", first, "12000m"),
            _limit("inference's memory limit", second, "10000m"),
            Check(
                what="inference sees notebook's card",
                expected=first.get("NVIDIA_VISIBLE_DEVICES"),
                observed=second.get("NVIDIA_VISIBLE_DEVICES"),
            ),
        ),
        shown="\n\n".join([_seen(scene, "notebook", first), _seen(scene, "inference", second)]),
    )


async def _two_containers(scene: Scene) -> Step:
    both = [container("prepare", memory=1000), container("train", memory=2000)]
    await scene.create(scene.manifest("pipeline", both))
    prepare = await scene.environment("pipeline", "prepare")
    train = await scene.environment("pipeline", "train")
    return Step(
        title="A pod with two containers gets two slices, in the right order",
        told="The kubelet does not say for which pod or container it asks. The agent finds the pod"
        " by the lock on the Node, and takes the next entry of its list.",
        checks=(
            _limit("prepare's memory limit", prepare, "1000m"),
            _limit("train's memory limit", train, "2000m"),
        ),
        shown="\n\n".join(
            [
                _seen(scene, "pipeline", prepare, container="prepare"),
                _seen(scene, "pipeline", train, container="train"),
                scenes.as_kubectl_shows(await scene.pod("pipeline")),
            ]
        ),
    )


async def _third_waits(scene: Scene) -> Step:
    await scene.create(scene.manifest("training", [container("main", memory=12000, count=2)]))
    message, check = await scenes.refusal(scene, "training", "1/2 CardInsufficientMemory")
    return Step(
        title="One more pod does not fit, and waits",
        told="training asks for 12,000 MiB on both cards at once. On one of them too little is"
        f" left. kube-scheduler says:\n  {message}",
        checks=(
            check,
            Check(what="training is", expected="Pending", observed=await scene.phase("training")),
        ),
    )


async def _deletion_lets_it_in(scene: Scene) -> Step:
    begun = time.monotonic()
    await scene.delete("notebook")
    got = await scene.environment("training")
    took_s = time.monotonic() - begun
    return Step(
        title="Deleting one lets it in by itself",
        told=f"notebook was deleted; {took_s:.1f} s later training ran with a slice of both cards.",
        checks=(
            _limit("training's limit on its first card", got, "12000m"),
            _limit("training's limit on its second card", got, "12000m", index=1),
            Check(what="training is", expected="Running", observed=await _running(scene)),
        ),
        shown=_seen(scene, "training", got),
    )


async def _agent_gone(scene: Scene) -> Step:
    await scene.agent.stop()
    offered = await settled(scene.allocatable, "0")
    return Step(
        title="The agent ends: nothing new, and nobody is disturbed",
        told="The kubelet lost its device plugin and offers no device; the operator places nothing"
        " here while that is so. Containers that run keep what they have.",
        checks=(
            Check(what="devices that the kubelet offers", expected="0", observed=offered),
            Check(what="training is", expected="Running", observed=await scene.phase("training")),
        ),
    )


async def _agent_back(scene: Scene) -> Step:
    scene.agent.start()
    offered = await settled(scene.offered_by_the_agent, str(SLOTS))
    await scene.create(scene.manifest("late", [container("main", memory=500)]))
    got = await scene.environment("late")
    return Step(
        title="The agent is back: so are the cards",
        told="It registered again. The next pod is served as if nothing had been.",
        checks=(
            Check(what="devices that the kubelet offers", expected=str(SLOTS), observed=offered),
            _limit("late's memory limit", got, "500m"),
        ),
    )


async def _running(scene: Scene) -> str:
    observed: str = await settled(lambda: scene.phase("training"), "Running")
    return observed


def _limit(what: str, environment: Json, expected: str, *, index: int = 0) -> Check:
    observed = environment.get(f"CUDA_DEVICE_MEMORY_LIMIT_{index}")
    return Check(what=what, expected=expected, observed=observed)


def _seen(scene: Scene, pod: str, environment: Json, *, container: str = "main") -> str:
    """Return what a container printed: the variables that matter, and nvidia-smi's table."""
    written = scene.node.logs(scene.namespace, pod, container)
    table = [line for line in written.splitlines() if line.startswith(("+", "|"))]
    names = sorted(name for name in environment if name.startswith(_SHOWN))
    variables = [f"{name}={environment[name]}" for name in names]
    who = pod if container == "main" else f"{pod}, container {container},"
    return "\n".join([f"{who} prints:", *variables, *table])
