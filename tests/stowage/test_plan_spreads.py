"""`stowage plan` and `explain` of WorkloadSpreads, from files alone."""

from __future__ import annotations

from typing import Any

import pytest

from .test_plan import Write, cluster, placed, plan, refusal, run, shares, workload, write

__all__ = ["write"]


def spread(*subsets: dict[str, Any], name: str = "burst", target: str = "demo", **spec: Any) -> Any:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "targetRef": {
                "apiVersion": "stowage.dev/v1alpha1",
                "kind": "Workload",
                "name": target,
            },
            "subsets": list(subsets),
            **spec,
        },
    }


def subset(name: str, most: Any = None) -> dict[str, Any]:
    term = {"matchLabels": {"type": name}}
    return {"name": name, "requiredNodeSelectorTerm": term} | (
        {} if most is None else {"maxReplicas": most}
    )


MEMBERS = [cluster(name, cpu=100, labels={"type": name}) for name in ("normal", "elastic", "lab")]
BURST = spread(subset("normal", 100), subset("elastic"))


@pytest.mark.proves("W4", "W6")
def test_the_spread_of_the_files_divides(write: Write) -> None:
    fleet = write("fleet.yaml", *MEMBERS)
    asked = write("w.yaml", workload("demo", replicas=130), BURST)
    assert shares(plan(asked, fleet)["demo"]) == {"normal": 100, "elastic": 30}
    table = run("plan", "-f", asked, "--fleet", fleet)
    assert "elastic=30,normal=100" in table.stdout


def test_the_spread_that_is_there_divides_what_is_scaled(write: Write) -> None:
    there = workload("demo", replicas=130, status=placed(normal=100, elastic=30))
    fleet = write("fleet.yaml", *MEMBERS, BURST, there)
    less = write("w.yaml", workload("demo", replicas=110))
    assert shares(plan(less, fleet)["demo"]) == {"normal": 100, "elastic": 10}


def test_a_larger_cap_alone_is_a_plan_too(write: Write) -> None:
    there = workload("demo", replicas=130, status=placed(normal=50))
    fleet = write("fleet.yaml", *MEMBERS, spread(subset("normal", 50)), there)
    larger = write("ws.yaml", spread(subset("normal", 80)))
    told = plan(larger, fleet)["demo"]
    assert shares(told) == {"normal": 80}
    assert (told["pending"], told["reason"]) == (50, "ReplicasReached")
    assert "subset normal is at its cap of 80" in told["message"]


def test_explain_names_the_subset_of_each_number(write: Write) -> None:
    fleet = write("fleet.yaml", *MEMBERS)
    capped = spread(subset("normal", 10), subset("elastic", 5))
    asked = write("w.yaml", workload("demo", replicas=20), capped)
    told = run("explain", "wl/demo", "-n", "shop", "-f", asked, "--fleet", fleet).stdout
    for said in (
        "10 in subset normal; subset normal is at its cap of 10",
        "5 in subset elastic",
        "not in a subset of workload-spread burst (WorkloadSpread)",
        "1 cluster: subset normal is at its cap of 10",
        "a larger maxReplicas of subset normal or elastic in WorkloadSpread burst",
    ):
        assert said in told
    assert "room" not in told.partition("What would help")[2], "more of it would not"


@pytest.mark.proves("W11")
def test_a_patch_that_does_not_fit_is_named(write: Write) -> None:
    patch = {"spec": {"containers": [{"name": "mian", "env": []}]}}
    asked = write("w.yaml", workload("demo"), spread({**subset("normal"), "patch": patch}))
    told = plan(asked, write("fleet.yaml", *MEMBERS))["demo"]
    assert told["reason"] == "InvalidSpread"
    said = "spec.subsets[0].patch: spec.containers[0]: no container 'mian' in the template"
    assert said in told["message"]


def test_one_stands_there_twice(write: Write) -> None:
    fleet = write("fleet.yaml", *MEMBERS)
    assert "burst is in" in refusal("-f", write("w.yaml", BURST, BURST), "--fleet", fleet)
