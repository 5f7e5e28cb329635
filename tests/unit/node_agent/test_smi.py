import shutil
import subprocess

import pytest

from support import missing_tools
from vgpu_operator.model.device import Device
from vgpu_operator.node_agent import limits, smi
from vgpu_operator.node_agent.backend import Holder, Mount, Slice

HOLDER = Holder(namespace="ml", pod="p", uid="u", container="main")


def part(uuid, model, memory_mib, cores_percent=30):
    card = Device(id=uuid, type=model, slots=10, memory_mib=24576, cores_percent=100, healthy=True)
    return Slice(card=card, memory_mib=memory_mib, cores_percent=cores_percent)


ONE = [part("GPU-a", "NVIDIA A10", 3000)]
TWO = [part("GPU-a", "NVIDIA A10", 3000), part("GPU-b", "NVIDIA-Tesla T4", 16384)]
ALL_FIELDS = "index,uuid,name,memory.total,memory.used,utilization.gpu"


@pytest.fixture(params=["dash", "busybox sh"])
def shell(request):
    program, *rest = request.param.split()
    found = shutil.which(program)
    if found is None:
        missing_tools.skip_or_fail(f"no {program}: apt-get install {program}")
    return [found, *rest]


@pytest.fixture
def script(tmp_path):
    smi.install(tmp_path)
    return tmp_path / "nvidia-smi"


@pytest.fixture
def run(shell, script):
    def it(slices, *options, **more):
        # No PATH: an image may have no other program than its shell.
        told = limits.environment(HOLDER, slices) | smi.environment(slices) if slices else {}
        return subprocess.run(
            [*shell, script, *options],
            env=told | {"PATH": "/nowhere"} | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return it


def test_the_query_shows_the_slice_and_not_the_card(run):
    told = run(TWO, f"--query-gpu={ALL_FIELDS}", "--format=csv")

    # The headings and spaces are nvidia-smi's own.
    assert told.stdout.splitlines() == [
        "index, uuid, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]",
        "0, GPU-a, NVIDIA A10, 3000 MiB, 0 MiB, 0 %",
        "1, GPU-b, NVIDIA-Tesla T4, 16384 MiB, 0 MiB, 0 %",
    ]
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        pytest.param("csv,noheader", ["0, 3000 MiB"], id="noheader"),
        pytest.param("csv,nounits", ["index, memory.total", "0, 3000"], id="nounits"),
        pytest.param("csv,noheader,nounits", ["0, 3000"], id="both"),
        pytest.param("csv, nounits, noheader", ["0, 3000"], id="both, with spaces"),
    ],
)
def test_headings_and_units_can_be_left_out(run, form, lines):
    told = run(ONE, "--query-gpu=index, memory.total", f"--format={form}")

    assert told.stdout.splitlines() == lines


def test_the_list_has_a_line_a_card(run):
    assert run(TWO, "-L").stdout.splitlines() == [
        "GPU 0: NVIDIA A10 (UUID: GPU-a)",
        "GPU 1: NVIDIA-Tesla T4 (UUID: GPU-b)",
    ]


def test_a_cards_name_is_shown_as_it_is(run):
    model = "A;10 \\n \\c $HOME `x` %s"
    slices = [part("GPU-a", model, 3000), part("GPU-b", "NVIDIA A10", 3000)]

    listed = run(slices, "-L").stdout.splitlines()
    queried = run(slices, "--query-gpu=name", "--format=csv,noheader").stdout.splitlines()
    table = run(slices).stdout.splitlines()

    assert listed == [f"GPU 0: {model} (UUID: GPU-a)", "GPU 1: NVIDIA A10 (UUID: GPU-b)"]
    assert queried == [model, "NVIDIA A10"]
    assert f"|   0  {model:<32} |" in table[5]


def test_the_table_shows_memory_and_share_of_each_card_and_that_it_is_a_stand_in(run):
    lines = run(TWO).stdout.splitlines()

    assert len({len(line) for line in lines}) == 1, "the table has a straight edge"
    assert "stand-in" in lines[1]
    assert " ".join(lines[5].split()) == "| 0 NVIDIA A10 | 0MiB / 3000MiB | 30 % |"
    assert "16384MiB" in lines[6]


def test_a_share_of_time_of_its_own_is_shown_for_each_card(run):
    lines = run([part("GPU-a", "A", 1, 25), part("GPU-b", "B", 1, 0)]).stdout.splitlines()

    assert lines[5].endswith("25 % |")
    assert lines[6].endswith("100 % |")


def test_no_share_of_time_is_shown_as_none(run):
    assert run([part("GPU-a", "A", 1, 0)]).stdout.splitlines()[5].endswith("none |")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("512m", "512 MiB"),
        ("2g", "2048 MiB"),
        ("2097152k", "2048 MiB"),
        ("1073741824", "1024 MiB"),
        ("0m", "[N/A]"),
        ("much", "[N/A]"),
        ("", "[N/A]"),
    ],
)
def test_a_limit_is_read_in_every_unit_that_the_library_reads(run, text, shown):
    told = run(
        ONE,
        "--query-gpu=memory.total",
        "--format=csv,noheader",
        CUDA_DEVICE_MEMORY_LIMIT_0=text,
    )

    assert told.stdout.strip() == shown


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-q"], "'-q' is not known here"),
        (["--query-gpu=power.draw", "--format=csv"], "the field 'power.draw' is not known here"),
        (["--query-gpu=index", "--format=xml"], "the format 'xml' is not known here"),
        (["--query-gpu=index"], "--query-gpu needs --format=csv"),
        (["--format=csv"], "--format needs --query-gpu"),
    ],
)
def test_what_it_does_not_know_it_refuses_in_a_sentence(run, options, says):
    told = run(ONE, *options)

    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.startswith("nvidia-smi (stand-in): ")
    assert says in told.stderr
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize("visible", [None, "", "none", "void"])
def test_a_container_without_cards_sees_none(run, visible):
    told = run([], **({} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}))

    assert (told.returncode, told.stdout) == (6, "No devices were found\n")


def test_help_says_that_it_is_a_stand_in_and_what_it_can(run):
    told = run(ONE, "--help")

    assert told.returncode == 0
    assert "stand-in" in told.stdout
    assert "--query-gpu" in told.stdout


def test_the_script_can_be_run_by_every_user_and_is_not_written_twice(tmp_path):
    smi.install(tmp_path)
    before = (tmp_path / "nvidia-smi").stat()

    smi.install(tmp_path)

    assert (tmp_path / "nvidia-smi").stat().st_ino == before.st_ino
    assert before.st_mode & 0o777 == 0o755
    assert [file.name for file in tmp_path.iterdir()] == ["nvidia-smi"]


def test_a_new_version_takes_the_old_ones_name_and_leaves_its_file_alone(tmp_path):
    old = tmp_path / "nvidia-smi"
    old.write_text("old")
    with old.open() as mounted:
        smi.install(tmp_path)

        assert mounted.read() == "old"
    assert old.read_text() != "old"


def test_it_is_mounted_where_nvidias_own_is(tmp_path):
    assert smi.mount(tmp_path) == Mount(
        container_path="/usr/bin/nvidia-smi",
        host_path=f"{tmp_path}/nvidia-smi",
        read_only=True,
    )
