"""The plugin of kubectl as krew installs it: an archive with one script, and its manifest.

The script runs this very version: the command that is installed, or the release's wheel by uv or
pipx. `python -m stowage.packaging.krew --url … --wheel … FOLDER` writes both for a release, where
the script knows the digest of the wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from stowage.packaging.template import dump

ROOT = Path(__file__).parents[2]
ARCHIVE = "stowage-krew.zip"
RELEASES = "https://registry.example/stowage/releases/download"
"""Stands for the place of a release in what is printed without one."""
_SCRIPT = """\
#!/bin/sh
# kubectl stowage, version {version}: the command that is installed, or the release's own wheel.
if command -v stowage >/dev/null 2>&1 && [ "$(stowage --version 2>/dev/null)" = "stowage {version}" ]; then
  exec stowage "$@"
fi
wheel='stowage @ {wheel}'
if command -v uvx >/dev/null 2>&1; then
  exec uvx --quiet --from "$wheel" stowage "$@"
fi
if command -v pipx >/dev/null 2>&1; then
  exec pipx run --quiet --spec "$wheel" stowage "$@"
fi
echo 'error: kubectl stowage needs uv or pipx on the PATH, or the command stowage {version}' >&2
exit 1
"""  # noqa: E501 - of a shell script
_DATE = (1980, 1, 1, 0, 0, 0)
"""The first one that an archive can have, so that two builds are equal."""


def archive(version: str, releases: str = RELEASES, digest: str = "") -> bytes:
    """Return the archive of a version; `digest` is the SHA-256 of its wheel, if that is known."""
    wheel = f"{releases}/v{version}/stowage-{version}-py3-none-any.whl"
    wheel += f"#sha256={digest}" if digest else ""
    files = {
        "kubectl-stowage": (_SCRIPT.format(version=version, wheel=wheel).encode(), 0o755),
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
    }
    made = io.BytesIO()
    # Not compressed: what compresses differs between versions of Python.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as packed:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            packed.writestr(entry, content)
    return made.getvalue()


def manifest(version: str, packed: bytes, releases: str = RELEASES) -> str:
    """Return the manifest of that archive."""
    return dump(
        [
            {
                "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
                "kind": "Plugin",
                "metadata": {"name": "stowage"},
                "spec": {
                    "version": f"v{version}",
                    "shortDescription": "Place workloads across clusters, and say why",
                    "description": "Plans, explains and follows where the Workloads of a fleet of "
                    "clusters run. It needs uv or pipx, which fetch the release, or the command "
                    "stowage of the same version.\n",
                    "platforms": [
                        {
                            "selector": {
                                "matchExpressions": [
                                    {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
                                ]
                            },
                            "uri": f"{releases}/v{version}/{ARCHIVE}",
                            "sha256": hashlib.sha256(packed).hexdigest(),
                            "bin": "kubectl-stowage",
                        }
                    ],
                },
            }
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write archive and manifest of this version into a folder."""
    parser = argparse.ArgumentParser(prog="python -m stowage.packaging.krew", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default=RELEASES, help="where releases are, without the version")
    parser.add_argument("--wheel", type=Path, help="the release's wheel, whose digest is noted")
    asked = parser.parse_args(arguments)
    version = metadata.version("stowage")
    digest = hashlib.sha256(asked.wheel.read_bytes()).hexdigest() if asked.wheel else ""
    packed = archive(version, asked.url, digest)
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / ARCHIVE).write_bytes(packed)
    text = manifest(version, packed, asked.url)
    (asked.folder / "stowage.yaml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
