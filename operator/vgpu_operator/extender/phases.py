"""Where the time of one request goes."""

import time
from collections.abc import Callable


class Stopwatch:
    """Cuts the time since a request came into parts.

    Args:
        tell: told each part's name and its seconds.
    """

    def __init__(self, tell: Callable[[str, float], None]) -> None:
        self._tell = tell
        self._begun = self._at = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Tell how long it was since the last part, under this name."""
        now = time.perf_counter()
        self._tell(phase, now - self._at)
        self._at = now

    @property
    def seconds(self) -> float:
        """Time since the request came."""
        return time.perf_counter() - self._begun
