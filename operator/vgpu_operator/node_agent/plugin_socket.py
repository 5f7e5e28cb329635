"""Our socket beside the kubelet's: listens there, registers, and does so again when it must.

A kubelet that starts removes every socket of its folder and makes its own anew, so
both are looked at again and again. ::

    kubelet.sock there ─► listen ─► Register ─► look ─┬─ same kubelet, our socket ─► look
         ▲                            │ refused       ├─ another kubelet.sock, or ours gone
         └────────────────────────────┴─ wait ◄───────┴─ nobody follows our list of devices
"""

import asyncio
import contextlib
import socket as sockets
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio
import structlog

from vgpu_operator.model import errors
from vgpu_operator.node_agent import channels, service
from vgpu_operator.node_agent.api import device_plugin_pb2 as api
from vgpu_operator.node_agent.api import device_plugin_pb2_grpc

KUBELET_SOCKET = "kubelet.sock"
API_VERSION = "v1beta1"

LOOK_S = 0.2
"""How often the sockets are looked at; a stat each."""

FOLLOW_S = 10.0
"""How long a kubelet may register us without asking for our list of devices."""

REGISTER_LIMIT_S = 10.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
"""Between one refused registration and the next: doubled each time, up to this."""

_Identity: TypeAlias = tuple[int, int, int] | None
"""What tells one socket file from the next of the same name; None where there is none."""


class PluginSocket:
    """Keeps one plugin registered with whichever kubelet serves the folder.

    Args:
        folder: the kubelet's.
        resource: what the kubelet shall count.
        plugin: answers its calls.
    """

    def __init__(self, folder: Path, *, resource: str, plugin: service.DevicePlugin) -> None:
        self._folder = folder
        self._resource = resource
        self._plugin = plugin
        self._log = structlog.get_logger().bind(node=plugin.node)
        self.path = folder / f"vgpu-{resource.replace('/', '_')}.sock"
        self._ready_file: Path | None = None
        self._is_shown = False

    def show_in(self, file: Path) -> None:
        """Have a file be there while the kubelet follows our list of devices: for a probe.

        Raises:
            SettingsError: it cannot be made.
        """
        try:
            # One that a killed agent has left says nothing of this one.
            file.unlink(missing_ok=True)
            file.touch()
            file.unlink()
        except OSError as fault:
            raise errors.SettingsError(
                f"--ready-file {file} cannot be made ({fault.strerror}): name a file in a folder "
                "that is there and that the agent may write"
            ) from fault
        self._ready_file = file

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            SettingsError: the socket cannot be made, or another agent has it.
        """
        while True:
            kubelet = await self._kubelet()
            server = await self._listen()
            ours = _identity(self.path)
            try:
                if await self._register(kubelet):
                    why = await self._look(kubelet, ours)
                    self._log.info("registers again", why=why)
            finally:
                self._show(is_ready=False)
                await server.stop(grace=None)
                if _identity(self.path) == ours:
                    with contextlib.suppress(OSError):
                        self.path.unlink()

    async def _kubelet(self) -> _Identity:
        """Wait for the kubelet's socket and return which it is."""
        said = False
        while True:
            found = _identity(self._folder / KUBELET_SOCKET)
            if found is not None:
                return found
            if not said:
                where = str(self._folder / KUBELET_SOCKET)
                self._log.info("waiting for the kubelet", socket=where)
            said = True
            await asyncio.sleep(LOOK_S)

    async def _listen(self) -> grpc.aio.Server:
        """Start a server on our socket, in place of one that a killed agent has left.

        Raises:
            SettingsError: it cannot be made, or another agent answers there.
        """
        place = channels.address(self.path)
        if _answers(self.path):
            raise errors.SettingsError(
                f"another agent serves {self._resource} at {self.path}: stop it first"
            )
        server = grpc.aio.server()
        device_plugin_pb2_grpc.add_DevicePluginServicer_to_server(self._plugin, server)
        try:
            self.path.unlink(missing_ok=True)
            server.add_insecure_port(place)
        except (OSError, RuntimeError) as fault:
            raise errors.SettingsError(
                f"the socket {self.path} cannot be made ({fault}): the agent needs to write "
                "the kubelet's folder of device plugins"
            ) from fault
        await server.start()
        return server

    async def _register(self, kubelet: _Identity) -> bool:
        """Tell the kubelet of us until it takes note; False when it is another one meanwhile."""
        pause_s = FIRST_PAUSE_S
        said = ""
        while _identity(self._folder / KUBELET_SOCKET) == kubelet:
            self._plugin.begin_session()
            try:
                await self._ask_to_register()
            except grpc.aio.AioRpcError as fault:
                why = fault.details() or str(fault.code())
                if why != said:
                    self._log.warning("the kubelet does not register us", why=why)
                said = why
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self._log.info("registered with the kubelet", resource=self._resource)
                return True
        return False

    async def _ask_to_register(self) -> None:
        async with channels.to(self._folder / KUBELET_SOCKET) as channel:
            await device_plugin_pb2_grpc.RegistrationStub(channel).Register(
                api.RegisterRequest(
                    version=API_VERSION,
                    endpoint=self.path.name,
                    resource_name=self._resource,
                    options=service.options(),
                ),
                timeout=REGISTER_LIMIT_S,
            )

    async def _look(self, kubelet: _Identity, ours: _Identity) -> str:
        """Return why we have to register again, once we have to."""
        alone_s = 0.0
        while True:
            await asyncio.sleep(LOOK_S)
            if _identity(self._folder / KUBELET_SOCKET) != kubelet:
                return "the kubelet was restarted"
            if _identity(self.path) != ours:
                return "our socket is gone"
            self._show(is_ready=self._plugin.followers > 0)
            alone_s = 0.0 if self._plugin.followers else alone_s + LOOK_S
            if alone_s > FOLLOW_S:
                return "the kubelet does not follow our list of devices"

    def _show(self, *, is_ready: bool) -> None:
        """Make or remove the file that a probe looks at, where there is to be one."""
        if self._ready_file is None or is_ready == self._is_shown:
            return
        try:
            if is_ready:
                self._ready_file.touch()
            else:
                self._ready_file.unlink(missing_ok=True)
        except OSError as fault:
            self._log.warning("a probe is told nothing new", why=str(fault))
        self._is_shown = is_ready


def _identity(path: Path) -> _Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    # Numbers are used again. A socket's time of change is that of its making: unlike that
    # of its status it stands still when rights, owner or label are changed.
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _answers(path: Path) -> bool:
    """Whether somebody listens at a socket."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
