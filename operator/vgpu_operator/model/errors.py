"""The exception tree.

VgpuError
 ├── DecodeError        the peer's text is bad: key, segment, offset
 ├── RequestError       a pod asks for something that cannot be meant
 ├── SettingsError      our configuration is bad
 ├── LedgerError        we misused the ledger
 └── MachineError       an event that a state machine does not know in its state

API errors live in ``kube.errors``. "The pod does not fit" is never an
exception: it is a ``reason.NodeRejection``.
"""


class VgpuError(Exception):
    """Base of everything that this package raises on purpose."""


class DecodeError(VgpuError):
    """A text of the protocol cannot be read.

    Args:
        message: what is wrong and the value seen, without key or place.
        key: the annotation (or body field) that holds the text; may be empty.
        segment: index of the segment or list element, counted from 0; None
            when the text as a whole is meant.
        offset: index of the segment's first character in the text.
    """

    def __init__(
        self, message: str, *, key: str = "", segment: int | None = None, offset: int = 0
    ) -> None:
        self.reason = message
        self.key = key
        self.segment = segment
        self.offset = offset
        where = key or "text"
        if segment is not None:
            where = f"{where}, segment {segment} at offset {offset}"
        super().__init__(f"{where}: {message}")

    def __eq__(self, other: object) -> bool:
        """Faults are parts of records: the same fault found again is no news."""
        return isinstance(other, DecodeError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


class RequestError(VgpuError):
    """A pod asks for something that cannot be meant; the text is for its author."""


class SettingsError(VgpuError):
    """A setting is missing or wrong; the text names its path and what to do."""


class LedgerError(VgpuError):
    """The ledger was told something that contradicts what it holds: a fault of ours."""


class MachineError(VgpuError):
    """A state machine met an event that its table does not list for its state."""
