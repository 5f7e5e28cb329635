import threading
from pathlib import Path

import pytest

from vgpu_operator.cli.cluster import cache
from vgpu_operator.cli.cluster.errors import Aborted


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {"VGPU_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"},
            "/own",
            id="its own variable first",
        ),
        pytest.param(
            {"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/vgpu-operator", id="then XDG"
        ),
        pytest.param(
            {"XDG_CACHE_HOME": "relative", "HOME": "/home/me"},
            "/home/me/.cache/vgpu-operator",
            id="a relative XDG folder is ignored",
        ),
        pytest.param({"HOME": "/home/me"}, "/home/me/.cache/vgpu-operator", id="else the home"),
    ],
)
def test_cache_folder_is_taken_from(environment: dict[str, str], expected: str) -> None:
    assert cache.cache_directory(environment) == Path(expected)


def test_second_holder_waits_and_says_so(tmp_path: Path) -> None:
    lines: list[str] = []
    waiting = threading.Event()
    entered = threading.Event()

    def report(line: str) -> None:
        lines.append(line)
        waiting.set()

    def second_holder() -> None:
        with cache.exclusive(tmp_path, report=report, abort=threading.Event()):
            entered.set()

    second = threading.Thread(target=second_holder)
    with cache.exclusive(tmp_path, report=report, abort=threading.Event()):
        second.start()
        assert waiting.wait(10)
        assert not entered.is_set()
    second.join(10)

    assert entered.is_set()
    assert "another process is building" in lines[0]


def test_waiting_can_be_aborted(tmp_path: Path) -> None:
    abort = threading.Event()
    with (
        cache.exclusive(tmp_path, report=lambda _line: None, abort=threading.Event()),
        pytest.raises(Aborted),
        cache.exclusive(tmp_path, report=lambda _line: abort.set(), abort=abort),
    ):
        pass
