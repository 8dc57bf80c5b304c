"""The values of the chart: their defaults, what each is for, and their schema.

`values.yaml` and `values.schema.json` are two prints of one table. A value that the table lacks, or
one of another type, is refused by Helm before anything is rendered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from controller.config import ConfigurationFile
from machinery.types.shards import MOST_SHARDS
from stowage.packaging.template import dump
from stowage.setup.images import Image

Schema = Mapping[str, Any]
Manifest = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NAMES: Schema = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}
_STRINGS: Schema = {"type": "object", "additionalProperties": _TEXT}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_RESOURCES: Schema = {
    "type": "object",
    "properties": {
        "limits": _QUANTITIES,
        "requests": _QUANTITIES,
        "claims": _OBJECTS,
    },
    "additionalProperties": False,
}
_POLICY: Schema = {"enum": ["auto", True, False]}
_DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_LABELS: Schema = {**_STRINGS, "not": {"required": ["app"]}}
_CONFIGURATION: Schema = {"anyOf": [{"maxProperties": 0}, {"$ref": "#/$defs/Configuration"}]}


class Value(NamedTuple):
    """A value that a user may set."""

    default: Any
    schema: Schema
    text: str


Tree = dict[str, Any]
"""A Value at each leaf."""


def table(image: Image, deployments: Mapping[str, Manifest]) -> Tree:
    """Return all values. `deployments` are those of the manifests, by process."""
    return {
        "image": {
            "repository": Value(image.repository, {**_TEXT, "minLength": 1}, "Without tag."),
            "tag": Value(image.tag, _TEXT, "The version of the chart where it is empty."),
            "digest": Value(image.digest, _DIGEST, "sha256:…, beside the tag or without one."),
            "pullPolicy": Value(
                "IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "For all pods."
            ),
        },
        "imagePullSecrets": Value([], _OBJECTS, "Such as [{name: registry}]."),
        "controller": {
            **_process(deployments["controller"]),
            "config": Value(
                {},
                _CONFIGURATION,
                "A SchedulerConfiguration (docs/reference/configuration.md).",
            ),
        },
        "propagator": {
            "shards": Value(
                0,
                {**_NUMBER, "maximum": MOST_SHARDS},
                "Processes that share out the members; one more pod runs as a spare. 0 writes no"
                " ConfigMap; after another number, 1 ends it.",
            ),
            **_process(deployments["propagator"]),
        },
        "ui": {
            "enabled": Value(False, _FLAG, "The web page, for many readers (docs/ui.md)."),
            "replicas": Value(deployments["ui"]["spec"]["replicas"], _NUMBER, "Pods of the page."),
            "session": {
                "existingSecret": Value(
                    "", _TEXT, "A Secret whose key `current` has 32 random bytes or more."
                ),
            },
        },
        "tenants": {
            "all": Value(False, _FLAG, "Whether every namespace is a tenant."),
            "namespaces": Value([], _NAMES, "Those that are; they must be there."),
        },
        "argocd": {
            "namespace": Value(
                "", _TEXT, "Of an Argo CD whose ApplicationSets read ClusterDecisions."
            ),
        },
        "networkPolicy": {
            "enabled": Value(True, _FLAG, "What reaches the pods, and what they reach.")
        },
        "podDisruptionBudget": {
            "enabled": Value(True, _FLAG, "One pod stays in a drain, where there are several."),
        },
        "monitoring": {
            "rules": Value(False, _FLAG, "A PrometheusRule for the Prometheus Operator."),
            "dashboard": Value(False, _FLAG, "A ConfigMap that the sidecar of Grafana loads."),
        },
        "crds": {
            "install": Value(True, _FLAG, "The kinds; they stay when the release is uninstalled.")
        },
        "admission": {
            "validating": Value("auto", _POLICY, "auto: from Kubernetes 1.30 on."),
            "mutating": Value(
                "auto", _POLICY, "auto: from 1.36 on; else the controller fills in defaults."
            ),
        },
    }


def _process(deployment: Manifest) -> Tree:
    pod = deployment["spec"]["template"]["spec"]
    return {
        "replicas": Value(deployment["spec"]["replicas"], _NUMBER, "Pods, of which one is active."),
        "resources": Value(
            pod["containers"][0]["resources"],
            _RESOURCES,
            "Without a limit of cpu: who is held back misses the renewal of its Lease.",
        ),
        "extraArgs": Value([], _TEXTS, "Further arguments of the process."),
        "nodeSelector": Value({}, _STRINGS, "Of the pods; so are the next three."),
        "tolerations": Value([], _OBJECTS, ""),
        "affinity": Value({}, _OBJECT, ""),
        "topologySpreadConstraints": Value(pod["topologySpreadConstraints"], _OBJECTS, ""),
        "podLabels": Value({}, _LABELS, "Beside the label app."),
        "podAnnotations": Value({}, _STRINGS, ""),
    }


def values_yaml(tree: Tree) -> str:
    """Return the defaults, with the text of each above it."""
    return "".join(_lines(tree, 0))


def _lines(tree: Tree, depth: int) -> list[str]:
    before, lines = "  " * depth, []
    for name, each in tree.items():
        if isinstance(each, Value):
            if each.text:
                lines.append(f"{before}# {each.text}\n")
            text = dump([{name: each.default}])
            lines += [f"{before}{line}\n" for line in text.splitlines()]
        else:
            lines += [f"{before}{name}:\n", *_lines(each, depth + 1)]
    return lines


def schema_json(tree: Tree) -> str:
    """Return the schema that Helm checks values with."""
    configuration = ConfigurationFile.model_json_schema(by_alias=True)
    definitions = configuration.pop("$defs")
    root = _schema(tree)
    # Helm hands `global` to each chart that is a part of another one.
    root["properties"]["global"] = _OBJECT
    return (
        json.dumps(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                **root,
                "$defs": {**definitions, "Configuration": configuration},
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _schema(tree: Tree) -> dict[str, Any]:
    properties = {
        name: (
            {**each.schema, "description": each.text}
            if isinstance(each, Value) and each.text
            else each.schema
            if isinstance(each, Value)
            else _schema(each)
        )
        for name, each in tree.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
