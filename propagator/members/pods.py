"""Which Workload a pod belongs to: its controller must be the Workload's main object.

Any user can set the label with the Workload's UID, and pods of an adopted object lack it or have an
earlier Workload's (`OtherLabels`). ReplicaSets of a Deployment and Jobs of a CronJob are recognized
by the names that Kubernetes gives them. Of a custom kind label and namespace decide.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from crds.names import (
    ANNOTATION_DELETION_COST,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD_UID,
    POD_DELETION_COST,
)
from machinery.api.resources import group_of
from machinery.kinds.profile import Naming, Profile
from machinery.kinds.table import (
    ALONE,
    HASHED_MAKERS,
    MAKER_GROUPS,
    NAMED_BY_PODS,
    NAMING_LABELS,
    known_kind,
)
from machinery.types.metadata import Key, Meta, shared
from propagator.types.workload import ObjectId, Workload

LABEL_TEMPLATE_HASH = "pod-template-hash"
_NAME_LIMIT = 253
MOST_OTHERS = 10_000
"""Main objects of one member whose labels are remembered, including deleted ones."""
_NUMBER = re.compile(r"-?[0-9]{1,10}")


class PodClaim(NamedTuple):
    """A pod's Workload by the UID in its label (may be empty), its namespace, its controller.

    `digest` is the hash of the pod template, if any.
    """

    uid: str
    namespace: str
    group: str
    kind: str
    name: str
    digest: str


class Main(NamedTuple):
    """The main object of a Workload, in its place on a member."""

    uid: str
    namespace: str
    group: str
    kind: str
    name: str
    parts: tuple[ObjectId, ...] = ()
    """Of manifests alone: each object that stands for it."""

    @property
    def profile(self) -> Profile:
        return ALONE if self.parts else known_kind(self.group, self.kind)

    @property
    def clocked(self) -> bool:
        """Whether its controller makes what runs by the clock."""
        made_by = self.profile.made_by
        return made_by is not None and made_by.named is Naming.NUMBER


def claim_of(meta: Meta) -> PodClaim | None:
    """None without a Workload's label, unless the controller may be a main object."""
    uid = meta.labels.get(LABEL_WORKLOAD_UID, "")
    maker = next((owner for owner in meta.owner_references if owner.controller), None)
    group, kind, name = ("", "", "")
    if maker is not None:
        group, kind, name = group_of(maker.api_version), shared(maker.kind), maker.name
    if not uid:
        for label, (group_named, kind_named) in NAMING_LABELS.items():
            if named := meta.labels.get(label):
                claim = PodClaim("", shared(meta.namespace), group_named, kind_named, named, "")
                return _shared(claim)
    if not uid and group not in MAKER_GROUPS:
        return None
    digest = meta.labels.get(LABEL_TEMPLATE_HASH) or meta.labels.get(LABEL_TEMPLATE, "")
    return _shared(PodClaim(uid, shared(meta.namespace), group, kind, name, digest))


def cost_of(meta: Meta) -> tuple[int | None, bool]:
    """Return the deletion cost that we set on a pod, and whether we did.

    The cost is None if another manager has changed it since, or has set it.
    """
    mark = meta.annotations.get(ANNOTATION_DELETION_COST)
    if mark is None or mark != meta.annotations.get(POD_DELETION_COST):
        return None, mark is not None
    return (int(mark) if _NUMBER.fullmatch(mark) else None), True


def main_of(workload: Workload) -> Main:
    outline = workload.outline
    name = outline.name or workload.metadata.name
    group = group_of(outline.api_version)
    parts = tuple(workload.ids()) if workload.alone else ()
    return Main(workload.uid, workload.namespace, group, outline.kind, name, parts)


def made_by(claim: PodClaim, main: Main) -> bool:
    if (claim.uid, claim.namespace) != (main.uid, main.namespace):
        return False
    maker = (claim.group, claim.kind)
    made_by = main.profile.made_by
    if made_by is None:
        return bool(main.uid) or _named_after(claim, main)
    if maker != (made_by.group, made_by.kind):
        return False
    if made_by.named is Naming.TEMPLATE_HASH:
        return bool(claim.digest) and claim.name == replica_set(main.name, claim.digest)
    if made_by.named is Naming.NUMBER:
        minute = claim.name.removeprefix(f"{main.name}-")
        return minute != claim.name and minute.isdecimal()
    return claim.name == main.name


def _named_after(claim: PodClaim, main: Main) -> bool:
    maker, named = (claim.group, claim.kind), (main.group, main.kind)
    if maker in NAMED_BY_PODS or named in NAMED_BY_PODS:
        return maker == named and claim.name == main.name
    return f"{claim.name}-".startswith(f"{main.name}-")


class OtherLabels:
    """The main objects whose pods have another label than their Workload's UID, or may have one.

    Those are adopted objects, objects that other tools deliver, and those of several pods a
    replica.
    """

    def __init__(self) -> None:
        self._noted: dict[Main, tuple[Key, tuple[str, ...], int]] = {}
        """The key, the labels, and how many pods a replica has."""
        self._mains: defaultdict[tuple[str, str], set[Main]] = defaultdict(set)

    def note(self, main: Main, key: Key, *labels: str, each: int | None = None) -> None:
        """Record which labels the pods may have, empty for none, and the Workload's key.

        `each` is how many pods a replica has; None keeps what is known.
        """
        # Kept when the object is deleted: its pods end later, and count until then.
        size = self.size(main) if each is None else each
        self._remove(main)
        if labels != (main.uid,) or size != 1:
            self._noted[main] = key, labels, size
            for label in labels:
                self._mains[label, main.namespace].add(main)
        if len(self._noted) > MOST_OTHERS:  # a member may show new ones forever
            self._remove(next(iter(self._noted)))

    def size(self, main: Main) -> int:
        noted = self._noted.get(main)
        return noted[2] if noted is not None else 1

    def _remove(self, main: Main) -> None:
        _, labels, _ = self._noted.pop(main, (None, (), 1))
        for label in labels:
            mains = self._mains[label, main.namespace]
            mains.discard(main)
            if not mains:
                del self._mains[label, main.namespace]

    def labelled(self, main: Main) -> Main:
        own = "" if (main.group, main.kind) in NAMED_BY_PODS else main.uid
        _, labels, _ = self._noted.get(main, (None, (), 1))
        return main._replace(uid=own if labels in ((), (main.uid,)) else labels[0])

    def keys(self, claim: PodClaim) -> set[Key]:
        mains = self._mains.get((claim.uid, claim.namespace), ())
        return {
            self._noted[main][0] for main in mains if made_by(claim, main._replace(uid=claim.uid))
        }


def deployment_of(claim: PodClaim) -> str:
    """Empty unless a Deployment created the pod's ReplicaSet."""
    end = f"-{claim.digest}"
    made = (claim.group, claim.kind) in HASHED_MAKERS and claim.name.endswith(end)
    return claim.name.removesuffix(end) if made and claim.digest else ""


def replica_set(deployment: str, digest: str) -> str:
    return f"{deployment[: _NAME_LIMIT - len(digest) - 1]}-{digest}"


@lru_cache(maxsize=4096)
def _shared(claim: PodClaim) -> PodClaim:
    """Many pods have the same controller."""
    return claim
