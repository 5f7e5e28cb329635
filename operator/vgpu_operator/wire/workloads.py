"""DaemonSets, Deployments and the pods that they make, as far as their health shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vgpu_operator.wire import clock_text, shape

PLUGIN_FOLDER: Final = "/device-plugins"
"""How the kubelet's folder of sockets ends, wherever a distribution has put it."""

_KUBELET_FOLDER: Final = "/kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a pod or a template.

    Attributes:
        words: its command and arguments.
    """

    name: str
    image: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a workload makes its pods of.

    Attributes:
        is_plugin: it reaches the kubelet's folder of device plugins.
        config_maps: names of the ConfigMaps that it mounts, in its order.
    """

    containers: tuple[Container, ...] = ()
    runtime_class: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    is_plugin: bool = False
    config_maps: tuple[str, ...] = ()

    @property
    def words(self) -> Iterator[str]:
        """Commands and arguments of all containers."""
        return (word for one in self.containers for word in one.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    """A DaemonSet.

    Attributes:
        desired: nodes that are to run a pod of it; None until the controller says so.
    """

    namespace: str
    name: str
    template: Template
    desired: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A Deployment; ``ready`` is how many of its pods are."""

    namespace: str
    name: str
    template: Template
    replicas: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHealth:
    """How a container of a pod fares.

    Attributes:
        waiting: word for why it does not run (``CrashLoopBackOff``); empty when it does.
        messages: what it or the kubelet has left to say, the latest first.
    """

    name: str
    ready: bool = False
    restarts: int = 0
    waiting: str = ""
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a pod fares, besides what placement is decided on.

    Attributes:
        scheduled_at: when it was bound, by the API server's clock; None while it is not.
        scheduler_spoke: some scheduler has looked at it.
        scheduler_message: why it was not placed; empty where nothing was said.
    """

    containers: tuple[ContainerHealth, ...] = ()
    started_at: datetime | None = None
    scheduled_at: datetime | None = None
    scheduler_spoke: bool = False
    scheduler_message: str = ""


def daemon_set(raw: Mapping[str, Any]) -> DaemonSet:
    """Read a DaemonSet."""
    metadata, status = shape.mapping(raw.get("metadata")), shape.mapping(raw.get("status"))
    seen = status.get("observedGeneration", 0) == metadata.get("generation", 0)
    return DaemonSet(
        namespace=shape.text(metadata.get("namespace")),
        name=shape.text(metadata.get("name")),
        template=_template_of(raw),
        desired=_count(status.get("desiredNumberScheduled")) if seen else None,
    )


def deployment(raw: Mapping[str, Any]) -> Deployment:
    """Read a Deployment."""
    metadata, status = shape.mapping(raw.get("metadata")), shape.mapping(raw.get("status"))
    wanted = shape.mapping(raw.get("spec")).get("replicas", 1)
    return Deployment(
        namespace=shape.text(metadata.get("namespace")),
        name=shape.text(metadata.get("name")),
        template=_template_of(raw),
        replicas=_count(wanted),
        ready=_count(status.get("readyReplicas")),
    )


def template(spec: Mapping[str, Any]) -> Template:
    """Read a pod's spec as a template.

    >>> folder = {"hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}
    >>> template({"volumes": [folder]}).is_plugin
    True
    """
    selector = shape.mapping(spec.get("nodeSelector"))
    return Template(
        containers=tuple(_containers(spec)),
        runtime_class=shape.text(spec.get("runtimeClassName")),
        node_selector=tuple(sorted((key, shape.text(text)) for key, text in selector.items())),
        is_plugin=is_plugin(spec),
        config_maps=tuple(
            shape.text(shape.mapping(volume.get("configMap")).get("name"))
            for volume in shape.mappings(spec.get("volumes"))
            if volume.get("configMap")
        ),
    )


def is_plugin(spec: Mapping[str, Any]) -> bool:
    """Whether pods of that spec can be device plugins: they must reach the kubelet's socket."""
    for volume in shape.mappings(spec.get("volumes")):
        path = shape.text(shape.mapping(volume.get("hostPath")).get("path")).rstrip("/")
        if path.endswith(PLUGIN_FOLDER):
            return True
        if path.endswith(_KUBELET_FOLDER) and any(
            "device-plugin" in one.name + one.image for one in _containers(spec)
        ):
            return True
    return False


def controller(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of what made a pod; empty where nothing did."""
    for owner in shape.mappings(shape.mapping(raw.get("metadata")).get("ownerReferences")):
        if owner.get("controller"):
            return shape.text(owner.get("kind")), shape.text(owner.get("name"))
    return "", ""


def health(raw: Mapping[str, Any]) -> Health:
    """Read a pod's status."""
    status = shape.mapping(raw.get("status"))
    scheduled: Mapping[str, Any] = {}
    for condition in shape.mappings(status.get("conditions")):
        if condition.get("type") == "PodScheduled":
            scheduled = condition
    is_bound = scheduled.get("status") == "True"
    at = clock_text.decode_time(shape.text(scheduled.get("lastTransitionTime")))
    statuses = (
        *shape.mappings(status.get("initContainerStatuses")),
        *shape.mappings(status.get("containerStatuses")),
    )
    return Health(
        containers=tuple(_container_health(one) for one in statuses),
        started_at=clock_text.decode_time(shape.text(status.get("startTime"))),
        scheduled_at=at if is_bound else None,
        scheduler_spoke=bool(scheduled),
        scheduler_message="" if is_bound else shape.text(scheduled.get("message")),
    )


def _container_health(status: Mapping[str, Any]) -> ContainerHealth:
    now, before = shape.mapping(status.get("state")), shape.mapping(status.get("lastState"))
    waiting = shape.mapping(now.get("waiting"))
    texts = (
        shape.mapping(now.get("terminated")).get("message"),
        waiting.get("message"),
        shape.mapping(before.get("terminated")).get("message"),
    )
    return ContainerHealth(
        name=shape.text(status.get("name")),
        ready=status.get("ready") is True,
        restarts=_count(status.get("restartCount")),
        waiting=shape.text(waiting.get("reason")),
        messages=tuple(text for text in map(shape.text, texts) if text),
    )


def _template_of(raw: Mapping[str, Any]) -> Template:
    made_of = shape.mapping(shape.mapping(raw.get("spec")).get("template"))
    return template(shape.mapping(made_of.get("spec")))


def _containers(spec: Mapping[str, Any]) -> Iterator[Container]:
    for one in shape.mappings(spec.get("containers")):
        words = (*_texts(one.get("command")), *_texts(one.get("args")))
        yield Container(
            name=shape.text(one.get("name")), image=shape.text(one.get("image")), words=words
        )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(shape.text, value)) if isinstance(value, list) else ()


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
