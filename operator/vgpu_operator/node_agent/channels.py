"""gRPC over the kubelet's Unix sockets."""

from pathlib import Path

import grpc.aio

from vgpu_operator.model import errors

LONGEST_PATH_BYTES = 107
"""What Linux takes as the address of a Unix socket."""

_OPTIONS = (
    # The socket's path, which is what gRPC would say, is none to Go's server.
    ("grpc.default_authority", "localhost"),
    # A kubelet that comes again is a new one: no connection of the last is used for it.
    ("grpc.use_local_subchannel_pool", 1),
)


def address(socket: Path) -> str:
    """Return a socket's address.

    Raises:
        SettingsError: its path is too long.
    """
    path = str(socket.absolute())
    if len(path.encode()) > LONGEST_PATH_BYTES:
        raise errors.SettingsError(
            f"{path} is longer than the {LONGEST_PATH_BYTES} bytes of a Unix socket's path: "
            "choose a folder with a shorter name"
        )
    return f"unix:{path}"


def to(socket: Path) -> grpc.aio.Channel:
    """Return a channel to whoever listens there."""
    return grpc.aio.insecure_channel(address(socket), options=_OPTIONS)
