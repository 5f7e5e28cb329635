"""What a pod asks for, as read from its limits and annotations."""

from typing import Any

import pytest

from support.pods import container, pod
from vgpu_operator.model import errors, policy, request, settings
from vgpu_operator.vendors import registry, requests


def wish_of(
    raw: dict[str, Any], *, aliases: dict[str, list[str]] | None = None, **nvidia: Any
) -> request.PodRequest:
    vendors = registry.build(settings.build({"vendors": {"nvidia": nvidia}}))
    return requests.pod_request(raw, vendors, aliases=aliases or {})


def card(**fields: Any) -> request.DeviceRequest:
    return request.DeviceRequest(vendor="NVIDIA", **fields)


def only_device(raw: dict[str, Any], **nvidia: Any) -> request.DeviceRequest | None:
    (found,) = wish_of(raw, **nvidia).containers
    assert not found.impossible
    return found.of("NVIDIA")


def test_init_containers_come_first_and_each_has_its_kind() -> None:
    raw = pod(
        container("app", gpu=1, mem=3),
        container("plain"),
        init=(
            container("side", gpu=1, mem=1) | {"restartPolicy": "Always"},
            container("load", gpu=1, mem=2),
        ),
    )

    wish = wish_of(raw)

    assert wish.pod == request.PodKey(namespace="team-a", name="p1", uid="u1")
    assert wish.containers == (
        request.ContainerRequest(
            name="side",
            kind=request.ContainerKind.SIDECAR,
            devices=(card(count=1, memory_mib=1),),
        ),
        request.ContainerRequest(
            name="load", kind=request.ContainerKind.INIT, devices=(card(count=1, memory_mib=2),)
        ),
        request.ContainerRequest(
            name="app", kind=request.ContainerKind.APP, devices=(card(count=1, memory_mib=3),)
        ),
        request.ContainerRequest(name="plain", kind=request.ContainerKind.APP),
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"gpu": 1}, card(count=1, memory_percent=100), id="a bare count is the card"),
        pytest.param({"gpu": 2, "mem": "5k"}, card(count=2, memory_mib=5000), id="5k is 5000 MiB"),
        pytest.param(
            {"gpu": 1, "percent": 50, "mem": 1000},
            card(count=1, memory_mib=1000, memory_percent=50),
            id="both ways of memory are carried",
        ),
        pytest.param(
            {"gpu": 1, "percent": 0, "mem": 1000},
            card(count=1, memory_mib=1000),
            id="0 percent is not given",
        ),
        pytest.param(
            {"gpu": 1, "percent": 150},
            card(count=1, memory_percent=100),
            id="150 percent ends at 100",
        ),
        pytest.param(
            {"gpu": 1, "percent": "4294967346"},
            card(count=1, memory_percent=100),
            id="percent beyond 32 bits is never 50",
        ),
        pytest.param(
            {"gpu": 1, "percent": -1},
            card(count=1, memory_percent=100),
            id="negative percent is not given",
        ),
        pytest.param(
            {"gpu": 1, "mem": 1, "cores": 150},
            card(count=1, memory_mib=1, cores_percent=100),
            id="cores end at the whole card",
        ),
        pytest.param(
            {"gpu": 1, "mem": 2147483647}, card(count=1, memory_mib=2147483647), id="largest memory"
        ),
        pytest.param({"gpu": 0, "mem": 1000}, None, id="a count of 0"),
        pytest.param({"mem": 1000, "cores": 10, "percent": 5}, None, id="no count"),
    ],
)
def test_limits_become_a_request(
    limits: dict[str, object], expected: request.DeviceRequest | None
) -> None:
    assert only_device(pod(container(**limits))) == expected


def test_limits_win_over_requests_resource_by_resource() -> None:
    raw = pod(
        container()
        | {
            "resources": {
                "limits": {"nvidia.com/gpu": "1"},
                "requests": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "700"},
            }
        }
    )

    assert only_device(raw) == card(count=1, memory_mib=700)


def test_the_vendors_defaults_fill_in() -> None:
    raw = pod(container(gpu=1))

    assert only_device(raw, defaultMemory=2000, defaultCores=25) == card(
        count=1, memory_mib=2000, cores_percent=25
    )


def test_a_default_memory_leaves_percent_alone() -> None:
    raw = pod(container(gpu=1, percent=50))

    assert only_device(raw, defaultMemory=2000) == card(count=1, memory_percent=50)


def test_the_factor_is_applied_to_memory_but_not_to_the_default() -> None:
    assert only_device(pod(container(gpu=1, mem=10)), memoryFactor=1024) == card(
        count=1, memory_mib=10240
    )
    assert only_device(pod(container(gpu=1)), memoryFactor=1024, defaultMemory=7) == card(
        count=1, memory_mib=7
    )


@pytest.mark.parametrize(
    ("limits", "nvidia"),
    [
        ({"gpu": 1, "mem": "16Gi"}, {}),
        ({"gpu": 1, "mem": 2147483648}, {}),
        ({"gpu": 1, "mem": 2097152}, {"memoryFactor": 1024}),
        ({"gpu": 1, "mem": -1}, {}),
        ({"gpu": 1, "mem": "1.5"}, {}),
        ({"gpu": 1, "mem": "much"}, {}),
        ({"gpu": -1}, {}),
        ({"gpu": "500m"}, {}),
        ({"gpu": "4294967297"}, {}),
        ({"gpu": 1, "mem": 1, "cores": -1}, {}),
    ],
)
def test_what_no_card_can_give_is_impossible_instead_of_free(
    limits: dict[str, object], nvidia: dict[str, Any]
) -> None:
    wish = wish_of(pod(container(**limits)), **nvidia)

    assert wish.wants_devices
    assert wish.vendors == ()
    assert wish.impossible.startswith("container main: nvidia.com/gpu")


def test_an_earlier_resource_name_counts_where_todays_is_absent() -> None:
    aliases = {"nvidia.com/gpu": ["nvidia.com/vgpu"], "nvidia.com/gpumem": ["nvidia.com/vgpumem"]}
    earlier = container("old") | {
        "resources": {
            "limits": {"nvidia.com/vgpu": "1"},
            "requests": {"nvidia.com/vgpumem": "500"},
        }
    }
    both = container("both") | {
        "resources": {"limits": {"nvidia.com/vgpu": "3", "nvidia.com/gpu": "2"}}
    }

    wish = wish_of(pod(earlier, both), aliases=aliases)

    assert wish.containers[0].of("NVIDIA") == card(count=1, memory_mib=500)
    assert wish.containers[1].of("NVIDIA") == card(count=2, memory_percent=100)


def test_configured_names_replace_the_usual_ones() -> None:
    raw = pod(container() | {"resources": {"limits": {"example.com/vgpu": "1"}}})

    assert only_device(raw, resourceCountName="example.com/vgpu") == card(
        count=1, memory_percent=100
    )
    assert only_device(raw) is None


def test_a_pod_without_cards_reads_no_annotation() -> None:
    raw = pod(
        container(),
        annotations={
            "hami.io/device-scoring-weights": "broken",
            "hami.io/node-scheduler-policy": "spread",
        },
    )

    assert wish_of(raw) == request.PodRequest(
        pod=request.PodKey(namespace="team-a", name="p1", uid="u1"),
        containers=(request.ContainerRequest(name="main", kind=request.ContainerKind.APP),),
    )


# --- annotations -----------------------------------------------------------------


def test_card_rules_are_read_from_the_vendors_annotations() -> None:
    raw = pod(
        container(gpu=1),
        annotations={
            "nvidia.com/use-gputype": "a10, t1000 8gb",
            "nvidia.com/nouse-gputype": "A100, ,",
            "nvidia.com/use-gpuuuid": "GPU-a0, GPU-a1",
            "nvidia.com/nouse-gpuuuid": "GPU-a0",
            "nvidia.com/vgpu-mode": "hami-core",
            "nvidia.com/numa-bind": "true",
        },
    )

    assert wish_of(raw).selection("NVIDIA") == request.CardSelection(
        use_types=("a10", "t1000 8gb"),
        avoid_types=("A100",),
        use_ids=("GPU-a0", "GPU-a1"),
        avoid_ids=("GPU-a0",),
        mode="hami-core",
        numa_bind=True,
    )


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_a_blank_rule_is_no_rule(text: str) -> None:
    keys = ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid", "numa-bind")
    raw = pod(container(gpu=1), annotations={f"nvidia.com/{key}": text for key in keys})

    assert wish_of(raw).selection("NVIDIA") == request.NO_SELECTION


def test_an_empty_mode_is_a_rule_of_its_own() -> None:
    # HAMi looks for the card's mode inside the text: only a card without mode is inside "".
    raw = pod(container(gpu=1), annotations={"nvidia.com/vgpu-mode": ""})

    assert wish_of(raw).selection("NVIDIA").mode == ""


def test_a_list_of_commas_is_a_rule_that_no_card_meets() -> None:
    raw = pod(container(gpu=1), annotations={"nvidia.com/use-gputype": ", ,"})

    assert wish_of(raw).selection("NVIDIA").use_types == (",",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spread", policy.NodePolicy.SPREAD),
        ("binpack", policy.NodePolicy.BINPACK),
        ("bogus", None),
        ("", None),
    ],
)
def test_the_node_policy_is_the_word_or_the_default(
    text: str, expected: policy.NodePolicy | None
) -> None:
    raw = pod(container(gpu=1), annotations={"hami.io/node-scheduler-policy": text})

    assert wish_of(raw).node_policy == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numa, binpack", (policy.CardPolicy.NUMA, policy.CardPolicy.BINPACK)),
        ("topology-aware", (policy.CardPolicy.TOPOLOGY_AWARE,)),
        ("binpack,bogus", (policy.CardPolicy.BINPACK,)),
        ("Binpack", ()),
        ("", ()),
        (",", ()),
    ],
)
def test_the_card_policy_is_a_chain_of_known_words(
    text: str, expected: tuple[policy.CardPolicy, ...]
) -> None:
    raw = pod(container(gpu=1), annotations={"hami.io/gpu-scheduler-policy": text})

    assert wish_of(raw).card_policies == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slot=1,core=1,memory=3", policy.ScoringWeights(slot=1, core=1, memory=3)),
        ("memory=3, core = 0, slot=0", policy.ScoringWeights(slot=0, core=0, memory=3)),
        (
            "slot=9223372036854775807,core=1,memory=1",
            policy.ScoringWeights(slot=9223372036854775807, core=1, memory=1),
        ),
    ],
)
def test_scoring_weights_are_read(text: str, expected: policy.ScoringWeights) -> None:
    raw = pod(container(gpu=1), annotations={"hami.io/device-scoring-weights": text})

    assert wish_of(raw).weights == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slot,core,memory",
        "slot=1,core=1",
        "slot=1,core=1,memory=-1",
        "slot=1,slot=1,core=1",
        "slot=1,core=1,gpu=1",
        "slot=1,core=1,memory=1,extra=1",
        "slot=1,core=a,memory=1",
        "slot=1.5,core=1,memory=1",
        "slot=9223372036854775808,core=1,memory=1",
        "slot=0,core=0,memory=0",
    ],
)
def test_bad_scoring_weights_name_the_annotation(text: str) -> None:
    raw = pod(container(gpu=1), annotations={"hami.io/device-scoring-weights": text})

    with pytest.raises(
        errors.RequestError,
        match=r"^annotation hami\.io/device-scoring-weights: .*; write all three",
    ):
        wish_of(raw)


def test_equal_values_of_other_types_are_not_taken_for_one_another() -> None:
    served = registry.build(settings.Settings())

    def read(value: object) -> bool:
        container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": value}}}
        raw = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}
        (found,) = requests.without_weights(raw, served, aliases={}).containers
        return found.impossible == ""

    one_way, other_way = [read(value) for value in (1, True, "1")], [read("1"), read(True), read(1)]

    assert one_way == [True, False, True]
    assert other_way == [True, False, True]


def test_what_is_remembered_of_containers_stays_small() -> None:
    served = registry.build(settings.Settings())
    many = {f"example.com/r{number}": "1" for number in range(8000)} | {"nvidia.com/gpu": "1"}
    for limits in (many, {"nvidia.com/gpu": "1" * 500}, {"nvidia.com/gpu": "1"}):
        container = {"name": "main", "resources": {"limits": limits}}
        raw = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}
        requests.without_weights(raw, served, aliases={})

    assert len(served.requests) == 1
