"""Where the user's kubeconfig is sought: the option, ``KUBECONFIG``, kubectl's usual place."""

import os
from pathlib import Path

from vgpu_operator.model import errors

USUAL_PLACE = "~/.kube/config"


class ConfigurationError(errors.VgpuError):
    """No usable way to an API server was found; the text says where it was sought."""


def place(option: str | None) -> str:
    """Return where it is sought; several files with colons between them, as kubectl takes them."""
    return option or os.environ.get("KUBECONFIG") or USUAL_PLACE


def is_there(option: str | None) -> bool:
    """Whether some file is where it is sought."""
    return any(Path(path).expanduser().is_file() for path in place(option).split(os.pathsep))


def require(option: str | None) -> str:
    """Return where it is.

    Raises:
        ConfigurationError: it is not there; the text says what to do.
    """
    sought = place(option)
    if is_there(option):
        return sought
    if option:
        raise ConfigurationError(
            f"kubeconfig {option} does not exist; name an existing file with --kubeconfig"
        )
    if sought != USUAL_PLACE:
        raise ConfigurationError(
            f"no kubeconfig: {sought} does not exist; give --kubeconfig FILE or correct KUBECONFIG"
        )
    raise ConfigurationError(
        f"no kubeconfig: {sought} does not exist; give --kubeconfig FILE or set KUBECONFIG"
    )
