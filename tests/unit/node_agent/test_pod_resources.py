"""Asking the kubelet who holds what: it turns those away who come early, or too many at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from support import fake_kubelet
from vgpu_operator.node_agent import pod_resources, start_check

HELD = (
    start_check.Held(
        namespace="default", pod="p1", container="c0", ids=frozenset({"GPU-a-0", "GPU-b-3"})
    ),
)


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[fake_kubelet.FakeKubelet]:
    async with fake_kubelet.running(folder) as made:
        made.hold("p1", "c0", ("GPU-a-0", "GPU-b-3"))
        yield made


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_resources, "FIRST_PAUSE_S", 0.01)


def lister(folder: Path) -> pod_resources.Lister:
    return pod_resources.Lister(folder / "pods.sock", resource="nvidia.com/gpu")


@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE])
async def test_a_kubelet_that_turns_us_away_is_asked_again(
    kubelet: fake_kubelet.FakeKubelet, folder: Path, code: grpc.StatusCode
):
    kubelet.turns_away, kubelet.turned_away_as = 3, code

    assert await lister(folder).held() == HELD
    assert kubelet.asked == 4


async def test_one_that_always_does_is_told_of_with_its_words(
    kubelet: fake_kubelet.FakeKubelet, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pod_resources, "PATIENCE_S", 0.1)
    kubelet.turns_away = 1000

    with pytest.raises(pod_resources.UnknownError, match=r"pods\.sock .* rejected by rate limit"):
        await lister(folder).held()


async def test_any_other_error_is_told_at_once(kubelet: fake_kubelet.FakeKubelet, folder: Path):
    kubelet.turns_away, kubelet.turned_away_as = 1, grpc.StatusCode.UNIMPLEMENTED

    with pytest.raises(pod_resources.UnknownError, match="rejected by rate limit"):
        await lister(folder).held()
    assert kubelet.asked == 1


async def test_a_kubelet_that_is_not_there_yet_is_waited_for(folder: Path):
    asking = asyncio.ensure_future(lister(folder).held())
    async with fake_kubelet.running(folder) as kubelet:
        assert await asking == ()
        assert kubelet.asked == 1


async def test_all_who_wait_at_the_same_time_share_one_question(
    kubelet: fake_kubelet.FakeKubelet, folder: Path
):
    asked = lister(folder)

    answers = await asyncio.gather(*(asked.held() for _ in range(30)))

    assert answers == [HELD] * 30
    assert kubelet.asked == 1


async def test_who_comes_while_the_kubelet_is_asked_gets_a_newer_answer(
    kubelet: fake_kubelet.FakeKubelet, folder: Path
):
    """What it says now may have been so before that container had its devices."""
    asked = lister(folder)
    kubelet.turns_away = 1
    first = asyncio.ensure_future(asked.held())
    while not kubelet.asked:  # noqa: ASYNC110  # the kubelet tells nobody that it was asked
        await asyncio.sleep(0.001)
    later = asyncio.ensure_future(asked.held())

    assert await first == await later == HELD
    assert kubelet.asked == 3


async def test_who_gives_up_takes_nobody_s_answer_away(
    kubelet: fake_kubelet.FakeKubelet, folder: Path
):
    asked = lister(folder)
    kubelet.turns_away = 1
    impatient, patient = (asyncio.ensure_future(asked.held()) for _ in range(2))
    while not kubelet.asked:  # noqa: ASYNC110  # the kubelet tells nobody that it was asked
        await asyncio.sleep(0.001)
    impatient.cancel()

    assert await patient == HELD
