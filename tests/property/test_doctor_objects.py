"""Objects of any shape are read, never with an error."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vgpu_operator.wire import (
    admission_objects,
    audit_log,
    cluster_events,
    field_managers,
    workloads,
)

_KEYS = st.sampled_from(
    [
        *("metadata", "spec", "status", "annotations", "managedFields", "fieldsV1", "manager"),
        *("f:metadata", "f:annotations", "f:status", "f:conditions", "template", "containers"),
        *("volumes", "hostPath", "path", "command", "conditions", "containerStatuses", "state"),
        *("waiting", "lastState", "webhooks", "clientConfig", "caBundle", "service", "url"),
        *("namespaceSelector", "matchExpressions", "values", "variables", "matchConditions"),
        *("expression", "validationActions", "ownerReferences", "series", "involvedObject"),
        *("nodeSelector", "type", "name", "key", "operator", "configMap", "controller"),
    ]
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
_JSON: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=25,
)
_OBJECTS = st.dictionaries(_KEYS, _JSON, max_size=5)


@given(raw=_OBJECTS)
def test_an_object_of_any_shape_is_read(raw: dict[str, Any]) -> None:
    field_managers.writers(raw, {"a"})
    field_managers.heartbeat_written(raw)
    workloads.daemon_set(raw)
    workloads.deployment(raw)
    workloads.health(raw)
    workloads.controller(raw)
    cluster_events.decode_event(raw)
    list(admission_objects.webhooks(raw))
    admission_objects.binding_actions(raw)
    admission_objects.policy(raw, actions=frozenset())


@given(raw=_OBJECTS)
def test_an_audited_event_of_any_shape_is_read(raw: dict[str, Any]) -> None:
    audit_log.decode_line(json.dumps({**raw, "kind": "Event"}))
