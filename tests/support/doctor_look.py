"""A look of ``vgpu doctor`` at a played API server, at a time that stands still."""

import dataclasses
import datetime
from typing import Any

from support import doctor_faults, doctor_objects
from support.fake_kube import FakeKube
from vgpu_operator.cli import doctor_reader
from vgpu_operator.flows.doctor import catalogue
from vgpu_operator.flows.doctor.cluster import Cluster
from vgpu_operator.model import settings

NOW = datetime.datetime(2026, 1, 15, 10, 0, 30, tzinfo=datetime.UTC)
SCENE = doctor_faults.Scene(now=NOW)


class StandingClock:
    """This machine's clock: the played API server tells no time."""

    def now(self) -> datetime.datetime:
        return NOW

    def monotonic_s(self) -> float:
        return 0.0


def put(kube: FakeKube, objects: doctor_objects.Objects, manager: str = "vgpu-operator") -> None:
    """Put objects as the API server would have them: with their time and fields' managers."""
    for path, item in objects.items():
        whole = {**kube.objects.get(path, {}), **item}
        metadata = {"creationTimestamp": doctor_objects.at(NOW, 0), **whole["metadata"]}
        kube.put(path, doctor_objects.managed({**whole, "metadata": metadata}, manager, NOW))


def healthy() -> FakeKube:
    """Return a cluster in which nothing is wrong."""
    kube = FakeKube()
    put(kube, doctor_objects.healthy(NOW))
    return kube


async def look(
    kube: FakeKube,
    *,
    later_s: float = 0.0,
    configured: settings.Settings | None = None,
    namespace: str | None = None,
    known_writers: tuple[str, ...] = (),
    **options: Any,
) -> Cluster:
    """Read the cluster and turn its clock."""
    reader = doctor_reader.Reader(
        kube, configured or settings.Settings(), namespace=namespace, known_writers=known_writers
    )
    cluster, _ = await reader.read(local=StandingClock(), **options)
    return dataclasses.replace(cluster, now=NOW + datetime.timedelta(seconds=later_s))


def text_of(report: catalogue.Report) -> str:
    """Return everything that the findings say."""
    return "\n".join(
        " ".join((str(one.place), one.title, *one.evidence, one.cause, one.fix))
        for one in report.findings
    )


async def found(kube: FakeKube, **options: Any) -> dict[str, str]:
    """Return what is found, with everything that it says."""
    told: dict[str, str] = {}
    for one in catalogue.examine(await look(kube, **options)).findings:
        words = " ".join((str(one.place), *one.evidence, one.cause, one.fix))
        told[one.signature] = f"{told.get(one.signature, '')}{words}\n"
    return told
