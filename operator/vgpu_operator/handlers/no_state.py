"""Kopf's stores of handler states, with nothing in them.

Kopf compares every event with what it stored about the object last, and copies
the whole object twice for it. Our handlers only look at events: there is
nothing to store, nothing to compare, and nothing that Kopf could ever write.
"""

from typing import Any

import kopf


class NoDifferences(kopf.DiffBaseStorage):
    """Finds every object empty, and the same as before."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing of the object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return what was stored: nothing."""
        return None

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no handler's state."""

    def fetch(self, **_: Any) -> None:
        """Return what was stored: nothing."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return what there is: nothing of ours is in it."""
        return essence
