"""Many pods at once, end to end: from the first creation to the last served pod."""

import time
from dataclasses import dataclass

from bench import cluster, floor, objects
from vgpu_operator.kube import paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One run. Rates in pods a second, CPU in milliseconds a pod."""

    pods: int
    bound_s: float
    served_s: float
    floor: float
    requests: float
    conflicts: int
    failed_binds: int
    nodes_used: int
    cpu_ms: dict[str, float]

    @property
    def rate(self) -> float:
        """Pods bound and served a second."""
        return self.pods / self.served_s


async def measure(
    *,
    pods: int,
    nodes: int,
    delay_s: float = 0.0,
    node_policy: str = "",
    cards: int = objects.CARDS,
    slots: int = objects.SLOTS,
    exclusive: bool = False,
    with_floor: bool = True,
) -> Burst:
    """Run one burst on a fresh cluster, and the floor on the same cluster before it."""
    async with cluster.bed() as made:
        await made.add_nodes(nodes, cards=cards, slots=slots)
        await made.until_known()
        reached = 0.0
        if with_floor:
            reached = await floor.measure(made, pods=pods, nodes=nodes)
            await cluster.delete_pods(made.kube)
        made_pods = [
            objects.pod(f"pod-{number}", exclusive=exclusive, node_policy=node_policy)
            for number in range(pods)
        ]
        async with cluster.agents(made, delay_s=delay_s, expect=pods) as serving:
            before, cpu_before = await made.metrics(), made.cpu_s()
            begun = time.monotonic()
            await cluster.create_pods(made.kube, made_pods)
            times = await serving.done()
            after, cpu_after = await made.metrics(), made.cpu_s()
        found, _ = await made.kube.list(paths.PODS)

    def grown(name: str, **labels: str) -> float:
        return after.total(name, **labels) - before.total(name, **labels)

    failed = grown("vgpu_extender_request_duration_seconds_count", verb="bind", outcome="failed")
    return Burst(
        pods=pods,
        bound_s=times["bound_at"][-1] - begun,
        served_s=times["served_at"][-1] - begun,
        floor=reached,
        requests=grown("vgpu_api_requests_total") / pods,
        conflicts=int(grown("vgpu_api_requests_total", status="409")),
        failed_binds=int(failed),
        nodes_used=len({pod["spec"].get("nodeName") for pod in found}),
        cpu_ms={
            name: 1000 * (cpu_after[name] - cpu_before.get(name, 0.0)) / pods for name in cpu_after
        },
    )
