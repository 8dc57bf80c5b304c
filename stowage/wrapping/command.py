"""`stowage wrap`: read plain objects, make Workloads of them, lay fields over these, print.

It is a filter: what Helm, kustomize or a file has comes in, and goes out in the same form. It asks
no hub, and the same input gives the same output. Notes go to standard error; a KRM function's are
results in its ResourceList as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from crds.admission.validation import object_violations
from crds.fields.placing import Distribution
from machinery.errors import ConfigurationError
from machinery.types.bounds import shown
from machinery.types.merge_patch import merged
from stowage.console.output import named
from stowage.console.terminal import say
from stowage.console.yamltext import dump
from stowage.fleet import manifests
from stowage.importing.reading import bounded, formed
from stowage.wrapping.objects import Item
from stowage.wrapping.workloads import Result, Wrapped, check_unique, is_name, ordered, wrap

RESOURCE_LIST = "ResourceList"
_MADE = ("targetDeployment", "template", "targetService", "manifests", "replicasPath")
"""Fields of a Workload's spec that hold the objects themselves."""
_OF_REPLICAS = ("replicas", "rollout", "packing")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Layer:
    """Fields of a spec from a file, for one Workload or, without a name, for each."""

    file: str
    name: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What is asked for. `specs` are `FILE` or `NAME=FILE`."""

    files: Sequence[str]
    namespace: str = ""
    specs: Sequence[str] = ()
    rest_with: str = ""


def run(asked: Wrapping) -> None:
    """Print the objects with their Workloads. Raises ConfigurationError."""
    if asked.rest_with and not is_name(asked.rest_with):
        raise ConfigurationError(f"--rest-with: {asked.rest_with!r} cannot be a Workload's name")
    layers = [_layer(each) for each in asked.specs]
    documents, around = _read(asked.files)
    results: list[dict[str, Any]] = []

    def told(item: Item, text: str) -> None:
        say(f"note: {item.document.source}: {item.named}: {text}", err=True)
        results.append(_result(item, text))

    items = [Item(each) for each in documents]
    for each in items:
        if each.named_later:
            raise each.document.error(
                "kustomize changes names, and what refers to them, after its functions: pipe "
                "`kustomize build` into `stowage wrap` instead"
            )
    made = wrap(items, namespace=asked.namespace, rest_with=asked.rest_with, say=told)
    check_unique(made.workloads)
    _lay(layers, made.workloads)
    bodies = _bodies(made, asked.namespace)
    if around is not None:
        bodies = [{**around, "items": bodies, **({"results": results} if results else {})}]
    click.echo(dump(bodies), nl=False)


def _read(files: Sequence[str]) -> tuple[list[manifests.Document], dict[str, Any] | None]:
    """Return the objects, and the ResourceList that they came in, if they did."""
    if list(files) != [manifests.STANDARD_INPUT]:
        documents, around = manifests.read(files), None
    else:
        source, text = manifests.text_of(manifests.STANDARD_INPUT)
        documents, around = list(manifests.parse(source, text)), _list(source, text)
    if not documents and around is None:
        raise ConfigurationError("there is no object to wrap")
    for each in documents:
        bounded(each)
        formed(each)
    return documents, around


def _list(source: str, text: str) -> dict[str, Any] | None:
    """Return the ResourceList that a text is; None for any other."""
    found = manifests.values(source, text) if RESOURCE_LIST in text else []
    alone = found[0] if len(found) == 1 else None
    return alone if isinstance(alone, dict) and alone.get("kind") == RESOURCE_LIST else None


def _result(item: Item, text: str) -> dict[str, Any]:
    meta = {"name": item.name, **({"namespace": item.namespace} if item.namespace else {})}
    reference = {"apiVersion": item.api_version, "kind": item.kind, **meta}
    return {"message": shown(text), "severity": "info", "resourceRef": reference}


def _bodies(made: Result, namespace: str) -> list[dict[str, Any]]:
    passed = []
    for item, body in made.passed:
        bare = not (item.of_cluster or item.ours or body["metadata"].get("namespace"))
        meta = {**body["metadata"], "namespace": namespace} if bare and namespace else None
        passed.append({**body, "metadata": meta} if meta else body)
    return [*passed, *(each.body for each in made.workloads)]


# --- fields that are laid over Workloads ----------------------------------------------------------


def _layer(text: str) -> Layer:
    """Return what `FILE` or `NAME=FILE` says. Raises ConfigurationError."""
    name, sign, file = text.partition("=")
    if not sign or not is_name(name):
        name, file = "", text
    found = manifests.values(*manifests.text_of(file))
    if len(found) != 1 or not isinstance(found[0], dict):
        raise ConfigurationError(f"{file}: fields of a Workload's spec are expected here")
    fields = found[0]
    for each in _MADE:
        if each in fields:
            raise ConfigurationError(f"{file}: {each}: wrap makes it of the objects: remove it")
    return Layer(file, name, fields)


def _lay(layers: Sequence[Layer], workloads: Sequence[Wrapped]) -> None:
    """Lay the fields over the Workloads: those for each one first. Raises ConfigurationError."""
    names = {each.name for each in workloads}
    for layer in layers:
        if layer.name and layer.name not in names:
            known = f": there are {named(sorted(names), _NAMED)}" if names else ""
            raise ConfigurationError(f"--spec {layer.name}={layer.file}: no such Workload{known}")
    for workload in workloads:
        _check(workload, "")
        laid = [each for each in layers if each.name in ("", workload.name)]
        for layer in sorted(laid, key=lambda each: each.name != ""):
            spec = merged(workload.spec, _fitting(layer, workload))
            spec["resources"] = _joined(workload.spec, layer.fields)
            workload.body["spec"] = {key: value for key, value in spec.items() if value != []}
        workload.body["spec"] = ordered(workload.spec)
        if laid:
            _check(workload, ", ".join(dict.fromkeys(each.file for each in laid)))


def _joined(spec: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """Return the Secrets of both; those of the objects are needed."""
    more = fields.get("resources")
    if not isinstance(more, list):
        return spec.get("resources") or [] if more is None else more
    own = spec.get("resources") or []
    return [*own, *(each for each in more if each not in own)]


def _fitting(layer: Layer, workload: Wrapped) -> Mapping[str, Any]:
    """Return the fields for that Workload; of those for each, one without replicas takes fewer."""
    if workload.main is not None or layer.name:
        return layer.fields
    fields = {key: value for key, value in layer.fields.items() if key not in _OF_REPLICAS}
    if fields.get("distribution") == Distribution.DIVIDED.value:
        del fields["distribution"]
    for key in ("overrides", "ignoreFields", "statusFields"):
        if isinstance(fields.get(key), list):
            fields[key] = [e for e in fields[key] if isinstance(e, dict) and e.get("target")]
    return fields


def _check(workload: Wrapped, laid: str) -> None:
    """Raise ConfigurationError for a Workload that admission would refuse, in its own words."""
    wrong = object_violations("Workload", workload.body)
    if wrong and laid:
        text = f"over the Workload {workload.name} it is refused: {'; '.join(wrong)}"
        raise ConfigurationError(f"{laid}: {text}")
    if wrong:
        text = f"as the Workload {workload.name} it is refused: {'; '.join(wrong)}"
        raise workload.first.document.error(text)
