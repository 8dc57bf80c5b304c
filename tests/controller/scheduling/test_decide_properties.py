"""`decide` for any world: pure, complete, and the same as a plain loop over clusters."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.decide import same
from benchmarks.plainloop import Other, plain
from controller.config import default_profile
from controller.explain.record import record
from controller.model.load import Load
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.snapshot.builder import Snapshot
from tests.controller.make import (
    CLUSTER,
    NOW,
    PREFERRED,
    REQUIRED,
    ZONE,
    adds_up,
    beside,
    builder,
    cluster,
    expression,
    index,
    info,
    weighted,
)
from tests.examples import examples

PROFILE = default_profile()
NAMES = [f"c{number}" for number in range(6)]
KEYS = (ZONE, CLUSTER, "tier", "size")
APPS = ("front", "back", "demo")

label_sets = st.fixed_dictionaries(
    {},
    optional={
        ZONE: st.sampled_from(["z1", "z2"]),
        "tier": st.sampled_from(["gold", "iron"]),
        "size": st.sampled_from(["3", "10", "many"]),
    },
)
taints = st.builds(
    lambda key, value, effect: {"key": key, "value": value, "effect": effect},
    st.sampled_from(["maintenance", "gpu"]),
    st.sampled_from(["", "yes"]),
    st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
tolerations = st.lists(
    st.one_of(
        st.just({"operator": "Exists"}),
        st.builds(
            lambda key, effect: {"key": key, "operator": "Exists", "effect": effect},
            st.sampled_from(["maintenance", "gpu"]),
            st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
        ),
        st.builds(lambda key: {"key": key, "value": "yes"}, st.sampled_from(["maintenance"])),
    ),
    max_size=2,
)
node_groups = st.builds(
    lambda count, cpu, memory, pods, labels, group_taints: {
        "count": count,
        "labels": labels,
        "taints": group_taints,
        "free": {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(pods)},
    },
    st.integers(0, 3),
    st.integers(0, 3000),
    st.integers(0, 4096),
    st.integers(0, 5),
    st.sampled_from([{}, {"arch": "arm"}, {"arch": "x86"}]),
    st.lists(taints, max_size=1),
)
requirements = st.one_of(
    st.builds(
        lambda key, operator, values: expression(key, operator, *values),
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["z1", "gold", "c1", "10"]), min_size=1, max_size=2),
    ),
    st.builds(expression, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(lambda operator: expression("size", operator, "5"), st.sampled_from(["Gt", "Lt"])),
)
terms = st.builds(lambda e: {"matchExpressions": e}, st.lists(requirements, max_size=2))
workload_terms = st.builds(beside, st.sampled_from(APPS), st.sampled_from([ZONE, CLUSTER, "tier"]))
workload_rules = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(workload_terms, max_size=2),
        PREFERRED: st.lists(st.builds(weighted, st.integers(1, 100), workload_terms), max_size=2),
    },
)
specs = st.fixed_dictionaries(
    {"distribution": st.sampled_from(["Single", "Duplicated"])},
    optional={
        "clusterSelector": st.dictionaries(
            st.sampled_from(["tier", "clusterName", "cloudProvider", "clusterVersion"]),
            st.sampled_from(["gold", "c1", "Aws", "1.36.1", "v1.36.1"]),
            max_size=1,
        ),
        "clusterAffinity": st.fixed_dictionaries(
            {},
            optional={
                REQUIRED: st.builds(
                    lambda found: {"clusterSelectorTerms": found}, st.lists(terms, max_size=2)
                ),
                PREFERRED: st.lists(
                    st.builds(
                        lambda weight, term: {"weight": weight, "preference": term},
                        st.integers(1, 100),
                        terms,
                    ),
                    max_size=2,
                ),
            },
        ),
        "workloadAffinity": workload_rules,
        "workloadAntiAffinity": workload_rules,
        "tolerations": tolerations,
    },
)


@st.composite
def clusters(draw: st.DrawFn) -> list[MemberCluster]:
    return [
        cluster(
            name,
            draw(label_sets),
            ready=draw(st.integers(0, 4)) > 0,
            deleting=draw(st.integers(0, 9)) == 9,
            groups=draw(st.lists(node_groups, max_size=3)),
            taints=draw(st.lists(taints, max_size=2)),
            unschedulable=draw(st.integers(0, 5)) == 5,
            virtual=draw(st.integers(0, 5)) == 5,
            namespaces={"allow": draw(st.sampled_from([["*"], ["*"], ["sh*"], ["other"], []]))},
            status={
                "provider": draw(st.sampled_from(["", "aws", "gcp"])),
                "version": draw(st.sampled_from(["", "v1.36.1", "v1.35.0"])),
                "namespaces": {
                    "given": draw(st.sampled_from([None, None, None, ["shop", "x"], []])),
                    "refused": draw(st.sampled_from([[], [], ["x", "shop"]])),
                },
            },
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]


@st.composite
def placed(draw: st.DrawFn, name: str) -> Other:
    other = info(
        name,
        labels={"app": draw(st.sampled_from(APPS))},
        namespace=draw(st.sampled_from(["shop", "shop", "elsewhere"])),
        workloadAntiAffinity=draw(workload_rules),
    )
    placements = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=2)
    return Other(other, draw(placements))


@st.composite
def newcomers(draw: st.DrawFn) -> WorkloadInfo:
    pod: dict[str, Any] = {
        "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}],
        "nodeSelector": draw(st.sampled_from([{}, {}, {"arch": "arm"}])),
        "tolerations": draw(tolerations),
    }
    return info(
        "demo",
        replicas=draw(st.integers(0, 4)),
        pod=pod,
        kind=draw(st.sampled_from(["Deployment", "Deployment", "DaemonSet"])),
        **draw(specs),
    )


def arrays(snapshot: Snapshot) -> list[bytes]:
    """Every array of a snapshot, as bytes, to notice a write."""
    found = [
        snapshot.ready,
        snapshot.cordoned,
        snapshot.deleting,
        snapshot.virtual,
        snapshot.by_name,
    ]
    found += [snapshot.cost, snapshot.latency, snapshot.reliability]
    found += [column.codes for column in snapshot.labels.values()]
    found += list(snapshot.taints.values())
    for amounts in (snapshot.allocatable, snapshot.requested, snapshot.groups.free):
        found += list(amounts.values())
    found += [snapshot.flights.cluster, snapshot.flights.load, snapshot.flights.replicas]
    return [np.asarray(array).tobytes() for array in found]


@pytest.mark.proves("C5", "C6", "C7", "C20")
@examples(400)
@given(st.data())
def test_the_columns_say_what_a_loop_over_clusters_says(data: st.DataObject) -> None:
    members = data.draw(clusters())
    others = [
        data.draw(placed(f"other-{number}")) for number in range(data.draw(st.integers(0, 3)))
    ]
    asked = data.draw(newcomers())
    made = builder(members)
    flying: dict[str, list[tuple[dict[str, int], int]]] = {}
    for name in data.draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
        request = {"cpu": data.draw(st.sampled_from([100, 700, 1500])), "pods": 1}
        units = data.draw(st.integers(1, 3))
        made.assume(name, Load.of(request), units)
        flying[name] = [(request, units)]
    bound = index(*((other.workload, other.placements) for other in others))
    decision = decide(made.snapshot(), asked, bound, PROFILE, NOW)
    assert same(decision, plain(members, asked, others, flying))


@pytest.mark.proves("C7", "D3", "L16")
@examples(200)
@given(st.data())
def test_it_is_pure_and_counts_every_unit(data: st.DataObject) -> None:
    members = data.draw(clusters())
    fields: dict[str, Any] = {
        "replicas": data.draw(st.integers(0, 6)),
        "distribution": data.draw(st.sampled_from(["Single", "Duplicated", "Divided"])),
        "present": data.draw(
            st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=3)
        ),
        "kind": data.draw(st.sampled_from(["Deployment", "Deployment", "DaemonSet"])),
        "edited": data.draw(st.booleans()),
        **data.draw(
            st.fixed_dictionaries({}, optional={"clusterSelector": st.just({"tier": "gold"})})
        ),
    }
    asked = info("demo", **fields)
    snapshot = builder(members).snapshot()
    before = (arrays(snapshot), copy.deepcopy(asked, {id(asked.profile): asked.profile}))
    first = decide(snapshot, asked, index(), PROFILE, NOW)
    assert (arrays(snapshot), asked) == before
    second = decide(snapshot, asked, index(), PROFILE, NOW)
    assert record(first) == record(second)
    adds_up(first)
    assert set(first.placements) <= set(snapshot.names)
    # Shares that nothing was found for are kept, but nobody assigned them: they have no reason.
    explained = [bool(first.why(first.snapshot.row[name])) for name in first.placements]
    held = any(name in snapshot.row for name in asked.present)
    nothing_wanted = not first.desired and (held or len(first.ranking) > 0)
    placed = first.pending == 0 and (any(explained) or nothing_wanted)
    # Edited rules that have no place for some units are told, though these stay.
    assert first.scheduled == (placed and not (asked.edited and first.moving.stuck))
    assert all(1 <= first.rank_score(int(row)) <= 10 for row in first.ranking)
    moves_nothing_without_need(asked, first)
    if first.scheduled and not asked.edited:
        again = replace(asked, present=dict(first.placements))
        after = decide(snapshot, again, index(), PROFILE, NOW)
        assert after.placements == first.placements, "what stands is decided again"
    rendered = record(first)
    assert sorted(c["name"] for c in rendered["clusters"]) == sorted(snapshot.names)


def moves_nothing_without_need(asked: WorkloadInfo, decision: Decision) -> None:
    """Without an edit of its rules, a share shrinks only when fewer replicas are wanted."""
    old, new = asked.present, decision.placements
    if asked.edited or asked.everywhere or set(old) - set(decision.snapshot.names):
        return
    if asked.whole and len(new) == 1:
        return
    shrunk = {name for name, units in old.items() if new.get(name, 0) < units}
    grown = {name for name, units in new.items() if units > old.get(name, 0)}
    assert not (shrunk and grown)
    assert not shrunk or sum(old.values()) > asked.replicas
