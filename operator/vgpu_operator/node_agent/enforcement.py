"""HAMi's enforcement library on this node: whether it is installed, and the folders it needs."""

from pathlib import Path

import structlog

from vgpu_operator.model import errors
from vgpu_operator.node_agent import backend, limits

_ANYBODY_WRITES = 0o777
"""Programs of any user write their container's cache and take the lock.

No sticky bit on the lock's folder: the library removes a lock that is old, whoever left it.
"""

_ROOT_ALONE = 0o700
"""What a container leaves in its folder, say a program with root's rights, no user of the
host may reach: mounts are made by root."""


class NotInstalledError(errors.VgpuError):
    """The library is not usable; the text says what is missing, and where."""


class Enforcement:
    """What lets containers of this node keep to their limits.

    Args:
        host_folder: where HAMi installs the library. The same path here and on the
            host: the kubelet mounts what is named, and does so on the host.
    """

    def __init__(self, host_folder: Path) -> None:
        self._folder = host_folder
        self._log = structlog.get_logger(__name__)
        self._told: str | None = None

    def installed(self) -> limits.Installation | None:
        """Return where the library is now; None when it is not, which is told once."""
        try:
            found = find(self._folder)
        except NotInstalledError as fault:
            self._tell(str(fault))
            return None
        self._tell("")
        return found

    def mounts(
        self, holder: backend.Holder, found: limits.Installation
    ) -> tuple[backend.Mount, ...]:
        """Make the folders of a container and return its mounts.

        A container runtime would make folders that are missing, but for root only.

        Raises:
            OSError: a folder could not be made.
        """
        cache = Path(limits.cache_folder(holder, found))
        lock = Path(limits.lock_folder(found))
        # The outer folder first: nothing in it can be reached for a moment, either.
        for place, mode in (
            (cache.parent, _ROOT_ALONE),
            (cache, _ANYBODY_WRITES),
            (lock, _ANYBODY_WRITES),
        ):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(mode)
        return limits.mounts(holder, found)

    def _tell(self, why: str) -> None:
        if why == self._told:
            return
        if why:
            self._log.warning("limits are not enforced: containers only see them", why=why)
        elif self._told is not None:
            self._log.info("limits are enforced from now on", folder=str(self._folder))
        self._told = why


def find(folder: Path) -> limits.Installation:
    """Return where the library is, by the files in HAMi's folder.

    Raises:
        NotInstalledError: a file is missing, or names another library.
    """
    if not (folder / limits.LIBRARY).is_file():
        raise NotInstalledError(
            f"{folder}/{limits.LIBRARY} is not there: install HAMi's enforcement library "
            "on this node, or name its folder with --host-dir"
        )
    preload = folder / limits.PRELOAD
    try:
        names = preload.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as fault:
        raise NotInstalledError(
            f"{preload} cannot be read ({fault}): it has to name {limits.LIBRARY}"
        ) from fault
    for name in names:
        if name.startswith("/") and name.endswith(f"/{limits.LIBRARY}"):
            return limits.Installation(host_folder=str(folder), container_library=name)
    raise NotInstalledError(
        f"{preload} names no {limits.LIBRARY}: write its path in a container there, "
        f"as a rule {limits.FOLDER}/{limits.LIBRARY}"
    )
