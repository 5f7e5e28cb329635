"""The agent's socket and the kubelet's: who comes first, who is restarted, who is in the way."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import agent_world, node_agent_world
from support.node_agent_world import World, entry, until
from vgpu_operator.model import errors
from vgpu_operator.node_agent import channels, plugin_socket

SOCKET = "vgpu-nvidia.com_gpu.sock"


async def test_an_agent_that_comes_first_waits_for_the_kubelet(folder: Path):
    async with node_agent_world.world(folder, kubelet=False) as world:
        await world.start()
        await world.kube.until(lambda: agent_world.REGISTER in world.node_notes)

        await world.kubelet.start()

        await world.kubelet.until_listed(healthy=8)


async def test_a_kubelet_that_was_restarted_gets_the_devices_again(world: World):
    """Must hold 2: it has removed every socket of its folder, ours too."""
    await world.start_and_register()
    world.bind("p1", entry(0) + ";")
    await world.kubelet.admit("p1")

    await world.kubelet.stop()
    await world.kubelet.start()

    await world.kubelet.until_listed(healthy=8)
    assert len(world.kubelet.registrations) == 2
    await world.kubelet.start_container("p1")
    world.bind("p2", entry(1) + ";")
    await world.kubelet.admit("p2")
    assert world.phase("p2") == "success"


async def test_a_new_kubelet_that_left_our_socket_there_is_told_of_us_too(world: World):
    await world.start_and_register()

    await world.kubelet.stop()
    await world.kubelet.start(sweeps=False)

    await world.kubelet.until_listed(healthy=8)
    assert len(world.kubelet.registrations) == 2


async def test_a_pod_that_was_half_served_before_the_kubelet_s_restart_is_failed(world: World):
    """Must hold 2, 5: the kubelet begins again; the second's slice is not the first's."""
    await world.start_and_register()
    world.bind("p1", entry(0, 1111) + ";" + entry(1, 2222) + ";", asks=(1, 1))
    await world.kubelet.admit("p1", "c0")
    await world.kubelet.stop()
    await world.kubelet.start()
    await world.kubelet.until_listed(healthy=8)

    with pytest.raises(Exception, match="half served when kubelet or agent were restarted"):
        await world.kubelet.admit("p1", "c0")

    assert (world.phase("p1"), world.lock_text) == ("failed", None)


async def test_an_agent_that_was_restarted_registers_again(world: World):
    await world.start_and_register()
    await world.stop()
    await world.kubelet.until(lambda: world.kubelet.healthy == 0)

    await world.start_and_register()

    await world.kubelet.until_listed(healthy=8)


async def test_a_socket_that_somebody_removed_is_made_again(world: World):
    await world.start_and_register()

    (world.folder / SOCKET).unlink()

    await world.kubelet.until(lambda: len(world.kubelet.registrations) == 2)
    await world.kubelet.until_listed(healthy=8)


async def test_a_refused_registration_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(plugin_socket, "FIRST_PAUSE_S", 0.01)
    world.kubelet.refuses = "the kubelet is not ready yet"
    await world.start()
    await until(lambda: "the kubelet is not ready yet" in capsys.readouterr().out)

    world.kubelet.refuses = ""

    await world.kubelet.until_listed(healthy=8)


async def test_a_kubelet_that_does_not_ask_for_the_devices_is_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plugin_socket, "FOLLOW_S", 0.0)
    await world.start_and_register()

    await world.kubelet.turn_away()

    await world.kubelet.until(lambda: len(world.kubelet.registrations) == 2)


async def test_a_socket_that_a_killed_agent_left_is_replaced(world: World):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(world.folder / SOCKET))

    await world.start_and_register()

    await world.kubelet.until_listed(healthy=8)


async def test_two_agents_for_one_resource_are_too_many(world: World):
    await world.start_and_register()
    other = World(world.folder)
    other.cards = world.cards

    await other.start()

    with pytest.raises(errors.SettingsError, match=r"another agent serves nvidia\.com/gpu"):
        await other.finish()


async def test_the_socket_goes_with_the_agent(world: World):
    await world.start_and_register()

    await world.stop()

    assert not (world.folder / SOCKET).exists()


def test_a_folder_whose_name_is_too_long_for_sockets_is_named(tmp_path: Path):
    with pytest.raises(errors.SettingsError, match="choose a folder with a shorter name"):
        channels.address(tmp_path / ("x" * 100) / SOCKET)


async def test_devices_that_fall_ill_are_told_to_the_kubelet(world: World):
    """Must hold 3: its allocatable falls by the card's slots, and rises again."""
    await world.start_and_register()

    world.cards.write_text("{cards: 2, slots: 4, failures: {unhealthy: [GPU-node-1-1]}}")
    await world.kubelet.until_listed(healthy=4)
    assert world.kubelet.devices["GPU-node-1-1-0"] == "Unhealthy"
    assert world.kubelet.devices["GPU-node-1-0-0"] == "Healthy"

    world.cards.write_text("{cards: 2, slots: 4}")
    await world.kubelet.until_listed(healthy=8)


async def test_the_first_card_falls_ill_when_it_was_told_to(world: World):
    await world.start(unhealthy_after_s=0.05)

    await world.kubelet.until_listed(healthy=4)

    assert world.kubelet.devices["GPU-node-1-0-0"] == "Unhealthy"
    await world.kube.until(lambda: len(world.events()) == 1)


async def test_an_agent_without_a_node_s_name_says_which_option_it_needs(world: World):
    with pytest.raises(errors.SettingsError, match="--node or in the variable NODE_NAME"):
        await world.start_as(node="")


async def test_an_agent_without_a_kubelet_s_folder_says_which_option_it_needs(world: World):
    with pytest.raises(errors.SettingsError, match=r"is no folder: .* with --kubelet-dir"):
        await world.start_as(kubelet_dir=world.folder / "elsewhere")


async def test_an_agent_without_cards_says_how_to_describe_them(world: World):
    with pytest.raises(errors.SettingsError, match=r"with --cards; .* it says: cards: 2"):
        await world.start_as(cards=None)


async def test_cards_that_no_lock_hands_out_are_refused(world: World):
    world.cards.write_text("{cards: 2, vendor: GCU}")

    with pytest.raises(errors.SettingsError, match="GCU cards are not handed out by the node lock"):
        await world.start_as()


async def test_another_resource_is_counted_where_it_is_named(world: World):
    await world.start_as(resource="example.com/gpu")

    await world.kubelet.until_listed(healthy=8)

    assert world.kubelet.registrations[0].resource_name == "example.com/gpu"


def test_rights_and_owner_of_a_socket_make_no_other_of_it(tmp_path: Path):
    """As a relabelled ``kubelet.sock``: the kubelet behind it is the same, and waits for us."""
    place = tmp_path / "kubelet.sock"
    with _listening(place):
        known = plugin_socket._identity(place)
        place.chmod(0o600)
        assert plugin_socket._identity(place) == known
    place.unlink()
    with _listening(place):
        assert plugin_socket._identity(place) != known, "its number may be used again"


@contextlib.contextmanager
def _listening(place: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        yield


# The file that a probe looks at.


async def test_it_is_there_while_the_kubelet_follows_the_devices(world: World):
    ready = world.folder / "ready"
    ready.touch()  # left by an agent that was killed
    await world.start()
    world.agent.socket.show_in(ready)
    assert not ready.exists()

    await until(ready.exists)
    assert world.kubelet.healthy == 8

    await world.kubelet.stop()
    await until(lambda: not ready.exists())
    await world.kubelet.start()
    await until(ready.exists)
    await world.stop()
    assert not ready.exists()


async def test_it_is_not_there_while_the_kubelet_refuses_the_registration(world: World):
    ready = world.folder / "ready"
    world.kubelet.refuses = "not now"
    await world.start()
    world.agent.socket.show_in(ready)
    await until(world.agent.socket.path.exists)

    assert not ready.exists()
    world.kubelet.refuses = ""
    await until(ready.exists)


async def test_a_file_that_cannot_be_made_is_refused_in_a_sentence(world: World):
    await world.start()

    with pytest.raises(errors.SettingsError, match=r"--ready-file .*/none/ready cannot be made"):
        world.agent.socket.show_in(world.folder / "none" / "ready")
