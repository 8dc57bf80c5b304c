"""What the last release left on hubs and members, kept as data: `python -m tests.packaging.released`.

Before a release it is written for that release, into a folder of its version; the tests of the next
one are held to the newest folder. `fields.txt` has each field of each kind with its type,
`workloads.yaml` Workloads as a hub stores them, `pods.txt` the digest of the pod templates that
members have of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import crds
from crds.admission.validation import normalised
from machinery.api.resources import CRDS
from machinery.kinds.table import profile_in
from machinery.kinds.templates import pods_in
from machinery.release import parsed, release
from machinery.types.merge_patch import merged
from propagator.apply.render import render
from propagator.types.workload import workload_of
from tests.propagator.apply.memberfacts import member_facts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "releases"
SHARE = 3


def fields() -> list[str]:
    """`Workload spec.replicas integer`, for each field that the kinds have now."""
    found = []
    for each in crds.manifests():
        if each["kind"] == CRDS.kind:
            (version,) = each["spec"]["versions"]
            kind, schema = each["spec"]["names"]["kind"], version["schema"]["openAPIV3Schema"]
            found += [f"{kind} {path} {type_}" for path, type_ in _fields(schema, "")]
    return sorted(found)


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for name, inner in schema.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        yield at, str(inner.get("type", "any"))
        yield from _fields(inner, at)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield f"{path}[]", str(schema[key].get("type", "any"))
            yield from _fields(schema[key], f"{path}[]")


def examples() -> list[dict[str, Any]]:
    """The Workloads of the examples as a hub stores them."""
    made = []
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        for each in yaml.load_all(file.read_text(), Loader=crds.LOADER):
            if each and each["kind"] == "Workload":
                body = merged(each, normalised(each))
                body["metadata"].setdefault("uid", f"uid-{len(made)}")
                body["metadata"].setdefault("namespace", "default")
                made.append(body)
    return made


def pods(workload: dict[str, Any]) -> str:
    """The digest of the pod templates that a member has of a Workload."""
    rendered = render(
        workload_of(workload), replicas=SHARE, first_ordinal=0, secrets=[], member=member_facts()
    )
    templates = [
        pods.template for piece in rendered for pods in pods_in(profile_in(piece.body), piece.body)
    ]
    return hashlib.sha256(json.dumps(templates, sort_keys=True).encode()).hexdigest()


def last() -> Path:
    """The folder of the newest release."""
    return max(FOLDER.iterdir(), key=lambda each: parsed(each.name))


def stored(folder: Path) -> list[dict[str, Any]]:
    return list(yaml.load_all((folder / "workloads.yaml").read_text(), Loader=crds.LOADER))


def main() -> None:
    folder = FOLDER / release()
    folder.mkdir(parents=True, exist_ok=True)
    made = examples()
    (folder / "fields.txt").write_text("".join(f"{each}\n" for each in fields()))
    (folder / "workloads.yaml").write_text(yaml.safe_dump_all(made, sort_keys=False))
    lines = (f"{each['metadata']['name']} {pods(each)}\n" for each in made)
    (folder / "pods.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
