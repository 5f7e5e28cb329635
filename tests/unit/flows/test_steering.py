"""What keeps a pod off a node besides its cards, as Kubernetes documents its rules."""

import pytest

from support.explained import card, node, pod
from vgpu_operator.flows import steering


def off(asked, there, *others):
    cards = {"nvidia.com/gpu", "nvidia.com/gpumem"}
    return [one.sentence for one in steering.off(asked, there, others, owned=cards)]


def test_nothing_keeps_a_plain_pod_off_a_plain_node():
    assert off(pod("new"), node("n1", card("a"))) == []


def test_a_cordoned_node_says_how_to_open_it():
    there = node("n1", unschedulable=True)
    tolerates = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]

    assert off(pod("new"), there) == ["the node is cordoned (kubectl uncordon n1)"]
    assert off(pod("new", tolerations=tolerates), there) == []


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "ml"}, True),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "dedicated", "value": "ml", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_taints_are_tolerated_as_kubernetes_says(toleration, tolerated):
    there = node("n1", taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])

    expected = [] if tolerated else ["taint dedicated=ml:NoSchedule is not tolerated"]
    assert off(pod("new", tolerations=[toleration]), there) == expected


def test_a_taint_that_only_prefers_keeps_nobody_off():
    there = node("n1", taints=[{"key": "a", "effect": "PreferNoSchedule"}])

    assert off(pod("new"), there) == []


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "In", "values": ["c"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "none", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "size", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "size", "operator": "Gt", "values": ["8"]}, False),
        ({"key": "size", "operator": "Lt", "values": ["9"]}, True),
        ({"key": "zone", "operator": "Lt", "values": ["9"]}, False),
    ],
)
def test_required_affinity_is_read_operator_by_operator(wanted, holds):
    there = node("n1", labels={"zone": "a", "size": "8"})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    assert (off(pod("new", affinity=affinity), there) == []) == holds


def test_one_term_of_several_is_enough_and_an_empty_one_selects_nothing():
    def affinity(*terms):
        required = {"nodeSelectorTerms": [*terms]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    by_name = {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    other = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}

    assert off(pod("new", affinity=affinity(other, by_name)), node("n1")) == []
    assert off(pod("new", affinity=affinity(other)), node("n1")) == [
        "required node affinity: the node is not zone In b"
    ]
    assert off(pod("new", affinity=affinity({})), node("n1")) != []


def test_cpu_and_memory_that_others_have_taken_are_missing():
    there = node("n1", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"})
    other = pod("p1", requests={"cpu": "1500m", "memory": "6Gi"})

    assert off(pod("new", requests={"cpu": "3", "memory": "4Gi"}), there, other) == [
        "not enough cpu: 3 asked, 2500m free",
        "not enough memory: 4Gi asked, 2Gi free",
    ]
    assert off(pod("new", requests={"cpu": "2500m", "memory": "2Gi"}), there, other) == []


def test_an_init_container_counts_with_its_most_at_any_one_time():
    there = node("n1", allocatable={"cpu": "4"})
    asked = pod("new", requests={"cpu": "1"})
    asked["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "5"}}}]

    assert off(asked, there) == ["not enough cpu: 5 asked, 4 free"]


def test_a_node_that_is_full_of_pods_says_so():
    there = node("n1", allocatable={"pods": "1"})

    assert off(pod("new"), there, pod("p1")) == ["too many pods: the node takes 1 and has 1"]


def test_other_devices_are_counted_like_cpu():
    """A node that offers none of a device has none."""
    asked = pod("new")
    asked["spec"]["containers"][0]["resources"] = {"limits": {"example.com/nic": "2"}}
    other = pod("p1", requests={"example.com/nic": "3"})
    there = node("n1", allocatable={"example.com/nic": "4"})

    assert off(asked, there, other) == ["not enough example.com/nic: 2 asked, 1 free"]
    assert off(asked, there) == []
    assert off(asked, node("n2")) == ["not enough example.com/nic: 2 asked, 0 free"]


def test_what_the_cards_are_asked_by_is_counted_elsewhere():
    asked = pod("new", gpu=2)
    there = node("n1", allocatable={"nvidia.com/gpu": "1"})

    assert steering.off(asked, there, owned={"nvidia.com/gpu", "nvidia.com/gpumem"}) == ()


def test_a_limit_without_a_request_is_one():
    """As the API server makes it, which has not seen a manifest yet."""
    asked = pod("new")
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "5"}}

    assert off(asked, node("n1", allocatable={"cpu": "4"})) == ["not enough cpu: 5 asked, 4 free"]


@pytest.mark.parametrize(
    ("whole", "asked"),
    [
        ({"requests": {"cpu": "6"}}, "6"),
        ({"limits": {"cpu": "7"}}, "5"),
        ({"limits": {"memory": "1Gi"}}, "5"),
    ],
)
def test_what_a_pod_asks_as_a_whole_counts_before_its_containers(whole, asked):
    """Only a request does; a limit is one where no container asks."""
    one = pod("new", requests={"cpu": "5"}, resources=whole)

    assert off(one, node("n1", allocatable={"cpu": "4"})) == [
        f"not enough cpu: {asked} asked, 4 free"
    ]


def test_a_limit_of_the_whole_pod_is_a_request_where_no_container_asks():
    one = pod("new", resources={"limits": {"cpu": "7"}})

    assert off(one, node("n1", allocatable={"cpu": "4"})) == ["not enough cpu: 7 asked, 4 free"]


@pytest.mark.parametrize("operator", ["In", "NotIn", "Gt", "Lt"])
def test_values_that_are_no_list_hold_nothing(operator):
    expression = {"key": "zone", "operator": operator, "values": 5}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    assert (off(pod("new", affinity=affinity), node("n1", labels={"zone": "5"})) == []) == (
        operator == "NotIn"
    )
