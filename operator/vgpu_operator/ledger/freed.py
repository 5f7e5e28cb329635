"""Where something became available, and since when: on nodes, or in namespaces' quotas."""


class FreedLog:
    """Per node, or namespace, the newest generation that set something free there.

    At most one entry each, so its size is bounded by the cluster's.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def note(self, node: str, generation: int) -> None:
        """Something became available on the node in that generation."""
        self._newest.pop(node, None)
        self._newest[node] = generation

    def drop(self, node: str) -> None:
        """Forget a node that is gone: nothing is available there."""
        self._newest.pop(node, None)

    def since(self, generation: int) -> frozenset[str]:
        """Return the nodes where something became available after that generation."""
        found = set()
        for node, newest in reversed(self._newest.items()):
            if newest <= generation:
                break
            found.add(node)
        return frozenset(found)
