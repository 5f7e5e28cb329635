"""The raw watch of pods: in order, from where it stopped, over every kind of end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from vgpu_operator.kube import errors, paths, pod_watch


class Script:
    """A client whose watches play a script, and a note of all that was handed on."""

    def __init__(self, *streams: list[Any]) -> None:
        self._streams = list(streams)
        self.asked: list[str] = []
        self.seen: list[tuple[str, str]] = []
        self.progress: list[str] = []
        self.lists = ["100", "200", "300"]
        self.slept: list[float] = []
        self.over = asyncio.Event()

    async def watch(self, path: str, *, resource_version: str) -> AsyncIterator[Any]:
        assert path == paths.PODS
        self.asked.append(resource_version)
        if not self._streams:
            self.over.set()
            await asyncio.Event().wait()
        for item in self._streams.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def relist(self) -> str:
        version = self.lists.pop(0)
        self.seen.append(("LIST", version))
        return version

    def take_in(self, kind: str, raw: Any) -> None:
        if raw["metadata"]["name"] == "poison":
            raise ValueError("an event that breaks us")
        self.seen.append((kind, raw["metadata"]["name"]))

    async def play(self, version: str) -> None:
        watch = pod_watch.PodWatch(
            self,  # type: ignore[arg-type]
            on_event=self.take_in,
            on_progress=self.progress.append,
            relist=self.relist,
            sleep=self.sleep,
        )
        running = asyncio.create_task(watch.run(version))
        await asyncio.wait_for(self.over.wait(), timeout=10)
        running.cancel()


def event(kind: str, name: str, version: int) -> Any:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


async def test_events_are_handed_on_in_order_and_a_stream_that_ends_is_gone_on_with() -> None:
    script = Script(
        [event("ADDED", "a", 11), event("MODIFIED", "a", 12)],
        [event("DELETED", "a", 13)],
    )

    await script.play("10")

    assert script.seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert script.asked == ["10", "12", "13"]


async def test_a_bookmark_moves_the_version_and_is_nobodys_event() -> None:
    script = Script([event("BOOKMARK", "", 40)])

    await script.play("10")

    assert script.seen == []
    assert script.progress == ["40"]
    assert script.asked == ["10", "40"]


async def test_without_a_version_a_list_is_taken_in_first() -> None:
    script = Script([event("ADDED", "a", 101)])

    await script.play("")

    assert script.seen == [("LIST", "100"), ("ADDED", "a")]
    assert script.asked == ["100", "101"]


async def test_a_version_that_is_too_old_costs_one_list() -> None:
    script = Script([errors.Expired("410 too old")], [event("ADDED", "b", 101)])

    await script.play("10")

    assert script.seen == [("LIST", "100"), ("ADDED", "b")]
    assert script.asked == ["10", "100", "101"]


async def test_a_broken_connection_is_gone_on_with_where_it_broke() -> None:
    script = Script([event("ADDED", "a", 11), errors.Unreachable("cut")], [event("ADDED", "b", 12)])

    await script.play("10")

    assert script.seen == [("ADDED", "a"), ("ADDED", "b")]
    assert script.asked == ["10", "11", "12"]


@pytest.mark.parametrize(
    "stream", [[], [errors.Expired("410")], [errors.Unreachable("refused")]], ids=str
)
async def test_a_server_that_has_nothing_to_say_is_asked_ever_more_seldom(
    stream: list[Any],
) -> None:
    script = Script(*([list(stream)] * 3), [event("ADDED", "a", 900)], [])

    await script.play("10")

    assert script.slept == [0.1, 0.5, 1.0, 0.1, 0.5]


async def test_an_event_that_breaks_us_costs_no_other() -> None:
    script = Script([event("ADDED", "poison", 11), event("ADDED", "b", 12)])

    await script.play("10")

    assert script.seen == [("ADDED", "b")]


async def test_others_get_their_turn_while_events_pour_in() -> None:
    script = Script([event("MODIFIED", "a", number) for number in range(20_000)])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await script.play("10")
    beside.cancel()

    assert len(script.seen) == 20_000
    assert turns > 3
