"""Runs a Dockerfile's own steps in clean roots, so that file and test cannot part."""

import io
import json
import shlex
import shutil
import string
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.utils import build as docker_context
from dockerfile_parse import DockerfileParser

from support import clean_root

Step = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Image:
    """One stage: its root, and what the engine would note about it."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": clean_root.PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    labels: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def run(self, *argv: str, read_only: bool = True) -> Any:
        """Run a command as a container of this image would."""
        # HOME is what container engines give a user that is not in /etc/passwd.
        how = clean_root.Run(
            environment=self.environment | {"HOME": "/"},
            folder=self.folder,
            user=self.user,
            read_only=read_only,
        )
        return clean_root.run(self.root, argv, how)

    def start(self, *arguments: str) -> Any:
        """Run what the image runs; arguments stand for those of the ``CMD``."""
        return self.run(*self.entrypoint, *(arguments or self.command))


def steps(dockerfile: Path) -> list[Step]:
    """Return the instructions of a Dockerfile."""
    parser = DockerfileParser(fileobj=io.BytesIO(dockerfile.read_bytes()))
    return [step for step in parser.structure if step["instruction"] != "COMMENT"]


class Build:
    """Builds the last stage of ``context/Dockerfile`` beside all those before it."""

    def __init__(self, context: Path, *, folder: Path, base_root: Callable[[str], Path]) -> None:
        self._folder = folder
        self._base_root = base_root
        self._arguments: dict[str, str] = {}
        self._stages: dict[str, Image] = {}
        self._current: Image | None = None
        self._sent = folder / "context"
        self._steps = steps(context / "Dockerfile")
        self._send(context)

    def run(self) -> Image:
        """Run every step and return the last stage."""
        for step in self._steps:
            perform = getattr(self, f"_{step['instruction'].lower()}", None)
            if perform is None:
                raise NotImplementedError(f"{step['instruction']}: teach this file what it does")
            perform(step["value"])
        assert self._current is not None
        return self._current

    def _send(self, context: Path) -> None:
        """Copy what ``.dockerignore`` lets through, by the rules of Docker's own client."""
        ignored = (context / ".dockerignore").read_text().split()
        files = sorted(docker_context.exclude_paths(str(context), ignored))
        packed = docker_context.create_archive(str(context), files=files)
        with packed, tarfile.open(fileobj=packed) as archive:
            archive.extractall(self._sent, filter="data")

    @property
    def _stage(self) -> Image:
        assert self._current is not None, "an instruction before FROM"
        return self._current

    def _fill(self, text: str) -> str:
        """Put ARG and ENV in; both are known to RUN by its shell."""
        known = self._arguments if self._current is None else self._stage.arguments
        more = {} if self._current is None else self._stage.environment
        return string.Template(text).substitute(known | more)

    def _pairs(self, text: str) -> dict[str, str]:
        # Filled in after the split, as engines do: a value may hold spaces.
        pairs = (part.partition("=") for part in shlex.split(text))
        return {name: self._fill(value) for name, _, value in pairs}

    def _arg(self, value: str) -> None:
        name, given, default = value.partition("=")
        if self._current is None:
            self._arguments[name] = default
        else:
            self._stage.arguments[name] = self._fill(default) if given else self._arguments[name]

    def _from(self, value: str) -> None:
        self._current, base_and_name = None, value.split()
        archive = self._base_root(self._fill(base_and_name[0]))
        self._current = Image(root=self._folder / f"stage-{len(self._stages)}")
        name = base_and_name[2] if len(base_and_name) == 3 else str(len(self._stages))
        self._stages[name] = self._current
        clean_root.unpack(archive, self._current.root)

    def _label(self, value: str) -> None:
        self._stage.labels |= self._pairs(value)

    def _env(self, value: str) -> None:
        self._stage.environment |= self._pairs(value)

    def _user(self, value: str) -> None:
        self._stage.user = value

    def _workdir(self, value: str) -> None:
        self._stage.folder = value
        self._inside(value).mkdir(parents=True, exist_ok=True)

    def _entrypoint(self, value: str) -> None:
        self._stage.entrypoint = json.loads(value)

    def _cmd(self, value: str) -> None:
        self._stage.command = json.loads(value)

    def _copy(self, value: str) -> None:
        *sources, target = shlex.split(value)
        origin = self._sent
        if sources[0].startswith("--from="):
            origin = self._stages[sources.pop(0).removeprefix("--from=")].root
        assert not sources[0].startswith("--"), f"{sources[0]}: teach this file what it does"
        for source in sources:
            self._copy_one(origin / source.lstrip("/"), target)

    def _copy_one(self, source: Path, target: str) -> None:
        place = self._inside(target)
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
            return
        if target.endswith("/"):
            place = place / source.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)

    def _run(self, value: str) -> None:
        stage = self._stage
        how = clean_root.Run(
            environment=stage.environment | stage.arguments,
            folder=stage.folder,
            user=stage.user,
            builds=True,
        )
        done = clean_root.run(stage.root, ["/bin/sh", "-c", value], how)
        if done.returncode != 0:
            raise AssertionError(
                f"RUN {value}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )

    def _inside(self, path: str) -> Path:
        absolute = path if path.startswith("/") else f"{self._stage.folder}/{path}"
        return self._stage.root / absolute.lstrip("/")
