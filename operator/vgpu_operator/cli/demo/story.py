"""The demo's story on nodes that are objects only: no container runs, no GPU is needed."""

import asyncio
import datetime
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from vgpu_operator.agent import simulator, spec
from vgpu_operator.cli.demo import scene as scenes
from vgpu_operator.cli.demo.scene import CARD_MIB, CARD_TYPE, Check, Json, Step, settled
from vgpu_operator.kube import paths
from vgpu_operator.wire import handshake, keys

NODES = ("vgpu-demo-a", "vgpu-demo-b")
HANDSHAKE = "hami.io/node-handshake"

SETTINGS: Json = {"handshake": {"intervalS": 1.0, "expiryS": 3.0}}
"""Shorter times than the defaults (15 s, 60 s), so that nobody has to wait for an expiry."""

SIMULATION: Json = {
    "roundInterval": 0.5,
    "nodes": [
        {"name": name, "cards": 2, "memory": CARD_MIB, "type": CARD_TYPE, "delay": "0.1s"}
        for name in NODES
    ],
}


@dataclass(slots=True, kw_only=True)
class Scene(scenes.Scene):
    """Where this story plays: two simulated nodes."""

    sim: simulator.Simulator

    def manifest(
        self, name: str, *, memory: int, count: int = 1, annotations: Json | None = None
    ) -> Json:
        """Return a pod that asks for slices of cards on the first demo node."""
        limits = {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "schedulerName": self.scheduler_name,
                "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": "main",
                        "image": "example.com/train:1",
                        "resources": {"limits": limits},
                    }
                ],
            },
        }


def tell(scene: Scene) -> AsyncIterator[Step]:
    """Play the story, step by step."""
    return scenes.play(
        scene,
        (
            _cards_register,
            _two_pods_share,
            _annotations,
            _third_is_refused,
            _deletion_lets_it_in,
            _silence_alone_removes_nothing,
            _vanished_plugin,
        ),
    )


async def _cards_register(scene: Scene) -> Step:
    expected = sorted(f"GPU-{node}-{index}" for node in NODES for index in (0, 1))
    observed = await settled(scene.known_cards, expected)
    asked = await settled(lambda: _handshake_state(scene, NODES[0]), "requesting")
    return Step(
        title="Two nodes register two cards each",
        told="Each node's device plugin wrote its cards on its Node. The operator read them and"
        " answered with a handshake; from now on it knows what there is.",
        checks=(
            Check(what="cards that the operator knows", expected=expected, observed=observed),
            Check(what=f"handshake on {NODES[0]}", expected="requesting", observed=asked),
        ),
        shown=await _node_annotations(scene, NODES[0]),
    )


async def _two_pods_share(scene: Scene) -> Step:
    packed = {keys.CARD_POLICY: "binpack"}
    await scene.create(scene.manifest("notebook", memory=12000, annotations=packed))
    first = await _success_on(scene, "notebook")
    await scene.create(scene.manifest("inference", memory=10000, annotations=packed))
    second = await _success_on(scene, "inference")
    cards = [await _card_of(scene, name) for name in ("notebook", "inference")]
    return Step(
        title="Two pods share one card",
        told="notebook asks for 12,000 MiB and inference for 10,000 MiB of a 24,576 MiB card."
        " kube-scheduler asked the operator, the operator chose the card and bound each pod with"
        " its promise; the node's plugin then served it.",
        checks=(
            Check(what="notebook's allocation", expected="success", observed=first),
            Check(what="inference's allocation", expected="success", observed=second),
            Check(what="cards used by both", expected=1, observed=len(set(cards))),
        ),
    )


async def _annotations(scene: Scene) -> Step:
    pod = await scene.pod("inference")
    texts = pod["metadata"]["annotations"]
    card = await _card_of(scene, "inference")
    return Step(
        title="What stands on the pod",
        told="The promise stays for the pod's life. The work list is empty: the plugin has"
        " served every container.",
        checks=(
            Check(
                what="promise",
                expected=f"{card},NVIDIA,10000,0:;",
                observed=texts.get("hami.io/vgpu-devices-allocated"),
            ),
            Check(what="node", expected=NODES[0], observed=texts.get(keys.ASSIGNED_NODE)),
        ),
        shown=scenes.as_kubectl_shows(pod),
    )


async def _third_is_refused(scene: Scene) -> Step:
    await scene.create(scene.manifest("training", memory=14000, count=2))
    message, check = await scenes.refusal(scene, "training", "1/2 CardInsufficientMemory")
    return Step(
        title="A third pod does not fit",
        told="training asks for 14,000 MiB on two cards at once. Of the node's two cards one has"
        f" only {CARD_MIB - 22000:,} MiB left, so it waits. kube-scheduler says:\n  {message}",
        checks=(
            check,
            Check(
                what="training is bound to",
                expected=None,
                observed=(await scene.pod("training"))["spec"].get("nodeName"),
            ),
        ),
    )


async def _deletion_lets_it_in(scene: Scene) -> Step:
    begun = time.monotonic()
    await scene.delete("notebook")
    phase = await _success_on(scene, "training")
    took_s = time.monotonic() - begun
    return Step(
        title="Deleting one lets it in by itself",
        told=f"notebook was deleted; {took_s:.1f} s later training had both cards. Nobody had to"
        " touch it.",
        checks=(Check(what="training's allocation", expected="success", observed=phase),),
    )


async def _silence_alone_removes_nothing(scene: Scene) -> Step:
    node = NODES[1]
    long_ago = datetime.datetime(2024, 1, 23, 4, 30, 4, tzinfo=datetime.UTC)
    old = handshake.encode_requesting(long_ago)
    await scene.kube.patch(paths.node(node), {"metadata": {"annotations": {HANDSHAKE: old}}})
    mine = [f"GPU-{node}-0", f"GPU-{node}-1"]
    # Longer than two intervals of the operator's clock: it has looked at least once.
    begun = time.monotonic()
    ticks = 2 * SETTINGS["handshake"]["intervalS"] + 0.5
    observed: list[str] = []
    while time.monotonic() - begun < ticks:
        observed = [card for card in await scene.known_cards() if card in mine]
        if observed != mine:
            break
        await asyncio.sleep(scenes.LOOK_AGAIN_S)
    return Step(
        title="An unanswered handshake alone removes nothing",
        told=f"The handshake on {node} is years old now, but the kubelet still lists the cards:"
        " they stay. (NVIDIA's plugin never answers; this is its healthy state.)",
        checks=(Check(what=f"cards of {node}", expected=mine, observed=observed),),
    )


async def _vanished_plugin(scene: Scene) -> Step:
    node = NODES[1]
    await scene.sim.node(node).vanish()
    mine = [f"GPU-{node}-0", f"GPU-{node}-1"]
    observed = await settled(lambda: _those_known(scene, mine), [])
    state = await settled(lambda: _handshake_state(scene, node), "absent")
    return Step(
        title="The node's plugin vanishes",
        told=f"The plugin on {node} is gone and the kubelet reports nothing allocatable: now, and"
        " only now, its cards leave and the handshake is removed.",
        checks=(
            Check(what=f"cards of {node}", expected=[], observed=observed),
            Check(what=f"handshake on {node}", expected="absent", observed=state),
        ),
    )


async def _those_known(scene: Scene, cards: list[str]) -> list[str]:
    return [card for card in await scene.known_cards() if card in cards]


async def _success_on(scene: Scene, pod: str) -> str | None:
    async def phase() -> str | None:
        texts = (await scene.pod(pod))["metadata"].get("annotations", {})
        found: str | None = texts.get(keys.BIND_PHASE)
        return found

    observed: str | None = await settled(phase, "success")
    return observed


async def _card_of(scene: Scene, pod: str) -> str:
    texts = (await scene.pod(pod))["metadata"].get("annotations", {})
    return str(texts.get("hami.io/vgpu-devices-allocated", "")).split(",")[0]


async def _handshake_state(scene: Scene, node: str) -> str:
    texts = (await scene.kube.get(paths.node(node)))["metadata"].get("annotations", {})
    return handshake.decode_handshake(texts.get(HANDSHAKE)).state.value


async def _node_annotations(scene: Scene, node: str) -> str:
    return scenes.as_kubectl_shows(await scene.kube.get(paths.node(node)))


def simulation() -> spec.Simulation:
    """Return the demo's nodes."""
    return spec.Simulation.model_validate(SIMULATION)
