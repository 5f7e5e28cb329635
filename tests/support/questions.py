"""The cluster of ``docs/how-to/questions.md``: two nodes with two A10s each."""

from support import explained
from support.cli_cluster import NOW, put_operator
from support.fake_kube import FakeKube

A10_MIB = 24_576


def cluster() -> FakeKube:
    """Return pods that share a card, one that waits, and one whose promise was changed by hand.

    ``train-c`` came two minutes ago; five minutes ago ``eval-1`` was refused.
    """
    kube = FakeKube()
    put_operator(kube)
    for name in ("gpu-1", "gpu-2"):
        cards = [explained.card(f"GPU-{name[-1]}{letter}", A10_MIB) for letter in "ab"]
        kube.put(f"/api/v1/nodes/{name}", explained.node(name, *cards))
    now_s = int(NOW.timestamp())
    _put(kube, "train-a", "gpu-1", "GPU-1a", 12_000, now_s - 7200)
    _put(kube, "train-b", "gpu-1", "GPU-1a", 8000, now_s - 3600)
    _put(kube, "infer", "gpu-1", "GPU-1b", 10_000, now_s - 3000)
    _put(kube, "train-c", "gpu-2", "GPU-2a", 16_000, now_s - 120)
    _put(kube, "notebook", "gpu-2", "GPU-2b", 8000, now_s - 9000)
    forged = kube.objects["/api/v1/namespaces/team-a/pods/notebook"]
    forged["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "GPU-2b,NVIDIA,26000,0:;"
    kube.put("/api/v1/namespaces/team-a/pods/notebook", forged)
    waits = explained.pod("eval-1", mem=20_000)
    waits["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 2/2 CardInsufficientMemory.",
        }
    ]
    stored = kube.put("/api/v1/namespaces/team-a/pods/eval-1", waits)
    kube.put(
        "/api/v1/namespaces/team-a/events/eval-1.1",
        {
            "involvedObject": {"name": "eval-1", "uid": stored["metadata"]["uid"]},
            "reason": "FilteringFailed",
            "message": "2 nodes CardInsufficientMemory (gpu-1, gpu-2)",
            "lastTimestamp": "2026-01-15T09:55:30Z",
        },
    )
    return kube


def _put(
    kube: FakeKube, name: str, node: str, card: str, memory_mib: int, bind_time_s: int
) -> None:
    pod = explained.pod(name, mem=memory_mib, on=node, cards=card, bind_time_s=bind_time_s)
    kube.put(f"/api/v1/namespaces/team-a/pods/{name}", pod)
