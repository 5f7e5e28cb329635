"""What the demo's stories share: the scene, steps and their checks, and how they wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import aiohttp
import yaml

from vgpu_operator.kube import client, paths
from vgpu_operator.wire import keys

Json = dict[str, Any]

STEP_LIMIT_S = 30.0
LOOK_AGAIN_S = 0.1
CARD_MIB = 24576
CARD_TYPE = "NVIDIA A10"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a step expected and what it observed."""

    what: str
    expected: Any
    observed: Any

    @property
    def holds(self) -> bool:
        """Whether both are equal."""
        return bool(self.expected == self.observed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One finished step.

    Attributes:
        title: what was done.
        told: what happened, for a person.
        shown: text as kubectl would print it; may be empty.
        took_s: how long it took.
    """

    title: str
    told: str
    checks: tuple[Check, ...]
    shown: str = ""
    took_s: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


@dataclass(slots=True, kw_only=True)
class Scene:
    """Where a story plays.

    Attributes:
        metrics_url: the operator's.
        namespace: where the demo's pods live.
        pods: those that the clean-up has to delete.
    """

    kube: client.KubeClient
    metrics_url: str
    scheduler_name: str
    namespace: str
    pods: list[str] = field(default_factory=list)

    async def create(self, pod: Json) -> None:
        """Create a pod and remember it for the clean-up."""
        await self.kube.create(paths.namespaced(self.namespace, "pods"), pod)
        self.pods.append(pod["metadata"]["name"])

    async def delete(self, name: str) -> None:
        """Delete a pod as ``kubectl delete pod --now`` does: the kubelet lets it end first."""
        await self.kube.delete(paths.pod(self.namespace, name), grace_s=1)
        self.pods.remove(name)

    async def pod(self, name: str) -> Json:
        """Read a pod."""
        return await self.kube.get(paths.pod(self.namespace, name))

    async def known_cards(self) -> list[str]:
        """Return the demo's cards that the operator's ledger holds, by its metrics."""
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{self.metrics_url}/metrics")
            text = await answer.text()
        series = [x for x in text.splitlines() if x.startswith("hami_gpu_memory_limit_bytes{")]
        cards = [x.split('device_uuid="')[1].split('"')[0] for x in series]
        return sorted(card for card in cards if "vgpu-demo-" in card)


SceneT = TypeVar("SceneT", bound=Scene)


async def play(
    scene: SceneT, steps: Iterable[Callable[[SceneT], Awaitable[Step]]]
) -> AsyncIterator[Step]:
    """Play a story, step by step."""
    for step in steps:
        begun = time.monotonic()
        done = await step(scene)
        yield replace(done, took_s=time.monotonic() - begun)


async def settled(
    look: Callable[[], Awaitable[Any]], expected: Any, *, limit_s: float = STEP_LIMIT_S
) -> Any:
    """Look until what is seen is what was expected, or the time is over; return what was seen."""
    deadline = time.monotonic() + limit_s
    while True:
        observed = await look()
        if observed == expected or time.monotonic() > deadline:
            return observed
        await asyncio.sleep(LOOK_AGAIN_S)


async def refusal(scene: Scene, pod: str, reason: str) -> tuple[str | None, Check]:
    """Wait for what kube-scheduler says of a pod that does not fit; return it, and its check.

    Args:
        scene: where the pod is.
        pod: its name.
        reason: what the message must hold.
    """

    async def refused() -> bool:
        return await _why_pending(scene, pod) is not None

    await settled(refused, expected=True)
    message = await _why_pending(scene, pod)
    return message, Check(
        what="the reason in kube-scheduler's message",
        expected=True,
        observed=reason in (message or ""),
    )


async def _why_pending(scene: Scene, pod: str) -> str | None:
    for condition in (await scene.pod(pod))["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return None


def as_kubectl_shows(thing: Json) -> str:
    """Return name and protocol annotations as ``kubectl get -o yaml`` prints them."""
    texts = thing["metadata"].get("annotations") or {}
    ours = {key: text for key, text in sorted(texts.items()) if key.startswith(keys.DOMAIN)}
    shown = {
        "kind": thing["kind"],
        "metadata": {"annotations": ours, "name": thing["metadata"]["name"]},
    }
    return yaml.safe_dump(shown, sort_keys=False, width=100, allow_unicode=True).rstrip()
