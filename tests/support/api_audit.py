"""Reads a cluster from the API alone and says what the protocol forbids.

Written without the operator's decoders: plain text splitting, so that a fault
in them cannot hide itself.
"""

import json
from typing import Any

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
LOCK = "hami.io/mutex.lock"


def shares(text: str) -> list[list[tuple[str, int, int]]]:
    """Return card, MiB and cores of every share, by container."""
    containers = []
    for segment in text.split(";")[:-1]:
        devices = [entry.split(",") for entry in segment.split(":") if entry]
        containers.append([(d[0], int(d[2]), int(d[3])) for d in devices])
    return containers


def annotations(thing: dict[str, Any]) -> dict[str, str]:
    return thing["metadata"].get("annotations") or {}


def violations(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each card over its limits and each pod bound without its promise."""
    found = []
    cards = {
        (node["metadata"]["name"], card["id"]): card
        for node in nodes
        for card in json.loads(annotations(node).get(REGISTER, "[]"))
    }
    used = {place: [0, 0, 0] for place in cards}
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
        asks = any("nvidia.com/gpu" in limit for limit in limits)
        held = annotations(pod)
        if pod["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        if asks and node and not held.get(ALLOCATED):
            found.append(f"{name} is bound to {node} without a promise")
        if held.get("hami.io/vgpu-node", node) != node:
            found.append(f"{name} is on {node} but promised {held['hami.io/vgpu-node']}")
        if not node or ALLOCATED not in held:
            continue
        inits = len(pod["spec"].get("initContainers", []))
        containers = shares(held[ALLOCATED])
        if len(containers) != inits + len(pod["spec"]["containers"]):
            found.append(f"{name} has {len(containers)} segments")
        for container in containers[inits:]:
            for card, memory, cores in container:
                if (node, card) not in used:
                    found.append(f"{name} is promised {card}, which {node} does not have")
                    continue
                total = used[node, card]
                total[0] += 1
                total[1] += memory
                total[2] += cores
    for (node, card), (slots, memory, cores) in used.items():
        limit = cards[node, card]
        if slots > limit["count"] or memory > limit["devmem"] or cores > limit["devcore"]:
            found.append(f"{card} of {node} promises {slots} slots, {memory} MiB, {cores} cores")
    return found


def locks(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """Return the lock text of every locked node."""
    return {
        node["metadata"]["name"]: annotations(node)[LOCK]
        for node in nodes
        if LOCK in annotations(node)
    }


def promised(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]]
) -> dict[str, tuple[float, float, float]]:
    """Return slots, bytes and percent of cores that pods which have not ended hold, by card."""
    totals = {
        card["id"]: (0.0, 0.0, 0.0)
        for node in nodes
        for card in json.loads(annotations(node).get(REGISTER, "[]"))
    }
    for pod in pods:
        if pod["status"]["phase"] in ("Succeeded", "Failed") or not pod["spec"].get("nodeName"):
            continue
        for container in shares(annotations(pod).get(ALLOCATED, "")):
            for card, memory, cores in container:
                slots, held, percent = totals[card]
                totals[card] = (slots + 1, held + memory * 2**20, percent + cores)
    return totals
