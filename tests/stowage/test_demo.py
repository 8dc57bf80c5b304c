"""What `make demo` waits for, what it says, and when it fails; and whether its machine has room."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

from machinery.errors import StowageError
from machinery.types.quantities import exact
from stowage.console.progress import Progress
from stowage.playground import demo
from tests.stowage.importing import written

RUNNING = {"state": "Running"}
CROWDED = {
    "state": "Pending",
    "conditions": [
        {
            "type": "Scheduled", "status": "False", "reason": "InsufficientCapacity",
            "message": "0/3 clusters have room for 4 replicas",
        }
    ],
}  # fmt: skip
DENIED = {
    "state": "Pending",
    "conditions": [
        {
            "type": "Scheduled", "status": "False", "reason": "GroupDenied",
            "message": "WorkloadGroup demo/training is denied for 3 s: resource gap: cpu 1 more",
        }
    ],
}  # fmt: skip
WITHOUT_NODE = {
    "state": "Creating",
    "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": ""}],
    "clusters": [{"name": "member-1", "unschedulable": 2}],
}
REFUSED = {
    "state": "Creating",
    "conditions": [
        {"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": ""},
        {"type": "Propagated", "status": "False", "reason": "Rejected", "message": "no such kind"},
    ],
}  # fmt: skip
DECIDED = {
    "state": "Scheduled",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Decided", "message": ""}],
}
PULLING = {"state": "Creating", "readySummary": "1/3"}


class _Clock:
    """A minute passes at each look."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 60.0
        return self.now


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """shown(*pictures) runs the demo on Workloads that look so, one picture a look."""
    looks, out = [], []

    def kubectl(_directory, _cluster, *arguments, stdin=None):
        if arguments[-3:] == ("workloads", "-o", "json"):
            found = looks.pop(0) if len(looks) > 1 else looks[0]
            named = ({"metadata": {"name": n}, "status": s} for n, s in found.items())
            return json.dumps({"items": list(named)})
        if arguments[-1] == "json":
            return json.dumps({"items": [{"status": {"provider": "kind", "version": "v1.36.4"}}]})
        return ""

    def run(*pictures):
        looks[:] = pictures
        demo.run(tmp_path, progress=Progress(), out=out.append, clock=_Clock())
        return out

    monkeypatch.setattr(demo, "_kubectl", kubectl)
    monkeypatch.setattr(demo, "_LOOK_SECONDS", 0.0)
    run.out = out
    return run


@pytest.mark.proves("Y1", "Q14")
def test_all_run_and_it_says_so(shown):
    rest = {"handmade": {}, "placed-only": DECIDED}
    out = shown({"a": PULLING, **rest}, {"a": RUNNING, **rest})
    assert "Not running:" not in out
    assert "Three things to try:" in out
    assert out[-1] == "  stowage ui"
    ((export, path),) = (line.split("; ") for line in out if line.startswith("  export "))
    assert export.endswith("hub.kubeconfig")
    folders = path.removeprefix("PATH=").split(":")
    assert shutil.which("stowage", path=folders[0])
    assert folders[-1] == "$PATH"


@pytest.mark.proves("Q14")
def test_the_readme_says_how_to_get_the_command():
    """Both install the scripts of the project from a checkout, whose root is its project."""
    root = Path(__file__).resolve().parents[2]
    first = (root / "README.md").read_text().partition("## The first ten minutes by hand")[2]
    block = first.partition("```console {usage}\n")[2].partition("```")[0]
    assert block.startswith("uv tool install . ")
    assert "pipx install .\n" in block
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts.keys() == {"stowage", "kubectl-stowage", "kubectl_complete-stowage"}


@pytest.mark.proves("Y1")
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (CROWDED, "  b: InsufficientCapacity: 0/3 clusters have room for 4 replicas"),
        (DENIED, f"  b: GroupDenied: {DENIED['conditions'][0]['message']}"),
        (WITHOUT_NODE, "  b: its replicas find no node: 2 on member-1"),
    ],
)
def test_where_room_lacks_it_says_for_whom_and_goes_on(shown, status, told):
    out = shown({"a": RUNNING, "b": status})
    assert told in out
    assert "Three things to try:" in out


@pytest.mark.proves("Y1")
def test_as_long_as_something_happens_it_waits(shown):
    slow = [{"a": {**PULLING, "readySummary": f"{n}/9"}} for n in range(9)]
    assert "Not running:" not in shown(*slow, {"a": RUNNING})


@pytest.mark.proves("Y1")
@pytest.mark.parametrize(
    ("status", "told"),
    [(REFUSED, "b: Rejected: no such kind"), (PULLING, "b: Creating, 1/3 ready")],
)
def test_what_is_stuck_for_another_reason_is_a_fault(shown, status, told):
    with pytest.raises(StowageError, match=told) as caught:
        shown({"a": CROWDED, "b": status})
    assert "a: " not in str(caught.value)
    assert f"  {told}" in shown.out


@pytest.mark.proves("Y1", "Z3")
def test_an_example_is_applied_as_it_is_but_for_provider_and_version(shown, monkeypatch, tmp_path):
    found = json.dumps({"items": [{"status": {"provider": "kind", "version": "v1.36.4"}}]})
    monkeypatch.setattr(demo, "_kubectl", lambda *_: found)
    changed = []
    for path in sorted(demo.examples().glob("*.yaml")):
        before, after = path.read_text().splitlines(), demo._text(tmp_path, path).splitlines()
        changed += [(a.strip(), b.strip()) for a, b in zip(before, after, strict=True) if a != b]
    assert set(changed) == {
        ("cloudProvider: kwok", "cloudProvider: kind"),
        ("clusterVersion: v1.36.3", "clusterVersion: v1.36.4"),
    }


SYSTEM_CPU, NODE_CPU = "950m", "2"


@pytest.mark.proves("Y1", "Z3")
def test_the_examples_fit_three_nodes_of_two_cpus(stowage, tmp_path):
    """Planned by the product's own command on such a fleet, as the demo's clusters would be."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(written(*(_member(number) for number in (1, 2, 3))))
    files = sorted(demo.examples().glob("*.yaml"))
    arguments = [word for path in files for word in ("-f", path)]
    planned = json.loads(stowage.succeed("plan", *arguments, "--fleet", fleet, "-o", "json"))
    pending = {w["name"]: w["pending"] for w in planned["workloads"] if w["pending"]}
    # By its policy, and by its quota; `handmade` is no business of ours.
    assert pending == {"bounded": 2, "within": 2}
    asked = {w["metadata"]["name"]: _asked(w) for path in files for w in _workloads(path)}
    taken = dict.fromkeys(("member-1", "member-2", "member-3"), (0, 0))
    for each in planned["workloads"]:
        if each["kind"] != "Workload":  # room that is held takes nothing from a node
            continue
        for share in each["placements"]:
            units, held = share["replicas"], taken[share["cluster"]]
            cpu, memory = asked[each["name"]]
            taken[share["cluster"]] = (held[0] + units * cpu, held[1] + units * memory)
    # One that any scheduler may put anywhere fits on each.
    cpu, memory = (2 * amount for amount in asked["handmade"])
    for taken_cpu, taken_memory in taken.values():
        assert taken_cpu + cpu <= exact(NODE_CPU) - exact(SYSTEM_CPU)
        assert taken_memory + memory <= exact("2Gi")


def _member(number):
    free = {"cpu": "1050m", "memory": "2Gi", "pods": 100}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {
            "name": f"member-{number}",
            "labels": {
                "topology.kubernetes.io/zone": f"zone-{number}",
                "stowage.dev/provider": "kwok",
                "stowage.dev/cluster": f"member-{number}",
            },
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "version": "v1.36.3",
            "provider": "kwok",
            "nodeGroups": [{"count": 1, "free": free}],
            "capacity": {
                "nodes": 1,
                "allocatable": {"cpu": NODE_CPU, "memory": "4Gi", "pods": 110},
                "requested": {"cpu": SYSTEM_CPU, "memory": "2Gi", "pods": 10},
            },
        },
    }


def _workloads(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "Workload"]


def _asked(workload):
    spec = workload["spec"]
    template = (spec.get("targetDeployment") or spec["template"])["spec"]["template"]["spec"]
    requests = [each["resources"]["requests"] for each in template["containers"]]
    return tuple(sum(exact(each[what]) for each in requests) for what in ("cpu", "memory"))
