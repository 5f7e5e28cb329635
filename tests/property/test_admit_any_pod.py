"""Whatever a pod looks like: a verdict, a patch that applies, and no second one."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import json_patch
from vgpu_operator.flows import admit
from vgpu_operator.model import settings as model_settings
from vgpu_operator.vendors import records, registry, requests

NAMES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
    "cpu",
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
quantities = (
    st.integers(-2, 2**33)
    | st.integers(0, 110).map(str)
    | st.sampled_from(["16Gi", "2Ki", "5k", "500m", "1.0", "1e3", "1e300", "", "x"])
    | anything
)
amounts = st.dictionaries(st.sampled_from(NAMES), quantities, max_size=4) | anything
containers = (
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b"])},
        optional={
            "resources": st.fixed_dictionaries(
                {}, optional={"limits": amounts, "requests": amounts}
            )
            | anything,
            "env": st.lists(st.fixed_dictionaries({"name": anything}) | anything, max_size=2)
            | anything,
            "securityContext": st.fixed_dictionaries({"privileged": st.booleans()}) | anything,
            "restartPolicy": st.sampled_from(["Always", ""]),
        },
    )
    | anything
)
texts = st.dictionaries(
    st.sampled_from(
        [
            "hami.io/vgpu-node",
            "hami.io/vgpu-devices-allocated",
            "hami.io/vgpu-devices-to-allocate",
            "hami.io/device-scoring-weights",
            "hami.io/gpu-scheduler-policy",
            "hami.io/node-scheduler-policy",
            "hami.io/bind-phase",
            "hami.io/bind-time",
            "nvidia.com/use-gputype",
            "nvidia.com/numa-bind",
        ]
    ),
    st.text(max_size=20) | anything,
    max_size=4,
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"annotations": texts | anything, "labels": texts | anything}
        )
        | anything,
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(containers, max_size=3) | anything},
            optional={
                "initContainers": st.lists(containers, max_size=2) | anything,
                "schedulerName": st.sampled_from(["", "default-scheduler"]) | anything,
                "volumes": anything,
            },
        )
        | anything,
        "status": anything,
    },
)
SETTINGS = model_settings.build(
    {
        "vendors": {
            "nvidia": {"overwriteEnv": True, "gpuCorePolicy": "force", "runtimeClassName": "nvidia"}
        },
        "resourceAliases": {"nvidia.com/gpu": ["nvidia.com/vgpu"]},
    }
)
VENDORS = registry.build(SETTINGS)


NO_CONTAINER = {
    "spec": {
        "containers": [None],
        "initContainers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    }
}


@given(pods)
@example(NO_CONTAINER)
@settings(deadline=None)
def test_any_pod_gets_a_verdict_and_is_changed_at_most_once(pod: dict[str, Any]) -> None:
    verdict = admit.admit(pod, settings=SETTINGS, vendors=VENDORS)

    if not verdict.allowed:
        assert verdict.message
        assert verdict.patch == ()
        return
    after = json_patch.apply(pod, verdict.patch)
    again = admit.admit(after, settings=SETTINGS, vendors=VENDORS)
    assert again.allowed
    assert again.patch == ()


@given(pods)
@settings(deadline=None)
def test_any_pod_has_a_record_with_every_container(pod: dict[str, Any]) -> None:
    record = records.pod_record(pod, VENDORS, aliases=SETTINGS.resource_aliases)

    wish = requests.without_weights(pod, VENDORS, aliases=SETTINGS.resource_aliases)
    assert [c.name for c in record.request.containers] == [c.name for c in wish.containers]


@given(
    st.fixed_dictionaries(
        {},
        optional={"metadata": anything, "status": st.fixed_dictionaries({"allocatable": amounts})},
    )
)
@settings(deadline=None)
def test_any_node_has_a_record(node: dict[str, Any]) -> None:
    records.node_record(node, VENDORS)
