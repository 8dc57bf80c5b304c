"""What became of each Workload in a step, and what the steps share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from machinery.api.resources import WORKLOADS
from machinery.errors import ConfigurationError
from machinery.types.metadata import Key
from stowage.migrating import kept
from stowage.migrating.examining import side_by_side
from stowage.migrating.kept import Record, Step
from stowage.migrating.peer import Json
from stowage.migrating.survey import Asked, Survey, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one Workload in a step; `fault` is why it did not go on."""

    key: Key
    step: Step
    fault: str = ""


NEXT = {
    Step.NONE: "adopt it first",
    Step.ADOPTING: "run adopt again",
    Step.ADOPTED: "release it first",
    Step.RELEASING: "release has not ended: run it again",
    Step.RELEASED: "take it first",
}


def ordered(out: Iterable[Outcome]) -> list[Outcome]:
    return sorted(out, key=lambda each: each.key)


def uid_of(workload: Json) -> str:
    return str(workload["metadata"]["uid"])


def shares_of(workload: Json) -> dict[str, int]:
    listed = (workload.get("status") or {}).get("placements") or ()
    return {each["cluster"]: each["replicas"] for each in listed}


def starts_of(workload: Json) -> dict[str, int]:
    listed = (workload.get("status") or {}).get("ordinals") or ()
    return {each["cluster"]: each["start"] for each in listed}


def ran(record: Record) -> dict[str, int]:
    """Return the replicas that the peer had by MemberCluster."""
    return {record.clusters[name]: n for name, n in record.standing.shares.items()}


def migrating(
    world: World, asked: Asked, survey: Survey, known: Collection[Key] = ()
) -> dict[Key, Json]:
    """Return the Workloads of our hub that come from the peer.

    Raises ConfigurationError for a name that neither these nor the `known` ones have.
    """
    found = {
        key: each
        for key, each in survey.stored.items()
        if asked.takes(key) and kept.peer_of(each) == world.peer.name
    }
    if missing := sorted({*asked.names} - {name for _, name in (*found, *known)}):
        raise ConfigurationError(
            f"no Workload {', '.join(missing)} in {asked.namespace} is being migrated from "
            f"{world.peer.title}: adopt it first"
        )
    return found


async def write(world: World, workload: Json, patch: Json) -> None:
    """Write a Workload on the version that was read. Raises Conflict if it is another by now."""
    meta = workload["metadata"]
    only = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    body = {**patch, "metadata": {**patch.get("metadata", {}), **only}}
    await world.hub.merge_patch(WORKLOADS, meta["name"], body, namespace=meta["namespace"])


async def each_at(
    world: World,
    asked: Asked,
    survey: Survey,
    before: Step,
    after: Step,
    work: Callable[[Json, Record], Awaitable[str]],
) -> list[Outcome]:
    """Do a step for each Workload of the peer that is at `before`."""
    todo, out = list[Key](), list[Outcome]()
    for key in migrating(world, asked, survey):
        step = survey.step(key)
        if step is before:
            todo.append(key)
        else:
            early = step in NEXT and list(Step).index(step) < list(Step).index(before)
            out.append(Outcome(key, step, f"is {step}: {NEXT[step]}" if early else ""))

    async def one(key: Key) -> str:
        workload = survey.stored[key]
        return await work(workload, survey.kept(uid_of(workload)))

    for key, fault in await side_by_side(todo, one):
        out.append(Outcome(key, before if fault else after, fault))
    return ordered(out)
