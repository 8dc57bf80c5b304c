"""Disruption budgets of a member bound what leaves it at once, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.errors import Forbidden, NotFound, Unreachable
from machinery.types.metadata import Key, Meta
from machinery.types.selectors import LabelSelector, Requirement
from propagator.members.disruption_budgets import (
    MOST_CHARACTERS,
    DisruptionBudget,
    DisruptionBudgets,
    WireBudget,
    slim_budget,
)
from propagator.members.pods import main_of
from propagator.removal.disruptions import SETTLE_SECONDS, Allowed, Disruptions, allows
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.stage import deployment

NOBODY = LabelSelector(match_labels={"app": "nobody"})
WEB = LabelSelector(match_labels={"app": "web"})


def budget(
    name: str = "web",
    allowed: int = 1,
    *,
    version: str = "1",
    current: bool = True,
    selector: LabelSelector | None = WEB,
) -> DisruptionBudget:
    meta = Meta(name=name, namespace="shop", resource_version=version)
    return DisruptionBudget(metadata=meta, selector=selector, allowed=allowed, current=current)


@dataclass
class Member:
    """A member's budgets and pods, as a test sets them."""

    clock: FakeClock = field(default_factory=FakeClock)
    budgets: dict[Key, DisruptionBudget] = field(default_factory=dict)
    heard_at: dict[Key, float] = field(default_factory=dict)
    pods: int = 0
    ending: int = 0
    known: bool = True
    obstacle: Exception | None = None
    woken: list[Key] = field(default_factory=list)
    listeners: list[Any] = field(default_factory=list)
    live: set[Any] = field(default_factory=set)
    name: str = "m1"

    def __hash__(self) -> int:
        return id(self)

    @property
    def link(self) -> Any:
        return SimpleNamespace(budgets=self)

    def set(self, *budgets: DisruptionBudget) -> None:
        for each in budgets:
            self.budgets[each.metadata.key] = each
            self.heard_at[each.metadata.key] = self.clock.monotonic()

    def listen(self, changed: Any) -> None:
        self.listeners.append(changed)

    def over(self, namespace: str, pods: Any) -> list[DisruptionBudget]:
        made = DisruptionBudgets(cast("Any", None), begin=lambda _: None, clock=self.clock)
        made.informer = cast("Any", self.budgets)
        return made.over(namespace, pods)

    def pod_labels(self, _main: Any) -> set[Any]:
        return self.live

    def get(self, key: Key) -> DisruptionBudget | None:
        return self.budgets.get(key)

    def heard(self, key: Key) -> float:
        return self.heard_at.get(key, 0.0)

    def pod_counts(self, _main: Any) -> Any:
        return SimpleNamespace(current=self.pods, ready=self.pods - self.ending)

    def disruptions(self) -> Disruptions:
        def wake(_name: str, key: Key) -> None:
            self.woken.append(key)

        registry = SimpleNamespace(get=lambda _name: self, wake=wake)
        context: Any = Context(registry=registry, clock=self.clock)
        return Disruptions(context)


def workload(name: str = "web", *manifests: dict[str, Any]) -> Workload:
    body = deployment(name)
    body["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": name, "uid": f"u-{name}"},
            "spec": {"targetDeployment": body, "manifests": list(manifests)},
        }
    )


def ask(
    disruptions: Disruptions,
    member: Any,
    present: int,
    keeps: int = 0,
    *,
    of: Workload | None = None,
    carried: bool = True,
) -> Allowed:
    each = of or workload()
    return disruptions.allowed(
        member,
        each,
        main_of(each),
        present=present,
        keeps=keeps,
        carried=carried,
        labels=(("app", "web"),),
    )


@pytest.mark.proves("M28")
async def test_the_next_step_waits_for_the_pods_and_then_for_the_status() -> None:
    member = Member(pods=4)
    member.set(budget(allowed=1))
    disruptions = member.disruptions()
    assert ask(disruptions, member, 4) == (3, "disruption budget shop/web allows 1")
    assert ask(disruptions, member, 4).keeps == 3, "the same step, asked for again"
    assert ask(disruptions, member, 3).keeps == 3, "its pod is not gone"
    await member.clock.advance(1)
    member.set(budget(allowed=1, version="2"))
    assert ask(disruptions, member, 3).keeps == 3
    await member.clock.advance(1)
    member.ending = 1
    disruptions.look("m1", ("shop", "web"))
    assert not member.woken
    await member.clock.advance(1)
    member.pods, member.ending = 3, 0
    disruptions.look("m1", ("shop", "web"))
    assert member.woken == [("shop", "web")]
    assert ask(disruptions, member, 3).keeps == 3, "that status does not count it"
    await member.clock.advance(1)
    member.set(budget(allowed=1, version="3"))
    assert ask(disruptions, member, 3).keeps == 2


@pytest.mark.proves("M28")
async def test_a_status_that_counts_a_pod_which_ends_is_enough_when_it_is_gone() -> None:
    member = Member(pods=4)
    member.set(budget(allowed=1))
    disruptions = member.disruptions()
    ask(disruptions, member, 4)
    member.ending = 1
    disruptions.look("m1", ("shop", "web"))
    await member.clock.advance(1)
    member.set(budget(allowed=1, version="2"))
    assert ask(disruptions, member, 3).keeps == 3, "it only ends"
    member.pods, member.ending = 3, 0
    assert ask(disruptions, member, 3).keeps == 2


@pytest.mark.proves("M28")
async def test_a_status_that_came_before_the_end_of_the_pod_is_believed_in_the_end() -> None:
    member = Member(pods=4)
    member.set(budget(allowed=1))
    disruptions = member.disruptions()
    ask(disruptions, member, 4)
    await member.clock.advance(1)
    member.set(budget(allowed=1, version="2"))
    await member.clock.advance(1)
    member.pods = 3
    assert ask(disruptions, member, 3).keeps == 3
    await member.clock.advance(SETTLE_SECONDS)
    assert ask(disruptions, member, 3).keeps == 2


@pytest.mark.proves("M28")
async def test_a_step_that_is_taken_back_counts_until_its_pods_are_back_or_counted() -> None:
    for back in (True, False):
        member = Member(pods=4)
        member.set(budget(allowed=1))
        disruptions = member.disruptions()
        ask(disruptions, member, 4)
        member.ending = 1
        disruptions.raised("m1", ("shop", "web"), 3)
        assert ask(disruptions, member, 3).keeps == 3, "it is what the step left"
        disruptions.raised("m1", ("shop", "web"), 4)
        await member.clock.advance(SETTLE_SECONDS)
        assert ask(disruptions, member, 4, of=workload("api")).keeps == 4
        keeps, why = ask(disruptions, member, 4)
        assert (keeps, why) == (4, "1 replicas of the last step are not back, or not counted")
        if back:
            member.ending = 0
        else:
            member.set(budget(allowed=1, version="2"))
        assert ask(disruptions, member, 4, of=workload("api")).keeps == 3


@pytest.mark.proves("M28", "M29")
async def test_the_tightest_budget_decides_and_what_is_not_current_allows_nothing() -> None:
    member = Member(pods=4)
    member.set(
        budget("wide", 3),
        budget("tight", 2),
        budget("others", 0, selector=LabelSelector({"app": "x"})),
    )
    assert ask(member.disruptions(), member, 4) == (2, "disruption budget shop/tight allows 2")
    member.set(budget("stale", 9, current=False))
    keeps, why = ask(member.disruptions(), member, 4)
    assert keeps == 4
    assert why.startswith("disruption budget shop/stale allows 0, as its status is not of")
    member.set(budget("none", 0, selector=None))
    del member.budgets["shop", "stale"]
    assert ask(member.disruptions(), member, 4, keeps=2) == (2, ""), "no more is asked for"


@pytest.mark.proves("M28")
async def test_workloads_under_one_budget_share_what_it_allows() -> None:
    member = Member(pods=4)
    member.set(budget(allowed=3))
    disruptions = member.disruptions()
    assert ask(disruptions, member, 4, keeps=2) == (2, "")
    keeps, why = ask(disruptions, member, 4, of=workload("api"))
    assert (keeps, why) == (3, "disruption budget shop/web allows 1")


@pytest.mark.proves("M29")
async def test_a_change_of_a_budget_wakes_what_waits_in_its_namespace() -> None:
    member = Member(pods=2)
    member.set(budget(allowed=0))
    disruptions = member.disruptions()
    assert ask(disruptions, member, 2) == (2, "disruption budget shop/web allows 0")
    (heard,) = member.listeners
    heard("other")
    assert not member.woken
    heard("shop")
    assert member.woken == [("shop", "web")]
    member.budgets.clear()
    assert ask(disruptions, member, 2) == (0, "")
    heard("shop")
    assert len(member.woken) == 1, "it waits no more"


@pytest.mark.proves("M30")
async def test_a_carried_budget_limits_the_steps_and_not_the_last_one() -> None:
    carried = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
    }
    own, member = workload("web", carried), Member(pods=2)
    member.set(budget(allowed=0))
    assert ask(member.disruptions(), member, 2, of=own).keeps == 2
    assert ask(member.disruptions(), member, 2, of=own, carried=False) == (0, "")
    member.set(budget("others", 0))
    assert ask(member.disruptions(), member, 2, of=own, carried=False).keeps == 2


@pytest.mark.proves("M31")
@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        (Forbidden(code=403, reason="Forbidden", message="no"), ["poddisruptionbudgets", "join"]),
        (Unreachable("no route"), ["cannot be listed", "no route"]),
        (None, ["have not been listed yet"]),
    ],
)
async def test_what_is_not_known_allows_nothing(
    obstacle: Exception | None, words: list[str]
) -> None:
    member = Member(pods=2, known=False, obstacle=obstacle)
    keeps, why = ask(member.disruptions(), member, 2)
    assert keeps == 2
    assert all(word in why for word in words)


@pytest.mark.proves("KD67")
async def test_a_budget_over_labels_that_only_live_pods_have_holds() -> None:
    """Those of a former revision, or of a label that each pod has of its own."""
    canary = LabelSelector(match_expressions=[Requirement("track", "In", ("canary",))])
    member = Member(pods=4)
    member.set(budget("old", 1, selector=canary), budget("other", 0, selector=NOBODY))
    assert ask(member.disruptions(), member, 4) == (0, ""), "no pod has that label"
    member.live = {(("app", "web"), ("nr", str(n)), ("track", "canary")) for n in range(2)}
    member.live |= {(("app", "web"), ("nr", "2"))}
    assert ask(member.disruptions(), member, 4) == (3, "disruption budget shop/old allows 1")
    member.live = {None}
    words = "disruption budget shop/other allows 0"
    assert ask(member.disruptions(), member, 4) == (4, words), "labels that are not kept"


async def test_a_member_without_the_kind_has_no_budgets() -> None:
    gone = NotFound(code=404, reason="NotFound", message="no such resource")
    member = Member(pods=2, known=False, obstacle=gone)
    assert ask(member.disruptions(), member, 2) == (0, "")


@pytest.mark.proves("M28")
@given(st.integers(0, 20), st.lists(st.integers(0, 9), max_size=5), st.booleans())
def test_no_more_goes_at_once_than_a_budget_allows(
    allowed: int, under_way: list[int], current: bool
) -> None:
    left = allows(budget(allowed=allowed, current=current), under_way)
    assert left >= 0
    assert not left or left + sum(under_way) <= allowed
    assert current or not left


def test_a_selector_that_is_too_large_holds_for_the_whole_namespace() -> None:
    large = LabelSelector(match_expressions=[Requirement("app", "In", ["x" * MOST_CHARACTERS])])
    many = LabelSelector(match_labels={f"k{n}": "v" for n in range(100)})
    for selector in (large, many):
        wire = WireBudget(metadata=Meta(name="web", namespace="shop", generation=2))
        wire = type(wire)(metadata=wire.metadata, spec=type(wire.spec)(selector))
        kept = slim_budget(wire)
        assert isinstance(kept, DisruptionBudget)
        assert kept.holds("shop", {"anything": "else"})
        assert not kept.holds("other", {"app": "web"})
        assert not kept.current


@pytest.mark.proves("RB19")
@pytest.mark.parametrize(
    ("status", "why"),
    [
        (
            {
                "observedGeneration": 1,
                "conditions": [
                    {
                        "type": "DisruptionAllowed",
                        "status": "False",
                        "reason": "SyncFailed",
                        "message": "found no controllers for pod",
                    }
                ],
            },
            "as SyncFailed: found no controllers for pod",
        ),
        ({}, "as its member has given it no status"),
        ({"observedGeneration": 1}, "as its status is not of its present spec"),
    ],
)
async def test_a_budget_that_is_not_reckoned_is_told_by_its_own_words(
    status: dict[str, Any], why: str
) -> None:
    body = {
        "metadata": {"name": "web", "namespace": "shop", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 3, **status},
    }
    kept = slim_budget(msgspec.convert(body, WireBudget))
    assert isinstance(kept, DisruptionBudget)
    member = Member(pods=2)
    member.set(kept)
    assert ask(member.disruptions(), member, 2) == (
        2,
        f"disruption budget shop/web allows 0, {why}",
    )
