"""How ``vgpu demo`` ends by a signal: with nothing left behind."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from vgpu_operator.cli import errors
from vgpu_operator.cli.cluster import sources
from vgpu_operator.cli.demo import command

CLUSTER = sources.Cluster(kubeconfig=Path("/somewhere"), context="c", server_url="https://x")


def test_sigterm_removes_what_was_made_and_is_exit_143(tmp_path: Path) -> None:
    made: list[Path] = []

    async def work() -> int:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            made.append(Path(folder))
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        return 0

    code = asyncio.run(command._until_terminated(work()))

    assert code == errors.TERMINATED == 143
    assert not made[0].exists()


def test_a_second_sigterm_does_not_break_off_the_removal() -> None:
    removed: list[bool] = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(3):  # turns of the loop, in which the second signal comes
                await asyncio.sleep(0)
            removed.append(True)
        return 0

    asyncio.run(command._until_terminated(work()))

    assert removed == [True]


def test_keep_ends_by_sigterm_as_the_demo_went(capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> int:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        await command._keep(CLUSTER, command.Where.LOCAL)
        return 0

    assert asyncio.run(command._until_terminated(work())) == 0
    assert "export KUBECONFIG=/somewhere" in capsys.readouterr().out
