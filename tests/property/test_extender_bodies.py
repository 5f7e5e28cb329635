"""Whatever kube-scheduler (or anybody on loopback) sends: an answer or a DecodeError."""

import contextlib

import orjson
from hypothesis import given
from hypothesis import strategies as st

from support.operator_books import NOW, open_books, put_node
from vgpu_operator.flows import dry_run
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import errors
from vgpu_operator.vendors import records
from vgpu_operator.wire import extender

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["Pod", "pod", "Nodes", "NodeNames", "PodName", "PodNamespace", "PodUID", "Node"]
)
POD = st.fixed_dictionaries(
    {"metadata": st.dictionaries(st.sampled_from(["name", "uid", "annotations", "labels"]), JSON)},
    optional={"spec": JSON, "status": JSON},
)
QUANTITY = st.sampled_from(["1", 1, "0", "-1", "2", "x", "16Gi", "1e9", None, 2**63 - 1]) | JSON
LIMITS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"]),
    QUANTITY,
)
GPU_POD = st.builds(
    lambda limits, notes: {
        "metadata": {"name": "p", "uid": "u", "annotations": notes},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    },
    LIMITS,
    st.dictionaries(
        st.sampled_from(
            [
                "hami.io/vgpu-devices-allocated",
                "hami.io/device-scoring-weights",
                "nvidia.com/use-gputype",
                "hami.io/node-scheduler-policy",
            ]
        ),
        JSON,
    ),
)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_a_decode_error(body: bytes) -> None:
    for decode in (extender.decode_filter, extender.decode_bind):
        with contextlib.suppress(errors.DecodeError):
            decode(body)


@given(st.dictionaries(FIELDS | st.text(max_size=6), JSON | POD, max_size=6))
def test_arbitrary_json_raises_nothing_but_a_decode_error(fields: dict[str, object]) -> None:
    body = orjson.dumps(fields)
    for decode in (extender.decode_filter, extender.decode_bind):
        with contextlib.suppress(errors.DecodeError):
            decode(body)


@given(POD | GPU_POD, st.lists(st.text(max_size=6), max_size=4, unique=True))
def test_whatever_a_pod_holds_every_node_fits_or_has_a_reason(
    pod: dict[str, object], names: list[str]
) -> None:
    held = open_books()
    put_node(held)
    args = extender.decode_filter(orjson.dumps({"Pod": pod, "NodeNames": ["node-a", *names]}))
    record = records.pod_record(args.pod, held.vendors, aliases={})
    asked = args.node_names or ()

    result = flow_filter.filter_nodes(held, record, asked, NOW)

    assert {*result.fitting, *result.rejections} == set(asked)
    assert all(rejection.text for rejection in result.rejections.values())


@given(GPU_POD, st.dictionaries(st.sampled_from(["metadata", "status", "spec"]), JSON))
def test_whatever_a_template_node_holds_it_fits_or_has_a_reason(
    pod: dict[str, object], node: dict[str, object]
) -> None:
    raw = {**node, "metadata": {"name": "template", "annotations": node.get("metadata")}}
    body = orjson.dumps({"Pod": pod, "Nodes": {"items": [raw]}})
    args = extender.decode_filter(body)
    held = open_books()
    record = records.pod_record(args.pod, held.vendors, aliases={})

    result = dry_run.filter_objects(held, record, args.nodes or ())

    assert {*result.fitting, *result.rejections} == {"template"}
