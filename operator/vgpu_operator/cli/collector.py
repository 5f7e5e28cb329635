"""The garbage collector while a command runs."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


def run(command: Coroutine[Any, Any, _Answer], *, lasts: bool = False) -> _Answer:
    """Run a command to its end without looking for garbage.

    What a large cluster is read into has no cycles, and walking it takes long.

    Args:
        command: what to run.
        lasts: it may run for hours (``--watch``), so the collector stays on.
    """
    if lasts:
        return asyncio.run(command)
    was_on = gc.isenabled()
    gc.disable()
    try:
        return asyncio.run(command)
    finally:
        if was_on:
            gc.enable()
