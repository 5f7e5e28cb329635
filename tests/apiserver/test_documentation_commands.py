"""Everything that a page tells the reader to type is typed, on one real control plane.

Each page starts with the same cluster, as ``NODES`` says, with an operator, its
scheduler and its webhook. What the pages may say above a block is in
``support.reader``.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from support import reader, reader_before
from support.world import World
from vgpu_operator.cli import grounds
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.kube import client, errors, paths

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.asyncio(loop_scope="module"),
]

NODES = (
    {"name": "gpu-1", "cards": 2, "memory": 24576, "type": "NVIDIA-NVIDIA A10"},
    {"name": "gpu-2", "cards": 2, "memory": 24576, "type": "NVIDIA-NVIDIA A10"},
)
WITHOUT_RELEASES = """
helm list --all-namespaces --no-headers | while read -r name namespace _; do
    [ -z "$name" ] || helm uninstall "$name" --namespace "$namespace"
done
kubectl delete deployments,leases,secrets,jobs --all --namespace vgpu-system
kubectl delete deployments --all --namespace kube-system
"""
SPOKEN_OF = ("HOME", "KUBECONFIG", "PATH")
BASH = shutil.which("bash") or "/bin/bash"
COMMAND_LIMIT_S = 60.0
SHAPE_LIMIT_S = 30.0
"""How long a block is typed again until the cluster has got as far as its page shows."""

TRANSLATED = ("README.zh-CN.md", "docs/zh/")
"""``test_chinese_pages.py`` holds them to what their English pages say to type."""

PAGES = [
    page
    for page in reader.pages()
    if any(block.run for block in reader.page_blocks(page)) and not page.startswith(TRANSLATED)
]
RUNBOOKS = [page for page in PAGES if page.startswith("docs/runbooks/")]
"""They all take the same for granted and change nothing: one after another, without a break."""

CHAPTERS = [[page] for page in PAGES if page not in RUNBOOKS] + [RUNBOOKS]


@dataclass(slots=True, kw_only=True)
class Reader:
    """Sits before a cluster with the programs that the pages name."""

    here: World
    folder: Path
    programs: Path
    desk: Path
    staying: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in SPOKEN_OF and not name.startswith(("HELM_", "VGPU_"))
        }
        home = self.folder / "home"
        return kept | {
            "HOME": str(home),
            "KUBECONFIG": str(home / ".kube" / "config"),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "COLUMNS": "110",
            "NO_COLOR": "1",
        }

    def type(self, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BASH, "-c", f"set -e\n{reader_before.replaced(commands)}"],
            cwd=self.desk,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )

    def start(self, block: reader.Block) -> None:
        """Type commands of which the last one stays, and wait until it says that it has begun."""
        log = self.folder / f"staying-{len(self.staying)}.log"
        with log.open("wb") as out:
            self.staying.append(
                subprocess.Popen(
                    [BASH, "-c", f"set -e\n{block.text}"],
                    cwd=self.desk,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + COMMAND_LIMIT_S
        while block.words not in log.read_text(errors="replace"):
            ended = self.staying[-1].poll() is not None
            if ended or time.monotonic() > deadline:
                said = log.read_text(errors="replace")
                pytest.fail(f"{block} did not say {block.words!r}:\n{block.text}\n{said}")
            time.sleep(0.1)

    def leave(self) -> None:
        """End what stays, as Ctrl-C does."""
        while self.staying:
            process = self.staying.pop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def sit_down(self, page: str) -> None:
        """Type what a page takes for granted."""
        (self.desk / "train.yaml").write_text(reader_before.readmes_pod())
        self.must(reader_before.before(page))

    def must(self, commands: str) -> None:
        done = self.type(commands)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"

    def read(self, page: str) -> None:
        """Type everything that a page says, from top to bottom."""
        for block, shown in reader.steps(reader.page_blocks(page)):
            if block.mark == "file":
                (self.desk / block.words).unlink(missing_ok=True)
                (self.desk / block.words).write_text(block.text)
            elif block.mark == "until":
                self.start(block)
            else:
                self.answered(block, shown)

    def answered(self, block: reader.Block, shown: str | None) -> None:
        """Type commands until they print what the page shows; at once where it shows nothing."""
        wanted = int(block.words) if block.mark == "exit" else 0
        deadline = time.monotonic() + (SHAPE_LIMIT_S if shown is not None else 0)
        while True:
            done = self.type(block.text)
            told = f"{done.stdout}{done.stderr}"
            missing = reader.differs(shown, told) if shown is not None else ""
            if done.returncode == wanted and not missing:
                return
            if time.monotonic() > deadline:
                pytest.fail(
                    f"{block} ended with {done.returncode}, the page says {wanted}:\n{block.text}"
                    f"\n{told}\n" + (f"not printed as shown: {missing}" if missing else ""),
                    pytrace=False,
                )
            time.sleep(0.5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def somebody(
    kubectl_program: Path, helm_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Reader]:
    """Run one cluster for all pages."""
    folder = tmp_path_factory.mktemp("reader")
    # The operator is not that of a release: pages install one and remove it.
    async with (
        ControlPlane(ControlPlaneOptions(directory=folder / "control-plane")) as plane,
        await client.KubeClient.connect(kubeconfig=str(plane.kubeconfig)) as kube,
        cli_stack.running(grounds.LocalGround(plane), kube) as (stack, replica),
        (here := World(plane, kube, stack, replica)).simulate(*NODES),
    ):
        programs = reader.lay_out(
            folder,
            kubeconfig=here.plane.kubeconfig,
            kubectl=kubectl_program,
            helm=helm_program,
            python=Path(sys.executable),
        )
        yield Reader(here=here, folder=folder, programs=programs, desk=folder)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter[0])
async def test_what_a_page_says_can_be_typed(
    somebody: Reader, chapter: list[str], tmp_path: Path
) -> None:
    somebody.desk = reader.checkout(tmp_path / "checkout")
    (somebody.desk / ".venv" / "bin").mkdir(parents=True)
    for program in somebody.programs.iterdir():
        (somebody.desk / ".venv" / "bin" / program.name).symlink_to(program)
    before = {node["metadata"]["name"] for node in await somebody.here.nodes()}
    try:
        await asyncio.to_thread(somebody.sit_down, chapter[0])
        for page in chapter:
            await asyncio.to_thread(somebody.read, page)
    finally:
        await asyncio.to_thread(somebody.leave)
        await _tidy(somebody, before, chapter[0])


async def _tidy(somebody: Reader, nodes: set[str], page: str) -> None:
    """Give the next page the cluster that this one has found."""
    kube = somebody.here.kube
    for pod in await somebody.here.pods():
        place = paths.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        with contextlib.suppress(errors.NotFound):
            await kube.delete(place, grace_s=0)
    for node in await somebody.here.nodes():
        name = node["metadata"]["name"]
        if name not in nodes:
            await kube.delete(paths.node(name))
        elif node["spec"].get("unschedulable"):
            await kube.patch(paths.node(name), {"spec": {"unschedulable": None, "taints": None}})
    typed = [reader_before.before(page), *(block.text for block in reader.page_blocks(page))]
    if any("helm" in text or "manifests/" in text for text in typed):
        await asyncio.to_thread(somebody.must, WITHOUT_RELEASES)
