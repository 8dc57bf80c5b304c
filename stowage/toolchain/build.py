"""Builds the programs of a control plane from their Go modules, once for each set of versions.

The Go module beside this file pins versions and has no code. A program appears in the cache by a
rename, so no process runs a half-built one; a lock keeps a second builder waiting.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from machinery.errors import StowageError
from stowage.console.progress import Lines, Progress
from stowage.lock import alone
from stowage.toolchain import binaries, golang


class BuildFailed(StowageError):
    """Go could not build a program. The message ends with Go's own words."""


def ensure(names: Sequence[str] = binaries.LOCAL, *, progress: Progress | None = None) -> None:
    """Return when these programs, and kwok's stages, lie in the cache; at once when they do.

    Raises BuildFailed, and ConfigurationError when no Go can be found or fetched.
    """
    if not _todo(names):
        return
    say = progress or Progress()
    waiting = "Another build is under way: waiting for it"
    # asked again under the lock: another process may have built them meanwhile
    with alone(binaries.folder() / "lock", say, waiting=waiting):
        todo = _todo(names)
        if todo:
            _build(todo, say)


def _todo(names: Sequence[str]) -> list[str]:
    todo = binaries.missing(names)
    staged = all(stage.exists() for stage in binaries.stages())
    # kwok does nothing without its stages
    if "kwok" in names and "kwok" not in todo and not staged:
        todo.append("kwok")
    return todo


def _build(names: Sequence[str], progress: Progress) -> None:
    progress.say(f"Building {', '.join(names)} from Go modules; this is done once")
    with tempfile.TemporaryDirectory(dir=binaries.folder()) as temporary:
        # A copy, because the package may be installed in a folder that is read-only.
        module = Path(temporary) / "module"
        shutil.copytree(binaries.GO_MODULE, module)
        builder = _ToolBuilder(golang.find(progress), module, Path(temporary), progress)
        builder.count(names)
        for name in names:
            builder.build(name)
        if "kwok" in names:
            builder.copy_stages()


@dataclass
class _ToolBuilder:
    go: str
    module: Path
    temporary: Path
    progress: Progress
    packages: dict[str, set[str]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def count(self, names: Sequence[str]) -> None:
        fetched = 0

        def note(line: str) -> None:
            nonlocal fetched
            fetched += line.startswith("go: downloading")
            self.progress.step("Fetching Go modules", fetched)

        for name in names:
            listed = self._run(["list", "-deps", binaries.PACKAGES[name]], note)
            self.packages[name] = set(listed.split())

    def build(self, name: str) -> None:
        total = len(set().union(*self.packages.values()))

        def note(line: str) -> None:
            self.done |= {line} & self.packages[name]
            self.progress.step("Packages built", len(self.done), total)

        made = self.temporary / name
        # Go takes GOMAXPROCS for it, which the tests set for the servers that they start.
        parallel = f"-p={os.cpu_count() or 1}"
        plain = ["build", "-v", parallel, "-trimpath", "-buildvcs=false"]
        flags = ["-ldflags", _ldflags(self.module), "-o", str(made)]
        self._run([*plain, *flags, binaries.PACKAGES[name]], note)
        # Go names only what it compiled; what lay in its own cache is done as well.
        self.done |= self.packages[name]
        self.progress.step("Packages built", len(self.done), total)
        _publish(made, binaries.path(name))

    def copy_stages(self) -> None:
        """Copy kwok's stage files out of Go's module cache, which may be cleaned."""
        where = self._run(["list", "-m", "-f", "{{.Dir}}", binaries.KWOK_MODULE], lambda _: None)
        for source, target in zip(binaries.KWOK_STAGES, binaries.stages(), strict=True):
            copy = self.temporary / target.name
            copy.write_bytes((Path(where.strip()) / source).read_bytes())
            _publish(copy, target)

    def _run(self, arguments: list[str], note: Callable[[str], None]) -> str:
        """Run go, call `note` with each line of its standard error; return its standard output."""
        output = self.temporary / "output"
        last: deque[str] = deque(maxlen=20)
        with (
            output.open("w") as out,
            subprocess.Popen(  # noqa: S603 - our own list
                [self.go, *arguments],
                cwd=self.module,
                env=golang.environment(self.go),
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            for line in process.stderr or ():
                last.append(line.rstrip())
                note(line.strip())
        if process.returncode != 0:
            raise BuildFailed(f"go {' '.join(arguments)} failed:\n" + "\n".join(last))
        return output.read_text()


def _ldflags(module: Path) -> str:
    """Return linker flags that strip the binary and set its version; else it says v0.0.0."""
    version = kubernetes_version(module)
    major, minor, _ = version.lstrip("v").split(".", 2)
    package = "k8s.io/component-base/version"
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {package}.{name}={value}" for name, value in facts.items())])


def kubernetes_version(module: Path = binaries.GO_MODULE) -> str:
    """Return the version of Kubernetes that the module pins, as `v1.36.3`."""
    found = re.search(r"(?m)^\s*k8s\.io/kubernetes (v\S+)", (module / "go.mod").read_text())
    if found is None:
        raise BuildFailed(f"{module / 'go.mod'} does not name k8s.io/kubernetes")
    return found[1]


def _publish(made: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    made.rename(place)


def main() -> None:
    try:
        ensure(progress=Lines())
    except StowageError as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main()
