"""What cannot be changed keeps the form that it was made with, and its end is noted first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from machinery.api.resources import Resource
from machinery.types.merge_patch import merged
from propagator.apply.render import ANNOTATION_HASH, Piece, as_made, render
from propagator.members.objects import managed
from propagator.types.kept import kept
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts

JOBS = Resource("batch", "v1", "jobs", "Job")


def piece(
    *, ended: bool = False, images: Sequence[tuple[str, str]] = (), tier: str = "", **spec: Any
) -> Piece:
    """The Job of a Workload on m1; in the tier gold it has another priority."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a.io/pause"}]}
    main = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "bill",
            "labels": spec.pop("labels", {}),
            "annotations": spec.pop("annotations", {}),
        },
        "spec": {"template": {"spec": pods}, "ttlSecondsAfterFinished": 5, **spec},
    }
    override = {
        "name": "gold",
        "clusterSelector": {"matchLabels": {"tier": "gold"}},
        "patch": {"spec": {"template": {"spec": {"priorityClassName": "high"}}}},
    }
    meta = {"namespace": "shop", "name": "bill", "uid": "u1"}
    workload = workload_of({"metadata": meta, "spec": {"template": main, "overrides": [override]}})
    facts = member_facts(labels={"tier": tier} if tier else {}, images=images)
    return render(workload, replicas=1, first_ordinal=0, secrets=[], member=facts, ended=ended)[-1]


def again(wanted: Piece, first: Piece, **there: Any) -> Piece:
    """The piece as it is laid over the Job that was made of the first one."""
    found = merged(first.body, there)
    return as_made(wanted, managed(JOBS, found), found)


@pytest.mark.proves("KD28", "KD33")
@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("batch/v1", "Job", {"ttlSecondsAfterFinished": 5}),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"timeToLiveSeconds": 5}),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"template": {"spec": {"ttlSecondsAfterFinished": 5}}}]},
        ),
    ],
)
def test_a_manifest_is_sent_without_what_its_profile_keeps_back(
    api_version: str, kind: str, spec: dict[str, Any]
) -> None:
    """Its end is not stored: once a member had forgotten it, it would run again."""
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}
    meta = {"namespace": "shop", "name": "bill", "uid": "u1"}
    workload = workload_of({"metadata": meta, "spec": {"manifests": [manifest]}})
    facts = member_facts()
    (found,) = render(workload, replicas=1, first_ordinal=0, secrets=[], member=facts, ended=True)
    assert "econds" not in str(found.body["spec"])
    assert found.body["metadata"]["name"] == "m"


@pytest.mark.proves("A1", "KD28")
def test_a_member_may_forget_it_once_its_end_is_stored() -> None:
    before, after = piece(), piece(ended=True)
    assert "ttlSecondsAfterFinished" not in before.body["spec"]
    assert after.body["spec"]["ttlSecondsAfterFinished"] == 5
    assert before.digest != after.digest
    there = again(piece(ended=True, images=[("a.io", "b.io")]), before)
    assert there.body["spec"]["template"] == before.body["spec"]["template"]
    assert there.body["spec"]["ttlSecondsAfterFinished"] == 5


@pytest.mark.proves("KD83")
def test_the_number_of_a_job_that_a_queue_admitted_in_part_is_the_queues() -> None:
    queued = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    first = piece(annotations=queued, parallelism=9)
    assert first.body["spec"]["parallelism"] == 1, "as it is made it has its share"
    admitted = again(piece(annotations=queued), first, spec={"parallelism": 3})
    assert admitted.body["spec"]["parallelism"] == 3
    assert again(piece(), first, spec={"parallelism": 3}).body["spec"]["parallelism"] == 1


@pytest.mark.proves("A19", "KD25")
def test_what_its_cluster_makes_of_it_changes_nothing_that_runs() -> None:
    first = piece()
    for wanted in (piece(images=[("a.io", "b.io")]), piece(tier="gold")):
        assert wanted.body["spec"]["template"] != first.body["spec"]["template"], "a new one has it"
        assert wanted.digest == first.digest, "no write, and no turn of its images"
        assert again(wanted, first).body["spec"] == first.body["spec"]
    labelled = piece(labels={"a": "b"}, tier="gold")
    there = again(labelled, first)
    assert there.body["metadata"]["labels"]["a"] == "b"
    assert there.body["spec"] == first.body["spec"]


@pytest.mark.proves("KD26")
def test_another_template_is_asked_for_until_it_has_ended() -> None:
    first = piece()
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "new"}]}
    wanted = piece(template={"spec": pods})
    assert wanted.digest != first.digest
    assert again(wanted, first).body["spec"] == wanted.body["spec"]
    found = dict(first.body)
    over = as_made(replace(wanted, ended=True), managed(JOBS, found), found)
    assert over.body["spec"]["template"] == first.body["spec"]["template"]


@pytest.mark.proves("A19")
def test_a_job_of_an_earlier_release_keeps_its_form_and_one_of_another_owner_does_not() -> None:
    first, wanted = piece(), piece(images=[("a.io", "b.io")])
    found = merged(first.body, {"metadata": {"annotations": {"stowage.dev/made-of": None}}})
    assert as_made(wanted, managed(JOBS, found), found).body["spec"] == first.body["spec"]
    bare = merged(found, {"metadata": {"annotations": {ANNOTATION_HASH: None}}})
    assert as_made(wanted, managed(JOBS, bare), bare) == wanted


@pytest.mark.proves("KD17")
def test_a_suspension_that_was_lifted_there_stays_lifted_until_the_hub_says_another() -> None:
    first = piece(suspend=True)
    there = again(piece(suspend=True, labels={"a": "b"}), first, spec={"suspend": False})
    assert there.body["spec"]["suspend"] is False
    edited = again(piece(suspend=False), first, spec={"suspend": True})
    assert edited.body["spec"]["suspend"] is False


def part_of(completions: int | None, *, parallelism: int = 4, leaving: int = 0) -> Workload:
    """A Job on m1 with that part of the completions, while another share leaves m2."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a.io/pause"}]}
    spec = {"template": {"spec": pods}, "completions": 10, "parallelism": parallelism}
    main = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bill"}, "spec": spec}
    part = {} if completions is None else {"completions": completions}
    status = {
        "placements": [{"cluster": "m1", "replicas": parallelism, **part}],
        "leaving": [{"cluster": "m2", "replicas": 1, "completions": leaving}] if leaving else [],
    }
    meta = {"namespace": "shop", "name": "bill", "uid": "u1"}
    return kept(workload_of({"metadata": meta, "spec": {"template": main}, "status": status}))


@pytest.mark.proves("KD18", "KD19")
def test_a_job_gets_its_part_which_is_fixed_when_it_is_made() -> None:
    def rendered(workload: Workload) -> Piece:
        about = {"first_ordinal": 0, "secrets": [], "member": member_facts()}
        return render(workload, replicas=4, **about)[-1]

    first = rendered(part_of(5))
    assert (first.body["spec"]["completions"], first.body["spec"]["parallelism"]) == (5, 4)
    small = rendered(part_of(3))
    assert (small.body["spec"]["completions"], small.body["spec"]["parallelism"]) == (3, 3)
    assert again(small, first).body["spec"]["completions"] == 5
    assert rendered(part_of(None)).body["spec"]["completions"] == 10
    assert part_of(None, leaving=5).awaits_part("m1"), "m2 may do more of it yet"
    assert not part_of(5, leaving=5).awaits_part("m1")
    assert not part_of(None).awaits_part("m1"), "another scheduler divides none"
