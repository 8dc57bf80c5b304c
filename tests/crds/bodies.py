"""A good object of each kind, and what the hub and Python say of one that differs from it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from crds import LOADER
from crds.admission import validation

from .asking import Asking, refusal

HERE = Path(__file__).parent

SPECS: dict[str, dict[str, Any]] = {
    "Workload": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
    "WorkloadPolicy": {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": "demo"}},
        "allocationPolicy": [{"name": "member", "replicas": 1}, {"name": "host", "replicas": 3}],
    },
    "WorkloadSpread": {
        "targetRef": {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "demo"},
        "subsets": [{"name": "normal", "maxReplicas": 100}, {"name": "elastic"}],
    },
    "ClusterDecision": {},
    "WorkloadGroup": {"minMember": 4},
    "WorkloadQuota": {"hard": {"units": "5"}},
    "Reservation": {
        "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "4"}}}]}},
        "owners": [{"object": {"kind": "Workload", "name": "demo"}}],
    },
}
SUBSETS = [{"name": f"subset-{n}", "maxReplicas": 1} for n in range(33)]
OWNERS = [{"object": {"name": f"demo-{n}"}} for n in range(33)]
OVERRIDES = [
    {"name": f"o-{n}", "clusterSelector": {}, "patch": {"spec": {"paused": True}}}
    for n in range(33)
]
OPERATIONS = [{"op": "remove", "path": f"/spec/a{n}"} for n in range(65)]
LARGE: dict[str, Any] = {
    "OVERRIDES-32": OVERRIDES[:32],
    "OVERRIDES-33": OVERRIDES,
    "OPERATIONS-65": OPERATIONS,
    "REPEAT-254": "x" * 254,
    "REPEAT-53": "x" * 53,
    "REPEAT-64": "x" * 64,
    "SUBSETS-32": SUBSETS[:32],
    "SUBSETS-33": SUBSETS,
    "REFUGE-32": [*SUBSETS[:31], {"name": "refuge"}],
    "OWNERS-32": OWNERS[:32],
    "OWNERS-33": OWNERS,
    "CONTAINERS-33": {"spec": {"containers": [{}] * 33}},
    "RESOURCES-64": {f"example.com/gpu-{n}": "1" for n in range(64)},
    "RESOURCES-65": {f"example.com/gpu-{n}": "1" for n in range(65)},
    "AMOUNTS-33": {f"requests.r{n}": "1" for n in range(33)},
    "DIGITS-65": "1" * 65,
}
"""What the files of objects name, as it would fill them."""


def read(file: str) -> Any:
    """What a file of this folder has."""
    return yaml.load((HERE / file).read_text(), Loader=LOADER)


def examples(*kinds: str) -> list[dict[str, Any]]:
    """The objects of these kinds in `examples/`."""
    files = sorted((HERE.parents[1] / "examples").glob("*.yaml"))
    found = [o for file in files for o in yaml.load_all(file.read_text(), Loader=LOADER)]
    return [each for each in found if each["kind"] in kinds]


def body(kind: str, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """The good object with these fields put over those of its spec; None removes one."""
    whole = copy.deepcopy(SPECS[kind]) | {field: _grown(value) for field, value in spec.items()}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "demo", "namespace": namespace},
        "spec": {field: value for field, value in whole.items() if value is not None},
    }


def _grown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _grown(each) for key, each in value.items()}
    return LARGE.get(value, value) if isinstance(value, str) else value


def dry(asking: Asking, made: dict[str, Any]) -> str:
    """The hub's refusal; empty where it takes the object."""
    return refusal(asking.create, made, dry_run=True)


def taken(asking: Asking, made: dict[str, Any]) -> bool:
    """Whether the hub takes it; Python says the same of it."""
    said, ours = dry(asking, made), validation.object_violations(made["kind"], made)
    assert bool(said) == bool(ours), (said, ours)
    return not said
