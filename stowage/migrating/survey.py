"""All that a migration reads: the peer's hub, ours, and the Workloads of the peer's rules.

A `Candidate` is a Workload that a peer runs, as it would be on our hub: made by the same code as
`stowage import`, with rules that name MemberClusters, and with what the peer's objects say of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from crds.names import ANNOTATION_MIGRATION, GROUP, SYSTEM_NAMESPACE
from crds.workload import Adoption, OnDelete
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    NAMESPACES,
    WORKLOAD_KINDS,
    WORKLOADS,
)
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import AlreadyExists, ConfigurationError, Forbidden, NotFound
from machinery.types import pod_references
from machinery.types.metadata import Key
from propagator.dependencies.copies import FOLLOWED, body_of
from stowage.console import words
from stowage.fleet import admission
from stowage.fleet.inventory import PlanInputs
from stowage.fleet.manifests import Document
from stowage.importing import pods
from stowage.importing.command import Asked as Import
from stowage.importing.command import converted
from stowage.importing.fields import Fate, ImportNote
from stowage.importing.pieces import Placed
from stowage.importing.reading import dig
from stowage.migrating import clusters, kept
from stowage.migrating.clusters import MatchedCluster
from stowage.migrating.kept import Progress, Record, Step, StoredRecord
from stowage.migrating.members import Opening, kube_system
from stowage.migrating.peer import Json, Objects, Peer, PeerView, Ref, Standing
from stowage.simulation.plan import Where

_WAITING = ("onDelete", "rollout")
"""Fields of a spec that a Workload has only once it is Stowage's for good."""
DELETED = "a Workload was deleted after its release: undo gives back what that took"
_NAMESPACE = ("", "Namespace")
_MADE_OTHERWISE = (WORKLOADS.kind, MEMBER_CLUSTERS.kind)
_COPIED = ("type", "data", "binaryData", "immutable")
_COPIES = ("ConfigMap", "Secret")
"""The kinds without which pods do not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asks for. An empty `namespace` means all, no `names` all in it."""

    namespace: str = ""
    names: Collection[str] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)
    """What `--map` says: MemberClusters by the peer's names."""
    secrets: bool = False
    lossy: bool = False

    def takes(self, key: Key) -> bool:
        return self.namespace in ("", key[0]) and (not self.names or key[1] in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The servers of a migration, and how they are read."""

    peer: Peer
    hub: Verbs
    theirs: Verbs
    """The peer's hub."""
    member: Opening
    documents: Callable[[str], list[Document]]
    """Returns what an import reads of the peer's hub, of a namespace or of all."""
    inputs: Callable[[], PlanInputs]
    """Returns what the controller reads of our hub."""
    where: Where
    clock: Clock
    home: str = SYSTEM_NAMESPACE
    patience: float = 120.0
    """Seconds for which a step waits for the peer."""
    settle: float = 30.0
    """Seconds for which what a release took off has to stay off: the peer has synced by then."""
    ready: float = 60.0
    """Seconds for which a Workload has to be Ready before the peer's objects go."""

    def now(self) -> datetime:
        return self.clock.now()


@dataclass(slots=True)
class Candidate:
    """A Workload that the peer runs."""

    key: Key
    placed: Placed
    body: dict[str, Any]
    """As it is made on our hub."""
    own: dict[str, Any]
    """The fields of its spec that wait for the end."""
    standing: Standing
    shares: dict[str, int]
    """Its replicas by MemberCluster."""
    ways: list[str]
    """What is in the way."""
    sound: bool
    """Whether our hub would take it."""


@dataclass(slots=True)
class Survey:
    """What one reading of the servers shows."""

    matches: list[MatchedCluster]
    members: dict[str, Json]
    """The MemberClusters by their names."""
    candidates: list[Candidate]
    losses: list[ImportNote]
    objects: Objects
    view: PeerView
    stored: dict[Key, Json]
    """The Workloads of our hub."""
    records: dict[str, StoredRecord]
    """What releases have kept, by UID of the Workload."""
    theirs: str
    """The UID of the kube-system of the peer's hub."""
    beside: list[dict[str, Any]] = field(default_factory=list)
    """What else an import makes of the peer's objects, such as an autoscaler."""

    @property
    def names(self) -> dict[str, str]:
        """The MemberClusters by the peer's names."""
        return {each.name: each.member for each in self.matches if each.member}

    def record(self, workload: Json) -> StoredRecord | None:
        return self.records.get(workload["metadata"]["uid"])

    def kept(self, uid: str) -> Record:
        """Return what is kept of a Workload. Raises ConfigurationError if nothing of it is.

        Another hub of the peer has other objects of these names, and would prove nothing.
        """
        if (stored := self.records.get(uid)) is None:
            raise ConfigurationError(f"the Secret {kept.name_of(uid)} is gone: undo it")
        if stored.record.hub != self.theirs:
            raise ConfigurationError(
                "--from-kubeconfig leads to another hub than the one that it was released from: "
                f"the kube-system of that has the UID {stored.record.hub}"
            )
        return stored.record

    def rules(self) -> dict[str, Sequence[Ref]]:
        """Return the rules of this hub of the peer that each release has changed, by UID."""
        return {
            uid: each.record.standing.rules
            for uid, each in self.records.items()
            if each.record.hub == self.theirs
        }

    def left(self, asked: Asked) -> dict[Key, str]:
        """Return the UIDs of Workloads that were deleted after their release, by their keys."""
        return {
            each.record.workload: uid
            for uid, each in self.records.items()
            if asked.takes(each.record.workload)
            and each.record.hub == self.theirs
            and each.record.progress is not Progress.FINISHING
            and dig(self.stored.get(each.record.workload), "metadata", "uid") != uid
        }

    def step(self, key: Key) -> Step:
        workload = self.stored.get(key)
        found = self.record(workload) if workload else None
        return kept.step_of(workload, found.record if found else None)


async def surveyed(world: World, asked: Asked, *, imports: bool = True) -> Survey:
    """Read all there is. Raises StowageError.

    Without `imports` the peer's rules are not made into Workloads: later steps know theirs.
    """
    try:
        listed = await world.hub.list(MEMBER_CLUSTERS)
    except NotFound as e:
        text = f"the hub does not know the kinds of {GROUP}: run stowage install first"
        raise ConfigurationError(text) from e
    members = {each["metadata"]["name"]: each for each in listed["items"]}
    workloads = await world.hub.list(WORKLOADS, namespace=asked.namespace or None)
    stored = {_key(each): each for each in workloads["items"]}
    documents: list[Document] = []
    if imports:
        namespace = "" if world.peer.anywhere else asked.namespace
        documents = await asyncio.to_thread(world.documents, namespace)
    objects = Objects([*(each.body for each in documents), *await read(world)])
    view = world.peer.view(objects)
    matches = clusters.matched(view.clusters(), members.values(), asked.clusters)
    records = await kept.read_all(world.hub, world.home, members)
    try:
        theirs = await kube_system(world.theirs)
    except (NotFound, Forbidden):
        theirs = ""
    found = Survey(matches, members, [], [], objects, view, stored, records, theirs)
    if documents:
        _convert(world, asked, documents, found)
        await _look_at_hub(world, asked, found)
    return found


async def read(world: World) -> list[dict[str, Any]]:
    """Return the peer's own objects. Raises ConfigurationError for a right that lacks."""
    bodies = []
    for resource in world.peer.resources:
        try:
            listed = await world.theirs.list(resource)
        except NotFound:
            continue  # an older release has no such kind
        except Forbidden as e:
            what = f"{resource.plural}.{resource.group}"
            raise ConfigurationError(
                f"the right to list {what} on the hub of {world.peer.title} lacks: {e.message}"
            ) from e
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        bodies += [{**each, **head} for each in listed["items"]]
    return bodies


def _key(body: Json) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


# --- candidates -----------------------------------------------------------------------------------


def _convert(world: World, asked: Asked, documents: Sequence[Document], found: Survey) -> None:
    made = converted(Import(documents=documents, namespace=asked.namespace))
    found.losses = [note for note in made.notes.in_order() if note.fate is Fate.LOST]
    found.beside = [body for _, body in made.others if body["kind"] not in _MADE_OTHERWISE]
    mine = [each for each in made.placed if asked.takes(_place(each, asked))]
    begun = {key[1] for key, each in found.stored.items() if kept.peer_of(each) == world.peer.name}
    if missing := sorted({*asked.names} - begun - {_place(each, asked)[1] for each in mine}):
        raise ConfigurationError(
            f"{world.peer.title} runs no {', '.join(missing)} in {asked.namespace}: "
            "`migrate plan` lists what it runs"
        )
    named = {piece.key for each in mine for piece in each.objects}
    for each in mine:
        _without_namespaces(each)
        if not each.objects:
            continue  # the propagator makes the namespaces of what it brings
        found.candidates.append(_candidate(world, asked, found, each, named))
    for several in _of_one_name(found.candidates):
        for candidate in several:
            makers = ", ".join(str(Ref.of(each.placed.rule.document.body)) for each in several)
            candidate.ways.append(f"{makers} make a Workload of one name: rename one of them")


def _of_one_name(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    by_key: dict[Key, list[Candidate]] = {}
    for each in candidates:
        by_key.setdefault(each.key, []).append(each)
    return (several for several in by_key.values() if len(several) > 1)


def _without_namespaces(placed: Placed) -> None:
    """Leave Namespaces out of a Workload: a member's own is never taken over."""
    left = [n for n, piece in enumerate(placed.pieces) if (piece.group, piece.kind) != _NAMESPACE]
    if len(left) == len(placed.pieces):
        return
    listed = placed.body["spec"].pop("manifests")
    placed.pieces = [placed.pieces[n] for n in left]
    if left:
        placed.body["spec"]["manifests"] = [listed[n] for n in left]


def _place(placed: Placed, asked: Asked) -> Key:
    metadata = placed.body["metadata"]
    return str(metadata.get("namespace") or asked.namespace or "default"), metadata["name"]


def _candidate(
    world: World, asked: Asked, found: Survey, placed: Placed, named: Collection[Any]
) -> Candidate:
    key = _place(placed, asked)
    standing = found.view.standing(placed, named)
    ways = list(standing.ways)
    spec = clusters.renamed(placed.body["spec"], found.names)
    own = {name: spec.pop(name) for name in _WAITING if name in spec}
    spec |= {
        "delivery": "None",
        "adoption": Adoption.IF_NO_DIFF.value,
        "onDelete": OnDelete.ORPHAN.value,
    }
    annotations = {ANNOTATION_MIGRATION: world.peer.name}
    metadata = {**placed.body["metadata"], "namespace": key[0], "annotations": annotations}
    body = {**placed.body, "metadata": metadata, "spec": spec}
    sound = True
    try:
        body = admission.admitted(Document(world.peer.title, 1, body), namespace=key[0])
    except ConfigurationError as e:
        ways.append(str(e))
        sound = False
    shares = {}
    for name, replicas in standing.shares.items():
        if member := found.names.get(name):
            shares[member] = replicas
            ways += _unfit(found.members[member], key[0])
        else:
            says = next((each.says for each in found.matches if each.name == name), "is unknown")
            ways.append(f"{name}: {says}")
    if not asked.lossy:
        ways += [f"lost: {note}" for note in found.losses if note.document in placed.documents]
    return Candidate(key, placed, body, own, standing, shares, ways, sound)


def _unfit(member: Json, namespace: str) -> Iterator[str]:
    name = member["metadata"]["name"]
    state = clusters.state(member)
    if state != clusters.READY:
        yield f"{name} is {state}"
    if text := clusters.lacking(member, namespace):
        yield f"{name}: {text}"


async def _look_at_hub(world: World, asked: Asked, found: Survey) -> None:
    """Add what of our hub is in the way of the candidates."""
    listed = await world.hub.list(NAMESPACES)
    spaces = {each["metadata"]["name"] for each in listed["items"]}
    left = found.left(asked)
    begun = {rule for uid in left.values() for rule in found.records[uid].record.standing.rules}
    for each in found.candidates:
        space, name = each.key
        if space not in spaces:
            each.ways.append(f"the hub has no namespace {space}: kubectl create namespace {space}")
        if each.key in left or any(rule in begun for rule in each.standing.rules):
            each.ways.append(DELETED)
        there = found.stored.get(each.key)
        if there is not None and kept.peer_of(there) != world.peer.name:
            each.ways.append(f"the hub has a Workload {space}/{name} already")
        elif there is not None and (changed := _brought(there) ^ _brought(each.body)):
            text = f"{words.some(sorted(changed))} was added or removed since it was adopted"
            each.ways.append(f"{text}: undo, and adopt it again")
        for body in found.beside:
            if rules(body, each) and not await _there(world.hub, body):
                text = f"the hub has no {Ref.of(body)}, which rules it: stowage import prints that"
                each.ways.append(text)
        for ref in needed(each.body) if space in spaces else ():
            if await _is_missing(world, asked, each.body["spec"], ref):
                more = "" if asked.secrets else ", or --with-secrets"
                each.ways.append(f"{ref} is not on the hub: copy it there{more}")


def _brought(body: Json) -> set[str]:
    """Return the objects that a Workload brings, in words."""
    spec, space = body["spec"], body["metadata"]["namespace"]
    mains = (spec.get(each) for each in ("targetDeployment", "template") if spec.get(each))
    return {str(Ref.of(each, space)) for each in (*mains, *(spec.get("manifests") or ()))}


def rules(body: Json, candidate: Candidate) -> bool:
    """Whether an object has a say in the placements of a Workload."""
    spec, main = body["spec"], candidate.placed.main
    if body["kind"] == WORKLOAD_KINDS.kind:
        return main is not None and (spec["group"], spec["kind"]) == (main.group, main.kind)
    target = dig(spec, "targetRef", "name")
    return (str(body["metadata"].get("namespace") or ""), target) == candidate.key


def scales(body: Json, candidate: Candidate) -> bool:
    """Whether an object is an autoscaler of a Workload."""
    target = dig(body, "spec", "scaleTargetRef", "name")
    return (str(body["metadata"].get("namespace") or ""), target) == candidate.key


async def _there(server: Verbs, body: Json) -> bool:
    ref = Ref.of(body)
    try:
        resource = await server.resource(ref.api_version, ref.kind)
        where = ref.namespace if resource.namespaced else None
        await server.get(resource, ref.name, namespace=where)
    except NotFound:
        return False
    return True


def needed(body: Json) -> list[Ref]:
    """Return the objects of the hub that a Workload brings to its members."""
    spec, space = body["spec"], body["metadata"]["namespace"]
    found = {("Secret", str(each.get("name"))) for each in spec.get("resources") or ()}
    found |= _named_by_pods(spec)
    along = {
        (each.get("kind"), dig(each, "metadata", "name")) for each in spec.get("manifests") or ()
    }
    return [Ref("v1", kind, space, name) for kind, name in sorted(found - along) if kind in _COPIES]


def _named_by_pods(spec: Json) -> set[tuple[str, str]]:
    """Return kind and name of what goes along because pods name it."""
    if spec.get("dependencies") != "Follow":
        return set()
    templates = pods.templates([spec.get("targetDeployment"), spec.get("template")])
    return {each for found in templates for each in pods.references(found.get("spec"))}


async def _is_missing(world: World, asked: Asked, spec: Json, ref: Ref) -> bool:
    """Whether our hub lacks what a Workload brings, which adopt does not copy."""
    if await stored(world.hub, ref) is not None or await _to_copy(world, asked, ref) is not None:
        return False
    if not _is_optional(spec, ref):
        return True
    try:
        return await stored(world.theirs, ref) is not None
    except Forbidden:
        return True


def _is_optional(spec: Json, ref: Ref) -> bool:
    """Whether pods start without an object, and nothing else asks for it."""
    if ref.name in {each.get("name") for each in spec.get("resources") or ()}:
        return False
    templates = pods.templates([spec.get("targetDeployment"), spec.get("template")])
    named = pod_references.once(
        each for found in templates for each in pod_references.references(found.get("spec"))
    )
    return pod_references.Reference(ref.kind, ref.name, optional=True) in named


async def followed(world: World, asked: Asked, body: Json) -> list[Json]:
    """Return the copies of what pods name, of our hub or as adopt would copy it."""
    made: list[Json] = []
    along = _named_by_pods(body["spec"])
    for ref in needed(body):
        if (ref.kind, ref.name) not in along:
            continue
        found = await stored(world.hub, ref) or await _to_copy(world, asked, ref)
        if found is not None:
            made.append(body_of(msgspec.convert(found, FOLLOWED[ref.kind][1]), identities=False))
    return made


async def stored(server: Verbs, ref: Ref) -> dict[str, Any] | None:
    """Return a ConfigMap or Secret; None where there is none."""
    return await server.find(FOLLOWED[ref.kind][0], ref.name, namespace=ref.namespace)


async def _to_copy(world: World, asked: Asked, ref: Ref) -> dict[str, Any] | None:
    """Return what adopt copies from the peer's hub; None for what it does not."""
    if ref.kind == "Secret" and not asked.secrets:
        return None
    return await stored(world.theirs, ref)


async def copy(world: World, asked: Asked, candidate: Candidate) -> None:
    """Copy what the hub lacks of what a Workload brings along; Secrets only if that is asked."""
    for ref in needed(candidate.body):
        if await stored(world.hub, ref) is not None:
            continue
        if (body := await _to_copy(world, asked, ref)) is not None:
            meta = {"name": ref.name, "namespace": ref.namespace}
            made: dict[str, Any] = {"apiVersion": "v1", "kind": ref.kind, "metadata": meta}
            made |= {key: value for key, value in body.items() if key in _COPIED}
            with suppress(AlreadyExists):  # another Workload needs it too
                await world.hub.create(FOLLOWED[ref.kind][0], made, namespace=ref.namespace)
