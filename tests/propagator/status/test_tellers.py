"""A Workload's status comes of its entries alone, whoever of several tellers computes it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from crds.fields.shares import BlockedReason, ClusterShare, ShareHealth
from crds.workload import PropagatedReason
from machinery.kinds.readiness import Judged, Result
from machinery.types.metadata import Meta
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject
from propagator.members.pod_index import PodCounts
from propagator.outcome import DesiredShare, Outcome
from propagator.status.aggregation import status_of, within_bytes
from propagator.status.cluster_share import share_of
from propagator.status.observed_share import ObservedShare
from propagator.types.movement import Blocked
from propagator.types.workload import Workload, workload_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WORKLOADS = 500
TELLERS = 3
MEMBERS = ("m1", "m2", "m3", "m4", "m5", "m6")
KINDS = (("apps/v1", "Deployment"), ("batch/v1", "Job"), ("apps/v1", "StatefulSet"))
Entry = Mapping[str, Any]


def workload(given: random.Random, number: int) -> Workload:
    """One that somebody has decided on, with whatever was told of it before."""
    version, kind = given.choice(KINDS)
    generation = given.randint(1, 2)
    placed = given.sample(MEMBERS, given.randint(0, len(MEMBERS)))
    said = given.choice([*PropagatedReason, None])
    stored = [] if said is None else [_condition("Propagated", said.value, generation)]
    stored.append(_condition("Scheduled", "Scheduled", generation))
    status: dict[str, Any] = {
        "placements": [{"cluster": name, "replicas": given.randint(0, 4)} for name in placed],
        "pending": given.choice([0, 0, 2]),
        "conditions": stored,
    }
    if given.random() < 0.5:
        status |= {"observed": {"controller": generation}, "desired": given.randint(0, 9)}
    template = {"apiVersion": version, "kind": kind, "metadata": {"name": "main"}}
    meta = {"namespace": "shop", "name": f"w{number}", "uid": "u", "generation": generation}
    spec = {"template": template}
    return workload_of({"metadata": meta, "spec": spec, "status": status})


def _condition(kind: str, reason: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True" if kind == reason else "False",
        "reason": reason,
        "message": "as it was told",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": generation,
    }


def observed(given: random.Random, workload: Workload, name: str) -> ObservedShare:
    """One cluster, as it may look at any moment."""
    desired, leaving = DesiredShare.of(workload, name), name not in workload.placements
    contact = given.choice([Contact.SERVING, Contact.SERVING, Contact.AWAY, Contact.CONNECTING])
    end = None
    if workload.profile.ended is not None and not leaving and given.random() < 0.3:
        end = {"result": given.choice([*Result]).value, "time": "2026-01-01T00:00:00Z"}
        end |= {"object": workload.run, "message": ""}
    serving = contact is Contact.SERVING
    return ObservedShare(
        name=name,
        desired=desired,
        leaving=leaving,
        elsewhere=bool(workload.placements),
        contact=contact,
        trouble=f"{name} is away" if contact is Contact.AWAY else "",
        outcome=_outcome(given, desired, name),
        main=_main(given) if serving else None,
        pods=PodCounts(given.randint(0, 4), current=given.randint(0, 4)) if serving else None,
        end=end,
    )


def _outcome(given: random.Random, desired: DesiredShare, name: str) -> Outcome | None:
    if given.random() < 0.3:
        return None
    if given.random() < 0.4:
        return Outcome(desired, written=True)
    reason = given.choice([each for each in PropagatedReason if each.value != "Propagated"])
    if reason is not PropagatedReason.PROPAGATING:
        return Outcome(desired, reason, f"{name}: {reason.value} happened")
    blocked = Blocked(given.choice([*BlockedReason]), "allows 0")
    return Outcome(desired, reason, f"{name}: 2 beyond 1", keeps=2, blocked=blocked)


def _main(given: random.Random) -> ManagedObject | None:
    if given.random() < 0.2:
        return None
    judged = Judged(
        health=given.choice([*ShareHealth]),
        observed=given.random() < 0.9,
        ready=given.randint(0, 4),
        updated=given.randint(0, 4),
        outdated=given.choice([0, 0, 1]),
        message=given.choice(["", "it is slow"]),
    )
    return ManagedObject(metadata=Meta(name="main", namespace="shop"), judged=judged)


def told(given: random.Random, workload: Workload, before: Sequence[Entry]) -> list[Entry]:
    """The entries of all clusters, as those tell them that see them."""
    stored = {each["name"]: each for each in before}
    names = {*workload.placements, *stored, *given.sample(MEMBERS, 1)}
    seen = [observed(given, workload, name) for name in sorted(names)]
    return [
        share_of(
            each, workload.profile, stored.get(each.name, {}), said=workload.metadata.generation
        ).told
        for each in seen
    ]


def as_stored(entries: Sequence[Entry]) -> list[Entry]:
    """What the hub gives back."""
    known = [ClusterShare.model_validate(each) for each in entries]
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in known]


def after(workload: Workload, status: Mapping[str, Any]) -> Workload:
    """The Workload once the status is stored."""
    old = workload.status
    kept = {"pending": old.pending, "desired": old.desired, "observed": old.observed}
    kept["placements"] = [{"cluster": c, "replicas": n} for c, n in workload.placements.items()]
    given = {key: value for key, value in status.items() if value is not None}
    meta = msgspec.to_builtins(workload.metadata)
    spec = {"template": msgspec.json.decode(workload.spec.template)}
    return workload_of({"metadata": meta, "spec": spec, "status": {**kept, **given}})


@pytest.mark.proves("SC12")
def test_each_teller_computes_the_same_status_from_the_same_entries() -> None:
    given = random.Random(12)
    words = set[str]()
    for number in range(WORKLOADS):
        one, entries = workload(given, number), list[Entry]()
        for _ in range(3):  # reports of one Workload, each on top of the one before
            entries = told(given, one, entries)
            others = as_stored(entries)
            own = [given.randrange(TELLERS) for _ in entries]
            computed = {
                msgspec.json.encode(
                    status_of(
                        one,
                        [
                            e if at == teller else o
                            for e, o, at in zip(entries, others, own, strict=True)
                        ],
                        NOW,
                    ),
                    order="sorted",
                )
                for teller in range(TELLERS)
            }
            assert len(computed) == 1
            status = msgspec.json.decode(computed.pop())
            words |= {each["reason"] for each in status["conditions"]}
            one = after(one, status)
            again = status_of(one, others, NOW)
            assert again["conditions"] == status["conditions"], "whoever looks next adds nothing"
    assert len(words) > 20, "they were in many states"


@pytest.mark.proves("SC12")
def test_what_only_one_teller_knows_is_in_the_form_that_others_read() -> None:
    """While replicas are on their way the numbers alone are those of the last decision."""
    given = random.Random(1)
    ran = {"name": "m1", "replicas": 3, "ready": 3, "state": "Running", "observedGeneration": 1}
    placed = {"placements": [{"cluster": "m1", "replicas": 5}]}
    meta = {"namespace": "shop", "name": "web", "uid": "u", "generation": 1}
    template = {"apiVersion": "apps/v1", "kind": "Deployment"}
    one = workload_of({"metadata": meta, "spec": {"template": template}, "status": placed})
    seen = ObservedShare(
        name="m1",
        desired=DesiredShare("u", 1, 5),
        leaving=False,
        contact=Contact.SERVING,
        main=next(found for _ in range(9) if (found := _main(given)) is not None),
    )
    share = share_of(seen, one.profile, ran, said=1)
    assert share.told["reason"] == "Propagating"
    assert "reason" not in share.entry, "one teller alone stores what it always did"
    status = status_of(one, as_stored([share.told]), NOW)
    (said,) = (each for each in status["conditions"] if each["type"] == "Propagated")
    assert (said["status"], said["reason"]) == ("False", "Propagating")


@pytest.mark.proves("SC12", "KD70")
def test_tellers_agree_on_fields_for_which_there_is_no_room() -> None:
    """Each sees the fields of its own members, and of others those that are stored."""
    fresh = [
        {"name": f"m{n:02}", "replicas": 1, "ready": 1, "state": "Running", "message": ""}
        | {"fields": {"phase": "x" * 250, "text": "x" * (17 * n)}}
        for n in range(200)
    ]
    one, stored = workload(random.Random(3), 0), [{**each, "fields": None} for each in fresh]
    seen = []
    for turn in range(8):
        own = [turn % 2 == n % 2 for n in range(len(fresh))]
        entries = [f if at else s for f, s, at in zip(fresh, stored, own, strict=True)]
        status = status_of(one, entries, NOW)
        stored, _ = within_bytes(entries, shared=True)
        seen.append((status["fieldsOmitted"], [*stored]))
    assert seen[-1] == seen[-2] == seen[-3], "nobody has news for the other"
    omitted, stored = seen[-1]
    assert omitted == sum(not each["fields"] for each in stored)
    assert 0 < omitted < len(fresh)
