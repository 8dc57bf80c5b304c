"""The browser of the tests: one that is named or installed, else a package of npm, in the cache.

The package holds Chromium and the libraries that it needs, for machines without any: the tests need
no root and no browser. `python -m stowage.toolchain.chromium` fetches it; `make demo` does not.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from machinery.errors import StowageError
from stowage.console.progress import Lines, Progress
from stowage.lock import alone
from stowage.toolchain.npm import NpmPackage, member

CHROMIUM = NpmPackage(
    "@sparticuz/chromium",
    "147.0.0",
    "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ==",
)
AXE = NpmPackage(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)
"""The rules of accessibility that pages are held to."""
VARIABLE = "STOWAGE_CHROMIUM"
INSTALLED = ("chromium-headless-shell", "chromium", "google-chrome")
_PARTS = ("al2023", "swiftshader", "fonts")
"""Libraries, GL, and a font."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """The program, and what its environment has beside that of this process."""

    program: str
    variables: Mapping[str, str] = field(default_factory=dict)


def browser(progress: Progress | None = None) -> Chromium:
    """Return the browser of `$STOWAGE_CHROMIUM`, of the path, or of the cache.

    Raises PackageFailed.
    """
    named = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, INSTALLED)), None)
    if named:
        return Chromium(named)
    folder = CHROMIUM.folder
    if not folder.exists():
        say = progress or Progress()
        with alone(
            folder.with_name(f"{folder.name}.lock"),
            say,
            waiting="Another process fetches the browser",
        ):
            if not folder.exists():
                say.say("Fetching the browser of the tests; this is done once")
                _unpack(folder)
    libraries = {"LD_LIBRARY_PATH": f"{folder}/al2023/lib", "FONTCONFIG_PATH": f"{folder}/fonts"}
    return Chromium(str(folder / "chromium"), libraries)


def axe() -> str:
    """Return the script of axe-core. Raises PackageFailed."""
    script = AXE.folder / "axe.min.js"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(AXE.fetched())) as archive:
            made = script.with_suffix(f".{os.getpid()}")
            made.write_bytes(member(archive, script.name))
        made.rename(script)
    return script.read_text(encoding="utf-8")


def _unpack(folder: Path) -> None:
    """Fetch the package, and put what it holds in place by a rename."""
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as temporary,
        tarfile.open(fileobj=io.BytesIO(CHROMIUM.fetched())) as archive,
    ):
        made = Path(temporary) / "made"
        for part in _PARTS:
            packed = io.BytesIO(_inflated(archive, f"bin/{part}.tar.br"))
            with tarfile.open(fileobj=packed) as inner:
                inner.extractall(made / part, filter="data")
        fonts = f"<dir>{folder}/fonts/fonts</dir><cachedir>{folder}/fonts/cache</cachedir>"
        (made / "fonts" / "fonts.conf").write_text(f"<fontconfig>{fonts}</fontconfig>")
        program = made / "chromium"
        program.write_bytes(_inflated(archive, "bin/chromium.br"))
        program.chmod(0o755)
        made.rename(folder)


def _inflated(archive: tarfile.TarFile, name: str) -> bytes:
    import brotli  # noqa: PLC0415 - of the group dev: only who fetches the browser needs it

    found: bytes = brotli.decompress(member(archive, name))
    return found


def main() -> None:
    """Fetch what the browser tests need."""
    try:
        browser(Lines())
        axe()
    except StowageError as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main()
