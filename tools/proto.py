"""Write the Python side of the kubelet's gRPC APIs again, or check that it is as it would be."""

import sys
import tempfile
from pathlib import Path

import written_files
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "operator"
FOLDER = Path("vgpu_operator/node_agent/api")


def modules() -> dict[Path, str]:
    """Return what the compiler makes of the sources, by the module's path.

    Raises:
        RuntimeError: the compiler refused.
    """
    protos = sorted(path.relative_to(SOURCES) for path in (SOURCES / FOLDER).glob("*.proto"))
    endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    made = [proto.with_name(proto.stem + ending) for proto in protos for ending in endings]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        arguments = ["protoc", f"-I{SOURCES}", *outputs, *map(str, protos)]
        if protoc.main(arguments) != 0:
            raise RuntimeError(f"protoc refused {', '.join(map(str, protos))}")
        return {SOURCES / path: (Path(folder) / path).read_text(encoding="utf-8") for path in made}


def stale() -> dict[Path, str]:
    """Return the modules that are not what the compiler makes of the sources."""
    return written_files.stale(modules())


if __name__ == "__main__":
    sys.exit(
        written_files.main(sys.argv[1:], stale, program="proto.py", command="make proto", root=ROOT)
    )
