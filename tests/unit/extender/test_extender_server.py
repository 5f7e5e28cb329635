"""Where the extender listens, and what it says when it may not."""

import aiohttp
import pytest

from support.desk import Shell
from vgpu_operator.extender import server
from vgpu_operator.kube import listen
from vgpu_operator.model import errors


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])  # noqa: S104
async def test_an_address_that_is_not_loopback_is_refused(host: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        await server.start(Shell().desk(), listen.Address(host=host, port=0))

    assert str(caught.value) == (
        f"the extender may listen on loopback only, not on {host}: whoever reaches it can bind"
        " pods; write 127.0.0.1:PORT"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_is_loopback_by_every_name(host: str) -> None:
    assert listen.Address(host=host, port=1).is_loopback


async def test_a_free_port_is_taken_and_told() -> None:
    listener = await server.start(Shell().desk(), listen.Address(host="127.0.0.1", port=0))
    try:
        assert listener.address.port > 0
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{listener.address}/") as answer,
        ):
            assert answer.status == 404
    finally:
        await listener.close()


async def test_a_port_in_use_is_one_sentence_with_the_next_step() -> None:
    first = await server.start(Shell().desk(), listen.Address(host="127.0.0.1", port=0))
    try:
        with pytest.raises(errors.SettingsError) as caught:
            await server.start(Shell().desk(), first.address)
    finally:
        await first.close()

    text = str(caught.value)
    assert text.startswith(f"the extender cannot listen on {first.address}: ")
    assert "address already in use" in text
    assert text.endswith("; choose another address or stop what uses it")


@pytest.mark.parametrize(
    "text", ["", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "a:-1"]
)
def test_a_text_that_is_no_address_is_named_with_its_option(text: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"--extender-bind .* is no address"):
        listen.parse_address(text, option="--extender-bind")


def test_an_ipv6_address_is_read_and_written_in_brackets() -> None:
    address = listen.parse_address("[::1]:8080", option="--extender-bind")

    assert (address.host, address.port, str(address)) == ("::1", 8080, "[::1]:8080")
