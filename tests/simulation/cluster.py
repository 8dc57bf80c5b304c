"""A member in memory, with its controllers: as much of a cluster as a simulation looks at.

Deployments, StatefulSets and Jobs have pods that start, become ready, end, and outlive their object
for a moment. StatefulSets have claims that follow their retention policy. Jobs end, and are
forgotten after their TTL. Writes have the checks of an API server on which the propagator relies:
preconditions, versions, fields that cannot change. Watches go on from a version.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from benchmarks.simulated_members import owned
from machinery.types.merge_patch import merged
from tests.fakeclock import FakeClock

Json = dict[str, Any]
Key = tuple[str, str]
NODE = "n1"
STARTS, ENDS, WORKS = 2.0, 2.0, 5.0
"""Seconds until a pod is ready, until it is gone after its deletion, until one of a Job is done."""
BOOKMARK, BOOKMARK_SECONDS = "BOOKMARK", 20.0
_MAKERS = ("deployments", "statefulsets", "jobs")
CLAIMS = "persistentvolumeclaims"
_INNER = ("over", "of", "with", "hash", "ready", "ends")
"""What its controllers remember of an object."""
_PART = ("apiVersion", "kind", "metadata", "status", *_INNER)


_FIXED = {
    "jobs": ("template", "completions", "completionMode", "selector"),
    "statefulsets": ("serviceName", "volumeClaimTemplates", "podManagementPolicy", "selector"),
    "deployments": ("selector",),
}


class Refused(Exception):
    """`code` and `reason` as an API server says them."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class SimCluster:
    """`objects` by plural and (namespace, name)."""

    def __init__(self, name: str, clock: FakeClock) -> None:
        self._clock = clock
        self.uid = f"uid-of-{name}"
        self.objects: defaultdict[str, dict[Key, Json]] = defaultdict(dict)
        self.jobs: list[tuple[Key, str]] = []
        """Key and UID of each Job that was ever made."""
        self.complete: set[str] = set()
        """The UIDs of Jobs that are, or were, complete."""
        self.failing: set[str] = set()
        """Images whose pods never become ready."""
        self._log: list[tuple[int, str, str, bytes]] = []
        self._versions = 1000
        self._marked = 0.0
        self._news = asyncio.Event()

    # What a client does.

    def list(self, plural: str, namespace: str) -> Json:
        items = [o for (space, _), o in self.objects[plural].items() if namespace in ("", space)]
        items = [each for each in items if not _finished(plural, each)]
        meta = {"resourceVersion": str(self._versions)}
        return {"kind": "List", "metadata": meta, "items": copy.deepcopy(items)}

    async def watch(self, plural: str, namespace: str, version: int) -> AsyncIterator[bytes]:
        at = next((n for n, each in enumerate(self._log) if each[0] > version), len(self._log))
        while True:
            while at < len(self._log):
                _, what, space, line = self._log[at]
                at += 1
                if what == BOOKMARK or (what == plural and namespace in ("", space)):
                    yield line
            self._news.clear()
            await self._news.wait()

    def wake(self) -> None:
        """Let each watch look whether it still stands."""
        self._news.set()

    def create(self, plural: str, namespace: str, body: Json) -> Json:
        key = (namespace, body["metadata"]["name"])
        if key in self.objects[plural]:
            raise Refused(409, "AlreadyExists", f"{plural} {key} exists")
        return self._store(plural, key, body)

    def apply(self, plural: str, key: Key, body: Json, *, dry_run: bool, manager: str) -> Json:
        held = self.objects[plural].get(key)
        body = copy.deepcopy(body)
        meta = body["metadata"]
        self._precondition(held, meta)
        if held is None:
            if meta.get("uid"):
                raise Refused(409, "Conflict", f"{plural} {key} is gone")
            return self._store(plural, key, body, dry_run=dry_run, manager=manager)
        self._unchangeable(plural, held, body)
        new = {**body, "metadata": {**held["metadata"], **_given(meta)}}
        new |= {each: held[each] for each in ("status", *_INNER) if each in held}
        new["metadata"]["managedFields"] = [_fields(body, manager)]
        if _spec(new) != _spec(held):
            new["metadata"]["generation"] = held["metadata"]["generation"] + 1
        return self._put(plural, key, held, new, dry_run=dry_run)

    def patch(self, plural: str, key: Key, body: Json, *, dry_run: bool) -> Json:
        held = self.objects[plural].get(key)
        if held is None:
            raise Refused(404, "NotFound", f"{plural} {key} not found")
        meta = body.get("metadata", {})
        self._precondition(held, meta)
        meta = {k: v for k, v in meta.items() if k not in ("uid", "resourceVersion")}
        new = merged(copy.deepcopy(held), {**body, "metadata": meta})
        self._unchangeable(plural, held, new)
        if _spec(new) != _spec(held):
            new["metadata"]["generation"] = held["metadata"]["generation"] + 1
        return self._put(plural, key, held, new, dry_run=dry_run)

    def delete(self, plural: str, key: Key, options: Json | None = None) -> Json:
        held = self.objects[plural].get(key)
        if held is None:
            raise Refused(404, "NotFound", f"{plural} {key} not found")
        self._precondition(held, (options or {}).get("preconditions", {}))
        if plural == "pods":
            self.end_pod(key)
            return held
        self._gone(plural, key)
        return {"kind": "Status", "status": "Success"}

    def _precondition(self, held: Json | None, asked: Json) -> None:
        for each in ("uid", "resourceVersion"):
            if held is not None and asked.get(each) not in (None, held["metadata"][each]):
                raise Refused(409, "Conflict", f"another {each}")

    def _unchangeable(self, plural: str, held: Json, new: Json) -> None:
        for each in _FIXED.get(plural, ()):
            if new["spec"].get(each) != held["spec"].get(each):
                raise Refused(422, "Invalid", f"spec.{each}: field is immutable")

    # What its controllers do.

    def step(self) -> None:
        """Let them act once, as far as they are due."""
        self._pods()
        for key, body in list(self.objects["deployments"].items()):
            self._deployment(key, body)
        for key, body in list(self.objects["statefulsets"].items()):
            self._statefulset(key, body)
        for key, body in list(self.objects["jobs"].items()):
            self._job(key, body)
        self._collect()
        if self._clock.monotonic() >= self._marked + BOOKMARK_SECONDS:
            self._marked = self._clock.monotonic()
            self._versions += 1
            meta = {"resourceVersion": str(self._versions)}
            line = json.dumps({"type": BOOKMARK, "object": {"metadata": meta}}).encode() + b"\n"
            self._log.append((self._versions, BOOKMARK, "", line))
            self._news.set()

    def pods_of(self, uid: str) -> list[Json]:
        return [p for p in self.objects["pods"].values() if _maker(p) == uid]

    def _pods(self) -> None:
        now = self._clock.monotonic()
        for key, pod in list(self.objects["pods"].items()):
            if pod["ends"] is not None and now >= pod["ends"]:
                self._gone("pods", key)
            elif (
                pod["ends"] is None and pod["status"]["phase"] == "Pending" and now >= pod["ready"]
            ):
                image = pod["spec"]["containers"][0]["image"]
                if image not in self.failing:
                    self._say("pods", key, _running())

    def end_pod(self, key: Key) -> None:
        pod = self.objects["pods"][key]
        if pod["ends"] is None:
            new = copy.deepcopy(pod)
            new["ends"] = self._clock.monotonic() + ENDS
            new["metadata"]["deletionTimestamp"] = self._stamp()
            self._put("pods", key, pod, new)

    def _pod(self, name: str, owner: Json, *, digest: str = "", replica_set: bool = False) -> None:
        template, meta = owner["spec"]["template"], owner["metadata"]
        labels = dict(template["metadata"].get("labels", {}))
        maker = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
        if replica_set:
            labels["pod-template-hash"] = digest
            maker |= {"kind": "ReplicaSet", "name": f"{meta['name']}-{digest}"}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": dict(template["metadata"].get("annotations", {})),
                "ownerReferences": [{**maker, "uid": meta["uid"], "controller": True}],
            },
            "spec": {**copy.deepcopy(template["spec"]), "nodeName": NODE},
            "status": {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": "False"},
                ],
            },
            "ready": self._clock.monotonic() + STARTS,
            "ends": None,
            "hash": digest,
        }
        self._store("pods", (meta["namespace"], name), body)

    def _deployment(self, key: Key, body: Json) -> None:
        wanted, uid = body["spec"].get("replicas", 1), body["metadata"]["uid"]
        digest = _digest(body["spec"]["template"])
        alive = self._alive(uid)
        new = [p for p in alive if p["hash"] == digest]
        old = sorted((p for p in alive if p["hash"] != digest), key=_is_ready)
        for _ in range(max(min(wanted - len(new), wanted + 1 - len(alive)), 0)):
            name = f"{key[1]}-{digest}-{uuid4().hex[:5]}"
            self._pod(name, body, digest=digest, replica_set=True)
        up = sum(map(_is_ready, new))
        for pod in old[:1]:
            if up + len(old) > wanted or not _is_ready(pod):
                self.end_pod(_key(pod))
        for pod in sorted(new, key=_is_ready)[: max(len(new) - wanted, 0)]:
            self.end_pod(_key(pod))
        alive = self._alive(uid)
        up = sum(map(_is_ready, alive))
        fine = up >= wanted
        reason = "MinimumReplicasAvailable" if fine else "MinimumReplicasUnavailable"
        status = {
            "observedGeneration": body["metadata"]["generation"],
            "replicas": len(alive),
            "updatedReplicas": sum(p["hash"] == digest for p in alive),
            "readyReplicas": up,
            "availableReplicas": up,
            "conditions": [{"type": "Available", "status": str(fine), "reason": reason}],
        }
        self._say("deployments", key, status)

    def _statefulset(self, key: Key, body: Json) -> None:
        space, name = key
        spec, uid = body["spec"], body["metadata"]["uid"]
        wanted, start = spec.get("replicas", 1), spec.get("ordinals", {}).get("start", 0)
        digest = _digest(spec["template"])
        names = [f"{name}-{number}" for number in range(start, start + wanted)]
        for each in names:
            self._claims_of(each, body)
            if (space, each) not in self.objects["pods"]:
                self._pod(each, body, digest=digest)
        for pod in self.pods_of(uid):
            if pod["metadata"]["name"] not in names:
                self.end_pod(_key(pod))
        alive = self._alive(uid)
        new = [p for p in alive if p["hash"] == digest]
        old = [p for p in alive if p["hash"] != digest]
        if old and all(map(_is_ready, new)):
            self.end_pod(_key(old[-1]))
        up = sum(map(_is_ready, alive))
        status = {
            "observedGeneration": body["metadata"]["generation"],
            "replicas": len(alive),
            "readyReplicas": up,
            "availableReplicas": up,
            "updatedReplicas": len(new),
            "currentReplicas": len(old) or len(new),
            "updateRevision": digest,
            "currentRevision": "before" if old else digest,
        }
        self._say("statefulsets", key, status)

    def _claims_of(self, pod: str, body: Json) -> None:
        space, spec = body["metadata"]["namespace"], body["spec"]
        for claim in spec.get("volumeClaimTemplates", ()):
            name, meta = f"{claim['metadata']['name']}-{pod}", claim["metadata"]
            if (space, name) in self.objects[CLAIMS]:
                continue
            labels = {**meta.get("labels", {}), **spec["selector"]["matchLabels"]}
            made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim["spec"]}
            made |= {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Bound"}}
            self._store(CLAIMS, (space, name), {**made, "of": body["metadata"]["uid"]})

    def _job(self, key: Key, body: Json) -> None:
        now, spec, uid = self._clock.monotonic(), body["spec"], body["metadata"]["uid"]
        if "over" in body:
            ttl = spec.get("ttlSecondsAfterFinished")
            if ttl is not None and now >= body["over"] + ttl:
                self._gone("jobs", key)
            return
        if spec.get("suspend"):
            return
        completions, wide = spec.get("completions", 1), spec.get("parallelism", 1)
        status = copy.deepcopy(body.get("status", {}))
        status.setdefault("startTime", self._stamp())
        done, active = status.get("succeeded", 0), []
        for pod in self._alive(uid):
            if pod["status"]["phase"] == "Running" and now >= pod["ready"] + WORKS:
                self._say("pods", _key(pod), {"phase": "Succeeded", "conditions": []})
                done += 1
            elif pod["status"]["phase"] != "Succeeded":
                active.append(pod)
        for _ in range(min(wide, completions - done) - len(active)):
            self._pod(f"{key[1]}-{uuid4().hex[:5]}", body)
        status |= {"succeeded": done, "active": min(wide, completions - done)}
        status["ready"] = sum(map(_is_ready, active))
        if done >= completions:
            when = status["completionTime"] = self._stamp()
            status["conditions"] = [
                {"type": each, "status": "True", "lastTransitionTime": when}
                for each in ("SuccessCriteriaMet", "Complete")
            ]
            body["over"] = now
            self.complete.add(uid)
        self._say("jobs", key, status)

    def _alive(self, uid: str) -> list[Json]:
        return [pod for pod in self.pods_of(uid) if pod["ends"] is None]

    def _collect(self) -> None:
        """What an object's end takes along."""
        there = {o["metadata"]["uid"] for p in _MAKERS for o in self.objects[p].values()}
        for key, pod in list(self.objects["pods"].items()):
            if (maker := _maker(pod)) and maker not in there:
                if pod["status"]["phase"] == "Succeeded":
                    self._gone("pods", key)
                else:
                    self.end_pod(key)
        for key, claim in list(self.objects[CLAIMS].items()):
            if claim.get("with") and claim["with"] not in there:
                self._gone(CLAIMS, key)
        for body in self.objects["statefulsets"].values():
            policy = body["spec"].get("persistentVolumeClaimRetentionPolicy", {})
            whole = policy.get("whenDeleted") == "Delete"
            for claim in self.objects[CLAIMS].values():
                if claim.get("of") == body["metadata"]["uid"]:
                    claim["with"] = body["metadata"]["uid"] if whole else ""

    # The store.

    def _store(
        self, plural: str, key: Key, body: Json, *, dry_run: bool = False, manager: str = ""
    ) -> Json:
        meta = {**_given(body["metadata"]), "name": key[1], "uid": str(uuid4()), "generation": 1}
        if key[0]:
            meta["namespace"] = key[0]
        meta["creationTimestamp"] = self._stamp()
        if manager:
            meta["managedFields"] = [_fields(body, manager)]
        made = {**copy.deepcopy(body), "metadata": meta}
        if dry_run:
            meta["resourceVersion"] = str(self._versions)
            return made
        if plural == "jobs":
            self.jobs.append((key, meta["uid"]))
        return self._put(plural, key, None, made)

    def _put(
        self, plural: str, key: Key, old: Json | None, new: Json, *, dry_run: bool = False
    ) -> Json:
        if old is not None and _seen(new) == _seen(old):
            return copy.deepcopy(old)
        if dry_run:
            return copy.deepcopy(new)
        self._versions += 1
        new["metadata"]["resourceVersion"] = str(self._versions)
        self.objects[plural][key] = new
        self._tell(plural, "ADDED" if old is None else "MODIFIED", key, new)
        return copy.deepcopy(new)

    def _say(self, plural: str, key: Key, status: Json) -> None:
        held = self.objects[plural][key]
        self._put(plural, key, held, {**held, "metadata": {**held["metadata"]}, "status": status})

    def _gone(self, plural: str, key: Key) -> None:
        body = self.objects[plural].pop(key)
        self._versions += 1
        body["metadata"]["resourceVersion"] = str(self._versions)
        self._tell(plural, "DELETED", key, body)

    def _tell(self, plural: str, kind: str, key: Key, body: Json) -> None:
        if _finished(plural, body):
            kind = "DELETED"
        line = json.dumps({"type": kind, "object": body}).encode() + b"\n"
        self._log.append((self._versions, plural, key[0], line))
        self._news.set()

    def _stamp(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _given(meta: Json) -> Json:
    return {k: v for k, v in meta.items() if k not in ("uid", "resourceVersion", "managedFields")}


def _spec(body: Json) -> Json:
    return {k: v for k, v in body.items() if k not in _PART}


def _seen(body: Json) -> Json:
    meta = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    return {**body, "metadata": meta}


def _fields(body: Json, manager: str) -> Json:
    ours = {k: v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata", "status")}
    ours["metadata"] = {k: v for k, v in body["metadata"].items() if k in ("labels", "annotations")}
    found = {"manager": manager, "operation": "Apply", "apiVersion": body["apiVersion"]}
    return {**found, "fieldsV1": owned(ours)}


def _key(body: Json) -> Key:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _maker(pod: Json) -> str:
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return owners[0]["uid"] if owners else ""


def _finished(plural: str, body: Json) -> bool:
    """Whether it is a pod that the selector of each client leaves out."""
    return plural == "pods" and body["status"]["phase"] == "Succeeded"


def _digest(template: Json) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]


def _is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


def _running() -> Json:
    kinds = ("PodScheduled", "ContainersReady", "Ready")
    return {"phase": "Running", "conditions": [{"type": k, "status": "True"} for k in kinds]}
