"""Every annotation, label and resource key that is the same for all vendors.

Vendors' own keys (register, handshake, to-allocate, allocated, selection) are
data of the vendor: see ``vendors``. Source of the words: HAMi v2.10.0
(``pkg/util/types.go``, ``pkg/util/nodelock/nodelock.go``) unless a line says
that the key is ours.
"""

from typing import Final

DOMAIN: Final = "hami.io"

ASSIGNED_NODE: Final = "hami.io/vgpu-node"
"""Pod annotation and label: the node that the promise is for."""

ASSIGNED_TIME: Final = "hami.io/vgpu-time"
"""Pod annotation: when the cards were chosen, Unix seconds."""

BIND_TIME: Final = "hami.io/bind-time"
"""Pod annotation: when the pod was bound, Unix seconds."""

BIND_PHASE: Final = "hami.io/bind-phase"
"""Pod annotation: ``allocating``, then ``success`` or ``failed``."""

NODE_LOCK: Final = "hami.io/mutex.lock"
"""Node annotation: one pod at a time may be in ``allocating``."""

DEVICE_CORDON: Final = "hami.io/device-cordon"
"""Node annotation: comma-separated card ids that take no new pod."""

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
"""Pod annotation: ``binpack`` or ``spread``, which nodes are preferred."""

CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
"""Pod annotation: which cards are preferred; comma-separated words form a chain."""

SCORING_WEIGHTS: Final = "hami.io/device-scoring-weights"
"""Pod annotation: ``slot=1,core=1,memory=1``, what counts in a card's score."""

HIDE_CARDS: Final = "hami.io/overwrite-env"
"""Pod annotation: ``true`` or ``false``, whether containers without cards are kept
from seeing any. Newer than v2.10.0."""

HIDE_CARDS_BY_CONTAINER: Final = "hami.io/overwrite-env-containers"
"""Pod annotation: the same for single containers, ``{"main": "true"}``."""

WEBHOOK_LABEL: Final = "hami.io/webhook"
"""Pod or namespace label: ``ignore`` keeps the webhook's hands off."""
WEBHOOK_IGNORE: Final = "ignore"

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Pod label of the scheduler-plugins' pod groups."""

WAKE: Final = "vgpu-operator.io/wake"
"""Node annotation of ours: rewritten when cards became free while pods wait,
because kube-scheduler tries refused pods again on any change of a Node."""

DEVICE_IDS: Final = "vgpu-operator.io/device-ids"
"""Pod annotation of ours: the kubelet's device ids that the node agent has served, by
container, and the UID of the pod that got them: ``{"uid": "b3e1", "containers": {"main":
["GPU-a-0"]}}``. Allocate names no pod, so it is looked up before a start; a note with another
pod's UID is none."""

FENCE: Final = "vgpu-operator.io/fenced"
"""Pod annotation of ours: written before the lock of a living, unbound pod is
taken over, so that an older Binding for it fails by its resourceVersion."""

NOMINATION: Final = "vgpu-operator.io/nomination"
"""Pod annotation of ours: the node whose cards are held for the pod while pods of lower
priority leave it, until when, and who they are. ``status.nominatedNodeName`` alone would not
say that it is ours, and kube-scheduler may clear it."""
