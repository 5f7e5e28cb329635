"""Makes Krew's archive and manifest of ``kubectl vgpu`` from a wheel.

    krew.py WHEEL --uri URI --homepage URL [--output build/krew]

The archive holds the wheel, the hash-locked list of its requirements and a small program
that installs both at its first start. The same wheel gives the same archive, byte for byte.
"""

import argparse
import gzip
import hashlib
import io
import string
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "packaging" / "krew"
PROGRAM: Final = "kubectl-vgpu"


def archive(wheel: Path) -> bytes:
    """Return the archive, with no times and no owners in it."""
    members = (
        (PROGRAM, SOURCES / PROGRAM, 0o755),
        ("requirements.txt", ROOT / "requirements" / "runtime.txt", 0o644),
        (wheel.name, wheel, 0o644),
        ("LICENSE", ROOT / "LICENSE", 0o644),
    )
    paper = io.BytesIO()
    with tarfile.open(fileobj=paper, mode="w") as tar:
        for name, path, mode in members:
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(paper.getvalue(), mtime=0)


def manifest(wheel: Path, packed: bytes, *, uri: str, homepage: str) -> str:
    """Return the manifest of that archive.

    Raises:
        ValueError: the file is no wheel of ours.
    """
    parts = wheel.name.split("-")
    if parts[0] != "vgpu_operator" or wheel.suffix != ".whl":
        raise ValueError(f"{wheel.name} is no wheel of vgpu_operator; make one with make wheel")
    template = string.Template((SOURCES / "vgpu.yaml").read_text(encoding="utf-8"))
    return template.substitute(
        version=parts[1],
        uri=uri,
        homepage=homepage,
        sha256=hashlib.sha256(packed).hexdigest(),
    )


def main(arguments: list[str]) -> int:
    """Write both, and return the exit code."""
    parser = argparse.ArgumentParser(description="Make Krew's archive and manifest.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uri", required=True, help="where the archive will be downloaded from")
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "krew")
    given = parser.parse_args(arguments)
    packed = archive(given.wheel)
    try:
        text = manifest(given.wheel, packed, uri=given.uri, homepage=given.homepage)
    except ValueError as fault:
        parser.error(str(fault))
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "vgpu.tar.gz").write_bytes(packed)
    (given.output / "vgpu.yaml").write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {given.output}/vgpu.tar.gz and vgpu.yaml\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
