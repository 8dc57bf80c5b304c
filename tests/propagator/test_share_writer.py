"""One share that is worked on while the hub decides otherwise."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.workload import PropagatedReason
from machinery.api.client import ApiClient
from propagator.hub.revisions import Revisions
from propagator.members.objects import Mark
from propagator.members.restored import NOTHING, Restored
from propagator.outcome import DesiredShare, Outcome
from propagator.share_applier import ShareApplier
from propagator.share_writer import ShareWriter
from propagator.shares import ShareTable
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.apply.memberfacts import member_facts
from tests.propagator.contexts import Context


def placed(**shares: int) -> Workload:
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "w", "uid": "u1", "generation": 1},
            "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": {"placements": [{"cluster": c, "replicas": n} for c, n in shares.items()]},
        }
    )


def test_a_share_of_no_units_is_another_wish_than_no_share() -> None:
    none, left = placed(m1=0, m2=3), placed(m2=3)
    assert DesiredShare.of(none, "m1") != DesiredShare.of(left, "m1")
    assert DesiredShare.of(none, "m1") == DesiredShare.of(placed(m1=0), "m1")


DEAF = SimpleNamespace(add_handler=lambda _: None, on_aside=lambda _: None)


async def _not_restored(*_: Any) -> Restored:
    return NOTHING


NEVER = SimpleNamespace(of=_not_restored)
"""A hub that was never restored."""


def writer_of(prepared: Workload, told: list[Outcome | None]) -> ShareWriter:
    """One for which the hub has that Workload by now; nothing is written, removed or lowered."""

    async def nothing(*_: Any) -> Any:
        return None

    async def prepare(*_: Any, **__: Any) -> Workload:
        return prepared

    parts: dict[str, Any] = dict.fromkeys(
        (
            "inventory",
            "gate",
            "workloads",
            "secrets",
            "finalizer",
            "dependencies",
        ),
        SimpleNamespace(
            admit=nothing, shown=_no_kinds, uid=nothing, prepare=prepare, informer=DEAF
        ),
    )
    return ShareWriter(
        Context(clock=FakeClock(), hub=None, identity=SimpleNamespace(uid=nothing), restored=NEVER),  # type: ignore[arg-type] # as much as is asked
        **parts,
        revisions=Revisions(cast("ApiClient", None), ShareTable()),
        members=SimpleNamespace(namespaces=SimpleNamespace(admit=nothing)),  # type: ignore[arg-type] # nothing is ordered
        assignments=SimpleNamespace(),  # type: ignore[arg-type] # no member is in mode Pull
        guard=SimpleNamespace(kept=nothing),  # type: ignore[arg-type] # nothing is lowered
        once=SimpleNamespace(waiting=lambda *_: None, first_ordinal=lambda *_: None),  # type: ignore[arg-type] # nor waited for
        record_outcome=lambda _key, _member, outcome: told.append(outcome),
    )


@pytest.mark.parametrize("units", [0, 2])
async def test_a_share_that_is_taken_away_before_the_first_write_is_not_written(units: int) -> None:
    """What was placed there, with units or without, is placed nowhere when the hub has answered."""
    told: list[Outcome | None] = []
    shares = writer_of(placed(m2=3), told)
    session: Any = SimpleNamespace(name="m1", former=(), mark=Mark(), link=None, went_back_to=None)
    assert await shares.apply(session, placed(m1=units, m2=3)) is None
    assert not told


@pytest.mark.proves("KD15", "B5")
async def test_what_cannot_be_rendered_is_invalid_and_not_tried_again() -> None:
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"ordinals": None}}
    spec = workload_of({"metadata": {"name": "w"}, "spec": {"template": body}}).spec
    workload = msgspec.structs.replace(placed(m1=2), spec=spec)
    told: list[Outcome | None] = []
    session: Any = SimpleNamespace(
        name="m1",
        former=(),
        mark=Mark(),
        images=(),
        facts=member_facts().facts,
        link=None,
        went_back_to=None,
    )
    assert await writer_of(workload, told).apply(session, workload) is None
    (outcome,) = told
    assert outcome is not None
    assert outcome.reason is PropagatedReason.INVALID_WORKLOAD
    assert outcome.message.startswith("spec.template.spec.ordinals: ")


@pytest.mark.proves("G24")
@pytest.mark.parametrize("waves", [0, 1, 2])
async def test_a_gate_that_closes_meanwhile_lets_nothing_more_through(waves: int) -> None:
    """The hub is asked a lot before the first write, and each wave waits for the one before it."""
    workload = placed(m1=2)
    spec = {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}}
    for kind in ("ConfigMap", "Service"):
        one = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "w"}}
        spec.setdefault("manifests", []).append(one)  # type: ignore[attr-defined] # a list
    body = {"metadata": {"namespace": "shop", "name": "w", "uid": "u1"}, "spec": spec}
    workload = msgspec.structs.replace(workload, spec=workload_of(body).spec)
    written: list[str] = []
    open_for = iter([True] * waves + [False])
    told: list[Outcome | None] = []

    async def answer(*_: Any, **__: Any) -> Any:
        return workload

    async def write(_session: Any, _workload: Any, piece: Any) -> None:
        written.append(piece.kind)

    parts: dict[str, Any] = dict.fromkeys(
        ("inventory", "gate", "workloads", "secrets", "finalizer"),
        SimpleNamespace(
            admit=answer,
            shown=_no_kinds,
            prepare=answer,
            informer=DEAF,
            decided=lambda _: math.inf,
        ),
    )
    # Nothing is followed.
    dependencies: Any = SimpleNamespace(follow=_no_pieces, absent=lambda *_: {})
    nothing: Any = SimpleNamespace(by_uid=None)
    registry = SimpleNamespace(identities=SimpleNamespace(exists=None), get=lambda _: None)
    context: Any = Context(
        clock=FakeClock(),
        hub=None,
        recorder=None,
        registry=registry,
        identity=SimpleNamespace(uid=_no_mark),
        restored=NEVER,
    )
    members = ShareApplier(
        context,
        workloads=nothing,
        dependencies=dependencies,
        inventory=nothing,
        standing_in=lambda *_: 0,
        may_apply=lambda _: next(open_for),
        changed=lambda _: None,
    )
    members.writer = cast("Any", SimpleNamespace(write=write))  # as much as is asked
    members.namespaces = cast("Any", SimpleNamespace(admit=answer))
    shares = ShareWriter(
        context,
        **parts,
        revisions=Revisions(cast("ApiClient", None), ShareTable()),
        dependencies=dependencies,
        members=members,
        assignments=SimpleNamespace(),  # type: ignore[arg-type] # no member is in mode Pull
        guard=SimpleNamespace(kept=_none, forced=lambda *_: False),  # type: ignore[arg-type] # nothing is lowered
        once=SimpleNamespace(waiting=lambda *_: None, first_ordinal=lambda *_: None),  # type: ignore[arg-type] # nor waited for
        record_outcome=lambda _key, _member, outcome: told.append(outcome),
    )
    session: Any = SimpleNamespace(
        name="m1",
        former=(),
        mark=Mark(),
        facts=member_facts().facts,
        images=(),
        link=None,
        went_back_to=None,
    )
    assert await shares.apply(session, workload) == 0.0, "it is looked at again at once"
    assert written == ["ConfigMap", "Service"][:waves]
    assert not told


async def _no_kinds(*_: Any) -> set[tuple[str, str]]:
    return set()


async def _no_mark() -> str:
    return ""


async def _none(*_: Any) -> None:
    pass


async def _no_pieces(*_: Any) -> list[Any]:
    return []
