"""Values of the pod that holds kube-scheduler and the operator."""

import enum
from typing import Annotated, Any

import pydantic
from chart_kinds import Image, Labels, Objects, Open, Port, Values, YesOrNo, ignored

from vgpu_operator.model import policy


class SchedulerImage(Image):
    """kube-scheduler's stock image."""

    registry: str = "registry.k8s.io"
    repository: str = "kube-scheduler"


class KubeScheduler(Values):
    """The kube-scheduler beside the operator."""

    enabled: bool = True
    """Must stay on: the operator's extender answers on loopback only, to the
    kube-scheduler of its own pod."""
    image: SchedulerImage = SchedulerImage()
    """Without a tag: that of the cluster's version."""
    resources: Open = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    """Resources of the container."""
    extra_new_args: list[str] = ["-v=2"]
    """Further arguments; `--config` is always given."""
    extra_args: Any = ignored("it was for Kubernetes before 1.22")


class Extender(Values):
    """The operator's container, under HAMi's name for it."""

    resources: Open = {"requests": {"cpu": "200m", "memory": "256Mi"}}
    """Resources of the operator's container."""
    image: Any = ignored("HAMi's scheduler is not run; the operator's image is `operator.image`")
    extra_args: Any = ignored("HAMi's flags; see `operator.logLevel` and `settings`")


class ServiceType(enum.StrEnum):
    """Kinds of Services."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Service(Values):
    """The Service of webhook and metrics."""

    type: ServiceType = ServiceType.CLUSTER_IP
    """Nothing outside the cluster needs it: HAMi's chart has `NodePort`."""
    http_port: Port = 443
    """Port of the webhook."""
    scheduler_port: Port = 31998
    """Its port on the nodes, with `NodePort`."""
    monitor_port: Port = 31993
    """Port of the metrics; also on the nodes, with `NodePort`."""
    labels: Labels = {}
    """Labels of the Service."""
    annotations: Labels = {}
    """Annotations of the Service."""
    http_target_port: Any = ignored("the container's port is found by its name")
    monitor_target_port: Any = ignored("the container's port is found by its name")


class DefaultPolicy(Values):
    """Policies of pods that name none."""

    node_scheduler_policy: policy.NodePolicy = policy.NodePolicy.BINPACK
    """Which nodes are filled first."""
    gpu_scheduler_policy: policy.CardChain = policy.CardPolicy.SPREAD.value
    """Which of a node's cards are filled first: `binpack`, `spread`, `numa`, `topology-aware`,
    `mutex`, or several with commas. HAMi's device plugin measures its cards' links only where
    this is `topology-aware` alone."""


class CustomUrl(Values):
    """Reach the webhook by an address instead of the Service."""

    enabled: bool = False
    """Use it."""
    host: str = "127.0.0.1"
    """Name or address that the API server calls."""
    port: Port = 31998
    """Its port."""
    path: str = "/webhook"
    """Its path."""


class Selector(Values):
    """What is selected further."""

    match_labels: Labels = {}
    """Labels that must be there."""
    match_expressions: Objects = []
    """Conditions on labels."""


class Reinvocation(enum.StrEnum):
    """Whether the webhook is asked again when a later one has changed the pod."""

    NEVER = "Never"
    IF_NEEDED = "IfNeeded"


class FailurePolicy(enum.StrEnum):
    """What happens to a new pod while no webhook answers."""

    IGNORE = "Ignore"
    FAIL = "Fail"


class Webhook(Values):
    """The webhook that prepares pods with cards."""

    enabled: bool = True
    """Without it pods name their scheduler themselves."""
    custom_url: CustomUrl = pydantic.Field(default=CustomUrl(), alias="customURL")
    whitelist_namespaces: list[str] = []
    """Namespaces that the webhook leaves alone (the name is HAMi's)."""
    manage_namespace_selector: bool = True
    """Set the namespaceSelector; off where the platform owns that field."""
    namespace_selector: Selector = Selector()
    """Which namespaces, besides those without `hami.io/webhook: ignore`."""
    object_selector: Selector = Selector()
    """Which pods, besides those without `hami.io/webhook: ignore`."""
    reinvocation_policy: Reinvocation = Reinvocation.NEVER
    """Whether it is asked again after other webhooks."""
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    """`Ignore` lets pods through while no replica answers (the operator finds and tells
    them), `Fail` refuses them."""
    timeout_seconds: Annotated[int, pydantic.Field(ge=1, le=30)] = 10
    """How long the API server waits."""
    ca_bundle: str = ""
    """Base64 of the CA of a certificate of your own (`scheduler.patch.enabled: false`)."""


class CertManager(Values):
    """cert-manager makes the certificate."""

    enabled: bool = False
    """Use it."""
    issuer_ref: Open = {}
    """An Issuer or ClusterIssuer; empty: the chart makes a self-signed one."""


class Patch(Values):
    """Whether a certificate is made for you, under HAMi's name for it."""

    enabled: bool = True
    """The operator makes and renews the certificate. Off (and no cert-manager): you make
    the Secret `<fullname>-scheduler-tls` and give `admissionWebhook.caBundle`."""
    image: Any = ignored("no job makes the certificate: the operator does")
    image_new: Any = ignored("no job makes the certificate: the operator does")
    priority_class_name: Any = ignored("no job makes the certificate: the operator does")
    pod_annotations: Any = ignored("no job makes the certificate: the operator does")
    node_selector: Any = ignored("no job makes the certificate: the operator does")
    tolerations: Any = ignored("no job makes the certificate: the operator does")
    run_as_user: Any = ignored("no job makes the certificate: the operator does")


class DisruptionBudget(Values):
    """How many replicas must stay; made with more than one replica."""

    max_unavailable: int | str | None = None
    """How many may be away at once."""
    min_available: int | str | None = 1
    """How many must be there; not both."""


class Scheduler(Values):
    """The pod of kube-scheduler and operator."""

    replicas: Annotated[int, pydantic.Field(ge=1, le=20)] = 2
    """Replicas; 1 where `leaderElect` is off."""
    leader_elect: bool = True
    """kube-scheduler's Lease says which replica works."""
    default_scheduler_policy: DefaultPolicy = DefaultPolicy()
    force_overwrite_default_scheduler: bool = True
    """Take over pods with cards that name `default-scheduler`."""
    overwrite_env: YesOrNo = "false"
    """Hide NVIDIA cards from containers that ask for none."""
    metrics_bind_address: Annotated[str, pydantic.Field(pattern=r":\d+$")] = ":9395"
    """Where metrics and health are served."""
    liveness_probe: bool = True
    """Restart a container that no longer answers."""
    node_name: str = ""
    """Pin the pod to a node, past every scheduler."""
    node_selector: Labels = {}
    """Nodes for the pod."""
    tolerations: Objects = []
    """Tolerations of the pod."""
    pod_annotations: Labels = {}
    """Annotations of the pod."""
    priority_class_name: str = "system-cluster-critical"
    """PriorityClass of the pod: without the scheduler no pod with cards starts."""
    run_as_user: int | None = 65532
    """User of both containers; `null` where the platform chooses one (OpenShift)."""
    topology_spread_constraints: Objects = []
    """Instead of one replica a node and zone where possible."""
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()
    kube_scheduler: KubeScheduler = KubeScheduler()
    extender: Extender = Extender()
    service: Service = Service()
    admission_webhook: Webhook = Webhook()
    cert_manager: CertManager = CertManager()
    patch: Patch = Patch()
    node_lock_expire: Any = ignored("it has no effect in HAMi; see `settings.lock.expiryS`")
    node_label_selector: Any = ignored("cards are read from every node that registers some")
