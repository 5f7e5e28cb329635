"""Whoever reaches the extender can bind pods: only this machine's loopback reaches it."""

import asyncio
import socket

import pytest

from support.desk import Shell
from vgpu_operator.cli import run as cli_run
from vgpu_operator.extender import server
from vgpu_operator.kube import listen
from vgpu_operator.model import errors


def other_addresses() -> list[str]:
    """Return addresses of this machine beside the one that is listened on."""
    found = {"127.0.0.2"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which address would
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # a machine without a network
    return sorted(found)


@pytest.mark.parametrize("host", other_addresses())
async def test_the_extender_is_reached_at_its_loopback_address_only(host: str) -> None:
    listener = await server.start(Shell().desk(), listen.Address(host="127.0.0.1", port=0))
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
        writer.close()
        await writer.wait_closed()

        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, listener.address.port)
    finally:
        await listener.close()


@pytest.mark.parametrize("text", [":0", "0.0.0.0:0", "[::]:0", "10.0.0.1:0", "example.org:0"])
async def test_no_address_on_the_command_line_opens_it_to_others(text: str) -> None:
    address = listen.parse_address(text, option="--extender-bind")

    with pytest.raises(errors.SettingsError, match="loopback only"):
        await server.start(Shell().desk(), address)


def test_by_default_every_listener_but_the_webhook_is_on_loopback() -> None:
    import inspect

    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(cli_run.run).parameters.items()
    }

    for name in ("extender_bind", "metrics_bind", "state_bind"):
        assert listen.parse_address(defaults[name], option=name).is_loopback
    assert defaults["webhook_bind"] is None
