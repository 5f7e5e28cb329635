"""Write the Python side of the kubelet's gRPC APIs again, or check that it is as it would be."""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "operator"
FOLDER = Path("vgpu_operator/node_agent/api")


def generate(target: Path) -> list[Path]:
    """Write the modules below ``target`` and return their paths from there.

    Raises:
        RuntimeError: the compiler refused.
    """
    protos = sorted(path.relative_to(SOURCES) for path in (SOURCES / FOLDER).glob("*.proto"))
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    arguments = ["protoc", f"-I{SOURCES}", *outputs, *map(str, protos)]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc refused {', '.join(map(str, protos))}")
    endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    return [proto.with_name(proto.stem + ending) for proto in protos for ending in endings]


def stale() -> list[Path]:
    """Return the modules that are not what the compiler makes of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        return [
            path
            for path in generate(target)
            if not (SOURCES / path).is_file()
            or (SOURCES / path).read_bytes() != (target / path).read_bytes()
        ]


def main() -> int:
    """Do as the command line says."""
    if "--check" in sys.argv[1:]:
        wrong = stale()
        for path in wrong:
            print(f"{path} is not what protoc makes of it: run make proto")
        return 1 if wrong else 0
    generate(SOURCES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
