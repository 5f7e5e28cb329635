"""The autoscaler's question: whole Node objects, judged from themselves alone."""

from typing import Any

from support import clusters
from support.operator_books import ONE_CARD, bound, open_books, pending, plain, put_node, used_mib
from vgpu_operator.flows import dry_run

REGISTER = "hami.io/node-nvidia-register"


def template(name: str = "template", **annotations: str) -> dict[str, Any]:
    """Return a Node object of a machine that does not exist."""
    return {
        "metadata": {"name": name, "annotations": {REGISTER: ONE_CARD, **annotations}},
        "status": {"allocatable": {"nvidia.com/gpu": "10"}},
    }


ASKS = pending("p1", clusters.asks(memory_mib=11000, cores_percent=100))


def test_case_167_a_template_node_with_cards_takes_the_pod_and_nothing_else_changes() -> None:
    held = open_books()
    generation = held.ledger.generation

    result = dry_run.filter_objects(held, ASKS, [template()])

    assert (result.fitting, dict(result.rejections)) == (("template",), {})
    assert (held.ledger.generation, held.nodes, held.refused) == (generation, {}, {})


def test_case_168_a_fresh_node_waits_for_its_cards_and_then_fits() -> None:
    held = open_books()
    fresh = template()
    del fresh["metadata"]["annotations"][REGISTER]

    result = dry_run.filter_objects(held, ASKS, [fresh])

    assert result.fitting == ()
    assert str(result.rejections["template"]).startswith("node unregistered")
    assert dry_run.filter_objects(held, ASKS, [template()]).fitting == ("template",)


def test_what_pods_hold_on_a_real_node_of_that_name_does_not_count() -> None:
    held = open_books()
    put_node(held)
    held.ledger.observe(bound(pending("p9", clusters.asks(percent=100)), memory_mib=24576))

    result = dry_run.filter_objects(held, ASKS, [template("node-a")])

    assert result.fitting == ("node-a",)
    assert used_mib(held) == {"GPU-a0": 24576}


def test_an_expired_handshake_does_not_count() -> None:
    dead = template(**{"hami.io/node-handshake": "Requesting_2020-01-01 00:00:00"})

    assert dry_run.filter_objects(open_books(), ASKS, [dead]).fitting == ("template",)


def test_a_template_that_does_not_list_the_resource_is_judged_by_its_cards() -> None:
    silent = template()
    del silent["status"]

    assert dry_run.filter_objects(open_books(), ASKS, [silent]).fitting == ("template",)


def test_a_template_that_says_nothing_is_allocatable_is_refused() -> None:
    empty = template()
    empty["status"]["allocatable"]["nvidia.com/gpu"] = "0"

    assert dry_run.filter_objects(open_books(), ASKS, [empty]).fitting == ()


def test_an_unreadable_register_text_is_a_reason() -> None:
    result = dry_run.filter_objects(open_books(), ASKS, [template(**{REGISTER: "{{"})])

    assert result.fitting == ()
    assert str(result.rejections["template"])


def test_a_cordoned_card_counts() -> None:
    cordoned = template(**{"hami.io/device-cordon": "GPU-a0"})

    result = dry_run.filter_objects(open_books(), ASKS, [cordoned])

    assert str(result.rejections["template"]) == "1/1 CardCordoned"


def test_a_pod_without_devices_fits_every_template() -> None:
    assert dry_run.filter_objects(
        open_books(), plain(), [template("a"), template("b")]
    ).fitting == (
        "a",
        "b",
    )
