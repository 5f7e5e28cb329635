"""Which kind of text an annotation holds, and what that text says.

Kinds are found by the key where it is given, else by the look of the text:

    [ …               register, JSON form
    id,…(7 or 9),…:   register, colon form
    Requesting_…      handshake (Reported, Deleted)
    allocating …      bind phase
    digits            a time in Unix seconds
    time[,ns,pod]     node lock
    … , … ; or :      pod devices
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.cli import annotation_keys, annotation_readers, forms, register_forms, render
from vgpu_operator.model import errors
from vgpu_operator.wire import bind_phase, clock_text, handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text says.

    Attributes:
        rows: one per thing in it.
        faults: what cannot be read, in the order of the text.
        form: of a register text that can be written in several.
    """

    kind: annotation_keys.Kind
    key: str
    rows: Sequence[Mapping[str, Any]] = ()
    faults: Sequence[errors.DecodeError] = ()
    form: forms.Form | None = None

    @property
    def title(self) -> str:
        """The kind and, where known, the key."""
        return f"{self.kind} {self.key}".rstrip()


def read(text: str, *, key: str = "", kind: annotation_keys.Kind | None = None) -> Reading:
    """Read an annotation; what cannot be read becomes a fault, never an exception.

    Args:
        text: the annotation.
        key: its key, where known.
        kind: what it holds, where known; else key and text decide.

    >>> read("2026-01-15T10:00:00Z,default,p1").rows[0]["pod"]
    'p1'
    >>> read("GPU-a0,NVIDIA,3000,30:;").kind
    <Kind.DEVICES: 'PodDevices'>

    Raises:
        DecodeError: the key's form has no reader, or the key is not known and the text
            looks like nothing of the protocol.
    """
    if annotation_keys.is_unread(key):
        raise errors.DecodeError("vgpu decode does not read this form", key=key)
    kind = kind or annotation_keys.kind_of_key(key) or kind_of_text(text)
    if kind is None:
        hint = "" if key else "; name the annotation: vgpu decode KEY TEXT"
        raise errors.DecodeError(f"{text[:80]!r} looks like nothing of the protocol{hint}", key=key)
    try:
        rows, faults = annotation_readers.READERS[kind](text, key)
    except errors.DecodeError as fault:
        return Reading(kind=kind, key=key, faults=(fault,))
    form = register_forms.of_text(text, key) if kind is annotation_keys.Kind.REGISTER else None
    return Reading(kind=kind, key=key, rows=rows, faults=faults, form=form)


def kind_of_text(text: str) -> annotation_keys.Kind | None:
    """Return what the text looks like; None when it looks like nothing we know."""
    word = text.strip()
    if word.startswith("["):
        return annotation_keys.Kind.REGISTER
    if handshake.decode_handshake(word).state not in (
        handshake.State.ABSENT,
        handshake.State.UNREADABLE,
    ):
        return annotation_keys.Kind.HANDSHAKE
    if bind_phase.decode_bind_phase(word):
        return annotation_keys.Kind.PHASE
    if clock_text.decode_unix_s(word) is not None:
        return annotation_keys.Kind.UNIX_TIME
    if clock_text.decode_time(word.partition(",")[0]) is not None:
        return annotation_keys.Kind.LOCK
    if ":" in word and ";" not in word and word.split(":")[0].count(",") in (6, 8):
        return annotation_keys.Kind.REGISTER
    if ";" in word or (":" in word and "," in word):
        return annotation_keys.Kind.DEVICES
    return None


def table(reading: Reading) -> render.Table:
    """Return what was read, ready to be drawn; faults go with JSON and YAML."""
    columns = [
        _column(name, header) for name, header in annotation_readers.HEADERS[reading.kind].items()
    ]
    extra: dict[str, Any] = {"key": reading.key} if reading.key else {}
    if reading.form is not None:
        extra["form"] = reading.form.value
    extra["faults"] = [
        {"segment": fault.segment, "offset": fault.offset, "message": fault.reason}
        for fault in reading.faults
    ]
    return render.Table(kind=reading.kind.value, columns=columns, rows=reading.rows, extra=extra)


def _column(name: str, header: str) -> render.Column:
    return render.Column(header=header, text=lambda row: _cell(row.get(name)))


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
