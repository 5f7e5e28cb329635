"""Programs that tests need, built once from Go modules and kept in the cache."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import cache, longrun, toolchain
from vgpu_operator.cli.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is built, and how.

    Attributes:
        name: of the program that Go leaves in the folder it works in.
        title: for people, with its version.
        kept_as: its name in the cache, which says all that shapes it.
        arguments: for Go; ``$GOBIN`` is the folder it works in.
        stamps: texts that the linker puts in, by variable.
        sources: files to build from; none where the arguments name a module.
    """

    name: str
    title: str
    kept_as: str
    arguments: Sequence[str]
    stamps: Mapping[str, str]
    sources: Sequence[Path] = ()


def program(recipe: Recipe, *, report: Callable[[str], None]) -> Path:
    """Return the program, building it when the cache has none.

    Raises:
        ClusterError: it could not be built.
    """
    folder = cache.cache_directory(os.environ)
    search = toolchain.GoSearch(
        environment=os.environ, cache=folder, report=report, abort=threading.Event()
    )
    kept = folder / recipe.kept_as
    if os.access(kept, os.X_OK):
        return kept
    # A lock of its own: nobody waits minutes here because a control plane is being built.
    lock = folder / f"{recipe.name}.lock"
    with cache.exclusive(lock, report=report, abort=search.abort):
        if not os.access(kept, os.X_OK):
            go = toolchain.find_toolchain(search) or _installed_go(search)
            # Beside that lock: whoever builds a control plane clears the cache's own folder.
            with tempfile.TemporaryDirectory(prefix="build-", dir=lock) as name:
                _build(recipe, go, Path(name), search).rename(kept)
    return kept


def _installed_go(search: toolchain.GoSearch) -> toolchain.GoToolchain:
    with cache.exclusive(search.cache, report=search.report, abort=search.abort):
        # Looked up again: whoever held the lock may have brought one.
        return toolchain.find_toolchain(search) or toolchain.install_toolchain(search)


def _build(
    recipe: Recipe, go: toolchain.GoToolchain, folder: Path, search: toolchain.GoSearch
) -> Path:
    search.report(f"building {recipe.title} with {go.version}: 1 to 5 minutes, once")
    for file in recipe.sources:
        shutil.copy(file, folder / file.name)
    verb, *rest = recipe.arguments
    flags = " ".join(["-s -w", *(f"-X {name}={text}" for name, text in recipe.stamps.items())])
    command = longrun.LongCommand(
        argv=[str(go.program), verb, "-trimpath", f"-ldflags={flags}", *rest],
        directory=folder,
        environment=go.environment(search.environment) | {"GOBIN": str(folder)},
        log_file=folder / "build.log",
    )
    code = longrun.run(
        command,
        heartbeat=lambda elapsed_s: search.report(f"building {recipe.title}: {elapsed_s:.0f} s"),
        abort=search.abort,
    )
    if code != 0:
        last = longrun.last_line(command.log_file)
        raise ClusterError(f"{recipe.title} could not be built: {last}")
    return folder / recipe.name
