"""Where something became available, and since when: on nodes, or in namespaces' quotas."""

from collections.abc import Callable


class FreedLog:
    """Per place, a node or a namespace, the newest generation that set something free there.

    At most one entry each. It grows with every name that ever was, so its owner
    drops the places that are gone.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def note(self, place: str, generation: int) -> None:
        """Something became available there in that generation."""
        self._newest.pop(place, None)
        self._newest[place] = generation

    def drop(self, place: str) -> None:
        """Forget a place that is gone: nothing is available there."""
        self._newest.pop(place, None)

    def keep(self, is_needed: Callable[[str], bool]) -> None:
        """Forget every place but those that are needed."""
        self._newest = {place: newest for place, newest in self._newest.items() if is_needed(place)}

    @property
    def newest(self) -> int:
        """The last generation that is noted; -1 when none is."""
        return next(reversed(self._newest.values()), -1)

    def since(self, generation: int) -> frozenset[str]:
        """Return the places where something became available after that generation."""
        found = set()
        for place, newest in reversed(self._newest.items()):
            if newest <= generation:
                break
            found.add(place)
        return frozenset(found)
