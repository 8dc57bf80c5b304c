"""Koordinator's Reservation, imported: whose it is, where it goes, and what cannot be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stowage.importing import (
    KRUISE,
    Files,
    chosen,
    clone_set,
    controlled,
    deployment,
    reservation,
    run,
    runs,
)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def made(files: Files, *objects: Any, lossy: bool = False) -> dict[str, Any]:
    return files.imported(*objects, lossy=lossy)["Reservation/room"]


def test_a_reservation_and_the_deployment_that_may_use_it(files: Files) -> None:
    room = reservation(allocateOnce=False, ttl="48h")
    found = files.imported(room, deployment(schedulerName="koord-scheduler"))
    assert list(found) == ["Reservation/room", "Workload/web"]
    template = room["spec"]["template"]
    del template["spec"]["schedulerName"]
    assert found["Reservation/room"] == {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "room", "namespace": "shop"},
        "spec": {
            "template": template,
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            "allocateOnce": False,
            "ttl": "48h",
        },
    }
    spec = found["Workload/web"]["spec"]
    assert spec["schedulerName"] == "stowage"
    assert "schedulerName" not in spec["targetDeployment"]["spec"]["template"]["spec"]
    assert files.notes(reservation(), deployment())[0] == (
        "note: Reservation room: spec.owners: the Reservation is in namespace shop, that of its"
        " owners; only Workloads there can own it"
    )


# --- whose it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "ours"),
    [
        (controlled("StatefulSet", "db"), {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}),
        (controlled("ReplicaSet", "web-5d4fbc8c7"), {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}),
        (controlled("ReplicaSet", "web-cache"), {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-cache"}),
        (controlled("CloneSet", "web", version=KRUISE), {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}),
        (controlled("TFJob", "t", version="kubeflow.org/v1"), {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "t"}),
        (controlled("Job", "j", version="batch/v1", uid="u", controller=True), {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}),
    ],
)  # fmt: skip
def test_controllers_of_pods_are_controllers_of_workloads(
    files: Files, owner: Any, ours: dict[str, Any]
) -> None:
    room = made(files, reservation(owner))
    assert room["spec"]["owners"] == [{"controller": ours}]
    assert room["metadata"]["namespace"] == "shop"


def test_the_files_tell_whose_replica_set_it_is(files: Files) -> None:
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    replicas = runs("apps/v1", "ReplicaSet")
    replicas["metadata"] |= {"name": "web-made-by-hand", "ownerReferences": [above]}
    given = reservation(controlled("ReplicaSet", "web-made-by-hand")), replicas, deployment()
    found = files.imported(*given)
    [owner] = found["Reservation/room"]["spec"]["owners"]
    assert owner["controller"]["kind"] == "Deployment"
    assert list(found) == ["Reservation/room", "Workload/web"]


def test_a_pod_that_is_named_is_the_workload_of_that_name(files: Files) -> None:
    ref = {"kind": "Pod", "name": "web-0", "namespace": "shop", "uid": "u"}
    room = made(files, reservation({"object": ref}))
    assert room["spec"]["owners"] == [{"object": {"kind": "Workload", "name": "web-0"}}]
    assert any(
        "give this name to the one that runs it" in n
        for n in files.notes(reservation({"object": ref}))
    )


@pytest.mark.proves("RB4")
def test_an_owner_matches_as_it_did_there_and_the_notes_say_how(files: Files) -> None:
    """No kind is compared, and an apiVersion with pods that have none in the scheduler's cache."""
    other = reservation({"object": {"kind": "Deployment", "name": "web"}})
    assert made(files, other)["spec"]["owners"] == [{"object": {"kind": "Workload", "name": "web"}}]
    assert any("compares no kind (Deployment)" in note for note in files.notes(other))
    versioned = {"object": {"apiVersion": "v1", "kind": "Pod", "name": "web"}}
    [lost] = files.losses(reservation(versioned, controlled("Job", "a", version="batch/v1")))
    assert "with an apiVersion (v1) it matched no pod" in lost


@pytest.mark.parametrize(
    "owner",
    [
        {},
        {"object": {"uid": "u"}},
        {"object": {"apiVersion": "v1", "kind": "Pod", "name": "web-0"}},
        {"object": {"apiVersion": "v1", "namespace": "shop"}},
        {"object": {"kind": "Pod"}},
        {"controller": {"kind": "Job", "namespace": "shop"}},
        {"controller": {"apiVersion": "batch/v1"}},
        chosen(object={"uid": "u"}),
        chosen(
            object={"name": "a", "namespace": "one"},
            controller={"kind": "Job", "name": "a", "namespace": "two"},
        ),
    ],
)
def test_what_tells_no_workload_is_a_loss_and_left_out(files: Files, owner: Any) -> None:
    """Not made wider by leaving out what else was asked for."""
    given = reservation(owner, controlled("Job", "a", version="batch/v1"))
    [lost] = files.losses(given)
    assert "spec.owners[0]" in lost
    [kept] = made(files, given, lossy=True)["spec"]["owners"]
    assert kept["controller"]["name"] == "a"
    assert "spec.owners: none of them can be told here" in files.refusal(reservation(owner))


def test_a_whole_namespace_is_an_empty_selector_there(files: Files) -> None:
    room = made(files, reservation({"object": {"namespace": "shop", "kind": "Pod"}}))
    assert room["metadata"]["namespace"] == "shop"
    assert room["spec"]["owners"] == [{"labelSelector": {}}]


def test_what_one_entry_asks_for_together_stays_together(files: Files) -> None:
    owner = chosen(**controlled("Job", "a", version="batch/v1"))
    assert made(files, reservation(owner))["spec"]["owners"] == [
        {
            "controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "a"},
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]


def test_a_workload_of_the_files_is_an_owner_by_all_that_one_entry_asks_for(files: Files) -> None:
    both = chosen(**controlled("Deployment", "web"))
    assert "Workload/web" in files.imported(reservation(both), deployment())
    other = {"labelSelector": {"matchLabels": {"app": "other"}}, **controlled("Deployment", "web")}
    assert "Workload/web" not in files.imported(reservation(other), deployment())
    clones = clone_set()
    owned = reservation(controlled("CloneSet", "web", version=KRUISE))
    assert "Workload/web" in files.imported(owned, clones)


# --- where it goes --------------------------------------------------------------------------------


def test_without_a_namespace_of_owners_it_is_the_one_that_is_asked_for(
    files: Files,
) -> None:
    assert made(files, reservation())["metadata"]["namespace"] == "default"
    given = files.write(reservation())
    assert "namespace: team" in run("import", "-f", given, "-n", "team").stdout


def test_owners_of_several_namespaces_need_the_one_that_may_name_them(files: Files) -> None:
    one, two = (
        controlled("Job", "a", version="batch/v1"),
        controlled("Job", "b", version="batch/v1"),
    )
    two["controller"]["namespace"] = "bank"
    given = reservation(one, two)
    room = made(files, given)
    assert room["metadata"]["namespace"] == "stowage-system"
    assert [each["controller"]["namespace"] for each in room["spec"]["owners"]] == ["shop", "bank"]
    assert any("several namespaces (bank, shop)" in note for note in files.notes(given))


def test_labels_alone_reach_no_other_namespace(files: Files) -> None:
    away = controlled("Job", "b", version="batch/v1")
    away["controller"]["namespace"] = "bank"
    [lost] = files.losses(reservation(chosen(), away), deployment())
    assert (
        "spec.owners[0].labelSelector: labels alone choose Workloads of stowage-system only" in lost
    )


# --- what holds of the room -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "ours"),
    [
        ("24h", "24h"),
        ("0s", "0"),
        ("0", "0"),
        ("1h30m", "1h30m"),
        ("1.5h", "5400s"),
        ("1500ms", "2s"),
    ],
)
def test_times_to_live(files: Files, ttl: str, ours: str) -> None:
    assert made(files, reservation(ttl=ttl))["spec"]["ttl"] == ours


@pytest.mark.parametrize("ttl", ["-1h", "1d", "soon", "5", "1h-3m", "\u0661h"])
def test_what_is_no_duration_is_an_error(files: Files, ttl: str) -> None:
    assert "spec.ttl: " in files.refusal(reservation(ttl=ttl))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"preAllocation": True}, "spec.preAllocation"),
        ({"allocatePolicy": "Restricted"}, "spec.allocatePolicy"),
        ({"unschedulable": True}, "spec.unschedulable"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "spec.taints"),
        ({"brandNew": 1}, "spec.brandNew"),
    ],
)
def test_what_is_lost(files: Files, spec: dict[str, Any], field: str) -> None:
    [lost] = files.losses(reservation(**spec))
    assert f"Reservation room: {field}: " in lost
    assert field.partition(".")[2] not in made(files, reservation(**spec), lossy=True)["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        {"preAllocation": False, "unschedulable": False, "taints": []},
        {"allocatePolicy": "Aligned"},
        {"allocatePolicy": ""},
    ],
)
def test_what_says_nothing_is_no_loss(files: Files, spec: dict[str, Any]) -> None:
    assert made(files, reservation(**spec)) == made(files, reservation())


def test_a_node_that_is_named_is_a_loss(files: Files) -> None:
    room = reservation()
    room["spec"]["template"]["spec"]["nodeName"] = "node-1"
    [lost] = files.losses(room)
    assert "spec.template.spec.nodeName: names one node" in lost
    assert made(files, room, lossy=True) == made(files, reservation())


def test_what_chooses_among_reservations_is_a_loss(files: Files) -> None:
    room, owner = reservation(), deployment()
    room["metadata"]["labels"] = {"scheduling.koordinator.sh/reservation-order": "1", "a": "b"}
    asked = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    owner["spec"]["template"]["metadata"]["annotations"] = asked
    first, second = files.losses(room, owner)
    assert "Deployment web: spec.template.metadata.annotations: " in first + second
    assert "Reservation room: metadata.labels: " in first + second


def test_a_reservation_that_is_over_is_left_out(files: Files) -> None:
    over = reservation() | {"status": {"phase": "Succeeded"}}
    over["metadata"] = {"name": "old"}
    assert list(files.imported(over, reservation())) == ["Reservation/room"]
    assert any("is over there (Succeeded)" in n for n in files.notes(over, reservation()))
    running = reservation() | {"status": {"phase": "Available", "nodeName": "node-1"}}
    assert made(files, running) == made(files, reservation())


def test_other_kinds_of_koordinator_are_a_loss(files: Files) -> None:
    other = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "x"},
    }
    [lost] = files.losses(reservation(), other)
    assert "Koordinator's Device has no counterpart" in lost


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (reservation() | {"apiVersion": "scheduling.koordinator.sh/v2"}, "v1alpha1 are known"),
        (reservation(owners=[]), "spec.owners: is missing"),
        (reservation(template=None), "spec.template: is missing"),
        (reservation(allocatePolicy="Loose"), "none of Aligned, Restricted"),
        (reservation(allocateOnce="no"), "spec.allocateOnce: a flag, not a text"),
        (reservation({"object": "web"}), "spec.owners[0].object: an object, not a text"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(files: Files, given: Any, said: str) -> None:
    assert said in files.refusal(given)


def test_what_admission_would_refuse_is_an_error_here(files: Files) -> None:
    room = reservation()
    room["spec"]["template"]["spec"]["containers"] = []
    assert "as Reservation room it is refused: spec.template.spec" in files.refusal(room)


def test_a_moment_without_quotes_is_read_as_kubectl_reads_it(files: Files) -> None:
    path = files.write(reservation())
    text = Path(path).read_text() + "  expires: 2030-01-01T00:00:00Z\n"
    Path(path).write_text(text)
    assert 'expires: "2030-01-01T00:00:00Z"' in run("import", "-f", path).stdout
