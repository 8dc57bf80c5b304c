"""The processor time of `stowage import`, beside one plain YAML parse of the same bytes.

    uv run python -m benchmarks.imports [--policies 1000] [--objects 5000]

PropagationPolicies of Karmada, each with its share of the Deployments, Services and ConfigMaps,
in one file. The parse is one call of PyYAML's C loader over the whole file; the import reads,
converts, checks and prints. Both take turns in one process; it prints the least processor time of
each, and their ratio. Starting the command is not part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from stowage.importing.command import Asked, run

ROUNDS = 3
KINDS = ("Deployment", "Service", "ConfigMap")


def policy(number: int, owned: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("apiVersion", "kind")
    selectors = [
        {**{k: each[k] for k in names}, "name": each["metadata"]["name"]} for each in owned
    ]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": f"policy-{number}", "namespace": f"team-{number % 20}"},
        "spec": {
            "resourceSelectors": selectors,
            "placement": {
                "clusterAffinity": {"clusterNames": [f"member-{n}" for n in range(3)]},
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Aggregated",
                },
            },
        },
    }


def carried(number: int, place: int) -> dict[str, Any]:
    """Return an object of the policy of that number: a Deployment, and what belongs to it."""
    kind, app = KINDS[place % len(KINDS)], f"app-{number}-{place // len(KINDS)}"
    body: dict[str, Any] = {
        "apiVersion": "apps/v1" if kind == "Deployment" else "v1",
        "kind": kind,
        "metadata": {
            "name": app,
            "namespace": f"team-{number % 20}",
            "labels": {"app": app, "team": str(number % 20)},
        },
    }
    if kind == "ConfigMap":
        return {**body, "data": {f"key-{n}": f"value {n} of {app}" for n in range(10)}}
    if kind == "Service":
        return {**body, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}}
    container = {
        "name": "main",
        "image": f"registry.example.com/{app}:1.{number}",
        "env": [{"name": f"NAME_{n}", "value": str(n)} for n in range(8)],
        "envFrom": [{"configMapRef": {"name": app}}],
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": app}}
    return {**body, "spec": {"replicas": 3, "selector": selector, "template": template}}


def documents(policies: int, objects: int) -> list[dict[str, Any]]:
    each = objects // policies
    made = []
    for number in range(policies):
        owned = [carried(number, place) for place in range(each)]
        made += [policy(number, owned), *owned]
    return made


def least(what: Callable[[], object]) -> float:
    """Return the least processor seconds of some calls."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        what()
        spent.append(time.process_time() - begun)
    return min(spent)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--policies", type=int, default=1000)
    asked.add_argument("--objects", type=int, default=5000)
    given = asked.parse_args()
    text = yaml.dump_all(documents(given.policies, given.objects), Dumper=yaml.CSafeDumper)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "karmada.yaml"
        file.write_text(text, encoding="utf-8")

        def imported() -> None:
            nowhere = io.StringIO()
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                run(Asked(files=[str(file)], lossy=True))

        parsed = least(lambda: list(yaml.load_all(text, Loader=yaml.CSafeLoader)))
        whole = least(imported)
    print(f"{given.policies} policies, {given.objects} objects, {len(text) / 2**20:.1f} MiB")
    print(f"parse {parsed:.2f} s, import {whole:.2f} s of processor time")
    print(f"import / parse {whole / parsed:.2f}")


if __name__ == "__main__":
    main()
