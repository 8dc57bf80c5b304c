"""Objects of other systems for the tests of `stowage import`, and how its command is run."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from click.testing import CliRunner, Result

from crds import LOADER
from crds.admission.validation import object_violations
from crds.names import LABEL_CLUSTER
from machinery.overrides.override import ClusterOverride, matching, overridden
from machinery.overrides.variables import ClusterFacts
from stowage.cli import cli
from stowage.console.yamltext import dump
from stowage.fleet.manifests import Document
from stowage.importing import command

KRUISE = "apps.kruise.io/v1alpha1"
POD_GROUPS = "scheduling.x-k8s.io"
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
POD_GROUP_LABEL = f"{POD_GROUPS}/pod-group"


def run(*args: object, **how: Any) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], **how)


def written(*objects: Any) -> str:
    """The documents of a file, by the parser in C: PyYAML's own takes ten times as long."""
    text: str = yaml.dump_all(objects, Dumper=_DUMPER, sort_keys=False)
    return text


def loaded(text: str) -> list[Any]:
    """The documents of a text."""
    return list(yaml.load_all(text, Loader=LOADER))


class Files:
    """Writes objects to files of a folder, and imports them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, *objects: Any, name: str = "in.yaml") -> str:
        path = self.folder / name
        path.write_text(written(*objects))
        return str(path)

    def imported(self, *objects: Any, lossy: bool = False) -> dict[str, dict[str, Any]]:
        """The output by kind and name; fails where there is a loss, unless that is asked for."""
        result = self.result(*objects, lossy=lossy)
        assert result.exit_code == 0, f"{result.exception}\n{result.stderr}"
        listed = loaded(result.stdout)
        found = {f"{each['kind']}/{each['metadata']['name']}": each for each in listed}
        assert len(found) == len(listed)
        return found

    def notes(self, *objects: Any) -> list[str]:
        """The notes, without the file's name."""
        return said(self.result(*objects, lossy=True))

    def losses(self, *objects: Any) -> list[str]:
        """The fields that are lost; nothing may be printed for them."""
        result = self.result(*objects)
        assert result.exit_code == 1
        assert not result.stdout
        assert "--lossy" in str(result.exception)
        return [each for each in said(result) if each.startswith("lost: ")]

    def refusal(self, *objects: Any) -> str:
        """The error, whatever losses are accepted."""
        result = self.result(*objects, lossy=True)
        assert result.exit_code == 1
        assert not result.stdout
        return str(result.exception)

    def planned(self, *objects: Any, fleet: Sequence[Any], lossy: bool = False) -> dict[str, int]:
        """Where a plan of the output puts the units of its one Workload, by cluster."""
        result = self.result(*objects, lossy=lossy)
        assert result.exit_code == 0, result.stderr
        output = self.folder / "out.yaml"
        output.write_text(result.stdout)
        there = self.write(*fleet, name="fleet.yaml")
        plan = run("plan", "-f", output, "--fleet", there, "-o", "json")
        assert plan.exit_code == 0, plan.output
        [workload] = json.loads(plan.stdout)["workloads"]
        return {each["cluster"]: each["replicas"] for each in workload["placements"]}

    def result(self, *objects: Any, lossy: bool = False) -> Result:
        args = ["--lossy"] if lossy else []
        return run("import", "-f", self.write(*objects), *args)


def cluster(name: str, **labels: str) -> dict[str, Any]:
    """A MemberCluster with room for all."""
    free = {"cpu": 8, "memory": "32Gi", "pods": 330}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeGroups": [{"count": 1, "free": free}],
            "capacity": {"nodes": 1, "allocatable": free, "requested": {}},
        },
    }


def said(result: Result) -> list[str]:
    """The notes without the file's name."""
    notes = (line.split(": ", 2) for line in result.stderr.splitlines())
    return [f"{what}: {text}" for what, _, text in notes]


def pod(*, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web", **(labels or {})}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec},
    }


def deployment(*, labels: Mapping[str, str] | None = None, **parts: Any) -> dict[str, Any]:
    """`parts` are fields of the pod's spec, and `replicas`."""
    return runs(
        "apps/v1",
        "Deployment",
        replicas=parts.pop("replicas", 10),
        template=pod(labels=labels, **parts),
    )


def runs(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "labels": {"team": "a"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod(),
            **copy.deepcopy(spec),
        },
    }


def clone_set(*, version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    return runs(f"apps.kruise.io/{version}", "CloneSet", **{"replicas": 10, **spec})


def term(key: str, *values: Any, operator: str = "In") -> dict[str, Any]:
    listed = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **listed}]}


def subset(name: str, most: int | str | None = None, **parts: Any) -> dict[str, Any]:
    found = {"name": name, "requiredNodeSelectorTerm": term("pool", name), **parts}
    return found if most is None else found | {"maxReplicas": most}


def spread(
    *subsets: Any, target: Mapping[str, Any] | None = None, version: str = "v1alpha1", **spec: Any
) -> dict[str, Any]:
    target = target or deployment()
    ref = {key: target[key] for key in ("apiVersion", "kind")} | {"name": "web"}
    return {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "WorkloadSpread",
        "metadata": {"name": "web-spread", "namespace": "shop"},
        "spec": {"targetRef": ref, "subsets": list(subsets), **spec},
    }


def policy(**spec: Any) -> dict[str, Any]:
    """A policy of Kosmos: two units in `member`, three in `host`, one after the other."""
    return {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": "two-to-three", "namespace": "shop"},
        "spec": {
            "topologyKey": "workload-test",
            "labelSelector": {"matchLabels": {"multi-cluster": "true"}},
            "allocationPolicy": [
                {"name": "member", "replicas": 2},
                {"name": "host", "replicas": 3},
            ],
            **spec,
        },
    }


def bound(key: str = "workload-policy/kosmos.io", **parts: Any) -> dict[str, Any]:
    """A Deployment of five that names the policy, for Kosmos' own scheduler."""
    labels = {"multi-cluster": "true", key: "two-to-three"}
    given = {"schedulerName": "kosmos-scheduler", "replicas": 5, **parts}
    return deployment(labels=labels, **given)


def reservation(*owners: Any, **spec: Any) -> dict[str, Any]:
    """A Reservation of Koordinator, for the Deployment's pods in shop unless owners are named."""
    template = pod(schedulerName="koord-scheduler")
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4", "memory": "8Gi"}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "room"},
        "spec": {
            "template": template,
            "owners": [*owners] or [chosen()],
            **copy.deepcopy(spec),
        },
    }


def chosen(**more: Any) -> dict[str, Any]:
    """The owners that have the label of the Deployment's pods."""
    return {"labelSelector": {"matchLabels": {"app": "web"}}, **more}


def controlled(kind: str, name: str, *, version: str = "apps/v1", **more: Any) -> dict[str, Any]:
    """The owners that this one controls, in shop."""
    ref = {"apiVersion": version, "kind": kind, "name": name, "namespace": "shop"}
    return {"controller": {**ref, **more}}


def pod_group(*, of: str = POD_GROUPS, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """A PodGroup of scheduler-plugins, of four units."""
    metadata = {"name": "batch", "namespace": "shop"}
    metadata |= {"annotations": annotations} if annotations else {}
    spec = {"minMember": 4, **spec}
    spec = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": f"{of}/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def ganged(label: str = POD_GROUP_LABEL, **parts: Any) -> dict[str, Any]:
    """A Deployment of six that names it, for the scheduler of scheduler-plugins."""
    parts = {"replicas": 6, "schedulerName": "scheduler-plugins-scheduler", **parts}
    return deployment(labels={label: "batch"}, **parts)


# --- without files --------------------------------------------------------------------------------


def documents(*bodies: Any) -> list[Document]:
    return [Document("in.yaml", n, copy.deepcopy(body)) for n, body in enumerate(bodies, start=1)]


class Made:
    """What objects become, without a command: the output by kind and name, report and losses."""

    def __init__(
        self, *bodies: Any, namespace: str = "", selector: str = "", checked: bool = True
    ) -> None:
        asked = command.Asked(documents=documents(*bodies), namespace=namespace, selector=selector)
        self.made = command.converted(asked)
        self.bodies = [body for _, body in command.objects(self.made)]
        for body in self.bodies if checked else ():
            if body["apiVersion"].startswith("stowage.dev/"):
                assert object_violations(body["kind"], {"metadata": {}, **body}) == [], body

    @property
    def text(self) -> str:
        return dump(self.bodies)

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The spec of `Kind/name`."""
        found = {f"{each['kind']}/{each['metadata']['name']}": each for each in self.bodies}
        spec: dict[str, Any] = found[name]["spec"]
        return spec

    @property
    def names(self) -> list[str]:
        return [f"{each['kind']}/{each['metadata']['name']}" for each in self.bodies]

    @property
    def report(self) -> list[dict[str, Any]]:
        return command.report(self.made)

    def said(self, fate: str) -> dict[str, str]:
        """The sentences of that fate that are printed, by `<name>: <field>`."""
        return {
            f"{note.document.name}: {note.field}": note.text
            for note in self.made.notes.each
            if str(note.fate) == fate
        }

    @property
    def lost(self) -> dict[str, str]:
        return self.said("lost")

    @property
    def noted(self) -> dict[str, str]:
        return self.said("noted")

    def rendered(
        self, name: str, clusters: Mapping[str, Mapping[str, str]], *, kind: str = ""
    ) -> dict[str, dict[str, Any]]:
        """What each cluster gets of a Workload's main object, or of one of its manifests."""
        spec = self[name]
        body = spec.get("targetDeployment") or spec.get("template")
        if kind:
            [body] = [each for each in spec["manifests"] if each["kind"] == kind]
        listed = msgspec.convert(spec.get("overrides", []), list[ClusterOverride])
        mine = [each for each in listed if (each.target.kind if each.target else "") == kind]
        return {
            cluster: overridden(
                body,
                matching(mine, {**labels, LABEL_CLUSTER: cluster}),
                ClusterFacts(cluster, labels),
            )
            for cluster, labels in clusters.items()
        }
