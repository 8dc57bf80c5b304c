"""Argo CD: its clusters become registration stubs; it goes on to deliver, where Stowage decides.

A cluster is a Secret with a label. Nothing of it but its name and its labels is read.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from stowage.importing.clusters import stub
from stowage.importing.fates import METADATA, Table, at, carried, noted, whole
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, System

GROUP = "argoproj.io"
LABEL = "argocd.argoproj.io/secret-type"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SECRET: Table = {
    **METADATA,
    "metadata.labels": carried("metadata.labels of the MemberCluster"),
    "type": noted("is none of a MemberCluster", quiet=True),
    **{
        f"{field}.{key}": row
        for field in ("data", "stringData")
        for key, row in {
            "name": carried("metadata.name of the MemberCluster"),
            "server": noted("`stowage join` reads the address of the member", quiet=True),
            "config": noted("is no credential to take over: `stowage join` makes its own"),
            "namespaces": noted("`stowage tenant` gives namespaces to the propagator"),
            "clusterResources": noted("spec.allowedKinds of the MemberCluster says it"),
            "project": noted("is a project of Argo CD"),
            "shard": noted("is Argo CD's own", quiet=True),
        }.items()
    },
}
_STAYS = whole(noted("stays with Argo CD, which goes on to sync it: spec.delivery: None"))
_GENERATOR = (
    "the clusters of a decision come by the generator clusterDecisionResource: spec.publish of a"
    " Workload writes a ClusterDecision, and configMapRef: stowage-clusterdecisions reads it"
)
TABLES: Mapping[tuple[str, str], Table] = {
    (GROUP, "Application"): _STAYS,
    (GROUP, "AppProject"): _STAYS,
    (GROUP, "ApplicationSet"): {
        **METADATA,
        "spec": noted("stays with Argo CD, which goes on to make Applications of it", quiet=True),
    },
}


def convert(into: Conversion) -> None:
    """Make MemberClusters of Argo CD's cluster Secrets, and say what takes a generator's place."""
    for source in into.bundle.of("", "Secret"):
        if _is_cluster(source):
            _cluster(into, source)
    for source in into.bundle.of(GROUP, "ApplicationSet"):
        for path in _generators(dig(source.document.body, "spec"), "spec"):
            into.notes.note(source.document, path, _GENERATOR, becomes="spec.publish")


def _is_cluster(source: Source) -> bool:
    return source.labels.get(LABEL) == "cluster"


def _cluster(into: Conversion, source: Source) -> None:
    source.taken = True
    body = source.document.body
    name = dig(body, "stringData", "name") or _decoded(dig(body, "data", "name")) or source.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        name = source.name
        text = "is no name of a cluster here: the Secret's name takes its place"
        into.notes.note(source.document, "data.name", text, becomes="metadata.name")
    labels = {
        key: value
        for key, value in source.labels.items()
        if not key.startswith("argocd.argoproj.io/")
    }
    into.register(source, stub(name, labels, ()))


def _decoded(said: Any) -> str:
    try:
        return base64.b64decode(said, validate=True).decode() if isinstance(said, str) else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _generators(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of all `clusters` generators, also inside of matrix and merge."""
    if isinstance(value, list):
        for n, each in enumerate(value):
            yield from _generators(each, f"{path}[{n}]")
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == "clusters" and path.endswith("]") and "generators" in path:
                yield at(path, key)
            elif key in ("generators", "matrix", "merge"):
                yield from _generators(each, at(path, key))


class _ArgoCD(System):
    """A Secret is its own only with a label."""

    def table(self, source: Source) -> Table | None:
        if source.of("", "Secret") and _is_cluster(source):
            return _SECRET
        return System.table(self, source)


SYSTEM = _ArgoCD("Argo CD", (), (), convert, tables=TABLES)
