"""Texts that people hand in as files."""

import sys
from pathlib import Path

from vgpu_operator.model import errors


def read(path: Path | str, *, largest_bytes: int) -> str:
    """Return the text of a file; ``-`` is standard input.

    Raises:
        SettingsError: there is no such file, it may not be read, is larger, or is
            no UTF-8; one sentence with its name.
    """
    name = "standard input" if path == "-" else str(path)
    try:
        if path == "-":
            data = sys.stdin.buffer.read(largest_bytes + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(largest_bytes + 1)
        if len(data) > largest_bytes:
            raise errors.SettingsError(
                f"{name} is larger than {largest_bytes} bytes; leave out what is not needed"
            )
        return data.decode()
    except OSError as fault:
        raise errors.SettingsError(f"{name} cannot be read: {fault.strerror or fault}") from fault
    except ValueError as fault:  # no UTF-8, or a name with a null character
        raise errors.SettingsError(f"{name} cannot be read as UTF-8: {fault}") from fault
