"""What a gang's gate means for one Workload: pure, with each case of the rule once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.fields.template import BATCH_KINDS
from crds.groups.gate import decision_of
from crds.names import GROUP_ALIASES, GROUP_LABELS, LABEL_GROUP
from crds.workload import PropagatedReason
from machinery.types.bounds import quoted
from propagator.groups.rule import APPLY, WAIT_SILENTLY, GateAnswer, WorkloadGroup, verdict_on
from propagator.groups.starting import PATIENCE_SECONDS, Contacts, Starting
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.types.workload import IN_EACH_GROUP_KEY, Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

PLACED = {"m1": 2, "m2": 1}
DECISION = decision_of(PLACED)
QUORUM = "2026-01-02T03:04:05Z"
Labels = dict[str, str]


def gang_member(
    labels: Labels | None = None,
    *,
    template: dict[str, Any] | None = None,
    placed: dict[str, int] = PLACED,
    uid: str = "u1",
) -> Workload:
    placements = [{"cluster": name, "replicas": units} for name, units in placed.items()]
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "w", "uid": uid, "labels": labels or {}},
            "spec": {"template": template or {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": {"placements": placements},
        }
    )


def group(**status: Any) -> WorkloadGroup:
    metadata = {"namespace": "shop", "name": "batch", "uid": "g1"}
    return msgspec.convert({"metadata": metadata, "status": status}, WorkloadGroup)


def released(decision: str = DECISION, uid: str = "u1") -> dict[str, str]:
    return {uid: decision}


@pytest.mark.proves("G10", "G18", "G24")
@pytest.mark.parametrize(
    ("stored", "answer", "words"),
    [
        (None, GateAnswer.WAIT, "not found"),
        (group(), GateAnswer.WAIT, "waits for its quorum"),
        (group(gate="Ajar", decisions=released()), GateAnswer.WAIT, "waits for its quorum"),
        (group(quorumTime=QUORUM, decisions=released()), GateAnswer.WAIT, "waits for its quorum"),
        (group(gate="Open"), GateAnswer.WAIT, "not released this Workload"),
        (group(gate="Open", decisions=released(uid="u0")), GateAnswer.WAIT, "not released this"),
        (group(gate="Open", decisions=released("0" * 16)), GateAnswer.WAIT, "other placements"),
        (group(gate="Open", decisions=released()), GateAnswer.APPLY, ""),
        (group(gate="Open", quorumTime=QUORUM, decisions=released()), GateAnswer.APPLY, ""),
        (group(gate="Open", quorumTime=QUORUM), GateAnswer.WAIT, "not released this Workload"),
        (group(gate="Closed"), GateAnswer.WAIT, "has not released this Workload, and takes"),
        (
            group(gate="Closed", decisions=released()),
            GateAnswer.REMOVE,
            "took all of its replicas back",
        ),
        (group(gate="Open", decisions={"u1": DECISION}), GateAnswer.APPLY, ""),
        (group(gate="Open", decisions={"u0": DECISION}), GateAnswer.WAIT, "not released this"),
        (
            group(gate="Closed", decisions={"u1": "0"}),
            GateAnswer.REMOVE,
            "took all of its replicas back",
        ),
        (group(decisions={"u1": DECISION}), GateAnswer.WAIT, "waits for its quorum"),
    ],
)
def test_only_what_an_open_gate_names_is_pushed(
    stored: WorkloadGroup | None, answer: GateAnswer, words: str
) -> None:
    verdict = verdict_on(gang_member({LABEL_GROUP: "batch"}), stored)
    assert verdict.answer is answer
    assert words in verdict.message
    assert bool(words) == bool(verdict.message)
    assert not words or "WorkloadGroup shop/batch" in verdict.message
    assert verdict_on(gang_member(), stored) == APPLY, "of no group: none holds it"


@pytest.mark.proves("N8")
@pytest.mark.parametrize("gate", ["Closed", None])
@pytest.mark.parametrize(
    ("retained", "answer", "stays"),
    [
        (PLACED, GateAnswer.APPLY, set()),
        ({**PLACED, "m3": 1}, GateAnswer.APPLY, set()),
        ({"m1": 2}, None, {"m1"}),
        ({"m1": 2, "m2": 0}, None, {"m1", "m2"}),
        ({"m1": 1, "m2": 1}, None, {"m1", "m2"}),
    ],
)
def test_what_ran_before_is_not_the_gates(
    gate: str | None, retained: dict[str, int], answer: GateAnswer | None, stays: set[str]
) -> None:
    """Placed on more than that, it is held without a gate, and leaves the others of a closed one."""
    stored = group(gate=gate, decisions={"u1": "0"}, retained={"u1": retained})
    verdict = verdict_on(gang_member({LABEL_GROUP: "batch"}), stored)
    assert verdict.answer is (answer or (GateAnswer.REMOVE if gate else GateAnswer.WAIT))
    assert verdict.keeps == (stays if gate else set())
    opened = group(gate="Open", decisions={"u1": "0"}, retained={"u1": retained})
    assert verdict_on(gang_member({LABEL_GROUP: "batch"}), opened).answer is GateAnswer.WAIT


@pytest.mark.proves("N8")
def test_a_closed_gate_takes_nothing_back_of_one_that_it_has_not_released() -> None:
    stored = group(gate="Closed", decisions={"u0": DECISION})
    verdict = verdict_on(gang_member({LABEL_GROUP: "batch"}), stored)
    assert verdict.answer is GateAnswer.WAIT
    assert "takes nothing of it back" in verdict.message


@pytest.mark.proves("G24")
@pytest.mark.parametrize(
    "placed", [{"m1": 2}, {"m1": 2, "m2": 2}, {"m1": 2, "m2": 1, "m3": 0}, {"m1": 1, "m2": 2}]
)
def test_other_placements_of_whoever_are_held(placed: dict[str, int]) -> None:
    stored = group(gate="Open", decisions=released())
    assert verdict_on(gang_member({LABEL_GROUP: "batch"}, placed=placed), stored).answer is (
        GateAnswer.WAIT
    )
    back = dict(reversed(PLACED.items()))
    assert verdict_on(gang_member({LABEL_GROUP: "batch"}, placed=back), stored) == APPLY


@pytest.mark.proves("G2")
@pytest.mark.parametrize("others", [{}, {GROUP_ALIASES[0]: "a"}], ids=["one", "several"])
@pytest.mark.parametrize("name", ["b\nc", "x" * 10**5])
def test_a_name_that_no_group_can_have_stands_quoted_in_one_line(name: str, others: Labels) -> None:
    said = verdict_on(gang_member({LABEL_GROUP: name, **others}), None).message
    assert quoted(name) in said
    assert len(said) < 250
    assert "\n" not in said


@pytest.mark.proves("G2")
def test_one_that_names_several_groups_is_held_and_told_so() -> None:
    workload = gang_member({LABEL_GROUP: "b", GROUP_ALIASES[0]: "a"})
    verdict = verdict_on(workload, None)
    assert verdict.answer is GateAnswer.WAIT
    assert "several WorkloadGroups (a, b)" in verdict.message


def template(kind: str, *, own: Labels, pods: Labels) -> dict[str, Any]:
    pod = {"metadata": {"labels": pods}}
    spec = {"jobTemplate": {"spec": {"template": pod}}} if kind == "CronJob" else {"template": pod}
    group = "batch" if kind in BATCH_KINDS else "apps"
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"labels": own}, "spec": spec}


@pytest.mark.proves("G2")
@pytest.mark.parametrize("key", [LABEL_GROUP, *GROUP_ALIASES])
@pytest.mark.parametrize(
    ("kind", "read"),
    [*((each, True) for each in ("Deployment", "Job", "DaemonSet", "CronJob")), ("Odd", False)],
)
def test_a_group_is_named_by_workload_template_or_pods(key: str, kind: str, read: bool) -> None:
    named = {key: "batch"}
    assert gang_member(named).groups == ("batch",)
    assert gang_member(template=template(kind, own=named, pods={})).groups == ("batch",)
    of_pods = gang_member(template=template(kind, own={}, pods=named))
    assert of_pods.groups == (("batch",) if read else ())
    both = gang_member({key: "one"}, template=template(kind, own={}, pods=named))
    assert both.groups == (("batch", "one") if read else ("one",))


@pytest.mark.proves("G2")
@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": None},
        {"labels": {LABEL_GROUP: None}},
        {"labels": {LABEL_GROUP: 7}},
        {"labels": {LABEL_GROUP: ""}},
        {"labels": [LABEL_GROUP]},
        {"annotations": {LABEL_GROUP: "batch"}},
        {"name": LABEL_GROUP},
        None,
        [LABEL_GROUP],
    ],
)
def test_what_is_no_label_names_no_group(metadata: Any) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"template": [LABEL_GROUP]},
    }
    assert gang_member(template=body).groups == ()


def test_a_template_of_no_group_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked through for each report of ours."""
    monkeypatch.setattr("propagator.types.workload._template_decoder", None)
    body = template("Deployment", own={"app": "web"}, pods={"app": "web"})
    assert gang_member(template=body).groups == ()
    body["metadata"]["annotations"] = {"note": "of no-group at all"}
    assert gang_member(template=body).groups == ()
    assert all(IN_EACH_GROUP_KEY in key for key in GROUP_LABELS)


class Fleet:
    """Sessions of which nothing but the contact is asked."""

    def __init__(self, **contacts: Contact) -> None:
        self.contacts = contacts

    def get(self, name: str) -> Any:
        contact = self.contacts.get(name)
        return contact and SimpleNamespace(contact=contact, message=f"{name}: gone fishing")


def contacts_of(registry: Fleet, clock: FakeClock, *, registered: str = "") -> Contacts:
    clusters = SimpleNamespace(synced=True, get=lambda key: key[1] == registered or None)
    context = Context(registry=registry, clusters=clusters, clock=clock)
    return Contacts(cast("ControllerContext", context))


def started(contacts: Contacts, *names: str) -> Starting:
    starting = Starting({}, names, 0.0, known=True, confirmed=True)
    look(starting, contacts)
    return starting


def look(starting: Starting, contacts: Contacts) -> None:
    """As it is done once a second for those that are missing."""
    for name in starting.clusters:
        starting.record(name, contacts.lack(name))


@pytest.mark.proves("G24")
async def test_a_gang_starts_where_all_of_its_clusters_are_connected() -> None:
    clock, registry = FakeClock(), Fleet(m1=Contact.SERVING, m2=Contact.SERVING)
    contacts = contacts_of(registry, clock, registered="m4")
    key = ("shop", "batch")
    assert contacts.verdict(started(contacts, "m1", "m2"), key) == APPLY
    assert contacts.verdict(Starting({}, (), 0.0), key) == WAIT_SILENTLY, (
        "who is placed where is unknown"
    )
    asked = started(contacts, "m1", "m2")
    asked.unheard.add("m2")
    assert contacts.verdict(asked, key) == WAIT_SILENTLY, "it has not answered yet"
    asked = started(contacts, "m1", "m2")
    asked.confirmed = False
    assert contacts.verdict(asked, key) == WAIT_SILENTLY, "the hub has not said yet that it is open"
    asked.obstacle = "workloadgroups is forbidden"
    unread = contacts.verdict(asked, key)
    assert unread.answer is GateAnswer.WAIT
    assert "forbidden; run `stowage install` on the hub again" in unread.message
    unregistered = contacts.verdict(started(contacts, "m1", "m3"), key)
    assert unregistered.answer is GateAnswer.WAIT
    assert unregistered.reason is PropagatedReason.CLUSTER_UNREACHABLE
    assert "m3: there is no MemberCluster" in unregistered.message
    assert contacts.verdict(started(contacts, "m4"), key) == WAIT_SILENTLY, "its session comes"
    registry.contacts["m2"] = Contact.AWAY
    away = contacts.verdict(started(contacts, "m1", "m2"), key)
    assert away.reason is PropagatedReason.CLUSTER_UNREACHABLE
    assert away.message == (
        "WorkloadGroup shop/batch starts on all of its clusters or on none: m2: gone fishing"
    )


@pytest.mark.proves("G24")
async def test_a_cluster_that_connects_is_waited_for_in_silence_but_not_for_ever() -> None:
    clock, registry = FakeClock(), Fleet(m1=Contact.SERVING, m2=Contact.CONNECTING)
    contacts, key = contacts_of(registry, clock), ("shop", "batch")
    starting = started(contacts, "m1", "m2")
    assert contacts.verdict(starting, key) == WAIT_SILENTLY
    await clock.advance(PATIENCE_SECONDS - 1)
    look(starting, contacts)
    assert contacts.verdict(starting, key) == WAIT_SILENTLY
    await clock.advance(1)
    look(starting, contacts)
    late = contacts.verdict(starting, key)
    assert late.reason is PropagatedReason.CLUSTER_UNREACHABLE
    assert "m2: not connected after 20 s" in late.message
    registry.contacts["m2"] = Contact.SERVING
    look(starting, contacts)
    assert contacts.verdict(starting, key) == APPLY
    registry.contacts["m2"] = Contact.CONNECTING
    assert contacts.verdict(started(contacts, "m1", "m2"), key) == WAIT_SILENTLY, "it counts anew"


@pytest.mark.proves("G24")
async def test_a_released_workload_that_is_not_seen_is_told_of_after_a_while() -> None:
    clock = FakeClock()
    contacts, key = contacts_of(Fleet(m1=Contact.SERVING), clock), ("shop", "batch")
    released = {"uid-driver": "1", "uid-worker": "1"}
    starting = Starting(released, ("m1",), clock.monotonic(), unseen=1)
    await clock.advance(PATIENCE_SECONDS - 1)
    assert contacts.verdict(starting, key) == WAIT_SILENTLY
    await clock.advance(1)
    told = contacts.verdict(starting, key)
    assert (told.answer, told.reason) == (GateAnswer.WAIT, PropagatedReason.WAITING_FOR_GROUP)
    assert told.message == (
        "WorkloadGroup shop/batch starts as a whole, and 1 of its 2 released Workloads cannot be "
        "seen at the placements that were released: see that each of them is there, and is valid"
    )
