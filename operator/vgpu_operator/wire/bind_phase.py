"""The bind phase of a pod.

Grammar::

    phase = "allocating" | "success" | "failed"
"""

from vgpu_operator.model import records


def decode_bind_phase(text: str | None) -> records.BindPhase | None:
    """Return the phase; None when the annotation is absent or another word.

    >>> decode_bind_phase("success")
    <BindPhase.SUCCESS: 'success'>
    >>> decode_bind_phase("Success") is None, decode_bind_phase(None) is None
    (True, True)
    """
    try:
        return records.BindPhase(text) if text else None
    except ValueError:
        return None
