"""An API server on paper: Nodes and Pods that effects read and write.

It keeps what placement depends on: one version that grows with every write,
preconditions, and a Binding that sets node and annotations in one step. No
watch, no delay, no failure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vgpu_operator.flows import effects
from vgpu_operator.model import request
from vgpu_operator.wire import shape

Json: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class Paper:
    """Raw objects: Nodes by name, Pods by UID. What is handed in is never changed."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    version: int = 0

    def put_node(self, raw: Json, *, uid: str = "") -> Json:
        """Write a Node under a new version; ``uid`` stands in for one that is left out."""
        stored = self._versioned(raw, uid=uid)
        self.nodes[stored["metadata"]["name"]] = stored
        return stored

    def put_pod(self, raw: Json, *, uid: str = "") -> Json:
        """Write a Pod under a new version; ``uid`` stands in for one that is left out."""
        stored = self._versioned(raw, uid=uid)
        self.pods[stored["metadata"]["uid"]] = stored
        return stored

    def node_annotations(self, name: str) -> Json:
        """Return a Node's annotations; none when it is not there."""
        return shape.mapping(shape.mapping(self.nodes.get(name, {}).get("metadata")).get(_NOTES))

    def perform(self, effect: effects.Effect) -> Any:
        """Do what an effect asks for; pods come back as raw objects.

        Raises:
            effects.EffectFailed: as the API server would refuse it.
        """
        match effect:
            case effects.PatchNode():
                return self._patch_node(effect)
            case effects.PatchPod():
                raw = self.put_pod(_merged(self._pod(effect.pod), effect.annotations))
                return raw["metadata"]["resourceVersion"]
            case effects.BindPod():
                return self._bind(effect)
            case effects.ReadPod():
                wanted = (effect.namespace, effect.name)
                return next((raw for raw in self.pods.values() if _name(raw) == wanted), None)
            case effects.ListNodePods():
                return [raw for raw in self.pods.values() if _node(raw) == effect.node]
            case effects.DeletePod():
                self.pods.pop(effect.pod.uid, None)
        return None

    def _patch_node(self, effect: effects.PatchNode) -> str:
        raw = self.nodes.get(effect.node)
        if raw is None:
            raise effects.Missing(f"node {effect.node} is not there")
        version: str = raw["metadata"]["resourceVersion"]
        if effect.resource_version not in (None, version):
            raise effects.Conflict(f"node {effect.node} has moved on")
        stored = self.put_node(_merged(raw, effect.annotations))
        written: str = stored["metadata"]["resourceVersion"]
        return written

    def _bind(self, effect: effects.BindPod) -> None:
        raw = self._pod(effect.pod)
        if raw["metadata"]["resourceVersion"] != effect.resource_version or _node(raw):
            raise effects.Conflict(f"pod {effect.pod} has moved on")
        bound = _merged(raw, effect.annotations)
        metadata = {
            **bound["metadata"],
            "labels": {**shape.mapping(bound["metadata"].get("labels")), **effect.labels},
        }
        spec = {**shape.mapping(raw.get("spec")), "nodeName": effect.node}
        self.put_pod({**bound, "metadata": metadata, "spec": spec})

    def _pod(self, key: request.PodKey) -> Json:
        raw = self.pods.get(key.uid)
        if raw is None:
            raise effects.Missing(f"pod {key} is not there")
        return raw

    def _versioned(self, raw: Json, *, uid: str) -> Json:
        self.version += 1
        metadata = dict(shape.mapping(raw.get("metadata")))
        metadata["uid"] = shape.text(metadata.get("uid")) or uid
        metadata["resourceVersion"] = str(self.version)
        return {**raw, "metadata": metadata}


_NOTES = "annotations"


def _merged(raw: Json, changes: Mapping[str, str | None]) -> Json:
    """Return the object with annotations set, or removed where the change is None."""
    metadata = shape.mapping(raw.get("metadata"))
    notes = {**shape.mapping(metadata.get(_NOTES)), **changes}
    kept = {key: text for key, text in notes.items() if text is not None}
    return {**raw, "metadata": {**metadata, _NOTES: kept}}


def _name(raw: Json) -> tuple[str, str]:
    metadata = shape.mapping(raw.get("metadata"))
    return shape.text(metadata.get("namespace")) or "default", shape.text(metadata.get("name"))


def _node(raw: Json) -> str:
    return shape.text(shape.mapping(raw.get("spec")).get("nodeName"))
