"""The promises of the design, checked on hub and members themselves after a chaos run.

Every wanted object exists, exactly once, as wanted, and no other of ours; the statuses of
Workloads, policies, spreads and reservations agree with it. Then nothing is written any more, also
while both processes restart; and when all is deleted, nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Any

from crds.names import LABEL_MANAGED, OWNER_PREFIX
from crds.workload import PropagatedReason
from e2e.chaos import judgement, wishes
from e2e.chaos.churn import Churn
from e2e.chaos.judgement import disagreements, over_quota, placed
from e2e.chaos.stage import MEMBERS, ChaosStage, not_ready
from e2e.chaos.wishes import NAMESPACES, QUOTA, ZONES, Wish
from e2e.harness import Failed
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.api.verbs import Verbs
from machinery.errors import TransportError
from machinery.runtime.informer import Informer
from machinery.types import quantities
from machinery.types.metadata import Key
from propagator.status.cluster_share import UNPLACED

PROBE = ("default", "after-the-restart")
_ALL = (
    *("deploy", "statefulsets", "jobs", "widgets", "gadgets"),
    *("configmaps", "secret", "services", "pvc"),
)
_OWNERS = ("Deployment", "StatefulSet", "ReplicaSet", "Job")
_OURS = ("wl", "wlp", "ws", "rsv")
_QUIET_SECONDS = 12.0
"""Longer than the period in which the reasons of pending Workloads are refreshed."""
_NOISE = 90.0
"""The time for late writes after all is as wanted: a late request, a back-off."""
_RESTARTS = 3
"""One has to be without a member that is away for a moment, as on a busy machine."""

_MOST_FIELDS = 10
"""The fields of each written object that a message names."""
_WRITES_AT_START = 20
"""The objects of the probe, and what is written on members after a start."""


class Broken(AssertionError):
    """A promise of the design was broken."""


async def quiet(stage: ChaosStage) -> None:
    """Raise Broken if an object is still written though nothing changes."""

    async def same() -> None:
        before, writes = await _written(stage), Counter(stage.member_writes())
        await asyncio.sleep(_QUIET_SECONDS)
        moved = _differing(before, await _written(stage))
        written = Counter(stage.member_writes()) - writes
        if moved or written:
            raise Broken(f"nothing changes, but members were sent {[*written]}, new: {moved}")

    await until_held(same, _NOISE)


async def restarted(stage: ChaosStage, churn: Churn, *, seconds: float) -> None:
    """Restart both processes, have one more Workload placed, and check that nothing else moved.

    Raises Broken.
    """
    for _ in range(_RESTARTS):
        since = await _ready_since(stage)
        broken = await _moved_by_a_restart(stage, churn, seconds=seconds)
        if await _ready_since(stage) == since:
            break
        await quiet(stage)  # a member was away for a moment: more than the restart was told of
    else:
        raise Broken(f"a member was away in each of {_RESTARTS} restarts")
    if broken:
        raise Broken(f"a restart in which nothing changed {broken}")


async def _moved_by_a_restart(stage: ChaosStage, churn: Churn, *, seconds: float) -> str:
    """Return what a restart of both processes wrote, empty for nothing. Raises Broken."""
    before, told = await _but_the_probe(stage), await _reasons(stage)
    async with steps(stage.hub) as between:
        for instance in stage.instances:
            await asyncio.to_thread(stage.processes[instance].end, signal.SIGTERM)
            stage.run(instance)
        await churn.want(PROBE, wishes.PROBE)
        await until_held(lambda: whole(stage, churn), seconds)
        after = await _but_the_probe(stage)

    async def for_the_same_reasons() -> None:  # waits: a member may have been away for a moment
        if (reasons := await _reasons(stage)) != told:
            raise Broken(f"after a restart {reasons} are the reasons, before it {told}")

    await until_held(for_the_same_reasons, _NOISE)
    moved = {k: fields for k, fields in _differing(before, after).items() if k not in told}
    if moved:
        return f"wrote {moved}, in steps {[between[key] for key in moved if key in between]}"
    there = sum([len(await _managed(stage, member)) for member in MEMBERS])
    written = stage.member_writes()  # counts writes that change nothing as well
    if len(written) > _WRITES_AT_START + there / 10:
        return f"made {len(written)} writes on members, which hold {there} objects: {written}"
    return ""


@asynccontextmanager
async def steps(hub: Verbs) -> AsyncIterator[Mapping[Any, list[list[str]]]]:
    """Yield the fields that each write since has changed of each Workload, by keys of `_written`.

    What undoes each other is seen by nothing else.
    """
    seen: dict[Any, list[list[str]]] = {}
    workloads: Informer[judgement.Whole] = Informer(hub, WORKLOADS, judgement.Whole)

    def changed(old: judgement.Whole | None, new: judgement.Whole | None) -> None:
        if old is not None and new is not None:
            fields = islice(_fields(old.body(), new.body()), _MOST_FIELDS)
            seen.setdefault(("hub", "Workload", *new.metadata.key), []).append(list(fields))

    workloads.add_handler(changed)
    looking = asyncio.create_task(workloads.run())
    try:
        await workloads.wait_synced()
        yield seen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _but_the_probe(stage: ChaosStage) -> dict[Any, Any]:
    return {key: each for key, each in (await _written(stage)).items() if key[2:] != PROBE}


async def _ready_since(stage: ChaosStage) -> dict[str, str]:
    """Return since when each member's condition Ready is as it is."""
    listed = (await stage.hub.list(MEMBER_CLUSTERS))["items"]
    return {
        cluster["metadata"]["name"]: condition["lastTransitionTime"]
        for cluster in listed
        for condition in cluster["status"]["conditions"]
        if condition["type"] == "Ready"
    }


async def _reasons(stage: ChaosStage) -> dict[Any, Any]:
    """Return the reason of each pending Workload, by the keys of `_written`."""
    listed = await stage.lists("hub", "wl")
    waiting = [each for each in listed if each["status"].get("pending")]
    return {("hub", "Workload", *_key(each)): judgement.reason(each) for each in waiting}


def _differing(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> dict[Any, list[str]]:
    """Return the objects that were written, made or deleted, and the fields that differ."""
    keys = sorted(before.keys() | after.keys())
    both = {key: (before.get(key), after.get(key)) for key in keys}
    return {
        key: list(islice(_fields(old, new), _MOST_FIELDS))
        for key, (old, new) in both.items()
        if _version(old) != _version(new)
    }


def _version(found: Any) -> str:
    return found["metadata"]["resourceVersion"] if found else ""


def _fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _fields(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            writer = pair[0].get("manager") if isinstance(pair[0], dict) else None
            yield from _fields(*pair, f"{path}[{writer or number}]")
    elif old != new:
        yield f"{path}: {str(old)[:200]} → {str(new)[:200]}"


async def whole(stage: ChaosStage, churn: Churn) -> None:
    """Raise Broken with what is not as wanted.

    Objects of Workloads that the hub forgot when it was set back are swept on the way.
    """
    wanted = churn.wanted
    if away := await not_ready(stage.hub):
        raise Broken(f"not all members are Ready: {'; '.join(away)}")
    found = {_key(w): w for w in await stage.lists("hub", "wl")}
    if found.keys() != wanted.keys():
        raise Broken(
            f"lost {wanted.keys() - found.keys()}, too many {found.keys() - wanted.keys()}"
        )
    there = {member: await _managed(stage, member) for member in MEMBERS}
    secrets = {_key(s): s["data"] for s in await stage.lists("hub", "secret")}
    for key in [key for key in wanted if _waits_for_an_edit(found[key])]:
        await churn.edited(key)  # as a person would who reads the message
    for member in MEMBERS:
        ours = (found[key] for key, wish in wanted.items() if wish.mode != "Taken")
        waits = any(_waits_for(each, member) for each in ours)
        if waits and (held := await stage.held(member)):
            churn.forgotten |= held
            await stage.sweep(member, held)  # so would a person who reads that one
    for key, wish in wanted.items():
        if wish.mode == "Taken":
            _refused(found[key])
            continue
        _true(found[key], wish)
        _landed(found[key], wish, there, secrets)
        if wish.kind == "StatefulSet":
            main = ("StatefulSet", *key)
            copies = {m: objects[main] for m, objects in there.items() if main in objects}
            if twice := list(judgement.same_ordinals(copies)):
                raise Broken("; ".join(twice))
    _strict(found, wanted)
    for policy in await stage.lists("hub", "wlp"):
        _counted(policy, found)
    spreads = {_key(s): s for s in await stage.lists("hub", "ws")}
    if spreads.keys() != (due := {k for k, wish in wanted.items() if wish.mode == "Spread"}):
        raise Broken(f"spreads on {sorted(spreads)}, wanted on {sorted(due)}")
    for key, spread in spreads.items():
        _spread_told(spread, found[key], wanted[key])
    rooms = {_key(r): r for r in await stage.lists("hub", "rsv")}
    if rooms.keys() != (due := {k for k, wish in wanted.items() if wish.mode == "Reserved"}):
        raise Broken(f"reservations for {sorted(rooms)}, wanted for {sorted(due)}")
    for key, room in rooms.items():
        _room_told(room, found[key])
    expected: dict[str, set[tuple[str, str, str]]] = {member: set() for member in MEMBERS}
    for key, wish in wanted.items():
        for member in placed(found[key]).keys() | _stays(found[key], wish):
            expected[member] |= _objects(key, wish)
    for member in MEMBERS:
        left = there[member].keys() - expected[member]
        kept = {_claim(key) for key in wanted} & left
        told = {
            (each["kind"], each["namespace"], each["name"])
            for workload in found.values()
            for each in workload["status"].get("kept", ())
            if each["cluster"] == member
        }
        kept |= told & await _data(stage, member)
        kept |= told & _staying(found, wanted, member) & there[member].keys()
        # An object with the name of a wanted one may belong to a Workload that the hub forgot.
        if (left - kept or told != kept) and (held := await stage.held(member)):
            churn.forgotten |= held
            await stage.sweep(member, held)
        if left - kept:
            raise Broken(f"{member}: nobody wants {sorted(left - kept)}")
        if told != kept:
            raise Broken(f"{member}: {sorted(kept)} stay, and {sorted(told)} are said to")


def _true(workload: Mapping[str, Any], wish: Wish) -> None:
    """Raise Broken unless the status is right, and of the present generation."""
    key, status = _key(workload), workload.get("status", {})
    if workload["spec"]["replicas"] != wish.replicas:
        raise Broken(f"{key}: spec.replicas is {workload['spec']['replicas']}, not {wish.replicas}")
    wrong = list(disagreements(workload))
    if wrong:
        raise Broken("; ".join(wrong))
    shares = placed({"status": {}, **workload})
    units = wish.replicas * (3 if wish.mode == "Duplicated" else 1)
    if wish.mode == "Strict":
        units -= status.get("pending", 0)  # as many as the quota leaves: see _strict
    if sum(shares.values()) != units:
        raise Broken(f"{key}: {wish} is placed as {shares}")
    if wish.mode != "Placed":
        _says(workload, "Scheduled", "False" if status.get("pending") else "True")
    if not shares:
        return  # no units, hence no shares; under a policy not even empty ones
    left = _stays(workload, wish)
    _says(workload, "Propagated", "False" if left else "True")
    if wish.kind == wishes.GADGETS.kind:
        _unknown(workload, units)
    elif wish.kind == "Job":
        if (said := _says(workload, "Ready", "True"))["reason"] != "Completed":
            raise Broken(f"{key}: the Job has not ended: {said}, {status['clusters']}")
    else:
        _says(workload, "Ready", "False" if status.get("pending") else "True")
        if status.get("ready") != units:
            raise Broken(f"{key}: ready {status.get('ready')} of {units}")
    if {c["name"] for c in status["clusters"]} != shares.keys() | left:
        raise Broken(f"{key}: placed on {shares}, but speaks of {status['clusters']}")


def _waits_for_units(workload: Mapping[str, Any]) -> set[str]:
    """Return the members that keep what ran there before their registration.

    It stays while units have no cluster, as it may be all that runs: under a strict policy always.
    """
    status = workload["status"]
    if not status.get("pending"):
        return set()
    return {each["name"] for each in status.get("clusters", ()) if each.get("message") == UNPLACED}


def _stays(workload: Mapping[str, Any], wish: Wish) -> set[str]:
    """Return the members beyond the placed ones that keep their object for now.

    One that says nothing of itself stays where a person gave its cluster up, which came back.
    """
    if wish.kind != wishes.GADGETS.kind:
        return _waits_for_units(workload)
    shares = workload["status"].get("clusters", ())
    return {each["name"] for each in shares if each["state"] == "Leaving"}


def _staying(
    found: Mapping[Key, Mapping[str, Any]], wanted: Mapping[Key, Wish], member: str
) -> set[tuple[str, str, str]]:
    """Return the claims of copies that keep their object on that member for now."""
    return {_claim(key) for key, wish in wanted.items() if member in _stays(found[key], wish)}


def _unknown(workload: Mapping[str, Any], units: int) -> None:
    """Raise Broken unless nothing is said to be ready of what says nothing of itself."""
    key, status = _key(workload), workload["status"]
    if status.get("ready"):
        raise Broken(f"{key}: {status['ready']} units are ready, of which nobody has said so")
    if units and (said := _says(workload, "Ready", "False"))["reason"] != "ReadinessUnknown":
        raise Broken(f"{key}: Ready is False for {said}, not ReadinessUnknown")


def _says(workload: Mapping[str, Any], kind: str, word: str) -> dict[str, Any]:
    """Return the condition, of the present generation. Raises Broken if it has another status."""
    conditions = workload["status"].get("conditions", [])
    said: dict[str, Any] = next((c for c in conditions if c["type"] == kind), {})
    if said.get("status") != word:
        shares = workload["status"].get("clusters")
        raise Broken(f"{_key(workload)}: {kind} is {said} of {shares}")
    if said.get("observedGeneration") != workload["metadata"]["generation"]:
        raise Broken(f"{_key(workload)}: {kind} is of an older generation: {said}")
    return said


def _refused(workload: Mapping[str, Any]) -> None:
    """Raise Broken unless it reports that a foreign object has its name on each member."""
    if (reason := _says(workload, "Propagated", "False")["reason"]) != "AlreadyExists":
        raise Broken(f"{_key(workload)}: Propagated=False for {reason}, not AlreadyExists")


def _strict(found: Mapping[Key, Mapping[str, Any]], wanted: Mapping[Key, Wish]) -> None:
    """Raise Broken unless as much is placed under the strict policies as they allow."""
    if over := list(over_quota(found.values())):
        raise Broken("; ".join(over))
    for namespace in NAMESPACES:
        of = [k for k, wish in wanted.items() if k[0] == namespace and wish.mode == "Strict"]
        asked = sum(wanted[key].replicas for key in of)
        there = sum(sum(placed({"status": {}, **found[key]}).values()) for key in of)
        if there != min(asked, QUOTA * len(ZONES)):
            raise Broken(f"{namespace}: {there} of {asked} units under the strict policy {of}")


def _counted(policy: Mapping[str, Any], found: Mapping[Key, Mapping[str, Any]]) -> None:
    """Raise Broken unless the policy's status has the sums of the placements."""
    meta, status = policy["metadata"], policy.get("status", {})
    held: Counter[str] = Counter()
    for key, workload in found.items():
        if key[0] == meta["namespace"] and wishes.counts(meta["name"], workload):
            for cluster, units in placed({"status": {}, **workload}).items():
                held[cluster.replace("member", "zone")] += units
    told = {each["name"]: each["replicas"] for each in status.get("allocated", [])}
    if told != {zone: held[zone] for zone in ZONES} or status.get("claims"):
        raise Broken(f"{_key(policy)} tells of {told}, placed are {held}: {status}")
    if status.get("observedGeneration") != meta["generation"]:
        raise Broken(f"{_key(policy)}: its status is of an older generation")


def _spread_told(spread: Mapping[str, Any], workload: Mapping[str, Any], wish: Wish) -> None:
    """Raise Broken unless the spread's status has each subset's units, and none under way."""
    key, status = _key(spread), spread.get("status", {})
    if status.get("observedGeneration") != spread["metadata"]["generation"]:
        raise Broken(f"{key}: the spread's status is of an older generation")
    held = placed({"status": {}, **workload})
    told = {each["name"]: each for each in status.get("subsetStatuses", [])}
    for zone, cap in zip(ZONES, (wish.cap, wishes.CAP, None), strict=True):
        units = held.get(zone.replace("zone", "member"), 0)
        missing = -1 if cap is None else max(cap - units, 0)
        said = told.get(zone, {})
        if (said.get("replicas", 0), said.get("missingReplicas")) != (units, missing):
            raise Broken(f"{key}: {zone} holds {units}, {missing} are missing, but it says {said}")
        if said.get("creatingPods") or said.get("deletingPods"):
            raise Broken(f"{key}: nothing is under way, but {zone} says {said}")


def _room_told(reservation: Mapping[str, Any], workload: Mapping[str, Any]) -> None:
    """Raise Broken unless both statuses have the reservation's room, and its owner inside."""
    key, status = _key(reservation), reservation.get("status", {})
    if status.get("observedGeneration") != reservation["metadata"]["generation"]:
        raise Broken(f"{key}: the reservation's status is of an older generation")
    holds = placed({"status": {}, **reservation})
    if status.get("phase") != "Available" or sum(holds.values()) != wishes.RESERVED:
        raise Broken(f"{key}: the reservation is {status.get('phase')}, and holds {holds}")
    shares, inside = placed({"status": {}, **workload}), dict[str, int]()
    for each in workload["status"].get("reservations") or ():
        if each["uid"] != reservation["metadata"]["uid"]:
            raise Broken(f"{key}: inside a reservation that is not there: {each}")
        inside[each["cluster"]] = each["replicas"]
    for member, units in inside.items():
        if units > min(shares.get(member, 0), holds.get(member, 0)):
            raise Broken(f"{key}: {inside} are inside, of {shares} in {holds}")
    told = {each["cluster"]: each["replicas"] for each in status.get("currentOwners") or ()}
    if told != inside:
        raise Broken(f"{key}: {inside} are inside, and its reservation tells of {told}")
    taken = quantities.amount("cpu", (status.get("allocated") or {}).get("cpu", "0"))
    if taken != wishes.CPU * sum(inside.values()):
        raise Broken(f"{key}: {inside} are inside, and {status.get('allocated')} allocated")


def _landed(
    workload: Mapping[str, Any],
    wish: Wish,
    there: Mapping[str, Any],
    secrets: Mapping[Key, Mapping[str, str]],
) -> None:
    """Raise Broken unless each member with a share has just the wanted objects."""
    key = _key(workload)
    for share in workload["status"]["placements"]:
        objects = there[share["cluster"]]
        missing = _objects(key, wish) - objects.keys()
        if missing:
            raise Broken(f"{share['cluster']}: missing {sorted(missing)}")
        if wish.kind == "Job":
            continue
        main = objects[wish.kind, *key]
        if OWNER_PREFIX + workload["metadata"]["uid"] not in main["metadata"]["annotations"]:
            raise Broken(f"{share['cluster']}: {key} belongs to another UID")
        runs = main["spec"]["template"]["spec"]["containers"][0]["image"]
        if main["spec"]["replicas"] != share["replicas"] or runs != wishes.image(wish):
            raise Broken(f"{share['cluster']}: {key} is {main['spec']['replicas']} of {runs}")
        if wish.config is not None:
            config = objects["ConfigMap", key[0], f"{key[1]}-config"]
            if config["data"] != {"value": str(wish.config)}:
                raise Broken(f"{share['cluster']}: {key} has the ConfigMap {config['data']}")
        if wish.secret:
            secret = objects["Secret", key[0], wishes.SECRET]
            if secret["data"] != secrets[key[0], wishes.SECRET]:
                raise Broken(f"{share['cluster']}: {key} has an old Secret")


def _objects(key: Key, wish: Wish) -> set[tuple[str, str, str]]:
    """Return (kind, namespace, name) of all objects of a Workload on a member."""
    namespace, name = key
    if wish.mode == "Taken":
        return set()
    objects = set() if wish.kind == "Job" else {(wish.kind, namespace, name)}  # it was forgotten
    if wish.config is not None:
        objects.add(("ConfigMap", namespace, f"{name}-config"))
    if wish.secret:
        objects.add(("Secret", namespace, wishes.SECRET))
    if wish.claim:
        objects.add(_claim(key))
    return objects


def _claim(key: Key) -> tuple[str, str, str]:
    return "PersistentVolumeClaim", key[0], wishes.claim_of(key[1])


async def empty(stage: ChaosStage) -> None:
    """Raise Broken with each Workload and object of ours that is left.

    Workloads of a long run are old enough for their deletion to wait for a person, who confirms it.
    """
    if left := await stage.lists("hub", "wl"):
        for each in left:
            said = each.get("status", {}).get("conditions", ())
            if any(c.get("reason") == PropagatedReason.DELETION_HELD for c in said):
                await stage.confirm_deletion(_key(each))
        raise Broken(f"Workloads that do not go: {[_key(each) for each in left]}")
    for member in MEMBERS:
        objects = await _managed(stage, member)
        if objects:
            raise Broken(f"{member}: left behind: {sorted(objects)}")
        if uncollected := await _uncollected(stage, member):
            raise Broken(f"{member}: their owners are gone: {uncollected}")


async def _uncollected(stage: ChaosStage, member: str) -> list[str]:
    """Return what garbage collection left behind: it takes room from whoever runs next."""
    kinds = ("deploy", "statefulsets", "replicasets", "jobs", "pods", "pvc")
    objects = await stage.lists(member, *kinds)
    uids = {each["metadata"]["uid"] for each in objects}
    return [
        f"{each['kind']} {'/'.join(_key(each))}"
        for each in objects
        for owner in each["metadata"].get("ownerReferences", ())
        if owner["kind"] in _OWNERS and owner["uid"] not in uids
    ]


async def _data(stage: ChaosStage, member: str) -> set[tuple[str, str, str]]:
    """Return the claims of StatefulSets that a member has."""
    claims = await stage.lists(member, "pvc", labels=f"{wishes.LABEL_DATA}=true")
    return {(each["kind"], *_key(each)) for each in claims}


async def _managed(stage: ChaosStage, member: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    items = await stage.lists(member, *_ALL, labels=f"{LABEL_MANAGED}=true")
    return {(each["kind"], *_key(each)): each for each in items}


async def _written(stage: ChaosStage) -> dict[Any, Any]:
    """Return all objects that we write, but Leases and the measured status of members."""
    written: dict[Any, Any] = {}
    found = {"hub": await stage.lists("hub", *_OURS)}
    for member in MEMBERS:
        found[member] = await stage.lists(member, *_ALL, labels=f"{LABEL_MANAGED}=true")
    for where, objects in found.items():
        for each in objects:
            meta = each["metadata"]
            key = (where, each["kind"], meta.get("namespace", ""), meta["name"])
            written[key] = each
    return written


def _waits_for_an_edit(workload: Mapping[str, Any]) -> bool:
    """Return whether an object stays on a member because the hub was set back behind it.

    What is to go there says that an edit decides, what is to be written that an edit writes it.
    """
    told = [each["message"] for each in workload["status"].get("clusters", ())]
    told += [each["message"] for each in workload["status"].get("conditions", ())]
    return any("an edit of the Workload" in each for each in told)


def _waits_for(workload: Mapping[str, Any], member: str) -> bool:
    """Return whether it waits for what a Workload that the hub forgot has on the member.

    Its replicas may run there, or its object stand in the way.
    """
    shares = workload["status"].get("clusters", ())
    gone = any(
        "wait until they are gone from" in each["message"] and member in each["message"]
        for each in shares
    )
    return gone or any(
        each["name"] == member and each.get("reason") == "AlreadyExists" for each in shares
    )


async def until_held(check: Any, seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            await check()
        except (Broken, Failed, KeyError, OSError, TransportError) as broken:
            if asyncio.get_running_loop().time() > deadline:
                raise Broken(f"after {seconds:.0f} s: {broken}") from broken
            await asyncio.sleep(1)
        else:
            return


def _key(found: Mapping[str, Any]) -> Key:
    return found["metadata"]["namespace"], found["metadata"]["name"]


_LINE = '{"time": '
"""How each line of a log begins."""


def log_faults(text: str) -> list[str]:
    """Return lines of a process's log that show a bug: an unexpected exception."""
    bad = []
    for written in text.splitlines():
        # A process that was killed while it wrote has left the beginning of a line.
        line = written[max(written.rfind(_LINE), 0) :]
        with suppress(ValueError):
            said = json.loads(line)
            if said.get("level") in ("error", "critical"):
                bad.append(line[:2000])
            continue
        bad.append(line[:500])  # not JSON: a traceback, or a warning of the interpreter
    return bad
