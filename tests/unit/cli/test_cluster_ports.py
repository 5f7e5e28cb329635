import contextlib
import socket
import sys

import pytest

from vgpu_operator.cli.cluster import ports

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux lets a listener in beside us"
)


def listener(port: int) -> socket.socket:
    """Listen as Go does: with SO_REUSEADDR."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((ports.LOOPBACK, port))
    made.listen()
    return made


def test_reserved_ports_differ() -> None:
    with contextlib.ExitStack() as held:
        numbers = {held.enter_context(ports.ReservedPort()).number for _ in range(200)}

    assert len(numbers) == 200


@linux_only
def test_component_can_listen_again_and_again_on_a_reserved_port() -> None:
    with ports.ReservedPort() as reserved:
        for _ in range(2):
            with (
                listener(reserved.number),
                socket.create_connection((ports.LOOPBACK, reserved.number)),
            ):
                pass


@linux_only
def test_reserved_port_is_given_to_nobody_who_asks_for_any() -> None:
    with ports.ReservedPort() as reserved, contextlib.ExitStack() as held:
        others = [held.enter_context(listener(0)).getsockname()[1] for _ in range(200)]

    assert reserved.number not in others


def test_port_may_be_released_twice() -> None:
    reserved = ports.ReservedPort()

    reserved.release()
    reserved.release()
