"""What stands of a share of a member in mode Pull when its agent or our process starts anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from propagator.members.health import Contact
from propagator.outcome import DesiredShare, Outcome
from propagator.status.failover import Patience
from propagator.status.told_by_agent import told_by_agent
from propagator.types.assignment import Assignment
from propagator.types.workload import Workload, workload_of

Json = dict[str, Any]
COUNTS = {"asked": 2, "ready": 2, "scheduled": 2, "updated": 2}


def session(contact: Contact, *, version: int, **told: Any) -> Any:
    """One whose capacity the MemberCluster of that version has."""
    of = {"namespace": "shop", "name": "web", "uid": "u", "generation": 1}
    spec = {"workload": of, "order": "Apply", "targetNamespace": "shop", "digest": "d"}
    status = {"digest": "d", "state": "Running", "counts": COUNTS, "reported": "3", **told}
    body = {"metadata": {"name": "u"}, "spec": {**spec, "decided": "5"}, "status": status}
    found = msgspec.convert(body, Assignment)
    return SimpleNamespace(
        name="paris",
        former=(),
        contact=contact,
        message="",
        assignment=lambda _: found,
        unassigned=(),
        tells=lambda _: found.status.counts is not None,
        keeps_alone=lambda _: False,
        counted_by=lambda _: version,
    )


def workload(*clusters: Json) -> Workload:
    status = {"placements": [{"cluster": "paris", "replicas": 2}], "clusters": clusters}
    template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bill"}, "spec": {}}
    meta = {"name": "web", "namespace": "shop", "uid": "u", "generation": 1}
    return workload_of({"metadata": meta, "spec": {"template": template}, "status": status})


@pytest.mark.proves("PL31")
def test_an_entry_is_not_written_anew_for_another_version_of_the_capacity() -> None:
    first = told_by_agent(session(Contact.SERVING, version=5), workload(), None, {}, 1)
    assert first is not None
    assert first.stored["capacityVersion"] == 5
    then = told_by_agent(session(Contact.SERVING, version=9), workload(), None, first.stored, 1)
    assert then is not None
    assert then.stored == first.stored
    assert then.told["capacityVersion"] == 9


@pytest.mark.proves("KD29", "PL31", "SC27")
@pytest.mark.parametrize("contact", [Contact.CONNECTING, Contact.AWAY, Contact.SERVING])
def test_a_share_that_has_ended_stays_so_while_its_agent_tells_nothing(contact: Contact) -> None:
    """Also of a member that has just come into mode Pull: its Job was removed, and ran again."""
    ended = {"result": "Succeeded", "object": "Job shop/bill", "message": "", "time": ""}
    stored = {"name": "paris", "replicas": 2, "state": "Complete", "message": "", "ended": ended}
    found = told_by_agent(session(contact, version=5), workload(stored), None, stored, 1)
    assert found is not None
    assert found.told["state"] == "Complete"


@pytest.mark.proves("PL31", "SC27")
@pytest.mark.parametrize(
    ("stored", "state"),
    [
        ({"state": "Running", "message": ""}, "Running"),
        ({"state": "Creating", "message": "waits for others", "reason": "Propagating"}, "Creating"),
        ({"state": "Running", "message": "", "observedGeneration": 0}, "Creating"),
        ({"state": "Running", "message": "", "replicas": 1}, "Creating"),
    ],
    ids=["as it was", "as it waited", "of another generation", "of another number"],
)
def test_a_share_stands_as_it_was_told_until_a_process_that_begins_has_looked_at_it(
    stored: Json, state: str
) -> None:
    before = {"name": "paris", "replicas": 2, "observedGeneration": 1, "asked": 1} | stored
    found = told_by_agent(session(Contact.SERVING, version=5), workload(before), None, before, 1)
    assert found is not None
    told = found.told
    assert told["state"] == state
    as_before = before["observedGeneration"] == 1 and before["replicas"] == 2
    kept = {"message": told["message"], "reason": told.get("reason")}
    was = {"message": before["message"], "reason": before.get("reason")}
    assert (kept == was) is as_before


@pytest.mark.proves("PL31", "SC27")
@pytest.mark.parametrize(
    ("stored", "state"),
    [({}, "Failed"), ({"reason": "Rejected"}, "Pending"), ({"replicas": 1}, "Pending")],
    ids=["as it was", "of another reason", "of another number"],
)
def test_a_refusal_stands_until_a_process_that_begins_has_looked_at_it(
    stored: Json, state: str
) -> None:
    told = {"state": "Failed", "reason": "AlreadyExists", "message": "web is not ours"}
    there = session(Contact.SERVING, version=5, **told)
    before = {"name": "paris", "replicas": 2, "asked": 0, **told} | stored
    found = told_by_agent(there, workload(before), None, before, 1)
    assert found is not None
    assert found.told["state"] == state


@pytest.mark.proves("M51", "SC14", "PL30")
def test_what_an_agent_holds_without_an_order_leaves_by_no_decision_until_it_has_looked() -> None:
    """Of a hub that was set back. Another shard may make nothing beside it meanwhile."""
    there, elsewhere = session(Contact.SERVING, version=5), {"cluster": "rome", "replicas": 2}
    left = {"cluster": "paris", "replicas": 2, "cause": "Drained"}
    status = {"placements": [elsewhere], "leaving": [left], "decision": {"id": "d"}}
    meta = {"name": "web", "namespace": "shop", "uid": "u", "generation": 1}
    about = workload_of({"metadata": meta, "status": status})
    looked = told_by_agent(there, about, None, {}, 1)
    assert looked is not None
    assert (looked.told["state"], looked.told["decision"]) == ("Leaving", "d")
    there.assignment, there.tells = lambda _: None, lambda _: False
    assert told_by_agent(there, about, None, {}, 1) is None
    there.unassigned = {"u"}
    unknown = told_by_agent(there, about, None, {}, 1)
    assert unknown is not None
    assert unknown.told["state"] == "Leaving"
    assert "decision" not in unknown.told


@pytest.mark.proves("KD72", "KD74", "PL2")
def test_the_clock_of_an_unhealthy_share_runs_while_its_agent_tells_of_it() -> None:
    about, began = workload(), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    outcome, before = Outcome(DesiredShare.of(about, "paris"), written=True), {}

    def told(seconds: float, there: Any) -> tuple[Any, float | None]:
        nonlocal before
        patience = Patience(30, "r", began + timedelta(seconds=seconds))
        found = told_by_agent(there, about, outcome, before, 1, patience)
        assert found is not None
        before = found.stored
        return before.get("failover"), found.look_in

    ill = {"health": "Degraded", "counts": {**COUNTS, "ready": 0}}
    well = {"revision": "r", "replicas": 2, "seconds": 0}
    assert told(0, session(Contact.SERVING, version=5, **ill)) == (None, None), "never ready"
    assert told(10, session(Contact.SERVING, version=5, health="Healthy")) == (well, None)
    since = {**well, "since": "2026-01-02T03:04:25Z"}
    assert told(20, session(Contact.SERVING, version=5, **ill)) == (since, 30)
    assert told(25, session(Contact.AWAY, version=5, **ill)) == ({**well, "seconds": 5}, None)
    since = {**since, "since": "2026-01-02T03:05:00Z"}
    assert told(60, session(Contact.SERVING, version=5, **ill)) == ({**since, "seconds": 5}, 25)
    assert told(85, session(Contact.SERVING, version=5, **ill)) == ({**since, "seconds": 30}, None)
