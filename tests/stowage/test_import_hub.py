"""What `stowage import` prints, applied to a real hub: its schema and policies take all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowage.playground.controlplanes import Cluster
from tests.stowage.importing import (
    Files,
    bound,
    clone_set,
    controlled,
    deployment,
    ganged,
    pod_group,
    policy,
    reservation,
    runs,
    spread,
    subset,
    term,
)

ADAPTIVE = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
LIKED = [{"weight": 10, "preference": term("disk", operator="Exists")}]
ARM = {
    "metadata": {"labels": {"arch": "arm"}, "annotations": {"a": "1e3"}},
    "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "yes"}]}]},
}
VIRTUAL = [{"key": "virtual", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]
CLAIMS = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]

ELASTIC = (
    spread(
        subset("normal", 100), subset("elastic", tolerations=VIRTUAL), scheduleStrategy=ADAPTIVE
    ),
    deployment(replicas=130),
)
CLONES = clone_set(volumeClaimTemplates=CLAIMS, scaleStrategy={"disablePVCReuse": True})
ZONES = (
    spread(
        subset("a", "20%", patch=ARM),
        subset("b", "20%", preferredNodeSelectorTerms=LIKED),
        subset("c", "60%"),
        target=CLONES,
    ),
    CLONES,
)
STATEFUL = runs("apps.kruise.io/v1beta1", "StatefulSet", replicas=3, serviceName="web")
JOB = runs("batch/v1", "Job", parallelism=4)
ELSEWHERE = controlled("Job", "b", version="batch/v1", namespace="bank")
CUSTOM = runs("kubeflow.org/v1", "TFJob", replicas=4)


@pytest.fixture(scope="module")
def shop(hub: Cluster) -> Cluster:
    """A hub with the namespaces that the objects are in."""
    for name in ("shop", "stowage-system"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        hub.kubectl("apply", "-f", "-", input=yaml.safe_dump(namespace))
    return hub


@pytest.mark.long
@pytest.mark.proves("K27")
@pytest.mark.parametrize(
    "given",
    [
        (policy(scheduleStrategy="Fill"), bound()),
        (policy(), bound(), spread(subset("a", 3), subset("b"))),
        ELASTIC,
        ZONES,
        (spread(subset("a", 2), subset("b", 3), target=STATEFUL), STATEFUL),
        (spread(subset("a", 2), subset("b"), target=JOB), JOB),
        (spread(subset("a", 2), subset("b"), target=CUSTOM), CUSTOM),
        (reservation(ttl="36h", allocateOnce=False), deployment()),
        (reservation(controlled("ReplicaSet", "web-5d4fbc8c7"), expires="2050-01-01T00:00:00Z"),),
        (reservation(controlled("Job", "a", version="batch/v1"), ELSEWHERE),),
        (pod_group(minResources={"cpu": 4}, scheduleTimeoutSeconds=3600), ganged()),
    ],
    ids=[
        "kosmos",
        "both",
        "elastic",
        "zones",
        "stateful",
        "job",
        "custom",
        "room",
        "until",
        "two",
        "gang",
    ],
)
def test_a_hub_takes_it_and_changes_nothing(
    shop: Cluster, tmp_path: Path, given: tuple[Any, ...]
) -> None:
    whole = CUSTOM in given  # its subsets only choose a cluster, which `import` names as lost
    result = Files(tmp_path).result(*given, lossy=whole)
    assert result.exit_code == 0, result.stderr
    answer = shop.kubectl(
        "apply", "--server-side", "--dry-run=server", "-o", "yaml", "-f", "-", input=result.stdout
    )
    stored = [each for doc in yaml.safe_load_all(answer) for each in doc.get("items", [doc])]
    printed = list(yaml.safe_load_all(result.stdout))
    assert len(stored) == len(printed)
    for was, now in zip(printed, stored, strict=True):
        assert _within(was, now), now


def _within(was: object, now: object) -> bool:
    """Whether everything that was printed is stored; the hub adds defaults."""
    if isinstance(was, dict) and isinstance(now, dict):
        return all(key in now and _within(value, now[key]) for key, value in was.items())
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(_within, was, now))
    return was == now
