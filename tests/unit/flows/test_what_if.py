"""Why a pod waits, and which changes would make it fit. Right values by hand."""

from support.explained import card, explain, node, pod
from vgpu_operator.cli import explain_words
from vgpu_operator.flows import leaving, smaller, what_if


def ways(found: what_if.Explanation, kind: type) -> list:
    return [one for one in found.ways if isinstance(one, kind)]


def test_the_largest_memory_that_fits_is_what_the_emptiest_card_has_left() -> None:
    found = explain(
        pod("new", mem=8000),
        node("n1", card("a"), card("b")),
        pods=(
            pod("p1", mem=4000, on="n1", cards="a"),
            pod("p2", mem=2500, on="n1", cards="b"),
        ),
    )

    (change,) = ways(found, smaller.Change)
    (amount,) = change.amounts
    assert (amount.resource, amount.asked, amount.most) == ("nvidia.com/gpumem", 8000, 7500)
    assert change.nodes == ("n1",)


def test_each_amount_that_helps_by_itself_is_a_way_of_its_own() -> None:
    found = explain(
        pod("new", gpu=2, mem=3000),
        node("n1", card("a"), card("b")),
        pods=(pod("p1", mem=8000, on="n1", cards="a"),),
    )

    proposed = {
        (amount.resource, amount.most)
        for change in ways(found, smaller.Change)
        for amount in change.amounts
    }
    assert proposed == {("nvidia.com/gpu", 1), ("nvidia.com/gpumem", 2000)}


def test_amounts_that_help_only_together_are_one_way() -> None:
    found = explain(
        pod("new", mem=8000, cores=60),
        node("n1", card("a")),
        pods=(pod("p1", mem=4000, cores=70, on="n1", cards="a"),),
    )

    (change,) = ways(found, smaller.Change)
    assert {amount.resource: amount.most for amount in change.amounts} == {
        "nvidia.com/gpumem": 6000,
        "nvidia.com/gpucores": 30,
    }


def test_a_pod_that_names_no_memory_is_told_how_much_to_name() -> None:
    found = explain(
        pod("new", mem=None),
        node("n1", card("a")),
        pods=(pod("p1", mem=4000, on="n1", cards="a"),),
    )

    (change,) = ways(found, smaller.Change)
    (amount,) = change.amounts
    assert (amount.resource, amount.asked, amount.most) == ("nvidia.com/gpumem", None, 6000)


def test_steps_of_the_vendor_are_kept() -> None:
    """An Ascend 910B3 of 65,536 MiB is cut in templates of 16,384 and 32,768 MiB."""
    asked = pod("new")
    asked["spec"]["containers"][0]["resources"] = {
        "limits": {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "32768"}
    }
    ascend = node("n1")
    ascend["metadata"]["annotations"] = {
        "hami.io/node-register-Ascend910B3": (
            '[{"id":"x","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]'
        )
    }
    ascend["status"]["allocatable"] = {"huawei.com/Ascend910B3": "4"}
    holder = pod("p1", on="n1", cards="x")
    holder["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n1",
        "hami.io/Ascend910B3-devices-allocated": "x,Ascend910B3,49152,15:;",
    }
    holder["spec"]["containers"][0]["resources"] = {
        "limits": {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "49152"}
    }

    found = explain(
        asked,
        ascend,
        pods=(holder,),
        ledger={"trust": "annotations"},
        vendors={"ascend": {"enabled": True}},
    )

    (change,) = ways(found, smaller.Change)
    (amount,) = change.amounts
    assert amount.most == 16384


def test_a_node_whose_cards_are_free_is_named_with_what_keeps_the_pod_off() -> None:
    found = explain(
        pod("new", mem=8000, nodeSelector={"zone": "a"}),
        node("n1", card("a"), labels={"zone": "a"}),
        node("n2", card("b"), labels={"zone": "b"}),
        pods=(pod("p1", mem=4000, on="n1", cards="a"),),
    )

    (other,) = ways(found, what_if.Elsewhere)
    assert other.node == "n2"
    assert [one.sentence for one in other.obstacles] == ["nodeSelector zone=a: the node has zone=b"]
    (change,) = ways(found, smaller.Change)
    assert change.nodes == ("n1",)


def test_annotations_that_rule_everything_out_are_named() -> None:
    found = explain(
        pod("new", annotations={"nvidia.com/use-gputype": "H100"}), node("n1", card("a"))
    )

    (rules,) = ways(found, what_if.WithoutRules)
    assert rules.annotations == {"nvidia.com/use-gputype": "H100"}
    assert rules.nodes == ("n1",)


def test_the_mutex_policy_is_such_an_annotation() -> None:
    found = explain(
        pod("new", annotations={"hami.io/gpu-scheduler-policy": "mutex"}),
        node("n1", card("a")),
        pods=(pod("p1", mem=10, on="n1", cards="a"),),
    )

    (rules,) = ways(found, what_if.WithoutRules)
    assert rules.annotations == {"hami.io/gpu-scheduler-policy": "mutex"}


def test_a_cordoned_card_is_to_be_put_back_and_a_sick_one_to_be_repaired() -> None:
    cordoned = explain(
        pod("new"), node("n1", card("a"), annotations={"hami.io/device-cordon": "a"})
    )
    sick = explain(pod("new"), node("n1", card("a", health=False)))

    assert ways(cordoned, what_if.CardsBack) == [
        what_if.CardsBack(node="n1", cordoned=("a",), unhealthy=())
    ]
    assert ways(sick, what_if.CardsBack) == [
        what_if.CardsBack(node="n1", cordoned=(), unhealthy=("a",))
    ]


def test_a_quota_that_is_used_up_is_the_first_way_and_says_who_holds_it() -> None:
    limit = {
        "metadata": {"name": "q", "namespace": "team-a", "uid": "q", "resourceVersion": "1"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}},
    }

    found = explain(
        pod("new", mem=3000),
        node("n1", card("a")),
        pods=(pod("p1", mem=4000, on="n1", cards="a"),),
        quotas=(limit,),
    )

    first = found.ways[0]
    assert isinstance(first, what_if.MoreQuota)
    assert "1000 of the namespace's 5000 are left" in first.sentence
    assert [one.name for one in first.holders] == ["p1"]
    assert [change.amounts[0].most for change in ways(found, smaller.Change)] == [1000]


def test_the_pods_that_would_have_to_go_are_as_few_as_possible() -> None:
    found = explain(
        pod("new", mem=9000),
        node("n1", card("a")),
        node("n2", card("b")),
        pods=(
            pod("small-1", mem=1500, on="n1", cards="a"),
            pod("small-2", mem=1500, on="n1", cards="a"),
            pod("large", mem=6000, on="n2", cards="b"),
        ),
    )

    (eviction,) = ways(found, leaving.Leaving)
    assert (eviction.node, [one.key.name for one in eviction.pods]) == ("n2", ["large"])


def test_nothing_is_proposed_to_a_pod_that_fits() -> None:
    found = explain(pod("new"), node("n1", card("a")))

    assert [one.name for one in found.takers] == ["n1"]
    assert found.ways == ()


def test_every_card_says_why_it_does_not_do_and_who_holds_it() -> None:
    (here,) = explain(
        pod("new", mem=8000, cores=50),
        node("n1", card("a"), card("b"), card("c", 4000), card("d", health=False)),
        pods=(
            pod("p1", mem=4000, on="n1", cards="a"),
            pod("p2", mem=10, cores=60, on="n1", cards="b"),
        ),
    ).nodes

    assert {one.device.id: (one.why, [str(h.pod) for h in one.holders]) for one in here.cards} == {
        "a": ("CardInsufficientMemory", ["team-a/p1"]),
        "b": ("CardInsufficientCore", ["team-a/p2"]),
        "c": ("CardInsufficientMemory", []),
        "d": ("CardNotHealth", []),
    }


def test_a_card_that_would_do_is_not_blamed_for_there_being_too_few() -> None:
    (here,) = explain(
        pod("new", gpu=2, mem=8000),
        node("n1", card("a"), card("b")),
        pods=(pod("p1", mem=4000, on="n1", cards="a"),),
    ).nodes

    assert {one.device.id: one.why for one in here.cards} == {
        "a": "CardInsufficientMemory",
        "b": "",
    }


def test_the_nearest_nodes_come_first() -> None:
    found = explain(
        pod("new", mem=9000),
        node("far", card("a")),
        node("sick", card("b", health=False)),
        node("near", card("c")),
        node("bare"),
        pods=(
            pod("p1", mem=9000, on="far", cards="a"),
            pod("p2", mem=2000, on="near", cards="c"),
        ),
    )

    assert [one.name for one in found.nodes][:2] == ["near", "far"]
    assert {one.name for one in found.nodes[2:]} == {"sick", "bare"}


def test_a_running_pod_is_judged_as_if_it_were_not_there_and_its_node_comes_first() -> None:
    found = explain(
        pod("new", mem=9000, on="n2", cards="b"), node("n1", card("a")), node("n2", card("b"))
    )

    assert [one.name for one in found.nodes] == ["n2", "n1"]
    assert [one.name for one in found.takers] == ["n2", "n1"]


def test_only_the_nearest_nodes_are_looked_at_card_by_card() -> None:
    nodes = [node(f"n{number}", card(f"c{number}")) for number in range(7)]

    few = explain(pod("new", mem=20_000), *nodes)
    all_of_them = explain(pod("new", mem=20_000), *nodes, detailed=None)

    assert sum(bool(one.cards) for one in few.nodes) == what_if.NEAREST
    assert sum(bool(one.cards) for one in all_of_them.nodes) == 7


def test_alike_nodes_stand_together_whatever_their_numbers() -> None:
    found = explain(
        pod("new", mem=20_000),
        node("n1", card("a")),
        node("n2", card("b"), card("c")),
        node("n3", card("d"), unschedulable=True),
    )

    assert explain_words.groups(found) == [
        ("CardInsufficientMemory", ["n1", "n2"]),
        ("CardInsufficientMemory, the node is cordoned", ["n3"]),
    ]


def test_only_the_cards_that_are_needed_are_to_be_put_back() -> None:
    """One card is asked; of three that are out one cordoned one is enough."""
    found = explain(
        pod("new", mem=8000),
        node(
            "n1",
            card("a"),
            card("b"),
            card("c", health=False),
            card("small", 4000),
            annotations={"hami.io/device-cordon": "a,b,c,small"},
        ),
    )
    both = explain(
        pod("new", gpu=2, mem=8000),
        node(
            "n1",
            card("a", 4000),
            card("b"),
            card("c", health=False),
            card("d", health=False),
            annotations={"hami.io/device-cordon": "a,b"},
        ),
    )

    (back,) = ways(found, what_if.CardsBack)
    assert (len(back.cordoned), back.unhealthy) == (1, ())
    assert set(back.cordoned) <= {"a", "b"}
    (back,) = ways(both, what_if.CardsBack)
    assert (back.cordoned, len(back.unhealthy)) == (("b",), 1)


def test_a_reduction_by_more_than_half_comes_after_everything_else() -> None:
    """1,000 of 8,000 MiB are left on the card: to ask an eighth is no small change."""
    found = explain(
        pod("new", mem=8000, cores=10),
        node("n1", card("a")),
        pods=(pod("p1", mem=9000, on="n1", cards="a"),),
    )

    assert [type(one) for one in found.ways] == [leaving.Leaving, smaller.Change]
    assert found.ways[1].given_up == 0.875


def test_the_smaller_reduction_comes_first() -> None:
    """Half of the cards, or two thirds of the memory."""
    found = explain(
        pod("new", gpu=2, mem=3000),
        node("n1", card("a"), card("b")),
        pods=(pod("p1", mem=8000, on="n1", cards="a"),),
    )

    reductions = [one.amounts[0].resource for one in ways(found, smaller.Change)]
    assert reductions == ["nvidia.com/gpumem", "nvidia.com/gpu"]


def test_the_pods_that_hold_the_cpu_too_may_be_the_ones_to_go() -> None:
    """The node has 4 CPUs; the one pod on its card holds 3 of them, and 2 are asked."""
    holder = pod("p1", mem=9000, on="n1", cards="a", requests={"cpu": "3"})

    found = explain(
        pod("new", mem=5000, requests={"cpu": "2"}),
        node("n1", card("a"), allocatable={"cpu": "4"}),
        pods=(holder,),
    )

    (eviction,) = ways(found, leaving.Leaving)
    assert [one.key.name for one in eviction.pods] == ["p1"]


def test_a_pod_whose_end_leaves_the_cpu_short_does_not_help() -> None:
    """Its card would be free, but another pod holds 3 of 4 CPUs, and 2 are asked."""
    other = {
        "metadata": {"name": "web", "namespace": "x", "uid": "web", "resourceVersion": "1"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
        },
        "status": {"phase": "Running"},
    }
    found = explain(
        pod("new", mem=5000, requests={"cpu": "2"}),
        node("n1", card("a"), allocatable={"cpu": "4"}),
        pods=(pod("p1", mem=9000, on="n1", cards="a"), other),
    )

    assert ways(found, leaving.Leaving) == []


def test_a_pod_of_the_namespace_that_goes_leaves_its_quota_too() -> None:
    """4,000 of a quota of 5,000 are held by the pod whose card is wanted as well."""
    limit = {
        "metadata": {"name": "q", "namespace": "team-a", "uid": "q", "resourceVersion": "1"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}},
    }

    found = explain(
        pod("new", mem=3000),
        node("n1", card("a", 5000)),
        pods=(pod("p1", mem=4000, on="n1", cards="a"),),
        quotas=(limit,),
    )

    (eviction,) = ways(found, leaving.Leaving)
    assert [one.key.name for one in eviction.pods] == ["p1"]


def test_what_cards_are_asked_by_is_not_counted_a_second_time() -> None:
    """The plugin offers one nvidia.com/gpu; two pods with a share each ask one each."""
    found = explain(
        pod("new", mem=3000),
        node("n1", card("a"), allocatable={"nvidia.com/gpu": "1"}),
        pods=(pod("p1", mem=3000, on="n1", cards="a"),),
    )

    assert [one.name for one in found.takers] == ["n1"]
