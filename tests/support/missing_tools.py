"""Programs that a machine may not have: how getting them is told, and what becomes of a test."""

import os
from collections.abc import Callable
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI: nothing may be left untried there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def progress(settings: pytest.Config) -> Callable[[str], None]:
    """Return what tells of work that takes minutes, a line at a time.

    By the reporter's own stream: capturing would hide it.
    """
    terminal = settings.pluginmanager.get_plugin("terminalreporter")
    told: Callable[[str], None] = getattr(terminal, "write_line", print)
    return told
