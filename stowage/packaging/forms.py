"""The generated files below `deploy/`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.errors import ConfigurationError
from stowage.packaging import chart, krew
from stowage.packaging.template import dump
from stowage.setup import install
from stowage.setup.images import Image

ROOT = Path(__file__).parents[2]
"""The checkout."""
SBOM = "stowage.cdx.json"
_HEADER = "# Generated; `python -m stowage.packaging` writes it.\n"
_OWN = ("charts/stowage", "install", "krew", "kustomize/base")
"""Folders in which nothing else may lie."""
_EXPORT = (
    "export", "--frozen", "--quiet", "--no-default-groups", "--all-extras", "--format=cyclonedx1.5",
    "--preview-features=sbom-export",
)  # fmt: skip


def printed(image: str | None = None) -> dict[str, str]:
    """Return the text of each file. `image` is the one of this version where it is None.

    Raises ConfigurationError where uv, which writes the bill of materials, is not at hand.
    """
    image = image or install.default_image()
    objects = install.manifests(namespace=SYSTEM_NAMESPACE, image=image)
    version = metadata.version("stowage")
    # The tag of the chart is its own version, unless another one is asked for.
    parts = Image.of(image)
    parts = parts._replace(tag="" if parts.tag == version and not parts.digest else parts.tag)
    files = chart.files(
        version=version, image=parts, dashboard=ROOT / "deploy/monitoring/dashboard.json"
    )
    return {
        "install/install.yaml": _listed(objects),
        "install/install-1.30.yaml": _listed(
            install.without_mutating(objects, namespace=SYSTEM_NAMESPACE)
        ),
        "install/kustomization.yaml": _kustomization("install.yaml"),
        "kustomize/base/kustomization.yaml": _kustomization("../../install"),
        "kustomize/overlays/ui/ui.yaml": _listed(
            install.page_manifests(namespace=SYSTEM_NAMESPACE, image=image)
        ),
        **{f"charts/stowage/{name}": text for name, text in files.items()},
        "krew/stowage.yaml": _HEADER + krew.manifest(version, krew.archive(version)),
        SBOM: bill_of_materials(),
    }


def stray(folder: Path, files: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files in generated folders that are printed no more."""
    known = set(files)
    for own in _OWN:
        for path in sorted((folder / own).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name not in known:
                yield name


def _listed(objects: Iterable[Mapping[str, Any]]) -> str:
    return _HEADER + dump(objects)


def _kustomization(*resources: str) -> str:
    # In their own order: the policies that guard the kinds come after them.
    return _HEADER + dump(
        [
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "sortOptions": {"order": "fifo"},
                "resources": list(resources),
            }
        ]
    )


def bill_of_materials() -> str:
    """Return what the lock installs beside Stowage, as CycloneDX; the same for the same lock."""
    done = subprocess.run(  # noqa: S603 - our own list
        [_uv(), *_EXPORT, f"--project={ROOT}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ConfigurationError(f"uv export failed: {done.stderr.strip()}")
    bill = json.loads(done.stdout)
    del bill["serialNumber"], bill["metadata"]["timestamp"]
    # A line for each package, so that a diff shows which one has changed.
    lines = {key: bill.pop(key) for key in ("components", "dependencies")}
    rest = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in bill.items()]
    for key, entries in lines.items():
        listed = ",\n".join(f"  {json.dumps(each)}" for each in entries)
        rest.append(f" {json.dumps(key)}: [\n{listed}\n ]")
    return "{\n" + ",\n".join(rest) + "\n}\n"


def _uv() -> str:
    """Return the path of uv, which names itself to the processes that it runs."""
    here = ROOT / ".tools/bin/uv"
    found = os.environ.get("UV") or (str(here) if here.exists() else shutil.which("uv"))
    if not found:
        raise ConfigurationError("uv is not at hand: run `make .venv/synced` first")
    return found
