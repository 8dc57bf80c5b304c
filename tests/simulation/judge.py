"""What must hold in a simulation: at each moment, at its end, and of what is left."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from crds.names import ANNOTATION_SWEEP, LABEL_MANAGED, LABEL_WORKLOAD_UID
from e2e.chaos import judgement, wishes
from e2e.chaos.wishes import Wish
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.types import conditions
from machinery.types.metadata import Key

from .cluster import CLAIMS, SimCluster
from .users import Users
from .world import Json, SimWorld

_PLURALS = {
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "jobs": "Job",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    CLAIMS: "PersistentVolumeClaim",
}
Object = tuple[str, str, str]
"""(kind, namespace, name)."""


class Broken(AssertionError):
    """A promise was broken."""


class Judge:
    """`breaches` are sentences about what held at no moment."""

    def __init__(self, world: SimWorld, users: Users) -> None:
        self.breaches: list[str] = []
        self._world, self._users = world, users
        self._jobs: dict[Key, list[tuple[str, str]]] = defaultdict(list)
        """Member and UID of each Job that was made, by its key."""
        self._seen: dict[str, int] = dict.fromkeys(world.clusters, 0)

    # At each moment.

    def look(self) -> None:
        for said in (*self._crowds(), *self._jobs_again(), *self._disagreements()):
            if said not in self.breaches:
                self.breaches.append(said)

    def _crowds(self) -> Iterator[str]:
        """Yield where an ordinal runs twice, or more of what runs once than was ever wanted."""
        runs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for member, cluster in self._world.clusters.items():
            for (_, name), pod in cluster.objects["pods"].items():
                labels = pod["metadata"]["labels"]
                if wishes.LABEL_RUNS in labels and pod["status"]["phase"] != "Succeeded":
                    of = labels.get(LABEL_WORKLOAD_UID, ""), labels[wishes.LABEL_RUNS]
                    runs[of].append((name, member))
        for (uid, how), pods in runs.items():
            if len({name for name, _ in pods}) < len(pods):
                yield f"the same pod twice: {sorted(pods)}"
            several = len({member for _, member in pods}) > 1
            if how == wishes.ONCE and several and len(pods) > self._users.most.get(uid, 1):
                yield f"more than ever wanted of what runs once: {sorted(pods)}"

    def _jobs_again(self) -> Iterator[str]:
        clusters = self._world.clusters
        for member, cluster in clusters.items():
            new, self._seen[member] = cluster.jobs[self._seen[member] :], len(cluster.jobs)
            for key, uid in new:
                job = cluster.objects["jobs"].get(key, {})
                mode = job.get("metadata", {}).get("labels", {}).get(wishes.LABEL_MODE, "Divided")
                for where, before in self._jobs[key]:
                    same = mode == "Single" or (mode == "Duplicated" and where == member)
                    if same and before in clusters[where].complete:
                        yield f"Job {key[1]} is made again on {member}: it has ended on {where}"
                self._jobs[key].append((member, uid))

    def _disagreements(self) -> Iterator[str]:
        for each in self._users.listed().values():
            yield from judgement.disagreements(each)

    # At the end.

    def whole(self) -> None:
        """Raise Broken with what is not as wanted; confirm what waits for a person."""
        for member in self._world.clusters:
            self._member(member)
        found, wanted = self._users.listed(), self._users.wanted
        if found.keys() != wanted.keys():
            more = {key: found[key].get("status") for key in found.keys() - wanted.keys()}
            raise Broken(f"lost {wanted.keys() - found.keys()}, too many {more}")
        expected: dict[str, set[Object]] = {member: set() for member in self._world.clusters}
        told: dict[str, set[Object]] = {member: set() for member in self._world.clusters}
        for key, wish in wanted.items():
            for member, replicas in _true(found[key], wish).items():
                expected[member] |= self._landed(key, wish, member, replicas)
            for each in found[key]["status"].get("kept", ()):
                told[each["cluster"]].add((each["kind"], each["namespace"], each["name"]))
        for member, cluster in self._world.clusters.items():
            left = _ours(cluster) - expected[member]
            data = {each for each in left if each[0] == _PLURALS[CLAIMS]}
            ended = {each for each in left if each[0] == "Job"}
            if left - data - ended:
                raise Broken(f"{member}: nobody wants {sorted(left - data - ended)}")
            used = {each for each in data if _in_use(cluster, each)}
            if data - used != told[member] - used:
                raise Broken(f"{member}: {sorted(data)} stay, told are {sorted(told[member])}")

    def _member(self, member: str) -> None:
        status = self._world.cluster(member)
        if not conditions.holds(status, "Ready"):
            raise Broken(f"{member} is not Ready: {status.get('conditions')}")
        held = sorted(each["uid"] for each in status.get("sweepHeld", {}).get("workloads", ()))
        if held:
            mark = {"metadata": {"annotations": {ANNOTATION_SWEEP: ",".join(held)}}}
            self._world.hub.edit(MEMBER_CLUSTERS, member, mark)

    def _landed(self, key: Key, wish: Wish, member: str, replicas: int) -> set[Object]:
        """Return the objects that a share has there. Raises Broken."""
        space, name = key
        objects = self._world.clusters[member].objects
        main = wishes.object_of(name, wish, self._users.lives[key])
        expected = {(wish.kind, space, main)}
        if wish.kind != "Job":
            held = objects[f"{wish.kind.lower()}s"].get((space, main))
            if held is None or held["spec"]["replicas"] != replicas:
                raise Broken(f"{key}: {replicas} on {member} are {held and held['spec']}")
            if judgement.image_of(held) != wishes.image(wish):
                raise Broken(f"{key}: {judgement.image_of(held)} runs on {member}")
        if wish.config is not None:
            expected.add(("ConfigMap", space, f"{name}-config"))
            config = objects["configmaps"].get((space, f"{name}-config"))
            if config is None or config["data"]["value"] != str(wish.config):
                raise Broken(f"{key}: the ConfigMap on {member} is {config}")
        if wish.secret:
            expected.add(("Secret", space, wishes.SECRET))
            if (space, wishes.SECRET) not in objects["secrets"]:
                raise Broken(f"{key}: there is no Secret on {member}")
        if wish.claim:
            expected.add((_PLURALS[CLAIMS], space, wishes.claim_of(name)))
        return expected

    def empty(self) -> None:
        """Raise Broken if something is left of deleted Workloads, but data."""
        if found := self._users.listed():
            raise Broken(f"not gone: {found}")
        for member, cluster in self._world.clusters.items():
            left = {each for each in _ours(cluster) if each[0] != _PLURALS[CLAIMS]}
            if left:
                raise Broken(f"{member}: {sorted(left)} are left")

    # What is written.

    def written(self) -> dict[str, Any]:
        """Return the Workloads, and generations of our objects on members."""
        found = {f"Workload {key[1]}": each for key, each in self._users.listed().items()}
        for member, cluster in self._world.clusters.items():
            for plural in _PLURALS:
                for key, each in cluster.objects[plural].items():
                    if LABEL_MANAGED in each["metadata"].get("labels", {}):
                        found[f"{member} {plural} {key[1]}"] = each["metadata"]["generation"]
        return json.loads(json.dumps(found))

    def unchanged(self, before: Mapping[str, Any], when: str) -> None:
        """Raise Broken with what was written since."""
        after = self.written()
        for what in sorted(before.keys() | after.keys()):
            old, new = before.get(what), after.get(what)
            if old != new:
                fields = [*_differing(old, new)] if old and new else [f"{old} → {new}"]
                raise Broken(f"{what} is written {when}: {fields}")


def _true(workload: Json, wish: Wish) -> dict[str, int]:
    """Return the replicas by member. Raises Broken unless the status says what is wanted."""
    name, status = workload["metadata"]["name"], workload.get("status", {})
    shares = judgement.placed({"status": {}, **workload})
    replicas = wish.replicas * (3 if wish.mode == "Duplicated" else 1)
    if sum(shares.values()) != replicas or status.get("leaving"):
        raise Broken(f"{name}: {wish} has {shares}, {status.get('leaving')} leave: {status}")
    _says(workload, "Scheduled")
    if not shares:
        return shares
    _says(workload, "Propagated")
    reason = _says(workload, "Ready")
    if wish.kind == "Job" and reason != "Completed":
        raise Broken(f"{name}: the Job has not ended: {status}")
    if wish.kind != "Job" and status.get("ready") != replicas:
        raise Broken(f"{name}: {status.get('ready')} of {replicas} are ready: {status}")
    if {each["name"] for each in status["clusters"]} != shares.keys():
        raise Broken(f"{name}: placed on {shares}, and speaks of {status['clusters']}")
    return shares


def _says(workload: Json, kind: str) -> str:
    """Return the reason of a condition. Raises Broken unless it is True, of this generation."""
    meta, status = workload["metadata"], workload.get("status", {})
    said = next((each for each in status.get("conditions", ()) if each["type"] == kind), {})
    if said.get("status") != "True" or said.get("observedGeneration") != meta["generation"]:
        raise Broken(f"{meta['name']} of generation {meta['generation']}: {said}: {status}")
    return str(said["reason"])


def _ours(cluster: SimCluster) -> set[Object]:
    return {
        (kind, *key)
        for plural, kind in _PLURALS.items()
        for key, each in cluster.objects[plural].items()
        if {LABEL_MANAGED, wishes.LABEL_DATA} & each["metadata"].get("labels", {}).keys()
    }


def _in_use(cluster: SimCluster, claim: Object) -> bool:
    """Whether a StatefulSet there made the claim."""
    made_by = cluster.objects[CLAIMS][claim[1:]].get("of")
    sets = cluster.objects["statefulsets"].values()
    return any(each["metadata"]["uid"] == made_by for each in sets)


def _differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differing(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield f"{path}: {old} → {new}"
