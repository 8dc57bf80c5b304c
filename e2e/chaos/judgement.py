"""The rules of a chaos run, as pure functions of single objects.

`watchman` applies them during the run, to each state of an object that its watches show; `promises`
at the end. Each returns sentences about broken rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from crds.names import OWNER_PREFIX
from e2e.chaos import wishes
from machinery.types.metadata import Object

Body = Mapping[str, Any]
AGAIN = "-again"
"""The suffix of the second name of a member."""


MOVES = frozenset({"Drained", "ClusterLost", "Returned", "MoveCancelled"})
"""Causes in a history of moves that a run itself sets off."""
GIVEN_UP = "ClusterGone"
"""The cause where a person gave a cluster up."""


class Whole(Object, frozen=True):
    """An object as a watch shows it."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return it as JSON, with the fields that are used here."""
        meta: dict[str, Any] = {
            "namespace": self.metadata.namespace,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "resourceVersion": self.metadata.resource_version,
            "generation": self.metadata.generation,
            "labels": self.metadata.labels,
            "annotations": self.metadata.annotations,
        }
        if self.metadata.deletion_timestamp is not None:
            meta["deletionTimestamp"] = self.metadata.deletion_timestamp
        return {"metadata": meta, "spec": self.spec, "status": self.status}


def owners(annotations: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the Workloads that an object on a member belongs to: key by UID."""
    found = {}
    for annotation, owner in annotations.items():
        if annotation.startswith(OWNER_PREFIX):
            namespace, _, name = owner.partition("/")
            found[annotation.removeprefix(OWNER_PREFIX)] = (namespace, name)
    return found


def member_of(cluster: str) -> str:
    """Return the member that a MemberCluster leads to."""
    return cluster.removesuffix(AGAIN)


def life_of(found: Body | Whole) -> int:
    """Return the number of the life of the Workload that wrote an object last."""
    body = found.body() if isinstance(found, Whole) else found
    labels = body["metadata"].get("labels", {})
    return int(labels.get(wishes.LABEL_LIFE, 0))


def template_of(workload: Body) -> Body:
    """Return the object that a Workload runs."""
    spec = workload["spec"]
    template: Body = spec.get("targetDeployment") or spec["template"]
    return template


def placed(workload: Body) -> dict[str, int]:
    """Return the units by cluster."""
    return {p["cluster"]: p["replicas"] for p in workload["status"].get("placements", [])}


def disagreements(workload: Body) -> Iterator[str]:
    """Yield statements of a Workload's status that cannot be true."""
    meta, status = workload["metadata"], workload.get("status", {})
    name = f"{meta['namespace']}/{meta['name']}"
    if meta.get("deletionTimestamp"):
        return  # the user of its successor may have edited it already
    sum_placed = sum(p["replicas"] for p in status.get("placements", []))
    ours = workload["spec"]["schedulerName"] != wishes.SCHEDULER
    # Until our controller has decided, the numbers are those of the Workload's former scheduler.
    # A write that overtakes a first one without an answer has a decision and no numbers.
    if ours and {"decision", "desired"} <= status.keys():
        if sum_placed + status.get("pending", 0) != status["desired"]:
            yield f"{name}: {sum_placed} placed and {status.get('pending')} pending of {status}"
        if status.get("assigned") != sum_placed:
            yield f"{name}: assigned {status.get('assigned')}, placed {sum_placed}"
        if status["desired"] < 0 or status.get("pending", 0) < 0:
            yield f"{name}: negative numbers in {status}"
    for condition in status.get("conditions", []):
        if condition.get("observedGeneration", 0) > meta["generation"]:
            yield f"{name}: {condition['type']} speaks of a generation that is not there yet"
    clusters = [share["name"] for share in status.get("clusters", [])]
    if len(clusters) != len(set(clusters)):
        yield f"{name}: a cluster stands twice in {clusters}"


def over_quota(workloads: Iterable[Body]) -> Iterator[str]:
    """Yield where more units are placed under a strict policy than it allows, at one moment.

    Units of a Workload that is being deleted do not count: its quota is free at once. The two names
    of a member are counted apart: a name that comes back brings its placements along, beside what
    the other name was given meanwhile.
    """
    held: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for workload in workloads:
        meta = workload["metadata"]
        if wishes.mode_of(workload) == "Strict" and "deletionTimestamp" not in meta:
            for cluster, units in placed({"status": {}, **workload}).items():
                held[meta["namespace"], cluster][meta["name"]] = units
    for (namespace, cluster), by_name in held.items():
        units = sum(by_name.values())
        if units > wishes.QUOTA:
            yield (
                f"{namespace}: {units} units on {cluster}, the policy lets {wishes.QUOTA} in: "
                f"{by_name}"
            )


def moved(before: Body, after: Body, *, excused: Collection[str]) -> Iterator[str]:
    """Yield clusters that lost a Workload without being scaled down or deregistered (`excused`).

    A drain, a loss and a return are causes as well, where the history has them, or `leaving` where
    another cluster went in the same decision and stands in the history; not for a kind that says
    nothing of itself.
    """
    same = before["metadata"]["uid"] == after["metadata"]["uid"]
    stays = main_of(after)[0] == wishes.GADGETS.kind  # nobody knows whether it runs elsewhere
    if not same or after["metadata"].get("deletionTimestamp"):
        return
    if wishes.mode_of(after) == "Placed" or wishes.mode_of(before) == "Placed":
        return
    old, new = placed(before), placed(after)
    scaled = after["status"].get("desired", 0) < before["status"].get("desired", 0)
    if not stays and any(change["cause"] in MOVES for change in _new_changes(before, after)):
        return
    leaving = (
        set()
        if stays
        else {
            each["cluster"]
            for each in after["status"].get("leaving", [])
            if each.get("cause") in MOVES
        }
    )
    for cluster in sorted(old.keys() - new.keys() - leaving):
        if not scaled and old[cluster] and member_of(cluster) not in excused:
            name = f"{after['metadata']['namespace']}/{after['metadata']['name']}"
            yield f"{name}: moved from {cluster}, which never went: {old} became {new}"


def ended(workload: Body) -> Iterator[str]:
    """Yield the members whose share has ended, by the Workload's status."""
    for share in workload.get("status", {}).get("clusters", []):
        if share.get("ended"):
            yield member_of(share["name"])


def gives_first(workload: Body, *, set_back: bool = False) -> bool:
    """Return whether a copy may go before its successor comes: its units run at most once.

    Another scheduler moves without a word, and its decisions have no history, as the moves that a
    hub has lost which was set back. What a person gave up with its cluster goes when that is back:
    its successor waits for it.
    """
    if template_of(workload).get("kind") != "StatefulSet":
        return False
    if set_back or wishes.mode_of(workload) == "Placed":
        return True
    history = workload.get("status", {}).get("history", [])
    return any(change["cause"] in {*MOVES, GIVEN_UP} for change in history)


def _new_changes(before: Body, after: Body) -> list[Body]:
    known = before["status"].get("history", [])
    return [each for each in after["status"].get("history", []) if each not in known]


def reason(workload: Body) -> tuple[str, str, str]:
    """Return status, reason and message of Scheduled, without the time."""
    for condition in workload["status"].get("conditions", []):
        if condition["type"] == "Scheduled":
            return condition["status"], condition["reason"], condition["message"]
    return "", "", ""


def claims(workload: Body) -> list[str]:
    """Return the clusters on which, by its status, its present generation runs."""
    meta, status = workload["metadata"], workload.get("status", {})
    said = {c["type"]: c for c in status.get("conditions", [])}.get("Propagated", {})
    if meta.get("deletionTimestamp") or said.get("status") != "True":
        return []
    if said.get("observedGeneration") != meta["generation"]:
        return []
    wanted = placed({"status": {}, **workload})
    return [
        share["name"]
        for share in status.get("clusters", [])
        if share.get("state") == "Running" and wanted.get(share["name"]) == share["replicas"]
    ]


def main_of(workload: Body) -> tuple[str, str]:
    """Return (kind, image) of the object that runs the units."""
    template = template_of(workload)
    return template.get("kind", "Deployment"), image_of(template)


def image_of(copy: Body) -> str:
    """Return the image of a Deployment or StatefulSet."""
    return str(copy["spec"]["template"]["spec"]["containers"][0]["image"])


def ready(copy: Body) -> bool:
    """Return whether a unit of that Deployment or StatefulSet is ready, or that custom object."""
    status = copy.get("status", {})
    said = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return bool(status.get("readyReplicas", 0)) or said.get("Ready") == "True"


def same_ordinals(copies: Mapping[str, Body]) -> Iterator[str]:
    """Yield where the copies of a StatefulSet, by member, give two pods the same ordinal."""
    taken: dict[int, str] = {}
    for member, copy in sorted(copies.items()):
        start = copy["spec"].get("ordinals", {}).get("start", 0)
        for number in range(start, start + copy["spec"]["replicas"]):
            other = taken.setdefault(number, member)
            if other != member:
                name = f"{copy['metadata']['namespace']}/{copy['metadata']['name']}"
                yield f"{name}: the ordinal {number} is on {other} and on {member}"


def made_ready(pod: Body) -> list[dict[str, Any]]:
    """Return the conditions that a pod with ready containers should have; none if it has them."""
    conditions = pod["status"].get("conditions", [])
    said = {each["type"]: each["status"] for each in conditions}
    if pod["metadata"].get("deletionTimestamp") or said.get("Ready") != "False":
        return []
    if said.get("ContainersReady") != "True":
        return []
    return [{**each, "status": "True"} if each["type"] == "Ready" else each for each in conditions]
