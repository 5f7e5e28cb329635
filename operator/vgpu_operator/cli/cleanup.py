"""``vgpu cleanup``: remove what the operator has left in the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import options, render, run
from vgpu_operator.model import errors as model_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpu_operator.flows import cleanup as flow

STOP_LIMIT_S = 90.0
"""How long pods of the operator may take to go: their grace is 30 s."""

LOOK_EVERY_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("cleanup")(cleanup)


def cleanup(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is left.", show_default=False)
    ] = False,
    deployment: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Stop the operator first: scale its Deployment to 0 and wait.",
        ),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="Delete kube-scheduler's Lease too."),
    ] = None,
    output: options.Output = render.Output.TABLE,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Remove handshakes, locks and the waking annotation from all nodes.

    Running pods and what device plugins write stay as they are. The lock of a node on
    which a pod is just being served stays too: run it again. Stop the operator before, or
    it writes anew; --deployment does so.
    """
    code = asyncio.run(
        _cleanup(
            dry_run=dry_run,
            deployment=_name(deployment, option="--deployment", of="a Deployment"),
            lease=_name(lease, option="--lease", of="a Lease"),
            output=output,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
    if code:
        raise typer.Exit(code)


def _name(text: str | None, *, option: str, of: str) -> tuple[str, str] | None:
    return None if text is None else run.split_name(text, option=option, of=of)


async def _cleanup(
    *,
    dry_run: bool,
    deployment: tuple[str, str] | None,
    lease: tuple[str, str] | None,
    output: render.Output,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Do it and return the exit code: 1 where something must stay for now."""
    from vgpu_operator.kube import client as kube_client

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        if deployment is not None and not dry_run:
            await stop(client, *deployment)
        found = await look(client)
        if not dry_run:
            await remove(client, found)
        if lease is not None:
            await _remove_lease(client, lease, dry_run=dry_run)
    options.show(table_of(found, dry_run=dry_run), output, empty="nothing is left on any node")
    return 1 if any(one.keep for one in found) else 0


async def look(client: Any) -> Sequence[flow.Left]:
    """Return what is left on the nodes."""
    from vgpu_operator.flows import cleanup as flow
    from vgpu_operator.kube import paths
    from vgpu_operator.model import settings
    from vgpu_operator.vendors import registry

    nodes, _ = await client.list(paths.NODES)
    pods, _ = await client.list(paths.PODS, params={"fieldSelector": "spec.nodeName!="})
    vendors = registry.build(settings.with_every_vendor(settings.Settings()))
    return flow.left_on(
        {node["metadata"]["name"]: node["metadata"].get("annotations") or {} for node in nodes},
        [
            flow.BoundPod(
                namespace=pod["metadata"]["namespace"],
                name=pod["metadata"]["name"],
                node=pod["spec"]["nodeName"],
                phase=pod.get("status", {}).get("phase", ""),
                annotations=pod["metadata"].get("annotations") or {},
            )
            for pod in pods
        ],
        vendors,
    )


async def remove(client: Any, found: Sequence[flow.Left]) -> None:
    """Remove what may go; a node that has gone meanwhile is no fault."""
    import contextlib

    from vgpu_operator.kube import errors, paths

    for one in found:
        if one.remove:
            body = {"metadata": {"annotations": dict.fromkeys(one.remove)}}
            with contextlib.suppress(errors.NotFound):
                await client.patch(paths.node(one.node), body)


async def stop(client: Any, namespace: str, name: str) -> None:
    """Scale a Deployment to 0 and wait until its pods are gone.

    Raises:
        SettingsError: they do not go in time.
    """
    from vgpu_operator.kube import errors, paths

    path = paths.deployment(namespace, name)
    try:
        found = await client.patch(path, {"spec": {"replicas": 0}})
    except errors.NotFound:
        return
    labels = found["spec"]["selector"]["matchLabels"]
    selector = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
    for _ in range(int(STOP_LIMIT_S / LOOK_EVERY_S)):
        pods, _version = await client.list(paths.namespaced(namespace, "pods"), params=selector)
        if not pods:
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise model_errors.SettingsError(
        f"pods of Deployment {namespace}/{name} are still there after {STOP_LIMIT_S:.0f} s; "
        "see why they do not end, then run vgpu cleanup again"
    )


async def _remove_lease(client: Any, lease: tuple[str, str], *, dry_run: bool) -> None:
    from vgpu_operator.kube import errors, paths

    path = paths.lease(*lease)
    try:
        await (client.get(path) if dry_run else client.delete(path))
    except errors.NotFound:
        return
    options.note(f"Lease {'/'.join(lease)} {'is left' if dry_run else 'deleted'}")


def table_of(found: Sequence[flow.Left], *, dry_run: bool) -> render.Table:
    """Return one row for each annotation."""
    gone = "left" if dry_run else "removed"
    rows = [
        {"node": one.node, "annotation": key, "state": word}
        for one in found
        for key, word in (
            *((key, gone) for key in one.remove),
            *((key, f"kept: {one.because}") for key in one.keep),
        )
    ]
    return render.Table(
        kind="CleanupList",
        columns=(
            render.Column(header="NODE", text=lambda row: str(row["node"])),
            render.Column(header="ANNOTATION", text=lambda row: str(row["annotation"])),
            render.Column(header="STATE", text=lambda row: str(row["state"])),
        ),
        rows=rows,
    )
