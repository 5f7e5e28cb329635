"""``vgpu cordon`` and ``vgpu uncordon``: a card takes no new pod, or takes pods again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from vgpu_operator.cli import options

if TYPE_CHECKING:
    from vgpu_operator.cli import card_names
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.model import settings

TRIES: Final = 5
"""A node's plugin and its kubelet write to the Node too."""

Cards = Annotated[
    list[str],
    typer.Argument(
        metavar="CARD...",
        help="A card's id, or NODE/INDEX; several may be named.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the parser."""
    app.command("cordon")(cordon)
    app.command("uncordon")(uncordon)


def cordon(
    cards: Cards,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Keep new pods off a card; those that hold a share of it stay.

    Writes the node's annotation hami.io/device-cordon, which needs the right to patch
    nodes. Unlike kubectl cordon it leaves the node's other cards alone.

    Examples: vgpu cordon GPU-0b3f…; vgpu cordon gpu-7/0
    """
    asyncio.run(_change(cards, _access(config, device_config, kubeconfig, context), out=True))


def uncordon(
    cards: Cards,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Let new pods have a card again.

    Takes the card off the node's annotation hami.io/device-cordon.

    Example: vgpu uncordon gpu-7/0
    """
    asyncio.run(_change(cards, _access(config, device_config, kubeconfig, context), out=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    configured: settings.Settings
    kubeconfig: str | None
    context: str | None


def _access(
    config: Path | None, device_config: Path | None, kubeconfig: str | None, context: str | None
) -> _Access:
    from vgpu_operator.cli import run

    configured = run.load_settings(config, device_config=device_config)
    return _Access(configured=configured, kubeconfig=kubeconfig, context=context)


async def _change(cards: Sequence[str], access: _Access, *, out: bool) -> None:
    """Write each node's list anew; all cards are found before anything is written."""
    from vgpu_operator.cli import card_names, cluster_view
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import paths

    async with await kube_client.KubeClient.connect(
        kubeconfig=access.kubeconfig, context=access.context
    ) as client:
        nodes, _ = await client.list(paths.NODES)
        view = cluster_view.view_of(nodes, (), access.configured)
        places = [card_names.find(view, card, gone_too=not out) for card in cards]
        for place in dict.fromkeys(places):
            changed = await _write(client, place, out=out)
            verb = "cordoned" if out else "uncordoned"
            already = "" if changed else "already "
            sys.stdout.write(f"card {place.card} on {place.node} {already}{verb}\n")


async def _write(client: kube_client.KubeClient, place: card_names.Place, *, out: bool) -> bool:
    """Add the card to its node's list, or take it off; return whether that changed anything.

    Raises:
        Conflict: others wrote to the Node each time.
    """
    from vgpu_operator.kube import errors, paths
    from vgpu_operator.wire import keys, shape

    for left in reversed(range(TRIES)):
        raw = await client.get(paths.node(place.node))
        words = shape.text(shape.annotations(raw).get(keys.DEVICE_CORDON)).split(",")
        listed = [word.strip() for word in words if word.strip()]
        if (place.card in listed) == out:
            return False
        rest = [*listed, place.card] if out else [one for one in listed if one != place.card]
        body = {
            "metadata": {
                "resourceVersion": raw["metadata"]["resourceVersion"],
                "annotations": {keys.DEVICE_CORDON: ",".join(rest) or None},
            }
        }
        try:
            await client.patch(paths.node(place.node), body)
        except errors.Conflict:
            if not left:
                raise
            continue
        return True
    return False
