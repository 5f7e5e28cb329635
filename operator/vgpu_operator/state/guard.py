"""Who may read: what every request must look like, and what every answer carries.

On loopback only this machine (in a cluster: whoever may forward a port to this
pod) reaches the page. A browser there also runs other people's pages: a foreign
name that leads here is refused by its Host (DNS rebinding), a foreign page that
asks here by what the browser says of it, and nobody gets a CORS header.
"""

import ipaddress
from typing import Final

from aiohttp import typedefs, web

from vgpu_operator.state import access, texts

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Nothing from elsewhere runs in the page, and no other page reads or frames it."""

API: Final = "/api/"

_FOREIGN: Final = frozenset({"cross-site", "same-site"})
"""What a browser writes into Sec-Fetch-Site for a page of another origin."""


def middleware(*, is_loopback: bool, door: access.Access | None) -> typedefs.Middleware:
    """Return what lets a request through or answers it with a sentence.

    Args:
        is_loopback: only names of this machine may stand in Host.
        door: asks the API server about the caller's token; None lets everybody read.
    """

    @web.middleware
    async def guard(request: web.Request, handler: typedefs.Handler) -> web.StreamResponse:
        if is_loopback and not _is_local(_without_port(request.host)):
            return refusal(
                403, f"the Host {request.host!r} is not this machine; open http://127.0.0.1:PORT/"
            )
        if request.path.startswith(API):
            if request.headers.get("Sec-Fetch-Site", "") in _FOREIGN:
                return refusal(403, "pages of other sites may not read this API")
            if door is not None:
                verdict = await door.verdict(
                    request.headers.get("Authorization", ""), client=request.remote or ""
                )
                if verdict.status != 200:
                    return refusal(verdict.status, verdict.sentence)
        return await handler(request)

    return guard


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Write what every answer carries, refusals included."""
    for name, value in HEADERS.items():
        response.headers[name] = value


def refusal(status: int, sentence: str, **headers: str) -> web.Response:
    """Return an answer that says why not."""
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(
        status=status,
        body=texts.encode({"error": sentence}),
        content_type="application/json",
        headers=headers,
    )


def _is_local(name: str) -> bool:
    """Whether a Host's name can stand for nothing but this machine.

    >>> _is_local("localhost"), _is_local("127.0.0.2"), _is_local("[::1]")
    (True, True, True)
    >>> _is_local("127.example.org"), _is_local("10.0.0.7"), _is_local("::1]")
    (False, False, False)
    """
    if name == "localhost":
        return True
    literal = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return ipaddress.ip_address(literal).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    """Return a Host header's name.

    >>> _without_port("[::1]:9396"), _without_port("LOCALHOST"), _without_port("127.0.0.1:1")
    ('[::1]', 'localhost', '127.0.0.1')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()
