"""Print the shapes of other systems' kinds, from their Go modules: `python -m website.peers`.

A shape has the fields of a kind without its metadata and status: an object for an object, a list of
one for a list, a key `*` for a map, and a type for a leaf. Versions of one kind are laid together.
`stowage/importing/peers/` keeps what this prints, and `stowage.importing.shapes` reads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "stowage" / "importing" / "peers"
MODULES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "karmada": ("github.com/karmada-io/karmada", "v1.18.1", ("charts/karmada/_crds/bases/**/*",)),
    "ocm": ("open-cluster-management.io/api", "v1.3.0", ("*/*/*.crd",)),
    "kubefleet": ("github.com/kubefleet-dev/kubefleet", "v0.1.2", ("config/crd/bases/*",)),
    "kubefed": ("sigs.k8s.io/kubefed", "v0.10.0", ("charts/kubefed/charts/**/crds/*",)),
}
"""Of each system the Go module, its version, and where the definitions of its kinds are."""
AGGREGATED = {
    "karmada": ("api/openapi-spec/swagger.json", "cluster.karmada.io/Cluster", "cluster.v1alpha1.")
}
"""A kind that no definition is served for: (the file of its schema, the kind, its package)."""
_LEFT_OUT = ("apiVersion", "kind", "metadata", "status")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, (module, version, patterns) in MODULES.items():
            root = _module(module, version, folder)
            kinds = dict(sorted(_kinds(name, root, patterns).items()))
            lines = ",\n".join(f"{json.dumps(k)}:{_compact(v)}" for k, v in kinds.items())
            head = f'{{"module":"{module}","version":"{version}","kinds":{{\n'
            (FOLDER / f"{name}.json").write_text(f"{head}{lines}\n}}}}\n")
        for each in Path(folder).rglob("*"):
            if each.is_dir():
                each.chmod(0o755)  # the module cache is read-only


def _module(module: str, version: str, folder: str) -> Path:
    cache = os.environ.get("GOMODCACHE", folder)
    env = {**os.environ, "GOMODCACHE": cache, "GOFLAGS": "-mod=mod"}
    asked = ["go", "mod", "download", "-json", f"{module}@{version}"]
    told = subprocess.run(  # noqa: S603 - the modules above
        asked, env=env, cwd=folder, check=True, capture_output=True
    )
    return Path(json.loads(told.stdout)["Dir"])


def _compact(shape: Any) -> str:
    return json.dumps(shape, separators=(",", ":"), sort_keys=True)


def _kinds(name: str, root: Path, patterns: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, schema in (pair for each in patterns for pair in definitions(root, each)):
        found[key] = _together(found.get(key, {}), _shape(schema))
    if name in AGGREGATED:
        file, kind, package = AGGREGATED[name]
        known = json.loads((root / file).read_text())["definitions"]
        model = next(key for key in known if key.endswith(f"{package}{kind.partition('/')[2]}"))
        found[kind] = _shape(_resolved(known, known[model], 0))
    return {
        key: {k: v for k, v in shape.items() if k not in _LEFT_OUT} for key, shape in found.items()
    }


def definitions(root: Path, pattern: str) -> Iterator[tuple[str, Any]]:
    """Yield the schema of each version of each kind, by group and kind."""
    for file in sorted(root.glob(f"{pattern}.yaml")):
        for each in yaml.safe_load_all(file.read_text()):
            if each and each["kind"] == "CustomResourceDefinition":
                spec = each["spec"]
                for version in spec["versions"]:
                    key = f"{spec['group']}/{spec['names']['kind']}"
                    yield key, version["schema"]["openAPIV3Schema"]


def _resolved(known: Mapping[str, Any], schema: Any, depth: int) -> Any:
    if isinstance(schema, list):
        return [_resolved(known, each, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if (ref := schema.get("$ref")) and depth < 12:
        return _resolved(known, known[ref.rpartition("/")[2]], depth + 1)
    return {key: _resolved(known, value, depth) for key, value in schema.items()}


def _shape(schema: Mapping[str, Any]) -> Any:
    if schema.get("properties"):
        return {key: _shape(inner) for key, inner in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_shape(schema["items"])]
    if isinstance(schema.get("additionalProperties"), Mapping):
        return {"*": _shape(schema["additionalProperties"])}
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema.get("type", "any"))


def _together(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: _together(one[k], other[k]) if k in one and k in other else (one | other)[k]
                for k in one | other}  # fmt: skip
    return [_together(one[0], other[0])] if isinstance(one, list) and one else other or one


if __name__ == "__main__":
    main()
