"""Cases of other planners as problems of ours: what each was asked, and what it answered.

A peer's ties are injected as our order, its limits become our bounds. Where a peer is asked to
divide again although something is placed, so are we. A capacity that a peer finds out only by
overrunning it, we have to find out too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.model.observedlimits import as_bounds, learn
from controller.planner.plan import UNBOUNDED, BoundKind, GroupBound, Problem, apportion
from controller.planner.webster import Ints

from .plain import ints, problem

ORACLES = Path(__file__).parents[2] / "data" / "oracles"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Answer = dict[str, int]


@dataclass(frozen=True)
class Case:
    """One case: `answers` are all that the peer's own test accepts, none where it gives up.

    `hidden` are capacities that only show when they are overrun. `divide` is what of ours answers.
    """

    id: str
    names: list[str]
    of: Problem
    answers: list[Answer]
    hidden: dict[str, int] = field(default_factory=dict)
    divide: Callable[[Problem], Ints] = lambda of: apportion(of).shares

    def ours(self) -> Answer:
        """Our shares; those that the loop settles on where something is hidden."""
        of, limits = self.of, {}
        rows = {name: row for row, name in enumerate(self.names)}
        for _ in range(len(self.names) + 1 if self.hidden else 1):
            shares = self.divide(of)
            present = dict(zip(self.names, map(int, shares), strict=True))
            missing = {n: max(u - self.hidden.get(n, u), 0) for n, u in present.items()}
            limits = learn(limits, present=present, unschedulable=missing, now=NOW)
            of = replace(of, present=shares, learnt=as_bounds(limits, rows))
        return present

    def fresh(self) -> bool:
        """Ask peer and planner the same question: with nothing placed and nothing hidden."""
        return not (self.hidden or self.of.present.any())


def load(name: str) -> Any:
    return json.loads((ORACLES / f"{name}.json").read_text())


def _fnv(text: str, *, bits: int, a: bool) -> int:
    prime, value = {32: (16777619, 2166136261), 64: (1099511628211, 14695981039346656037)}[bits]
    for byte in text.encode():
        value = (value ^ byte) * prime if a else (value * prime) ^ byte
        value %= 2**bits
    return value


def _order(names: list[str], key: Callable[[str], Any]) -> list[int]:
    place = {name: number for number, name in enumerate(sorted(names, key=key))}
    return [place[name] for name in names]


def _answers(want: Any) -> list[Answer]:
    return [] if want.get("error") else [dict(found) for found in want["anyOf"]]


def _karmada(
    name: str, weights: Answer, init: Answer, more: int, *, down: bool, answers: list[Answer]
) -> Case:
    """Webster on top of what is there; ties by fewer seats, which is the lower weight, then name."""
    names = sorted({**weights, **init}, reverse=down)
    weight = [weights.get(name, 0) for name in names]
    of = problem(
        more + sum(init.values()),
        weight,
        present=[init.get(name, 0) for name in names],
        order=_order(names, lambda name: (weights.get(name, 0), names.index(name))),
    )
    return Case(name, names, of, answers)


def _odd(uid: str) -> bool:
    return bool(uid) and _fnv(uid, bits=32, a=True) % 2 == 1


def _dynamic(
    name: str, available: Answer, current: Answer, total: int, answers: list[Answer]
) -> Case:
    """By availability, which comes on top of what is there."""
    names = list(available)
    held = [current.get(name, 0) for name in names]
    room = [available[name] + there for name, there in zip(names, held, strict=True)]
    of = problem(
        total,
        list(available.values()),
        room=room,
        present=held,
        order=_order(names, lambda name: (available[name], name)),
    )
    return Case(name, names, of, answers)


def _rule_weights(clusters: list[Any], rules: list[Any] | None) -> Answer:
    if rules is None:
        return {cluster["name"]: 1 for cluster in clusters}
    found: Answer = {}
    for rule in rules:
        for name in rule["clusterNames"]:
            found[name] = max(found.get(name, 0), rule["weight"])
    return {c["name"]: found[c["name"]] for c in clusters if c["name"] in found}


def _karmada_division() -> Iterator[Case | str]:
    for kind, cases in load("karmada_division").items():
        for case in cases:
            key, asked, answers = f"{kind}/{case['name']}", case["in"], _answers_of(case["want"])
            if asked.get("strategy") in {"Aggregated", "Duplicated"}:
                yield key
            elif kind == "webster":
                down = asked["tie"] == "name-desc"
                yield _karmada(
                    key, asked["votes"], asked["init"], asked["seats"], down=down, answers=answers
                )
            elif kind in {"dispenser", "spread_replicas"}:
                init, down = dict(asked.get("init", [])), _odd(asked.get("uid", ""))
                yield _karmada(
                    key, asked["weights"], init, asked["replicas"], down=down, answers=answers
                )
            elif kind in {"assign_static_weight", "assign_static_distribution"}:
                weights = _rule_weights(asked["clusters"], asked["rules"])
                down = _odd(asked["uid"])
                yield _karmada(key, weights, {}, asked["replicas"], down=down, answers=answers)
            elif kind == "dynamic_divide":
                yield _dynamic(key, dict(asked["available"]), {}, asked["target"], answers)
            elif kind in {"assign_dynamic_rescale", "assign_dynamic_scale_up"}:
                available = {entry["name"]: entry["allocatable"] for entry in asked["clusters"]}
                current = dict(asked["previous"])
                yield _dynamic(key, available, current, asked["replicas"], answers)
            else:
                yield key


def _answers_of(want: Any) -> list[Answer]:
    """Answers of cases that divide; the others have lists of names or a truth value."""
    found = want.get("anyOf", [])
    divides = all(isinstance(a, list) and all(isinstance(x, list) for x in a) for a in found)
    return _answers(want) if divides else []


def _karmada_static() -> Iterator[Case | str]:
    for case in load("karmada_static")["cases"]:
        down = _odd(case["uid"])
        yield _karmada(
            case["id"], case["weights"], {}, case["replicas"], down=down, answers=[case["expected"]]
        )


def _karmada_overflow() -> Iterator[Case | str]:
    """A tier is a domain whose lower bound is all there is: it is served before the next."""
    for case in load("karmada_overflow")["cases"]:
        clusters, total = case["candidates"], case["replicas"]
        names = [entry["name"] for entry in clusters]
        tiers = max(entry["tier"] for entry in clusters) + 1
        bound = GroupBound(
            BoundKind.DOMAIN_QUOTA,
            [f"tier {number}" for number in range(tiers)],
            ints([entry["tier"] for entry in clusters]),
            ints([UNBOUNDED] * tiers),
            ints([total] + [0] * (tiers - 1)),
        )
        room = [entry["available_with_assigned"] for entry in clusters]
        held = [case["current"].get(name, 0) for name in names]
        of = problem(total, room, room=room, present=held, groups=(bound,))
        answers = [] if "error" in case["expected"] else [case["expected"]]
        yield Case(case["id"], names, of, answers)


def _preferred(case: Any, *, anew: bool) -> tuple[list[str], Problem]:
    """Weights, bounds and hashes."""
    names, per = case["clusters"], case["per_cluster"]
    free = UNBOUNDED
    of = problem(
        case["replicas"],
        [per[name]["weight"] for name in names],
        lower=[per[name]["min"] for name in names],
        upper=[free if per[name]["max"] is None else per[name]["max"] for name in names],
        learnt=[
            free if per[name].get("limited") is None else per[name]["limited"] for name in names
        ],
        present=[0 if anew else case["current"].get(name, 0) for name in names],
        order=_order(
            names,
            lambda name: (-per[name]["weight"], _fnv(name + case["key"], bits=32, a=False)),
        ),
    )
    return names, of


def _kubeadmiral() -> Iterator[Case | str]:
    for case in load("kubeadmiral_planner")["cases"]:
        anew = not case["avoid_disruption"]
        names, of = _preferred(case, anew=anew)
        yield Case(case["id"], names, of, [case["expected"]["plan"]], case["actual_capacity"])


def _pingpong() -> Iterator[Case | str]:
    oracle = load("kubeadmiral_pingpong")
    case = oracle["case"]
    names = case["clusters"]
    weights = [case["preferences"][name]["weight"] for name in names]
    held = [case["current"].get(name, 0) for name in names]
    of = problem(case["replicas"], weights, present=held)
    yield Case("pingpong", names, of, [oracle["a_settled_answer"]], case["actual_capacity"])


def _weights(case: Any, key: str) -> list[int]:
    """Of the asked resource; equal for all where no cluster has any."""
    found = [
        (entry[key] or 0) if entry["resource"] == case["resource"] else 0
        for entry in case["clusters"]
    ]
    return found if any(found) else [1] * len(found)


def _capacity_weights() -> Iterator[Case | str]:
    """A thousand parts by what is allocatable; then by what is free, up to as many parts each."""
    for case in load("kubeadmiral_capacity_weights")["cases"]:
        names = [entry["name"] for entry in case["clusters"]]
        weights = _weights(case, "allocatable")
        if case["algorithm"] == "kubeadmiral.capacity_weights":
            limits = apportion(problem(1000, weights)).shares
            parts = apportion(problem(1000, _weights(case, "available"))).shares
            weights = [min(pair) for pair in zip(limits.tolist(), parts.tolist(), strict=True)]
        yield Case(case["id"], names, problem(1000, weights), [case["expected"]])


def _other(name: str) -> Callable[[], Iterator[Case | str]]:
    """A file whose cases divide nothing."""

    def ids() -> Iterator[Case | str]:
        for case in load(name)["cases"]:
            yield case["id"]

    return ids


FILES: dict[str, Callable[[], Iterator[Case | str]]] = {
    "karmada_division": _karmada_division,
    "karmada_overflow": _karmada_overflow,
    "karmada_static": _karmada_static,
    "kubeadmiral_binpack_planner": _other("kubeadmiral_binpack_planner"),
    "kubeadmiral_capacity_weights": _capacity_weights,
    "kubeadmiral_pingpong": _pingpong,
    "kubeadmiral_planner": _kubeadmiral,
}
"""For each file its cases in order; where a case divides nothing, only its name."""

ALL: dict[str, list[Case | str]] = {name: list(read()) for name, read in FILES.items()}


def divisions() -> list[Case]:
    """Every case that divides."""
    return [case for cases in ALL.values() for case in cases if isinstance(case, Case)]
