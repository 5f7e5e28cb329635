"""What the operator itself believes of each card, beside what the annotations say.

Its leader's ``/metrics`` is read: at an address, or through the API server's proxy when
the user has that right. Where neither is to be had nothing is said: the annotations are
the truth that everything is rebuilt from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from vgpu_operator.cli import options, render

if TYPE_CHECKING:
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.ledger import ledger

Operator = Annotated[
    str | None,
    typer.Option(
        "--operator",
        metavar="URL",
        help="Address of the operator's metrics, to compare with; else it is looked for "
        "through the API server.",
    ),
]

LIMIT_S: Final = 5.0
_SERIES: Final = {
    "hami_gpu_memory_allocated_bytes": "memoryMiB",
    "hami_gpu_core_allocated_ratio": "coresPercent",
    "hami_gpu_shared_count": "slots",
}
_MIB: Final = 1024 * 1024
_COMPONENT: Final = "app.kubernetes.io/component=scheduler"
_CHART: Final = "helm.sh/chart"
_PORT: Final = "monitor"

Amounts = Mapping[str, int]
"""``memoryMiB``, ``coresPercent`` and ``slots`` that pods hold of a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was found.

    Attributes:
        cards: by node and card id; None where the operator was not reached.
        why: why it was not; empty when it was.
    """

    cards: Mapping[tuple[str, str], Amounts] | None = None
    why: str = ""


async def read(client: kube_client.KubeClient, url: str | None) -> View:
    """Read the leader's page.

    Raises:
        BadParameter: ``url`` is no address.
        Unreachable: nothing answers at ``url``. Where none is given that is no fault.
    """
    if url is not None:
        cards = decode(await _fetched(url))
        return View(cards=cards) if cards else View(why=f"{url} shows no card: it does not lead")
    from vgpu_operator.kube import errors

    why = "no Service of the chart was found"
    try:
        found = [path async for path in _proxies(client)]
    except errors.ApiError as fault:
        return View(why=f"the operator's own view was not read: {fault}")
    for path in found:
        try:
            async with asyncio.timeout(LIMIT_S):
                cards = decode(await client.text(path))
        except errors.ApiError as fault:
            why = str(fault)
        except TimeoutError:
            why = f"GET {path}: no answer for {LIMIT_S:.0f} s"
        else:
            if cards:
                return View(cards=cards)
            why = "no replica that answered leads"
    return View(why=f"the operator's own view was not read: {why}")


def decode(page: str) -> dict[tuple[str, str], Amounts]:
    """Return what a page of metrics says of each card; nothing for a follower's."""
    from prometheus_client import parser

    lines = (line for line in page.splitlines() if line.startswith(tuple(_SERIES)))
    found: dict[tuple[str, str], dict[str, int]] = {}
    for family in parser.text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            member = _SERIES.get(sample.name)
            if member is None:
                continue
            place = sample.labels.get("node", ""), sample.labels.get("device_uuid", "")
            amount = sample.value / _MIB if member == "memoryMiB" else sample.value
            found.setdefault(place, {})[member] = round(amount)
    return dict(found)


def differences(
    book: ledger.Ledger, vendors: Iterable[str], view: View, *, nodes: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Return one entry for each card of which operator and annotations say something else."""
    if view.cards is None:
        return []
    found = []
    for node in sorted(book.node_names if nodes is None else nodes):
        for vendor in vendors:
            usages = book.usage(node, vendor)
            served = any((node, usage.device.id) in view.cards for usage in usages)
            for usage in usages:
                ours = {
                    "memoryMiB": usage.used_memory_mib,
                    "coresPercent": usage.used_cores_percent,
                    "slots": usage.used_slots,
                }
                theirs = view.cards.get((node, usage.device.id))
                if theirs == ours or (theirs is None and not served):
                    continue
                found.append(_difference(node, usage.device.id, ours, theirs))
    return found


def members(view: View, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what JSON and YAML say besides the items: nothing where all is well."""
    if view.cards is None:
        return {"operatorNotRead": view.why} if view.why else {}
    return {"operatorDiffers": found}


def tell(found: list[dict[str, Any]], output: render.Output) -> None:
    """Say the differences on standard error, one line a card; JSON and YAML hold them."""
    if output in (render.Output.TABLE, render.Output.WIDE):
        for each in found:
            options.note(f"operator differs: {each['sentence']}")


def _difference(node: str, card: str, ours: Amounts, theirs: Amounts | None) -> dict[str, Any]:
    said = "does not know the card" if theirs is None else f"says {_shown(theirs)}"
    return {
        "node": node,
        "card": card,
        "annotations": dict(ours),
        "operator": None if theirs is None else dict(theirs),
        "sentence": f"card {card} on {node}: the annotations say {_shown(ours)} are held, the"
        f" operator {said}",
    }


def _shown(amounts: Amounts) -> str:
    return (
        f"{amounts.get('memoryMiB', 0)} MiB, {amounts.get('coresPercent', 0)}% cores and"
        f" {amounts.get('slots', 0)} slots"
    )


async def _proxies(client: kube_client.KubeClient) -> AsyncIterator[str]:
    """Yield the paths of the chart's metrics: its Service, then each of its pods."""
    from vgpu_operator.kube import paths

    services, _ = await client.list("/api/v1/services", params={"labelSelector": _COMPONENT})
    for service in services:
        metadata = service["metadata"]
        chart = str((metadata.get("labels") or {}).get(_CHART, ""))
        if not chart.startswith("vgpu-operator-"):
            continue
        for name in _named_ports(service):
            yield _proxy(metadata["namespace"], "services", f"{metadata['name']}:{name}")
        selector = ",".join(f"{k}={v}" for k, v in (service["spec"].get("selector") or {}).items())
        pods, _ = await client.list(
            paths.namespaced(metadata["namespace"], "pods"), params={"labelSelector": selector}
        )
        for pod in pods:
            for port in _metrics_ports(pod):
                name = f"{pod['metadata']['name']}:{port}"
                yield _proxy(metadata["namespace"], "pods", name)


def _named_ports(service: Mapping[str, Any]) -> Iterator[str]:
    return (
        port["name"] for port in service["spec"].get("ports") or () if port.get("name") == _PORT
    )


def _metrics_ports(pod: Mapping[str, Any]) -> Iterator[int]:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == "metrics":
                yield int(port["containerPort"])


def _proxy(namespace: str, kind: str, name: str) -> str:
    from vgpu_operator.kube import paths

    return f"{paths.namespaced(namespace, kind)}/http:{quote(name, safe=':')}/proxy/metrics"


async def _fetched(url: str) -> str:
    import aiohttp

    from vgpu_operator.kube import errors

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise typer.BadParameter(f"--operator: {url!r} is no address such as http://127.0.0.1:9395")
    where = url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"
    timeout = aiohttp.ClientTimeout(total=LIMIT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(where) as answer:
            if answer.status != 200:
                raise errors.ServerFault(f"GET {where}: {answer.status}", status=answer.status)
            return await answer.text()
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        cause = str(fault) or type(fault).__name__
        raise errors.Unreachable(f"GET {where}: {cause}") from fault
