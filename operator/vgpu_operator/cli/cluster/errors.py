"""What goes wrong with a cluster, told for a terminal."""

from vgpu_operator.model import errors


class ClusterError(errors.VgpuError):
    """A cluster could not be built, started or reached.

    The message is one sentence: what failed, where, and what to do about it.
    Where a log says more, its last lines follow on lines of their own.
    """


class ComponentDied(ClusterError):
    """A component ended by itself while it was expected to run.

    Args:
        message: as above.
        port_taken: its log says that the port belongs to somebody else, so
            that another port may do.
    """

    def __init__(self, message: str, *, port_taken: bool) -> None:
        super().__init__(message)
        self.port_taken = port_taken


class Aborted(ClusterError):
    """Long work was ended because its caller no longer wants the result."""
