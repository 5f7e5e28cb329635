"""The device plugins of all nodes, in a process of their own, as cheap as they can be.

The same four requests a pod as in the measurements of the peers: two PATCHes of
the pod, one GET and one PATCH of the node. A node's pods are served one after
another, as a kubelet does. Says on standard output, one JSON line each, when it
is ready and when the expected number of pods is served.
"""

import argparse
import asyncio
import collections
import sys
import time

import orjson

from bench import cluster, objects
from vgpu_operator.kube import client, errors, paths
from vgpu_operator.wire import keys

LOCK = keys.NODE_LOCK
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = keys.BIND_PHASE

PAUSE_S = 0.2
"""Between a refused request and the next try."""


class Agents:
    """Serves what a watch of all pods shows."""

    def __init__(self, kube: client.KubeClient, *, delay_s: float) -> None:
        self._kube = kube
        self._delay_s = delay_s
        self._queues: dict[str, collections.deque[objects.Json]] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()
        self.bound_at: list[float] = []
        self.served_at: list[float] = []
        self.news = asyncio.Event()

    def see(self, pod: objects.Json) -> None:
        """Queue a pod that was bound with cards."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        phase = (pod["metadata"].get("annotations") or {}).get(PHASE)
        if not node or phase != "allocating" or uid in self._seen:
            return
        self._seen.add(uid)
        self.bound_at.append(time.monotonic())
        self._queues.setdefault(node, collections.deque()).append(pod)
        if node not in self._busy:
            self._busy[node] = asyncio.create_task(self._serve(node))

    async def _serve(self, node: str) -> None:
        queue = self._queues[node]
        while queue:
            pod = queue.popleft()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if not await self._patiently(node, pod["metadata"]):
                continue
            self.served_at.append(time.monotonic())
            self.news.set()
        del self._busy[node]

    async def _patiently(self, node: str, pod: objects.Json) -> bool:
        """Serve a pod, however often the API server refuses; False when it is gone."""
        while True:
            try:
                await self._allocate(node, pod)
            except errors.NotFound:
                return False
            except errors.ApiError as fault:
                print(f"agent of {node}: {fault}", file=sys.stderr, flush=True)
                await asyncio.sleep(PAUSE_S)
            else:
                return True

    async def _allocate(self, node: str, pod: objects.Json) -> None:
        path = paths.pod(pod["namespace"], pod["name"])
        await self._kube.patch(path, {"metadata": {"annotations": {TO_ALLOCATE: ";"}}})
        await self._kube.patch(path, {"metadata": {"annotations": {PHASE: "success"}}})
        while True:
            seen = (await self._kube.get(paths.node(node)))["metadata"]
            text = (seen.get("annotations") or {}).get(LOCK, "")
            if not text.endswith(f",{pod['namespace']},{pod['name']}"):
                return
            metadata = {"resourceVersion": seen["resourceVersion"], "annotations": {LOCK: None}}
            try:
                await self._kube.patch(paths.node(node), {"metadata": metadata})
            except errors.Conflict:
                continue
            return


async def serve(kubeconfig: str, *, delay_s: float, expect: int) -> None:
    """Serve until that many pods are served, and go on."""
    async with await client.KubeClient.connect(kubeconfig=kubeconfig) as kube:
        agents = Agents(kube, delay_s=delay_s)
        _, version = await kube.list(paths.PODS)

        def see(kind: str, pod: objects.Json) -> None:
            if kind in ("ADDED", "MODIFIED"):
                agents.see(pod)

        watching = asyncio.create_task(cluster.follow(kube, paths.PODS, see, since=version))
        _say(ready=True)
        while len(agents.served_at) < expect:
            agents.news.clear()
            await agents.news.wait()
        _say(bound_at=agents.bound_at, served_at=agents.served_at)
        await watching


def _say(**what: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
    sys.stdout.flush()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--expect", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.kubeconfig, delay_s=given.delay, expect=given.expect))


if __name__ == "__main__":
    main()
