"""The NVML back end with NVIDIA's own bindings, against a stand-in of the library that they load.

There is no card behind it: what the real library answers where its documentation is
silent, this cannot show.
"""

import pytest

from support.nvml_stand_in import stand_in
from vgpu_operator.model.device import Device
from vgpu_operator.model.errors import SettingsError
from vgpu_operator.node_agent.backend import Holder, Slice
from vgpu_operator.node_agent.backends.nvml import NvmlBackend
from vgpu_operator.node_agent.enforcement import Enforcement
from vgpu_operator.node_agent.nvml_cards import Options

A10 = "card uuid=GPU-a;name=NVIDIA A10;memory_mib=24576;numa=1;recovery=0"
T4 = "card uuid=GPU-b;name=Tesla T4;memory_mib=16384;recovery=0"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return stand_in.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def play(library, tmp_path):
    started = []

    def it(*lines, **options):
        started.append(stand_in.Played(library, tmp_path, lines, **options))
        return started[-1]

    yield it
    for each in started:
        each.stop()


def test_cards_are_found_and_nothing_runs_on_after_the_end(play):
    played = play(A10, T4)

    assert played.next() == {
        "cards": [
            {
                "id": "GPU-a",
                "index": 0,
                "type": "NVIDIA A10",
                "slots": 10,
                "memory_mib": 24576,
                "cores_percent": 100,
                "numa": 1,
                "mode": "hami-core",
                "healthy": True,
            },
            {
                "id": "GPU-b",
                "index": 1,
                "type": "NVIDIA-Tesla T4",
                "slots": 10,
                "memory_mib": 16384,
                "cores_percent": 100,
                "numa": 0,
                "mode": "hami-core",
                "healthy": True,
            },
        ]
    }
    assert played.end() == ([], [])


def test_a_numa_node_beyond_the_first_word_is_found(play):
    (card,) = play(A10.replace("numa=1", "numa=130")).next()["cards"]

    assert card["numa"] == 130


def test_a_fault_of_a_program_leaves_its_card_healthy(play):
    played = play(A10)
    played.until_health(GPU_a=True)

    played.fault("GPU-a", 31)
    played.until_logged("'xid': 31")
    played.put(A10, T4)

    # Told in this order: had the fault counted, card a would be unhealthy here.
    played.until_health(GPU_a=True, GPU_b=True)
    assert {"event": "XID", "card": "GPU-a", "xid": 31, "counts": False, "level": "warning"} in (
        played.logged
    )


def test_a_card_that_falls_off_the_bus_stays_and_comes_back(play):
    played = play(A10, T4)
    played.until_health(GPU_a=True, GPU_b=True)

    played.put(A10, f"{T4};state=15")
    played.until_health(GPU_a=True, GPU_b=False)
    played.put(A10, T4)
    played.until_health(GPU_a=True, GPU_b=True)

    _, logged = played.end()
    assert [(entry["event"], entry["card"]) for entry in logged] == [
        ("a card cannot be used", "GPU-b"),
        ("a card can be used again", "GPU-b"),
    ]
    assert logged[0]["why"] == "it cannot be reached: GPU is lost"


def test_a_card_with_a_fault_stays_unhealthy_until_the_driver_wants_nothing_done(play):
    played = play(A10, T4, trust_after_s=0.0)
    played.until_health(GPU_a=True, GPU_b=True)

    played.put(A10, T4.replace("recovery=0", "recovery=1"))
    played.fault("GPU-b", 48)
    played.until_health(GPU_a=True, GPU_b=False)
    played.until_logged("the driver asks to reset the card")
    played.put(A10, T4)
    played.until_health(GPU_a=True, GPU_b=True)


def test_a_fault_with_an_old_driver_lasts_and_one_of_no_card_is_everybodys(play):
    no_word = [line.replace(";recovery=0", "") for line in (A10, T4)]
    played = play(*no_word, trust_after_s=0.0)
    played.until_health(GPU_a=True, GPU_b=True)

    played.fault("GPU-a", 79)
    played.until_health(GPU_a=False, GPU_b=True)
    # Card b is looked at many times; what comes of card a shows in the news of its fault.
    played.fault("GPU-nobodys", 79)
    played.until_health(GPU_a=False, GPU_b=False)


def test_events_that_end_are_asked_for_again(play):
    played = play(A10)
    played.until_health(GPU_a=True)

    played.fault("error", 15)
    played.until_logged("NVML is opened again")
    played.put(A10.replace(";recovery=0", ""))
    played.fault("GPU-a", 79)

    played.until_health(GPU_a=False)


def test_cards_are_used_and_looked_at_where_nvml_tells_of_no_events(play):
    played = play(A10, T4, "events error=3")
    played.until_health(GPU_a=True, GPU_b=True)

    played.put(A10, T4.replace("recovery=0", "recovery=1"), "events error=3")
    played.until_health(GPU_a=True, GPU_b=False)
    played.put(A10, T4, "events error=3")
    played.until_health(GPU_a=True, GPU_b=True)

    _, logged = played.end()
    assert [entry["event"] for entry in logged] == [
        "NVML tells of no faults: the cards are only looked at",
        "a card cannot be used",
        "a card can be used again",
    ]


def test_events_that_begin_later_are_heard(play):
    played = play(A10.replace(";recovery=0", ""), "events error=3")
    played.until_health(GPU_a=True)

    played.put(A10.replace(";recovery=0", ""))
    played.until_logged("NVML tells of faults from now on")
    played.fault("GPU-a", 79)

    played.until_health(GPU_a=False)


def test_waits_that_break_off_again_and_again_are_told_once(play):
    played = play(A10)
    played.until_health(GPU_a=True)

    for _ in range(3):
        played.fault("error", 999)
    played.fault("GPU-a", 48)
    played.until_health(GPU_a=False)

    _, logged = played.end()
    assert [entry["event"] for entry in logged].count("NVML is opened again") == 1


def test_a_card_that_cannot_be_understood_leaves_none_healthy_and_is_told_of(play):
    played = play(A10)
    played.until_health(GPU_a=True)

    played.put(A10, "card uuid=GPU-c;name=\udcff;memory_mib=1000")
    played.until_health(GPU_a=False)
    played.until_logged("UnicodeDecodeError")
    played.put(A10)

    played.until_health(GPU_a=True)


def test_cards_that_could_never_be_understood_are_told_of_instead_of_waited_for(play):
    played = play("card uuid=GPU-c;name=\udcff;memory_mib=1000")

    assert "the cards cannot be understood (UnicodeDecodeError" in played.next()["error"]


def test_an_end_does_not_wait_for_a_driver_that_hangs(play, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    played = play(A10, f"gate file={gate}")

    left, logged = played.end()

    assert left == ["nvml"]
    assert [entry["event"] for entry in logged] == ["NVML does not answer: ended without it"]


@pytest.mark.parametrize("factor", [float("inf"), float("nan"), 0.0, -1.0, 1000.1])
def test_a_factor_that_gives_no_amount_of_memory_is_refused(factor):
    with pytest.raises(SettingsError, match=r"--memory-scaling .* cannot be used: give a number"):
        Options(memory_scaling=factor)


def test_mig_mode_is_seen_and_served_by_nobody(play):
    played = play(
        T4,
        "card uuid=GPU-m;name=NVIDIA A100-SXM4-40GB;memory_mib=40960;mig_room=7;mig=1",
        "card uuid=GPU-n;name=NVIDIA A100-SXM4-40GB;memory_mib=40960;mig_room=7;mig=0",
        "instance card=GPU-m;uuid=MIG-x;name=NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "instance card=GPU-m;uuid=MIG-y;name=NVIDIA A100-SXM4-40GB MIG 3g.20gb",
    )

    cards = {card["id"]: card for card in played.next()["cards"]}

    assert (cards["GPU-m"]["mode"], cards["GPU-m"]["healthy"], cards["GPU-m"]["slots"]) == (
        *("mig", False, 7),
    )
    assert (cards["GPU-n"]["mode"], cards["GPU-n"]["healthy"]) == ("hami-core", True)
    _, (logged,) = played.end()
    assert "instances: 1g.5gb MIG-x, 3g.20gb MIG-y" in logged["why"]


def test_shared_memory_is_as_the_option_says(play):
    bare = "card uuid=GPU-g;name=NVIDIA GB10"
    played = play(bare, T4, memory_where_untold_mib=100_000)

    assert [card["memory_mib"] for card in played.next()["cards"]] == [100_000, 16384]


def test_a_card_that_reports_no_faults_is_used_and_it_is_said(play):
    played = play(f"{A10};events=0")

    played.until_health(GPU_a=True)

    _, (logged,) = played.end()
    assert logged["event"] == "a card reports no faults: it is only looked at"


def test_a_machine_without_nvml_is_told_what_to_do(play, tmp_path):
    (tmp_path / "empty").mkdir()
    played = stand_in.Played(tmp_path / "empty", tmp_path / "empty", [A10])
    try:
        said = played.next()["error"]
        if "libnvidia-ml.so.1 is not there" not in said:
            pytest.skip("this machine has an NVML of its own")
        assert "runtimeClassName nvidia" in said
    finally:
        played.stop()


def test_a_driver_that_is_not_loaded_yet_is_told_of_and_waited_for(play):
    played = play("init error=9")
    assert "kernel module is not loaded" in played.next()["error"]

    played.put(A10)

    played.until_health(GPU_a=True)


def test_cards_stay_and_are_unhealthy_while_the_driver_is_gone(play):
    played = play(A10)
    played.until_health(GPU_a=True)

    played.put(A10, "counting error=18")
    played.until_health(GPU_a=False)
    played.until_logged("reboot the node")
    played.put(A10)
    played.until_health(GPU_a=True)


def test_a_call_that_hangs_does_not_hold_up_the_event_loop(play, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    played = play(A10, f"gate file={gate}")

    played.say("tick")
    assert played.next() == {"tick": True}

    gate.unlink()  # until now NVML was counting cards
    played.until_health(GPU_a=True)


def grant(folder, **options):
    card = Device(
        id="GPU-a", type="NVIDIA A10", slots=10, memory_mib=24576, cores_percent=100, healthy=True
    )
    backend = NvmlBackend(Options(**options), enforced=Enforcement(folder))
    holder = Holder(namespace="ml", pod="p", uid="u", container="main")
    return backend.grant(holder, (Slice(card=card, memory_mib=3000, cores_percent=30),))


def test_without_the_enforcement_library_a_container_gets_the_environment_alone(tmp_path):
    given = grant(tmp_path)

    assert given.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"
    assert given.mounts == ()


def test_the_cache_of_the_enforcement_library_is_in_the_folder_that_is_mounted_for_it(tmp_path):
    (tmp_path / "libvgpu.so").write_bytes(b"\x7fELF")
    (tmp_path / "ld.so.preload").write_text("/opt/vgpu/libvgpu.so")

    given = grant(tmp_path)

    assert given.envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == "/opt/vgpu/u_main.cache"
    assert {mount.container_path: mount.host_path for mount in given.mounts}["/opt/vgpu"] == (
        f"{tmp_path}/containers/u_main"
    )


def test_scaled_memory_is_told_to_the_enforcement_library(tmp_path):
    assert "CUDA_OVERSUBSCRIBE" not in grant(tmp_path, memory_scaling=1.0).envs
    assert grant(tmp_path, memory_scaling=1.5).envs["CUDA_OVERSUBSCRIBE"] == "true"
