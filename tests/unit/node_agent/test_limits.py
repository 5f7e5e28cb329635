from pathlib import Path

import pytest
from structlog.testing import capture_logs

from vgpu_operator.model.device import Device
from vgpu_operator.node_agent import enforcement, limits
from vgpu_operator.node_agent.backend import Holder, Mount, Slice

LOCK = "/tmp/vgpulock"  # noqa: S108  # where the library looks, and nowhere else
HOLDER = Holder(namespace="ml", pod="train-0", uid="6a1f", container="main")


def part(uuid, memory_mib, cores_percent):
    card = Device(
        id=uuid,
        type="NVIDIA A10",
        slots=10,
        memory_mib=24576,
        cores_percent=100,
        healthy=True,
    )
    return Slice(card=card, memory_mib=memory_mib, cores_percent=cores_percent)


def install(folder, preload="/usr/local/vgpu/libvgpu.so\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "libvgpu.so").write_bytes(b"\x7fELF")
    (folder / "ld.so.preload").write_text(preload)
    return folder


def test_one_slice_is_told_as_hamis_plugin_told_it():
    # Recorded: a pod with 3000 MiB and 30 percent of one card, served by HAMi v2.10.0's plugin.
    told = limits.environment(HOLDER, [part("GPU-3", 3000, 30)])

    assert told == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/6a1f_main.cache",
        "LIBCUDA_LOG_LEVEL": "1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-3",
    }


def test_several_slices_keep_the_order_of_the_annotation():
    # Recorded as well: 7000 MiB and 25 percent of each of two cards, card 3 before card 2.
    told = limits.environment(HOLDER, [part("GPU-3", 7000, 25), part("GPU-2", 6000, 25)])

    assert told["CUDA_DEVICE_MEMORY_LIMIT_0"] == "7000m"
    assert told["CUDA_DEVICE_MEMORY_LIMIT_1"] == "6000m"
    assert told["CUDA_DEVICE_SM_LIMIT"] == "25"
    assert told["NVIDIA_VISIBLE_DEVICES"] == "GPU-3,GPU-2"
    assert "CUDA_DEVICE_SM_LIMIT_0" not in told


def test_shares_of_time_that_differ_are_told_card_by_card():
    told = limits.environment(HOLDER, [part("GPU-a", 1000, 25), part("GPU-b", 1000, 60)])

    assert told["CUDA_DEVICE_SM_LIMIT_0"] == "25"
    assert told["CUDA_DEVICE_SM_LIMIT_1"] == "60"


def test_a_card_without_a_limit_beside_one_with_a_limit_does_not_inherit_that_one():
    # The library takes a card's own 0 as "as CUDA_DEVICE_SM_LIMIT says".
    told = limits.environment(HOLDER, [part("GPU-a", 1000, 25), part("GPU-b", 1000, 0)])

    assert told["CUDA_DEVICE_SM_LIMIT"] == "25"
    assert told["CUDA_DEVICE_SM_LIMIT_1"] == "100"


def test_no_limit_on_any_card_is_0_as_hamis_plugin_told_it():
    told = limits.environment(HOLDER, [part("GPU-a", 1000, 0), part("GPU-b", 1000, 0)])

    assert told["CUDA_DEVICE_SM_LIMIT"] == "0"
    assert "CUDA_DEVICE_SM_LIMIT_0" not in told


def test_the_library_is_told_where_more_memory_is_promised_than_there_is():
    told = limits.environment(HOLDER, [part("GPU-a", 1000, 0)], oversubscribed=True)

    assert told["CUDA_OVERSUBSCRIBE"] == "true"


def test_two_containers_of_a_pod_have_caches_of_their_own():
    left, right = (
        Holder(namespace="ml", pod="two", uid="u", container=name) for name in ("left", "right")
    )
    one = [part("GPU-a", 1, 1)]
    key = "CUDA_DEVICE_MEMORY_SHARED_CACHE"

    assert limits.environment(left, one)[key] != limits.environment(right, one)[key]


def test_an_installed_library_is_mounted_with_a_cache_that_any_user_can_write(tmp_path):
    folder = install(tmp_path / "vgpu")
    enforced = enforcement.Enforcement(folder)

    mounts = enforced.mounts(HOLDER, enforced.installed())

    host = str(folder)
    assert set(mounts) == {
        Mount(
            container_path="/usr/local/vgpu",
            host_path=f"{host}/containers/6a1f_main",
            read_only=False,
        ),
        Mount(
            container_path="/usr/local/vgpu/libvgpu.so",
            host_path=f"{host}/libvgpu.so",
            read_only=True,
        ),
        Mount(container_path=LOCK, host_path=f"{host}/vgpulock", read_only=False),
        Mount(
            container_path="/etc/ld.so.preload", host_path=f"{host}/ld.so.preload", read_only=True
        ),
    }
    for mount in mounts:
        assert Path(mount.host_path).exists(), mount
        if not mount.read_only:
            assert Path(mount.host_path).stat().st_mode & 0o777 == 0o777


def test_what_a_container_leaves_in_its_folder_no_user_of_the_host_can_reach(tmp_path):
    (tmp_path / "containers").mkdir(mode=0o755)
    enforced = enforcement.Enforcement(install(tmp_path))

    enforced.mounts(HOLDER, enforced.installed())

    assert (tmp_path / "containers").stat().st_mode & 0o7777 == 0o700


def test_a_lock_that_another_user_left_can_be_removed(tmp_path):
    """The library does so once it has waited long; a sticky bit would forbid it."""
    enforced = enforcement.Enforcement(install(tmp_path))

    enforced.mounts(HOLDER, enforced.installed())

    assert (tmp_path / "vgpulock").stat().st_mode & 0o7777 == 0o777


def test_the_folder_is_mounted_before_the_library_in_it(tmp_path):
    enforced = enforcement.Enforcement(install(tmp_path))

    places = [mount.container_path for mount in enforced.mounts(HOLDER, enforced.installed())]

    assert places.index("/usr/local/vgpu") < places.index("/usr/local/vgpu/libvgpu.so")


def test_the_library_is_mounted_where_the_preload_file_names_it(tmp_path):
    found = enforcement.find(install(tmp_path, "/opt/hami/vgpu/libvgpu.so"))

    assert found.container_library == "/opt/hami/vgpu/libvgpu.so"
    assert found.container_folder == "/opt/hami/vgpu"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(
            lambda folder: (folder / "libvgpu.so").unlink(),
            "libvgpu.so is not there: install",
            id="no library",
        ),
        pytest.param(
            lambda folder: (folder / "ld.so.preload").unlink(),
            "ld.so.preload cannot be read",
            id="no preload file",
        ),
        pytest.param(
            lambda folder: (folder / "ld.so.preload").write_text("/lib/other.so"),
            "ld.so.preload names no libvgpu.so",
            id="another library",
        ),
        pytest.param(
            lambda folder: (folder / "ld.so.preload").write_text("libvgpu.so"),
            "ld.so.preload names no libvgpu.so",
            id="no path",
        ),
        pytest.param(
            lambda folder: (folder / "ld.so.preload").write_bytes(b"\xff\xfe"),
            "ld.so.preload cannot be read",
            id="no text",
        ),
    ],
)
def test_half_an_installation_is_none_and_says_what_is_missing(tmp_path, spoil, says):
    folder = install(tmp_path)
    spoil(folder)

    with pytest.raises(enforcement.NotInstalledError, match=says):
        enforcement.find(folder)


def test_that_limits_are_not_enforced_is_said_once_and_again_when_they_are(tmp_path):
    enforced = enforcement.Enforcement(tmp_path)

    with capture_logs() as logged:
        assert enforced.installed() is None
        assert enforced.installed() is None
        install(tmp_path)
        assert enforced.installed() is not None
        assert enforced.installed() is not None

    assert [(entry["log_level"], entry["event"]) for entry in logged] == [
        ("warning", "limits are not enforced: containers only see them"),
        ("info", "limits are enforced from now on"),
    ]
