"""``vgpu demo --real-node``: the whole chain, as somebody sees it who tries it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.apiserver

OPERATOR_ROOT = Path(__file__).parents[2] / "operator"
LIMIT_S = 300.0


@pytest.fixture(scope="module")
def told(containers_can_run: None, control_plane_program: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo once, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "vgpu_operator", "demo", "--real-node"],
        env=os.environ | {"PYTHONPATH": str(OPERATOR_ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def printed_by(who: str, told: str) -> dict[str, str]:
    """Return the variables that the demo shows of one container."""
    lines = told.split(f"{who} prints:\n", 1)[1].splitlines()
    pairs = [line.strip().partition("=") for line in lines]
    shown = {}
    for name, sign, value in pairs:
        if not sign:
            break
        shown[name] = value
    return shown


def test_everything_goes_as_the_story_expects(told: subprocess.CompletedProcess[str]) -> None:
    assert told.returncode == 0, told.stdout + told.stderr
    assert "FAIL" not in told.stdout
    assert "Everything went as expected" in told.stdout


def test_each_containers_limits_are_shown_as_it_printed_them(
    told: subprocess.CompletedProcess[str],
) -> None:
    first, second = printed_by("notebook", told.stdout), printed_by("inference", told.stdout)

    assert (first["CUDA_DEVICE_MEMORY_LIMIT_0"], first["CUDA_DEVICE_SM_LIMIT"]) == ("12000m", "30")
    assert (second["CUDA_DEVICE_MEMORY_LIMIT_0"], second["CUDA_DEVICE_SM_LIMIT"]) == (
        "10000m",
        "50",
    )
    assert first["NVIDIA_VISIBLE_DEVICES"] == second["NVIDIA_VISIBLE_DEVICES"]


def test_two_containers_of_one_pod_have_two_slices(told: subprocess.CompletedProcess[str]) -> None:
    limits = [
        printed_by(f"pipeline, container {name},", told.stdout)["CUDA_DEVICE_MEMORY_LIMIT_0"]
        for name in ("prepare", "train")
    ]

    assert limits == ["1000m", "2000m"]


def test_the_stand_in_shows_the_slice_and_not_the_card(
    told: subprocess.CompletedProcess[str],
) -> None:
    tables = re.findall(r"NVIDIA A10 .*0MiB / +(\d+)MiB", told.stdout)

    assert tables[:4] == ["12000", "10000", "1000", "2000"]


def test_nothing_of_it_runs_on(told: subprocess.CompletedProcess[str]) -> None:
    running = [
        file.read_bytes()
        for file in Path("/proc").glob("[0-9]*/cmdline")
        if file.exists()  # It may have ended meanwhile.
    ]

    assert not [line for line in running if b"vgpu-demo-real" in line]
