"""Which MemberCluster each cluster of the peer is: by its kube-system, or by `--map`. Pure.

A name alone proves nothing: two hubs may give one name to two clusters. `renamed` has a Workload's
rules name the MemberClusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from crds.names import LABEL_CLUSTER
from machinery.errors import ConfigurationError
from machinery.types import conditions
from stowage.migrating.peer import Json, PeerCluster

_CARRIED = ("targetDeployment", "template", "manifests", "targetService")
"""Fields of a Workload's spec in which no name is that of a cluster."""
READY = "ready"


class MatchedCluster(NamedTuple):
    """A cluster of the peer; `member` is empty where none is known to be it, as `says` tells."""

    name: str
    member: str
    by: str
    says: str


def matched(
    theirs: Iterable[PeerCluster], members: Iterable[Json], named: Mapping[str, str]
) -> list[MatchedCluster]:
    """Return the clusters of the peer in their order. Raises ConfigurationError for a wrong name.

    `members` are MemberClusters as stored, `named` is what `--map` says.
    """
    known = {each["metadata"]["name"]: each for each in members}
    clusters = sorted(theirs, key=lambda each: each.name)
    for name, member in named.items():
        if name not in {each.name for each in clusters}:
            raise ConfigurationError(f"--map {name}={member}: the peer has no cluster {name}")
        if member not in known:
            raise ConfigurationError(
                f"--map {name}={member}: the hub has no MemberCluster {member}"
            )
    by_uid = {uid: name for name, each in known.items() if (uid := uid_of(each))}
    found = [_match(each, known, by_uid, named.get(each.name, "")) for each in clusters]
    taken: dict[str, str] = {}
    for each in found:
        if each.member and taken.setdefault(each.member, each.name) != each.name:
            both = f"{taken[each.member]} and {each.name}"
            raise ConfigurationError(f"{both} are both the MemberCluster {each.member}: use --map")
    return found


def _match(
    cluster: PeerCluster, known: Mapping[str, Json], by_uid: Mapping[str, str], named: str
) -> MatchedCluster:
    name = cluster.name
    there = by_uid.get(cluster.uid, "") if cluster.uid else ""
    if there and named in ("", there):
        return MatchedCluster(name, there, "cluster ID", state(known[there]))
    said = named or (name if name in known else "")
    uid = uid_of(known[said]) if said else ""
    if cluster.uid and uid:
        text = f"MemberCluster {said} is another cluster: its kube-system has the UID {uid}"
        return MatchedCluster(name, "", "", f"{text}, not {cluster.uid}")
    if named:
        return MatchedCluster(name, named, "--map", state(known[named]))
    text = "its UID is not known" if said else "no MemberCluster is known to be it"
    return MatchedCluster(name, "", "", f"{text}: join it, or --map {name}={said or 'MEMBER'}")


def uid_of(member: Json) -> str:
    """Return the UID of the kube-system of a MemberCluster; empty where it is not known."""
    status = member.get("status") or {}
    # an empty clusterUID may not be read there, and clusterID is another one then
    return str(status.get("clusterUID", status.get("clusterID") or "") or "")


def state(member: Json) -> str:
    """Return `ready`, or why a MemberCluster is not."""
    ready = conditions.find(member.get("status") or {}, "Ready")
    if ready.get("status") == "True":
        return READY
    return f"not ready: {ready.get('message') or ready.get('reason') or 'the hub has not seen it'}"


def lacking(member: Json, namespace: str) -> str:
    """Return why a member takes no Workload of a namespace; empty if it takes one."""
    name = member["metadata"]["name"]
    given = ((member.get("status") or {}).get("namespaces") or {}).get("given")
    if given is None or namespace in given:
        return ""
    return (
        f"namespace {namespace} was not given: stowage join {name} --target-namespace {namespace}"
    )


def renamed(spec: Json, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a Workload's spec whose rules name MemberClusters in place of the peer's clusters."""
    made = {key: spec[key] if key in _CARRIED else _renamed(spec[key], names) for key in spec}
    target = made.get("targetCluster")
    if isinstance(target, dict) and "name" in target:
        made["targetCluster"] = {**target, "name": names.get(target["name"], target["name"])}
    return made


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _renamed(each, names) for key, each in value.items()}
    if value.get("key") == LABEL_CLUSTER and isinstance(value.get("values"), list):
        made["values"] = [names.get(each, each) for each in value["values"]]
    labels = value.get("matchLabels")
    if isinstance(labels, dict) and LABEL_CLUSTER in labels:
        said = labels[LABEL_CLUSTER]
        made["matchLabels"] = {**labels, LABEL_CLUSTER: names.get(said, said)}
    return made
