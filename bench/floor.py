"""What the protocol alone costs here: the same writes, by a bare client at full speed.

For each pod: its creation, the node's lock, the Binding with all annotations, and
the agent's four requests. A kube-scheduler watches and has nothing to do. Each
node's pods come one after another, as the lock wants it.
"""

import time

from bench import agents, cluster, objects
from vgpu_operator.kube import client, paths


async def measure(made: cluster.Bed, *, pods: int, nodes: int) -> float:
    """Return pods a second."""
    queues = [[f"floor-{number}" for number in range(first, pods, nodes)] for first in range(nodes)]
    begun = time.monotonic()

    async def drive(place: int) -> None:
        node = made.nodes[place]
        for name in queues[place]:
            await _one(made.kube, node, name)

    await cluster.all_of(range(nodes), drive, at_once=nodes)
    return pods / (time.monotonic() - begun)


async def _one(kube: client.KubeClient, node: str, name: str) -> None:
    made = objects.placed_pod(name, node="", card="GPU-x")
    del made["spec"]["nodeName"]
    made["spec"]["schedulerName"] = "nobody"
    texts = made["metadata"].pop("annotations")
    created = await kube.create(paths.namespaced("default", "pods"), made)
    lock = {agents.LOCK: f"2026-01-01T00:00:00Z,default,{name}"}
    await kube.patch(paths.node(node), {"metadata": {"annotations": lock}})
    texts |= {
        "hami.io/vgpu-node": node,
        agents.PHASE: "allocating",
        agents.TO_ALLOCATE: texts["hami.io/vgpu-devices-allocated"],
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": created["metadata"]["uid"], "annotations": texts},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await kube.create(paths.binding("default", name), binding)
    path = paths.pod("default", name)
    await kube.patch(path, {"metadata": {"annotations": {agents.TO_ALLOCATE: ";"}}})
    await kube.patch(path, {"metadata": {"annotations": {agents.PHASE: "success"}}})
    await kube.get(paths.node(node))
    await kube.patch(paths.node(node), {"metadata": {"annotations": {agents.LOCK: None}}})
