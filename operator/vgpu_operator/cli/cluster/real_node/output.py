"""What containers wrote, as the runtime keeps it: one file for each run of a container."""

from pathlib import Path


def read(pod_logs: Path, *, namespace: str, pod: str, container: str) -> str:
    """Return what the latest run of a container wrote; empty when it has not begun.

    Of several pods that had the same name one after another the latest counts.
    """
    files = [
        file
        for folder in pod_logs.glob(f"{namespace}_{pod}_*")
        for file in (folder / container).glob("*.log")
    ]
    if not files:
        return ""
    latest = max(files, key=lambda file: (file.parent.stat().st_ctime_ns, int(file.stem)))
    return decode(latest.read_text(errors="replace"))


def decode(text: str) -> str:
    r"""Return the output in a log: ``<time> stdout|stderr F|P <output>`` on each line.

    ``P`` is for a part of a line whose rest follows.

    >>> decode("2026-05-04T10:00:00Z stdout P ab\n2026-05-04T10:00:00Z stdout F c\n")
    'abc\n'
    """
    pieces = []
    for line in text.splitlines():
        _, _, tag, piece = [*line.split(" ", 3), "", "", ""][:4]
        pieces.append(piece if tag == "P" else f"{piece}\n")
    return "".join(pieces)


def environment(text: str) -> dict[str, str]:
    r"""Return the variables that ``env`` printed, whatever else is among the lines.

    >>> environment("hello\nA=1\nB=x=y\n")
    {'A': '1', 'B': 'x=y'}
    """
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, sign, value in pairs if sign and name.isidentifier()}
