"""Each signature is named by its fault, alone, and a healthy cluster gives none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support import doctor_faults, doctor_unusual
from support.doctor_look import SCENE, healthy, look, put, text_of
from vgpu_operator.cli import doctor_text, render
from vgpu_operator.flows.doctor import catalogue

DOCS = Path(__file__).resolve().parents[3] / "docs"


async def test_a_healthy_cluster_gives_none() -> None:
    cluster = await look(healthy())

    report = catalogue.examine(cluster)

    assert [(one.signature, one.evidence) for one in report.findings] == []
    assert report.skipped == ("allocatable-flapping",)
    assert cluster.missing == {}
    (line,) = doctor_text.lines(report, cluster, render.Screen(), show_all=False)
    assert line == (
        f"nothing found: {len(catalogue.SIGNATURES) - 1} signatures checked on 3 nodes,"
        " 2 pods with cards, 2 pods of device plugins"
    )


@pytest.mark.parametrize("signature", doctor_faults.MAKERS)
async def test_a_fault_is_named_and_nothing_else(signature: str) -> None:
    kube = healthy()
    fault = doctor_faults.MAKERS[signature](SCENE)
    put(kube, fault.objects, fault.manager)
    kube.logs.update(fault.logs)

    cluster = await look(kube, later_s=fault.later_s)
    report = catalogue.examine(cluster)

    assert {one.signature for one in report.findings} == {signature}
    assert (report.findings[0].place.kind, report.findings[0].place.name) == fault.about
    shown = text_of(report)
    for words in fault.evidence:
        assert words in shown


@pytest.mark.parametrize("name", doctor_unusual.OTHER_DEVICES)
async def test_a_plugin_of_other_devices_is_none_of_cards(name: str) -> None:
    await _finds_nothing(doctor_unusual.other_devices(SCENE, name))


@pytest.mark.parametrize("resource", doctor_unusual.WHOLE_CARDS)
async def test_a_makers_own_plugin_serves_its_node(resource: str) -> None:
    await _finds_nothing(doctor_unusual.whole_cards(SCENE, resource))


@pytest.mark.parametrize("maker", doctor_unusual.OTHERS)
async def test_what_is_unusual_is_not_wrong(
    maker: Callable[[doctor_faults.Scene], doctor_unusual.Unusual],
) -> None:
    await _finds_nothing(maker(SCENE))


async def _finds_nothing(unusual: doctor_unusual.Unusual) -> None:
    kube = healthy()
    put(kube, unusual.objects)

    report = catalogue.examine(await look(kube, later_s=unusual.later_s))

    assert [(one.signature, str(one.place), one.evidence) for one in report.findings] == []


def test_every_signature_has_its_fault() -> None:
    made = {*doctor_faults.MAKERS, "allocatable-flapping"}

    assert [one.id for one in catalogue.SIGNATURES if one.id not in made] == []
    assert len({one.id for one in catalogue.SIGNATURES}) == len(catalogue.SIGNATURES)


def test_every_signature_names_a_page_that_is_there() -> None:
    pages = {one.page.partition("#")[0] for one in catalogue.SIGNATURES}

    assert [page for page in sorted(pages) if not (DOCS / page).is_file()] == []
