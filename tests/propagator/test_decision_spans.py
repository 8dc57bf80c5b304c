"""The propagator's part of a decision's trace, on real members; the test decides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from machinery import tracing
from machinery.errors import Unreachable
from machinery.tracing import TraceIds, Tracer, TraceSpan
from tests.propagator.stage import KINDS, Stage, deployment
from tests.propagator.waits import until


class Kept:
    """An exporter that keeps what joins a trace."""

    def __init__(self) -> None:
        self.joined: list[tuple[TraceIds, TraceSpan]] = []

    def export(self, trace: int, whole: TraceSpan, own: int | None, parent: int | None) -> None:
        assert own is None
        assert parent is not None, "the root is the controller's"
        self.joined.append((TraceIds(trace, parent), whole))

    def of(self, ids: TraceIds, name: str) -> list[TraceSpan]:
        return [span for at, span in self.joined if at == ids and span.name == name]


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    with tracing.using(Tracer(kept.export, ratio=1.0)):
        yield kept


async def decided(stage: Stage, name: str, decision: str, **shares: int) -> TraceIds:
    """Place as the controller does: with the id of the decision."""
    placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
    reference = {"id": decision, "hash": "any", "time": "2026-01-01T00:00:00Z"}
    status = {"placements": placements, "decision": reference, "desired": sum(shares.values())}
    found = await stage.patch(name, {"status": status}, subresource="status")
    return TraceIds.of(found["metadata"]["uid"], decision)


@pytest.mark.long
@pytest.mark.proves("CT17")
async def test_each_apply_and_becoming_ready_join_the_trace_of_the_decision(
    stage: Stage, kept
) -> None:
    await stage.create("web", targetDeployment=deployment())
    ids = await decided(stage, "web", "first", m1=2, m2=1)
    await stage.propagated("web")
    for member in ("m1", "m2"):
        (apply,) = kept.of(ids, f"apply {member}")
        assert apply.attributes["stowage.member"] == member
        parts = [(each.name, each.attributes.get("stowage.object")) for each in apply.parts()]
        object_ = f"Deployment {stage.namespace}/web"
        assert parts[0][0] == "render"
        assert set(parts[1:]) == {("send", object_)}
        assert 0 < sum(each.seconds for each in apply.parts()) <= apply.seconds
        await stage.make_ready(member)
    await until(lambda: kept.of(ids, "ready"))
    # What sends nothing is no apply: the next decision changes one member.
    kept.joined.clear()
    second = await decided(stage, "web", "second", m1=2, m2=3)

    async def grown() -> bool:
        found = await stage.on("m2", "web", kind=KINDS["Deployment"])
        return found is not None and found["spec"]["replicas"] == 3

    await until(grown)
    await until(lambda: kept.of(second, "apply m2"))
    assert {span.name for _, span in kept.joined} == {"apply m2"}


@pytest.mark.long
@pytest.mark.proves("CT17")
async def test_an_apply_that_a_member_does_not_answer_is_told_as_failed(
    stage: Stage, kept, monkeypatch
) -> None:
    session = stage.process.term.registry.get("m1")
    client = session.link.client
    real = client.request

    async def request(method: str, path: str, **how: object) -> bytes:
        if method == "PATCH" and "/deployments/" in path:
            raise Unreachable("no route")
        return await real(method, path, **how)

    monkeypatch.setattr(client, "request", request)
    await stage.create("web", targetDeployment=deployment())
    ids = await decided(stage, "web", "first", m1=1)
    await until(lambda: kept.of(ids, "apply m1"))
    assert kept.of(ids, "apply m1")[0].error == "Unreachable: no route"
