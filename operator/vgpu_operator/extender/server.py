"""Starts the extender's server."""

from vgpu_operator.extender import routes
from vgpu_operator.kube import listen
from vgpu_operator.model import errors

BODY_LIMIT_BYTES = 256 * 2**20
"""Whole Node objects of 5,000 nodes are near 100 MiB; names of as many are 0.2 MiB."""


async def start(desk: routes.Desk, address: listen.Address) -> listen.Listener:
    """Listen for kube-scheduler.

    Raises:
        SettingsError: the address is not loopback (whoever can reach the
            extender can bind pods), or it is taken.
    """
    if not address.is_loopback:
        raise errors.SettingsError(
            f"the extender may listen on loopback only, not on {address.host}: whoever reaches it"
            " can bind pods; write 127.0.0.1:PORT"
        )
    app = routes.application(desk, body_limit=BODY_LIMIT_BYTES)
    return await listen.listen(app, address, what="the extender")
