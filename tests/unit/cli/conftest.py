import pytest

from support import cli_cluster


@pytest.fixture
def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> cli_cluster.CommandLine:
    monkeypatch.delenv("VGPU_TRACEBACK", raising=False)
    return cli_cluster.CommandLine(cli_cluster.cluster(), monkeypatch, capsys)
