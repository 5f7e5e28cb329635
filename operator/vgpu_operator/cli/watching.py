"""``--watch``: a table that follows the cluster, redrawn on a terminal, appended elsewhere.

Objects are listed once and kept current by the API server's watches.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vgpu_operator.cli import options, render

if TYPE_CHECKING:
    from vgpu_operator.kube import client as kube_client

Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", help="Go on and show what changes.", show_default=False),
]

AT_MOST_EVERY_S: Final = 1.0
"""Changes in between are shown together."""

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class Follower:
    """One collection, current as far as its watch is.

    Args:
        client: of the cluster.
        path: of the collection.
        params: selectors.
        needed: False takes an empty collection where listing is denied.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        path: str,
        params: dict[str, str] | None = None,
        *,
        needed: bool = True,
    ) -> None:
        self._client = client
        self._path = path
        self._params = params
        self._needed = needed
        self._version = ""
        self._objects: dict[str, kube_client.Json] = {}

    @property
    def objects(self) -> tuple[kube_client.Json, ...]:
        """What is there, by namespace and name."""
        return tuple(self._objects[place] for place in sorted(self._objects))

    async def list(self) -> None:
        """Take in the whole collection."""
        from vgpu_operator.kube import errors

        try:
            listed, self._version = await self._client.list(self._path, params=self._params)
        except errors.Denied:
            if self._needed:
                raise
            return
        self._objects = {_place(raw): raw for raw in listed}

    async def follow(self, changed: asyncio.Event) -> None:
        """Keep the collection current until cancelled."""
        from vgpu_operator.kube import errors

        while self._version:
            try:
                async for event in self._client.watch(
                    self._path, resource_version=self._version, params=self._params
                ):
                    raw = event["object"]
                    self._version = raw["metadata"]["resourceVersion"]
                    if event["type"] == "BOOKMARK":
                        continue
                    if event["type"] == "DELETED":
                        self._objects.pop(_place(raw), None)
                    else:
                        self._objects[_place(raw)] = raw
                    changed.set()
            except errors.Expired:
                await self.list()
                changed.set()
            await asyncio.sleep(AT_MOST_EVERY_S)  # streams end; one that ends at once is no hurry


def nodes(client: kube_client.KubeClient, *, name: str | None, selector: str | None) -> Follower:
    """Return a follower of the nodes with that name and those labels; None takes any."""
    from vgpu_operator.kube import paths

    selects = {"fieldSelector": f"metadata.name={name}"} if name else {}
    selects |= {"labelSelector": selector} if selector else {}
    return Follower(client, paths.NODES, selects or None)


def _place(raw: kube_client.Json) -> str:
    metadata = raw["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


async def watch(
    followers: Sequence[Follower],
    make: Callable[[], render.Table],
    key: Callable[[render.Row], object],
    output: render.Output,
) -> None:
    """Show the table and what becomes of it, until interrupted.

    Args:
        followers: the collections that it is made of.
        make: makes it of them.
        key: tells rows apart.
        output: on a terminal tables are redrawn; else lines are appended.
    """
    from vgpu_operator.kube import errors

    changed = asyncio.Event()
    for follower in followers:
        await follower.list()
    show = _Redrawn(output) if _can_redraw(output) else _Appended(output, key)
    try:
        async with asyncio.TaskGroup() as tasks:
            for follower in followers:
                tasks.create_task(follower.follow(changed))
            while True:
                changed.clear()
                show(make())
                await changed.wait()
                await asyncio.sleep(AT_MOST_EVERY_S)
    except* errors.ApiError as failed:
        raise failed.exceptions[0] from None


def _can_redraw(output: render.Output) -> bool:
    return sys.stdout.isatty() and output in (render.Output.TABLE, render.Output.WIDE)


class _Redrawn:
    def __init__(self, output: render.Output) -> None:
        self._output = output

    def __call__(self, table: render.Table) -> None:
        text = render.render(table, self._output, options.screen())
        sys.stdout.write(f"{_CLEAR}{text}\n")
        sys.stdout.flush()


class _Appended:
    """Lines of rows that are new or changed; what is gone is said on standard error."""

    def __init__(self, output: render.Output, key: Callable[[render.Row], object]) -> None:
        self._output = output
        self._key = key
        self._shown: dict[object, Any] = {}
        self._begun = False

    def __call__(self, table: render.Table) -> None:
        rows = {self._key(row): row for row in table.rows}
        lasting = {place: _without_ages(row) for place, row in rows.items()}
        fresh = [row for place, row in rows.items() if self._shown.get(place) != lasting[place]]
        gone = [place for place in self._shown if place not in rows]
        self._shown = lasting
        if fresh or not self._begun:
            changes = dataclasses.replace(table, rows=fresh, headed=not self._begun)
            if self._begun and self._output is render.Output.YAML:
                sys.stdout.write("---\n")
            sys.stdout.write(render.render(changes, self._output, options.screen()) + "\n")
        for place in gone:
            words = " ".join(str(part) for part in place) if isinstance(place, tuple) else place
            options.note(f"gone: {words}")
        self._begun = True
        sys.stdout.flush()


def _without_ages(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ages(each) for key, each in value.items() if key != "ageSeconds"}
    return value
