"""Who is woken when a gate says something else, and what holds while groups cannot be read.

The informers are real and told by hand what a hub would show; a clock is moved by hand.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.groups.gate import decision_of
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.names import GROUP_LABELS
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.config.kubeconfig import Connection
from machinery.errors import Forbidden, NotFound, TransportError, Unreachable
from machinery.runtime.informer import STALE_SECONDS, Informer
from machinery.tasks import end
from machinery.types.metadata import Key
from propagator.groups.gates import CHECK_SECONDS, LONGEST_PAUSE, REVIEWED_PER_SECOND, SLICE, Gates
from propagator.groups.rule import GateAnswer, WorkloadGroup
from propagator.groups.starting import PATIENCE_SECONDS
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.shares import ShareTable
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock, settle
from tests.propagator.contexts import Context

QUORUM = "2026-01-02T03:04:05Z"
FORBIDDEN = Forbidden(code=403, reason="Forbidden", message="grant list on workloadgroups")
MISSING = NotFound(code=404, reason="NotFound", message="no such kind")


class Sessions:
    """A fleet of which nothing but contacts is asked. All have answered but the `deaf`."""

    def __init__(self) -> None:
        self.contacts = dict.fromkeys(("m1", "m2", "m3"), Contact.SERVING)
        self.deaf: dict[str, float] = {}
        """When they answered last."""
        self.asked: list[str] = []
        self.looks = 0
        self._listeners: list[Any] = []
        self._answers: list[Any] = []

    def holders(self, _uid: str) -> set[str]:
        return set()

    def get(self, name: str) -> Any:
        self.looks += 1
        contact = self.contacts.get(name)
        return contact and SimpleNamespace(
            contact=contact,
            message=f"{name}: gone fishing",
            answered=self.deaf.get(name, math.inf),
            ask_now=lambda: self.asked.append(name),
        )

    def on_change(self, listener: Any) -> None:
        self._listeners.append(listener)

    def on_facts(self, listener: Any) -> None:
        self._answers.append(listener)

    def answers(self, name: str, asked: float = math.inf) -> None:
        """It answers a question of that moment."""
        self.deaf[name] = asked
        for listener in self._answers:
            listener(name)

    def becomes(self, name: str, contact: Contact) -> None:
        self.contacts[name] = contact
        for listener in self._listeners:
            listener(name, None)


class Server(ApiClient):
    """A hub of which nothing but groups is asked."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Connection(server="http://127.0.0.1:1"), clock=clock)
        self.groups: dict[str, bytes] = {}
        """By their paths."""
        self.fault: TransportError | None = None
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        assert method == "GET"
        self.asked.append(path)
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        return self.groups[path]


class Hub:
    """The gates of one term, what they are told, and whom they woke."""

    def __init__(self) -> None:
        self.clock, self.registry = FakeClock(), Sessions()
        self.woken: list[str] = []
        self._version = 0
        self.server = Server(self.clock)
        clusters = SimpleNamespace(
            synced=True,
            get=lambda key: None,
            by_index=lambda *_: [],
            wait_synced=self._at_once,
        )
        context = Context(
            hub=self.server,
            registry=self.registry,
            clusters=cast("Informer[MemberCluster]", clusters),
            clock=self.clock,
        )
        self.workloads = HubWorkloads(cast("ControllerContext", context))
        wake = lambda each: self.woken.append(each.metadata.name)  # noqa: E731 - one line
        self.gates = Gates(cast("ControllerContext", context), workloads=self.workloads, wake=wake)
        self._shares: ShareTable = context.shares
        self.workloads.informer.add_handler(self._end)

    def _end(self, old: Workload | None, new: Workload | None) -> None:
        """As the event handlers of the term do."""
        if old is not None and new is None:
            self._shares.drop_workload(old.uid)

    async def _at_once(self) -> None:
        return None

    def listed(self, fault: TransportError | None = None) -> None:
        """The groups have been read, or cannot be."""
        self.gates.informer.last_error = fault
        if fault is None:
            self.gates.informer._synced.set()
            self.gates.informer._heard()

    def _meta(self, name: str, uid: str, **more: Any) -> dict[str, Any]:
        self._version += 1
        version = str(self._version)
        return {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version, **more}

    def group(self, name: str = "batch", *, told: bool = True, **status: Any) -> None:
        """What the hub has, and unless its watch is dead tells."""
        stored = {"metadata": self._meta(name, f"g-{name}"), "status": status}
        self.server.groups[WORKLOAD_GROUPS.path("shop", name)] = msgspec.json.encode(stored)
        if told:
            self.gates.informer.observe(msgspec.convert(stored, WorkloadGroup))

    def place(
        self, name: str, group: str | None = "batch", *, also: str = "", **placed: int
    ) -> Workload:
        placements = [{"cluster": each, "replicas": units} for each, units in placed.items()]
        named = zip(GROUP_LABELS, filter(None, (group, also)), strict=False)
        labels = dict(named)
        workload = workload_of(
            {
                "metadata": self._meta(name, f"u-{name}", labels=labels),
                "spec": {"template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
                "status": {"placements": placements},
            }
        )
        self.workloads.informer.observe(workload)
        return workload

    def seen(self, name: str) -> Workload:
        workload = self.workloads.informer.get(("shop", name))
        assert workload is not None
        return workload

    def ask(self, *names: str) -> list[GateAnswer]:
        return [self.gates.verdict(self.seen(name)).answer for name in names]

    def told(self, name: str) -> str:
        return self.gates.verdict(self.seen(name)).message

    async def wakes(self) -> list[str]:
        """Who was woken since the last time, each once."""
        for _ in range(3):
            await self.clock.advance(0.01)
        woken, self.woken = sorted(set(self.woken)), []
        return woken


def entry(name: str, **placed: int) -> dict[str, str]:
    return {f"u-{name}": decision_of(placed)}


@pytest.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    async def nothing(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Informer, "run", nothing)
    made = Hub()
    running = asyncio.create_task(made.gates.run())
    made.workloads.informer._synced.set()
    await settle()
    yield made
    await end([running])


BOTH = entry("a", m1=1) | entry("b", m2=1)
NO_WORKLOAD: list[Key] = []


async def gang(hub: Hub, **status: Any) -> None:
    """Two Workloads, asked for once, and one of no group."""
    hub.listed()
    hub.group(**status)
    hub.place("a", m1=1)
    hub.place("b", m2=1)
    hub.place("alone", None, m1=1)
    await hub.wakes()
    hub.ask("a", "b", "alone")
    await hub.wakes()


@pytest.mark.proves("G24")
async def test_an_open_gate_wakes_those_that_it_names(hub: Hub):
    await gang(hub)
    hub.group(gate="Open", decisions=entry("a", m1=1), quorumTime=QUORUM)
    assert await hub.wakes() == ["a", "b"], "what is told of b is another thing now"
    assert hub.ask("a", "b", "alone") == [GateAnswer.APPLY, GateAnswer.WAIT, GateAnswer.APPLY]
    hub.group(gate="Open", decisions=BOTH, quorumTime=QUORUM)
    assert await hub.wakes() == ["b"]
    hub.group(gate="Open", decisions=BOTH, quorumTime=QUORUM, running=7)
    assert await hub.wakes() == NO_WORKLOAD
    hub.group("other", gate="Closed", decisions=BOTH)
    assert await hub.wakes() == NO_WORKLOAD


@pytest.mark.proves("G24")
async def test_an_answer_that_stood_for_a_moment_only_is_corrected(hub: Hub):
    """Closed, open, closed before anybody is looked at again: who was pushed meanwhile must go."""
    await gang(hub, gate="Closed", decisions=BOTH)
    hub.group(gate="Open", decisions=BOTH, quorumTime=QUORUM)
    assert hub.ask("a") == [GateAnswer.APPLY]
    hub.group(gate="Closed", decisions=BOTH)
    assert hub.ask("a") == [GateAnswer.REMOVE], "on another cluster"
    assert await hub.wakes() == ["a"]
    assert hub.ask("a", "b") == [GateAnswer.REMOVE, GateAnswer.REMOVE]


@pytest.mark.proves("G24")
async def test_what_had_to_go_goes_though_the_gate_is_away_again(hub: Hub):
    """Closed and taken away in one moment: the word to leave must not be lost on any member."""
    await gang(hub, gate="Open", decisions=BOTH, quorumTime=QUORUM)
    a = hub.seen("a")
    hub.group(gate="Closed", decisions=BOTH)
    hub.group()
    assert hub.ask("a") == [GateAnswer.WAIT]
    assert hub.gates.removal_pending(a, "m1")
    assert not hub.gates.removal_pending(hub.seen("alone"), "m1")
    hub.gates.note_clean(a, "m1")
    assert not hub.gates.removal_pending(a, "m1")
    assert hub.gates.removal_pending(a, "m2"), "each member by itself"
    hub.group(gate="Open", decisions=BOTH)
    hub.group()
    assert not hub.gates.removal_pending(a, "m2"), "who closes an open gate anew says so"
    hub.group(gate="Closed", decisions=BOTH)
    hub.group()
    assert hub.gates.removal_pending(a, "m1"), "what came since has to go as well"
    hub.listed(FORBIDDEN)
    await hub.clock.advance(600)
    assert not hub.gates.removal_pending(a, "m1"), "who knows what was said since"
    hub.listed()
    stored = hub.gates.informer.get(("shop", "batch"))
    assert stored is not None
    hub.gates.informer.give_up(("shop", "batch"), stored)
    hub.group()
    assert not hub.gates.removal_pending(a, "m1"), "another group of that name"


@pytest.mark.proves("G24")
@pytest.mark.parametrize("before", ["", "other", "two"])
async def test_who_joins_a_group_that_was_closed_before_keeps_what_runs(hub: Hub, before: str):
    """Of no group, of one whose quorum has run, or of two and so a member of none."""
    await gang(hub, gate="Open", decisions=BOTH)
    if before == "other":
        hub.group("other", gate="Open", decisions=entry("alone", m1=1), quorumTime=QUORUM)
        hub.place("alone", "other", m1=1)
    elif before == "two":
        hub.place("alone", "batch", also="other", m1=1)
    hub.group(gate="Closed", decisions=BOTH)
    await hub.wakes()
    hub.group()
    await hub.wakes()
    hub.place("alone", "batch", m1=1)
    assert hub.ask("alone") == [GateAnswer.WAIT]
    assert not hub.gates.removal_pending(hub.seen("alone"), "m1")
    assert hub.gates.removal_pending(hub.seen("a"), "m1"), "who was a member then has to leave"
    hub.gates.note_clean(hub.seen("alone"), "m2")
    hub.group(gate="Closed", decisions=BOTH | entry("alone", m1=1))
    hub.group()
    assert hub.gates.removal_pending(hub.seen("alone"), "m2"), "now it is one as well"


@pytest.mark.proves("G24")
async def test_who_joins_a_closed_group_has_to_leave_and_who_parts_from_it_has_not(hub: Hub):
    await gang(hub, gate="Closed", decisions=BOTH | entry("alone", m1=1))
    hub.place("alone", "batch", m1=1)
    hub.gates.note_clean(hub.seen("a"), "m1")
    hub.place("a", None, m1=1)  # pushed by itself
    hub.place("a", "batch", m1=1)
    hub.place("b", None, m2=1)
    hub.group()
    hub.place("b", "batch", m2=1)
    assert hub.ask("a", "b", "alone") == [GateAnswer.WAIT] * 3
    assert hub.gates.removal_pending(hub.seen("alone"), "m1")
    assert hub.gates.removal_pending(hub.seen("a"), "m1"), "what came since it had left"
    assert not hub.gates.removal_pending(hub.seen("b"), "m2"), "it came back later"


@pytest.mark.proves("N8")
@pytest.mark.parametrize("late", [False, True], ids=["known", "listed after the group"])
async def test_what_a_closed_gate_leaves_is_nothing_that_had_to_go(hub: Hub, late: bool):
    """Of what it released all but the retained, of all else nothing, though it is away again."""
    decisions = {"u-a": decision_of({"m1": 3, "m2": 1})}
    said = {"gate": "Closed", "decisions": decisions, "retained": {"u-a": {"m1": 3}}}
    hub.listed()
    if late:
        hub.workloads.informer._synced.clear()
        hub.group(**said)
    hub.place("a", m1=3, m2=1)
    hub.place("b", m2=1)
    hub.workloads.informer._synced.set()
    hub.group(**said)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.REMOVE, GateAnswer.WAIT]
    hub.group(decisions=decisions, retained={"u-a": {"m1": 3}})
    hub.place("a", m1=3)
    a = hub.seen("a")
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.WAIT]
    assert hub.gates.starting(a), "what is elsewhere leaves at once"
    assert not hub.gates.removal_pending(a, "m1")
    assert hub.gates.removal_pending(a, "m2")
    assert not hub.gates.removal_pending(hub.seen("b"), "m2")


@pytest.mark.proves("G24")
async def test_a_process_that_starts_while_a_group_is_closed_knows_who_has_to_leave(hub: Hub):
    """Workloads may be listed after the groups, and the gate be away by then."""
    hub.listed()
    hub.workloads.informer._synced.clear()
    hub.place("a", m1=1)
    hub.group(gate="Closed", decisions=BOTH | entry("c", m1=1))
    hub.place("b", m2=1)
    hub.group(decisions=BOTH | entry("c", m1=1))
    hub.place("c", m1=1)
    hub.workloads.informer._synced.set()
    hub.place("later", m1=1)
    answers = [hub.gates.removal_pending(hub.seen(each), "m1") for each in ("a", "b", "c", "later")]
    assert answers == [True, True, True, False]


@pytest.mark.proves("G24")
async def test_what_an_attempt_left_on_a_cluster_that_comes_back_later_has_to_leave(hub: Hub):
    """It was no member while the gate was closed, and nobody knows of that any more."""
    hub.listed()
    hub.group(decisions=entry("a", m1=1), retained={"u-b": {"m1": 1}})
    assert hub.gates.removal_pending(hub.place("a"), "m1")
    assert not hub.gates.removal_pending(hub.place("a", m2=1), "m1"), "it is placed again"
    assert not hub.gates.removal_pending(hub.place("b"), "m1"), "it ran before the gang"
    assert not hub.gates.removal_pending(hub.place("c"), "m1"), "it was never released"
    hub.group(decisions=entry("a", m1=1), quorumTime=QUORUM)
    assert not hub.gates.removal_pending(hub.place("a"), "m1"), "the gang has run"


@pytest.mark.proves("G24")
async def test_a_gang_starts_from_its_open_gate_until_its_quorum_has_run(hub: Hub):
    await gang(hub)
    assert not hub.gates.starting(hub.seen("a"))
    hub.group(gate="Open", decisions=BOTH)
    assert hub.gates.starting(hub.seen("a"))
    assert not hub.gates.starting(hub.seen("alone"))
    hub.group(gate="Open", decisions=BOTH, quorumTime=QUORUM)
    assert not hub.gates.starting(hub.seen("a"))


@pytest.mark.proves("G24")
async def test_a_start_waits_for_all_clusters_and_is_woken_by_them(hub: Hub):
    await gang(hub)
    hub.registry.becomes("m2", Contact.AWAY)
    hub.group(gate="Open", decisions=BOTH)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    assert "m2: gone fishing" in hub.told("a")
    hub.registry.becomes("m3", Contact.AWAY)
    assert await hub.wakes() == NO_WORKLOAD, "none of it goes there"
    hub.registry.becomes("m2", Contact.SERVING)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]
    hub.place("b", m3=1)
    hub.group(gate="Open", decisions=BOTH | entry("b", m3=1))
    await hub.wakes()
    assert "m3: gone fishing" in hub.told("a")
    hub.group(gate="Open", decisions=BOTH | entry("b", m3=1), quorumTime=QUORUM)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_a_start_waits_until_each_cluster_has_answered_a_question_of_its_own(hub: Hub):
    """One may stand still since the last probe, and nobody knows."""
    await hub.clock.advance(100)
    await gang(hub)
    hub.registry.deaf = {"m1": 99.9, "m2": 99.0, "m3": 0.0}
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    assert hub.told("a") == "", "it passes by itself"
    assert hub.registry.asked == ["m2"], "the answer of m1 is fresh, and none of it goes to m3"
    hub.registry.answers("m2", asked=99.5)  # a question that was under way already
    assert await hub.wakes() == NO_WORKLOAD
    assert hub.registry.asked == ["m2", "m2"]
    hub.registry.answers("m2", asked=100.0)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]
    hub.registry.deaf["m1"] = 0.0
    hub.registry.answers("m2")
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY], "it has started"


@pytest.mark.proves("G24")
async def test_one_that_does_not_answer_the_start_is_told_once_it_is_lost(hub: Hub):
    await hub.clock.advance(100)
    await gang(hub)
    hub.registry.deaf = {"m2": 0.0}
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    hub.registry.becomes("m2", Contact.AWAY)
    assert await hub.wakes() == ["a", "b"]
    assert "m2: gone fishing" in hub.told("a")


@pytest.mark.proves("G24")
async def test_of_a_gang_on_very_many_clusters_one_that_changes_costs_a_look_at_itself(hub: Hub):
    """As all of them connect, after each start of this process."""
    clusters = [f"c{number}" for number in range(300)]
    hub.registry.contacts = dict.fromkeys(clusters, Contact.CONNECTING)
    placed = dict.fromkeys(clusters, 1)
    hub.listed()
    hub.group(gate="Open", decisions=entry("a", **placed))
    hub.place("a", **placed)
    hub.ask("a")
    await hub.wakes()
    hub.registry.looks = 0
    for cluster in clusters[1:]:
        hub.registry.becomes(cluster, Contact.SERVING)
    assert hub.registry.looks < 4 * len(clusters)
    assert hub.ask("a") == [GateAnswer.WAIT]
    hub.registry.becomes(clusters[0], Contact.AWAY)
    await hub.wakes()
    assert "c0: gone fishing" in hub.told("a")
    hub.registry.becomes(clusters[0], Contact.SERVING)
    await hub.wakes()
    assert hub.ask("a") == [GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_nothing_is_pushed_before_it_is_known_who_is_placed_where(hub: Hub):
    await gang(hub)
    hub.registry.becomes("m2", Contact.CONNECTING)
    hub.group(gate="Open", decisions=BOTH)
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    await hub.wakes()
    assert hub.told("a") == "", "it passes by itself"
    await hub.clock.advance(PATIENCE_SECONDS + CHECK_SECONDS)
    assert await hub.wakes() == ["a", "b"]
    assert "m2: not connected after 20 s" in hub.told("b")


@pytest.mark.proves("G24")
async def test_nothing_is_pushed_before_all_that_is_released_is_seen(hub: Hub):
    """The watch of groups is ahead of that of Workloads: where b goes is not known here yet."""
    hub.registry.becomes("m2", Contact.AWAY)
    hub.listed()
    hub.place("a", m1=1)
    hub.place("b")
    hub.group(gate="Open", decisions=BOTH)
    hub.ask("a")
    await hub.wakes()
    assert (hub.ask("a"), hub.told("a")) == ([GateAnswer.WAIT], "")
    hub.place("b", m3=1)
    await hub.wakes()
    assert hub.ask("a") == [GateAnswer.WAIT], "that is what it left"
    await hub.clock.advance(PATIENCE_SECONDS + CHECK_SECONDS)
    assert await hub.wakes() == ["a"]
    assert "1 of its 2 released Workloads cannot be seen" in hub.told("a")
    hub.place("b", m2=1)
    assert await hub.wakes() == ["a"]
    assert "m2: gone fishing" in hub.told("a")
    hub.registry.becomes("m2", Contact.SERVING)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_for_how_long_a_cluster_connects_counts_anew_each_time(hub: Hub):
    """A gang that is long gone has waited for it once."""
    await gang(hub)
    hub.registry.becomes("m2", Contact.CONNECTING)
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    hub.group(gate="Closed", decisions=BOTH)
    await hub.wakes()
    hub.registry.becomes("m2", Contact.SERVING)
    await hub.clock.advance(600)
    hub.listed()
    hub.registry.becomes("m2", Contact.CONNECTING)
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    assert hub.ask("a") == [GateAnswer.WAIT]
    assert hub.told("a") == ""


@pytest.mark.proves("G24")
async def test_a_stale_view_of_the_last_try_does_not_start_the_next_one(hub: Hub):
    """The watch of groups is dead, that of Workloads lives, and both tries are placed alike."""
    await gang(hub, gate="Open", decisions=BOTH)
    assert hub.ask("a") == [GateAnswer.APPLY]
    hub.group(told=False)
    hub.place("a")
    await hub.clock.advance(11)
    hub.place("a", m1=1)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    assert hub.told("a") == "", "it passes by itself"
    await hub.clock.advance(60)
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    assert len(hub.server.asked) < 20
    hub.group(told=False, gate="Open", decisions=BOTH)
    await hub.clock.advance(LONGEST_PAUSE)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_a_start_asks_the_hub_once_and_anew_after_a_cluster_was_away(hub: Hub):
    await gang(hub, gate="Open", decisions=BOTH)
    hub.group(gate="Open", decisions=BOTH, running=1)
    await hub.wakes()
    await hub.clock.advance(60)
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]
    assert len(hub.server.asked) == 1
    hub.registry.becomes("m2", Contact.AWAY)
    await hub.wakes()
    hub.group(told=False, gate="Closed", decisions=BOTH)
    hub.registry.becomes("m2", Contact.SERVING)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]
    hub.group(gate="Open", decisions=BOTH, quorumTime=QUORUM)
    await hub.wakes()
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_an_answer_of_the_hub_counts_for_the_start_that_asked(hub: Hub):
    """The gate closes and opens again, for others, while the hub takes its time."""
    hub.server.answers.clear()
    await gang(hub, gate="Open", decisions=BOTH)
    assert len(hub.server.asked) == 1
    hub.group(gate="Closed", decisions=BOTH)
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    hub.group(told=False)
    hub.server.answers.set()
    await hub.wakes()
    assert len(hub.server.asked) == 2
    assert hub.ask("a", "b") == [GateAnswer.WAIT, GateAnswer.WAIT]


@pytest.mark.proves("G24")
async def test_a_hub_that_does_not_answer_is_waited_for_and_not_stormed(hub: Hub):
    hub.server.fault = Unreachable("no answer")
    await gang(hub, gate="Open", decisions=BOTH)
    for _ in range(10):
        await hub.clock.advance(60)
        hub.listed()
        assert hub.ask("a") == [GateAnswer.WAIT]
        assert hub.told("a") == ""
    assert 10 < len(hub.server.asked) < 60
    hub.server.fault = FORBIDDEN
    await hub.clock.advance(LONGEST_PAUSE)
    await hub.wakes()
    assert "grant list" in hub.told("a")
    hub.server.fault = None
    await hub.clock.advance(LONGEST_PAUSE)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.APPLY]


@pytest.mark.proves("G24")
async def test_of_many_gangs_that_start_at_once_a_few_are_asked_about_at_a_time(hub: Hub):
    hub.server.answers.clear()
    hub.listed()
    names = [f"w{number}" for number in range(100)]
    for name in names:
        hub.group(f"of-{name}", gate="Open", decisions=entry(name, m1=1))
        hub.place(name, f"of-{name}", m1=1)
    await hub.wakes()
    assert 1 < len(hub.server.asked) <= 4
    hub.group(f"of-{names[-1]}", gate="Closed", decisions=entry(names[-1], m1=1))
    await hub.wakes()
    assert hub.ask(names[-1]) == [GateAnswer.REMOVE], "which waits for none of them"
    hub.server.answers.set()
    await hub.wakes()
    assert hub.ask(*names[:-1]) == [GateAnswer.APPLY] * 99
    assert len(hub.server.asked) == 99, "each once"


@pytest.mark.proves("G18", "G24")
async def test_who_changes_groups_is_judged_by_the_new_one(hub: Hub):
    await gang(hub, gate="Closed", decisions=BOTH)
    hub.group("other", gate="Open", decisions=entry("a", m1=1), quorumTime=QUORUM)
    hub.place("a", "other", m1=1)
    assert hub.ask("a", "b") == [GateAnswer.APPLY, GateAnswer.REMOVE]
    hub.place("a", None, m1=1)
    assert hub.ask("a") == [GateAnswer.APPLY]
    hub.place("a", "gone", m1=1)
    assert hub.ask("a") == [GateAnswer.WAIT]
    await hub.wakes()
    hub.group("gone", gate="Closed", decisions=BOTH)
    assert await hub.wakes() == ["a"]


@pytest.mark.proves("G24", "R11")
@pytest.mark.parametrize(
    ("fault", "words"), [(MISSING, "serves no WorkloadGroups"), (FORBIDDEN, "grant list")]
)
async def test_of_groups_that_cannot_be_read_nothing_is_concluded(
    hub: Hub, fault: TransportError, words: str
):
    hub.place("a", m1=1)
    hub.place("alone", None, m1=1)
    assert hub.ask("a", "alone") == [GateAnswer.WAIT, GateAnswer.APPLY]
    assert hub.told("a") == "", "they are being listed"
    hub.listed(fault)
    await hub.clock.advance(CHECK_SECONDS)
    assert await hub.wakes() == ["a"]
    assert words in hub.told("a")
    hub.listed()
    await hub.clock.advance(CHECK_SECONDS)
    assert await hub.wakes() == ["a"]
    assert "not found" in hub.told("a")


@pytest.mark.proves("G24", "R11")
async def test_a_gate_that_was_not_heard_of_for_long_holds_in_silence(hub: Hub):
    """Closed or open: another one may have been written since."""
    await gang(hub, gate="Closed", decisions=BOTH)
    assert hub.ask("a") == [GateAnswer.REMOVE]
    await hub.clock.advance(600)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a", "alone") == [GateAnswer.WAIT, GateAnswer.APPLY]
    assert hub.told("a") == ""
    hub.listed()
    await hub.clock.advance(CHECK_SECONDS)
    assert await hub.wakes() == ["a", "b"]
    assert hub.ask("a") == [GateAnswer.REMOVE]


@pytest.mark.proves("G24", "R11")
async def test_who_asked_in_the_moment_of_silence_is_asked_again(hub: Hub):
    """Nobody looked while it lasted."""
    await gang(hub, gate="Closed", decisions=BOTH)
    await hub.clock.advance(STALE_SECONDS + CHECK_SECONDS / 2 - hub.clock.monotonic())
    assert hub.ask("a") == [GateAnswer.WAIT]
    hub.listed()
    assert await hub.wakes() == NO_WORKLOAD
    await hub.clock.advance(CHECK_SECONDS)
    assert await hub.wakes() == ["a"]


@pytest.mark.proves("G24")
async def test_a_group_of_thousands_is_woken_in_steps_and_only_where_it_changed(hub: Hub):
    hub.listed()
    names = [f"w{number}" for number in range(MOST_WORKLOADS)]
    for name in names:
        hub.place(name, m1=1)
    hub.ask(*names)
    counts, there = [0], {f"u-{name}": decision_of({"m1": 1}) for name in names}
    hub.group(gate="Open", decisions=there, quorumTime=QUORUM)
    for _ in range(MOST_WORKLOADS):
        await asyncio.sleep(0)
        counts.append(len(hub.woken))
    assert counts[-1] == MOST_WORKLOADS, "each once"
    assert max(after - before for before, after in pairwise(counts)) <= 2 * SLICE
    hub.woken.clear()
    hub.ask(*names)
    del there[f"u-{names[0]}"]
    hub.group(gate="Open", decisions=there, quorumTime=QUORUM)
    await hub.clock.advance(MOST_WORKLOADS / REVIEWED_PER_SECOND)
    for _ in range(MOST_WORKLOADS):
        await asyncio.sleep(0)
    assert hub.woken == names[:1]


@pytest.mark.parametrize("first", ["the Workloads", "the group", "the label"])
async def test_nothing_is_kept_of_what_went(hub: Hub, first: str):
    """In whatever order; and a worker may have asked with what it had in its hands."""
    await gang(hub, gate="Closed", decisions=BOTH)
    hub.group(gate="Open", decisions=BOTH)
    await hub.wakes()
    hub.ask("a", "b")
    if first == "the group":
        await remove_group(hub)
    if first == "the label":
        hub.place("a", None, m1=1)
    for name in ("a", "b", "alone"):
        held = hub.seen(name)
        hub.workloads.informer.give_up(("shop", name), held)
        hub.gates.verdict(held)
    if first != "the group":
        await remove_group(hub)
    await hub.wakes()
    await hub.clock.advance(CHECK_SECONDS)
    gates = hub.gates
    kept = ([*gates._given], gates._starting, gates._due, gates._shut, gates._asked)
    assert not any((*kept, [*gates._leaves])), kept


async def remove_group(hub: Hub) -> None:
    stored = hub.gates.informer.get(("shop", "batch"))
    assert stored is not None
    hub.gates.informer.give_up(("shop", "batch"), stored)
    await hub.wakes()


async def test_of_one_that_left_its_group_no_answer_is_kept(hub: Hub):
    await gang(hub, gate="Open", decisions=BOTH)
    a = hub.seen("a")
    hub.place("a", None, m1=1)
    hub.gates.verdict(a)  # by a worker that has not heard of it yet
    hub.workloads.informer.give_up(("shop", "a"), hub.seen("a"))
    assert list(hub.gates._given) == [("u-b", "")]
