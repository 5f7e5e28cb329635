"""Loopback ports that nobody else is given while we hold them."""

import socket
import sys
from typing import Self

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A free port, kept from everybody who asks the kernel for any free one.

        reserve -> bound, not listening ---------------> release
                    |                           |
                    a component may listen on it, stop, and listen again

    The usual way (bind to port 0, note the number, close) leaves a gap in which
    the kernel may hand the number to another. On Linux a second socket may
    listen where a first one is only bound, when both set SO_REUSEADDR (Go
    sets it on every listener): so ours stays open, the gap is closed, and a
    component that restarts finds its port unharmed. Elsewhere that is not
    allowed, and the gap stays.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]
        if not sys.platform.startswith("linux"):
            self._socket.close()

    def release(self) -> None:
        """Let others have the port; may be called again."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"ReservedPort({self.number})"
