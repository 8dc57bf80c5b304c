"""No kind is forgotten while a member may hold something of it, whatever happens in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_KINDS
from machinery.types.written_clusters import MemberRecord
from propagator.hub.workload_metadata import (
    footprint_without,
    missing,
    record_of,
    without_member,
)
from propagator.members.kinds import USUAL_KINDS
from propagator.members.noted_kinds import (
    KindsSource,
    first_kinds,
    kinds_source,
    missing_kinds,
    needed_kinds,
    without_kinds,
    writable_kinds,
)
from propagator.types.workload import MOST_KINDS, Workload, workload_of
from tests.examples import examples

Pair = tuple[str, str]
USUAL: list[Pair] = [("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "ConfigMap")]
OTHERS: list[Pair] = [("policy/v1", "PodDisruptionBudget"), ("example.com/v1", "Database")]
MEMBERS = ("m1", "m2", "m3")
SPECS = st.lists(st.sampled_from([*USUAL, *OTHERS]), min_size=1, max_size=4, unique=True)


def merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """As an API server merges it (RFC 7396)."""
    after = dict(target)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = merged(after.get(key) or {}, value)
        else:
            after[key] = value
    return after


@dataclass
class Sync:
    """A worker at work: what it was given, and what it has not written yet."""

    member: str
    left: list[Pair]


class Life(RuleBasedStateMachine):
    """One Workload: edits, both kinds of scheduler, syncs that die half-way, statuses, leavings.

    A member shows some kinds from the beginning on, and may stop to once something was said.
    """

    @initialize(
        spec=SPECS,
        finalizer=st.booleans(),
        blind=st.sets(st.sampled_from(USUAL)),
        members=st.sets(st.sampled_from(MEMBERS)),
        ours=st.booleans(),
    )
    def created(
        self, spec: list[Pair], finalizer: bool, blind: set[Pair], members: set[str], ours: bool
    ) -> None:
        """`finalizer`: the hub has our admission policies. `blind`: m1 does not show these."""
        self.body: dict[str, Any] = {
            "metadata": {
                "namespace": "shop",
                "name": "web",
                "uid": "u",
                "generation": 1,
                "finalizers": ["stowage.dev/propagation"] if finalizer else [],
                "annotations": {},
            },
            "status": {"placements": []},
        }
        self.spec(spec)
        self.hidden: dict[str, set[Pair]] = {"m1": set(blind), "m2": set(), "m3": set()}
        self.held: dict[str, set[Pair]] = {name: set() for name in MEMBERS}
        self.syncs: dict[str, Sync] = {}
        self.placed(members, ours)

    def spec(self, kinds: list[Pair]) -> None:
        manifests = [{"apiVersion": version, "kind": kind} for version, kind in kinds]
        self.body["spec"] = {"template": manifests[0], "manifests": manifests[1:]}

    @property
    def workload(self) -> Workload:
        return workload_of(self.body)

    def patch(self, patch: dict[str, Any]) -> None:
        self.body = merged(self.body, patch)

    @rule(spec=SPECS)
    def edited(self, spec: list[Pair]) -> None:
        self.spec(spec)
        self.body["metadata"]["generation"] += 1

    @rule(members=st.sets(st.sampled_from(MEMBERS)), ours=st.booleans())
    def moved(self, members: set[str], ours: bool) -> None:
        self.placed(members, ours)

    def placed(self, members: set[str], ours: bool) -> None:
        """Our scheduler notes the members in the same write; another one does not."""
        shares = dict.fromkeys(sorted(members), 1)
        status: dict[str, Any] = {
            "placements": [{"cluster": name, "replicas": 1} for name in shares]
        }
        if ours:
            before = MemberRecord.read(self.workload.status.footprint.clusters)
            new = members - record_of(self.workload).names(list)
            status["footprint"] = {"clusters": before.adding(new).text()}
        self.patch({"status": status})

    @precondition(lambda self: self.workload.placements)
    @rule(data=st.data(), at_once=st.sampled_from([0, 1, 9]))
    def begun(self, data: st.DataObject, at_once: int) -> None:
        """A worker prepares the Workload, writes so many objects, and is about to write on."""
        now = self.workload
        member = data.draw(st.sampled_from(sorted(now.placements)))
        self.syncs.pop(member, None)
        shown = set(now.kinds()) - self.hidden[member]
        metadata = missing(now, shown, there=lambda name: True)
        self.patch({"metadata": metadata})
        now = self.workload
        assert member in record_of(now)
        assert missing(now, shown, there=lambda name: True) == {}, "once is enough"
        left = sorted(shown & writable_kinds(now))
        self.held[member] |= set(left[:at_once])
        self.syncs[member] = Sync(member, left[at_once:])

    @precondition(lambda self: self.syncs)
    @rule(data=st.data())
    def written(self, data: st.DataObject) -> None:
        """One object more, also of a Workload that was edited or placed anew meanwhile."""
        sync = self.syncs[data.draw(st.sampled_from(sorted(self.syncs)))]
        if sync.left:
            self.held[sync.member].add(sync.left.pop())

    @rule()
    def killed(self) -> None:
        self.syncs.clear()

    @rule(whole=st.booleans())
    def kinds_source(self, whole: bool) -> None:
        """What is said of it, and the kinds with the first that says all is there."""
        now = self.workload
        if not now.placements:
            return
        said = [{"type": "Propagated", "status": "True" if whole else "False"}]
        self.patch({"status": {"conditions": said, **(first_kinds(now) if whole else {})}})

    @precondition(lambda self: self.workload.status.conditions)
    @rule(kind=st.sampled_from(USUAL))
    def blinded(self, kind: Pair) -> None:
        self.hidden["m1"].add(kind)

    @rule(member=st.sampled_from(MEMBERS))
    def left(self, member: str) -> None:
        """The member takes away what it is known to may have, and says so."""
        if member in self.workload.placements or member in self.syncs:
            return
        self.held[member] -= needed_kinds(self.workload)
        if self.held[member]:
            return
        self.patch({"metadata": without_member(self.workload, member)})
        self.patch({"status": footprint_without(self.workload, member)})

    @rule(member=st.sampled_from(MEMBERS))
    def pruned(self, member: str) -> None:
        """What is rendered no more goes, when the sync has ended."""
        if member not in self.syncs:
            self.held[member] &= set(self.workload.kinds())

    @precondition(lambda self: not self.syncs)
    @rule()
    def swept(self) -> None:
        """Kinds that no member has anything of are noted no more."""
        now = self.workload
        idle = needed_kinds(now) - set().union(*self.held.values()) - USUAL_KINDS
        self.patch({"metadata": without_kinds(now, idle)})

    @invariant()
    def none_is_forgotten(self) -> None:
        now = self.workload
        for member, kinds in self.held.items():
            assert kinds <= needed_kinds(now), kinds_source(now)
            assert not kinds or member in record_of(now)


TestLife = pytest.mark.proves("R1", "C30")(Life.TestCase)
TestLife.settings = examples(1000, stateful_step_count=15)


def body(*kinds: Pair, generation: int = 1, clusters: str = "", **notes: str) -> Workload:
    manifests = [{"apiVersion": version, "kind": kind} for version, kind in kinds]
    return workload_of(
        {
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "u",
                "generation": generation,
                "annotations": {f"stowage.dev/{name}": text for name, text in notes.items()},
            },
            "spec": {"template": manifests[0], "manifests": manifests[1:]},
            "status": {"footprint": {"clusters": clusters}},
        }
    )


@pytest.mark.proves("R1")
@pytest.mark.parametrize(
    ("workload", "row"),
    [
        (body(USUAL[0]), KindsSource.UNSENT),
        (body(USUAL[0], clusters="m1"), KindsSource.SPEC),
        (body(USUAL[0], OTHERS[0], clusters="m1"), KindsSource.UNSENT),
        (body(USUAL[0], clusters="m1", generation=2), KindsSource.EDITED),
        (body(USUAL[0], kinds=""), KindsSource.NOTES),
    ],
)
def test_each_row_of_the_table(workload: Workload, row: KindsSource):
    assert kinds_source(workload) is row
    assert writable_kinds(workload) <= needed_kinds(workload)


@pytest.mark.proves("R1")
def test_members_that_somebody_noted_without_kinds_may_have_any_usual_one():
    noted = workload_of({"metadata": {"generation": 1, "annotations": {ANNOTATION_CLUSTERS: "m1"}}})
    assert kinds_source(noted) is KindsSource.EDITED
    assert needed_kinds(noted) == USUAL_KINDS


@pytest.mark.proves("R1", "S3")
def test_a_note_that_claims_too_much_makes_nothing_forgotten():
    many = ",".join(f"v1/K{number}" for number in range(MOST_KINDS + 1))
    spoilt = body(USUAL[0], OTHERS[0], generation=3, kinds=many)
    assert kinds_source(spoilt) is KindsSource.SPOILT
    assert needed_kinds(spoilt) == {*USUAL_KINDS, OTHERS[0]}
    assert writable_kinds(spoilt) == set()
    noted = missing_kinds(spoilt, {USUAL[0]}, alone=True)[ANNOTATION_KINDS]
    assert needed_kinds(body(USUAL[0], kinds=noted)) == needed_kinds(spoilt)


@pytest.mark.proves("R1", "S3")
def test_where_there_is_no_room_for_another_kind_it_is_not_written_and_none_goes():
    full = [("v1", f"K{number}") for number in range(MOST_KINDS)]
    noted = body(USUAL[0], kinds=",".join("/".join(each) for each in full))
    assert missing_kinds(noted, {USUAL[0]}, alone=True) == {}
    assert needed_kinds(noted) == writable_kinds(noted) == set(full)
    almost = body(USUAL[0], kinds=",".join("/".join(each) for each in full[1:]))
    added = missing_kinds(almost, {*USUAL, *full[1:]}, alone=True)[ANNOTATION_KINDS]
    again = needed_kinds(body(USUAL[0], kinds=added))
    assert len(again) == MOST_KINDS
    assert again >= set(full[1:])


@pytest.mark.proves("R1")
@pytest.mark.parametrize("status", ["True", "False"])
def test_what_the_only_member_stops_to_show_is_noted_once_something_was_said(status: str):
    written = body(*USUAL, clusters="m1")
    shown = {USUAL[0]}
    assert missing_kinds(written, shown, alone=True) == {ANNOTATION_KINDS: "apps/v1/Deployment"}
    said = [{"type": "Propagated", "status": status}]
    spoken = msgspec.structs.replace(written.status, conditions=said)
    written = msgspec.structs.replace(written, status=spoken)
    noted = missing_kinds(written, shown, alone=True)[ANNOTATION_KINDS]
    assert needed_kinds(body(*USUAL, kinds=noted)) == set(USUAL)
