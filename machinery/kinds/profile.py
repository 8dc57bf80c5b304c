"""One kind of workload as data: where its numbers are, its pods, its readiness, its end.

A profile is read of the spec of a WorkloadKind; the built-in ones are written in the same words. A
kind without a profile has the careful one: nothing is written into it, no room is counted, and only
its condition Ready counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from crds.names import Edits, TtlWhen
from machinery.kinds.expressions import is_path


class Part(msgspec.Struct, frozen=True, eq=False, rename="camel"):
    """A part of a profile."""


class Replicas(Part, frozen=True, eq=False):
    """The path of the number of replicas. A kind without one runs whole, once on a cluster."""

    path: str
    total: str = ""
    """The work that is divided with the replicas, such as the completions of a Job."""
    ordinals: str = ""
    """The path of the first ordinal, of a kind that numbers its pods and removes the last first."""
    whole: str = ""
    """The condition on which the replicas are not divided."""
    why: str = ""
    """Why they are not divided then."""


class Pods(Part, frozen=True, eq=False):
    """One sort of pods of a replica, or of the whole object, by their template or requests."""

    name: str = ""
    """With `each` a value of the element."""
    template: str = ""
    otherwise: str = msgspec.field(default="", name="or")
    """The path of the template where that one is missing."""
    each: str = ""
    """A list or map: one sort of pods for each `item`, with its `key`."""
    count: str = ""
    """The number of pods; without one 1."""
    requests: Mapping[str, str] | None = None
    """Values of the amounts of one pod, instead of a template."""
    placing: str = ""
    """A value with nodeSelector, tolerations and affinity beside `requests`."""
    labels: str = ""
    """The path of their labels, where there is no template of them."""


class Naming(StrEnum):
    """How the object that controls the pods is named after the template's object."""

    SAME = "Same"
    TEMPLATE_HASH = "TemplateHash"
    NUMBER = "Number"


class Maker(Part, frozen=True, eq=False):
    """The controller in the owner references of the pods."""

    group: str
    kind: str
    named: Naming = Naming.SAME


class Ready(Part, frozen=True, eq=False, kw_only=True):
    observed_generation: str = "status.observedGeneration"
    """The generation of the counts; empty: they are always of the present one."""
    replicas: str = ""
    """The number of ready replicas; without it all or none are ready."""
    updated: str = ""
    """The number of replicas of the newest template; without it all ready ones."""
    present: str = ""
    """The number of existing replicas of any template: those beyond `updated` are outdated."""
    wanted: str = ""
    """The number that the kind's own controller wants: the copy is ready when that many are."""
    when: tuple[str, ...] = ()
    """Conditions that must all hold."""
    exists: bool = False
    """It is ready when it exists."""
    replaces: bool = False
    """During a replacement the old replicas count as ready, but do not last."""
    at_rest: tuple[str, ...] = ()
    """The reasons of Progressing with which it keeps old replicas."""
    gives_up: str = ""
    """The reason of Progressing=False with which it is Degraded."""


class End(Part, frozen=True, eq=False, kw_only=True):
    succeeded: str
    failed: str
    done: str = ""
    """The number of pods that have succeeded so far."""
    ttl: str = ""
    """The field by which a member removes it after its end."""
    ttl_when: TtlWhen = TtlWhen.ENDED
    delete_failed: bool = False
    """What failed would run again by itself: it is deleted once its end is stored."""


class Hold(Part, frozen=True, eq=False):
    """On which condition an object stays where it is."""

    when: str
    text: str
    """What comes of a new one."""


class Data(Part, frozen=True, eq=False):
    """What holds the data of replicas."""

    claims: str = ""
    """The templates of the claims of each replica."""
    go_with_replicas: bool = False
    """Whether its controller deletes the claims of a replica that a lower number removes."""
    always: bool = False


class Told(Part, frozen=True, eq=False):
    """A value of a member's object that is told on the hub."""

    name: str
    value: str


class Warned(Part, frozen=True, eq=False):
    path: str
    text: str


class Names(Part, frozen=True, eq=False):
    max: int = 253
    """Characters."""


_AN = re.compile(r"[AEIO]|U(?!ni|s[ae]|[A-Z])|[FHLMNRSX][A-Z]")
"""How a kind begins that has a vowel when it is spoken; of two capitals the first is spelt out."""
_LOST = "its pods lose their owner: {} of its name that is made later does not take them up"


class Profile(Part, frozen=True, eq=False, kw_only=True):
    """Profiles are compared by identity: `table` has one for each kind."""

    group: str = ""
    kind: str
    versions: tuple[str, ...] = ()
    """All, if empty; of the careful profile those that are known of the kind."""
    known: bool = True
    """False for the careful profile."""
    fault: str = ""
    """Why its WorkloadKind cannot be used: nothing is written then, and what runs stays."""
    replicas: Replicas | None = None
    everywhere: bool = False
    """Every cluster that matches runs it."""
    pods: tuple[Pods, ...] = ()
    made_by: Maker | None = None
    """Without one its pods are recognized by their label and namespace alone."""
    ready: Ready = Ready()
    degraded: str = ""
    ended: End | None = None
    suspended: str = ""
    suspends_when: str = ""
    """The condition on which it outlives a suspension; without one it always does."""
    at_most_once: bool | None = None
    """By default of a kind that ends or has data."""
    once_when: str = ""
    """The condition on which it does not, too."""
    adopts: bool = False
    """Whether its controller takes up the pods that an object of its name left."""
    orphan: str = ""
    """What becomes of the pods of an object that was let go and made again."""
    data: Data = Data()
    holds: Hold | None = None
    service: str = ""
    """The path of the name of the Service that governs its pods."""
    immutable: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    """Fields that an object keeps as its cluster has them, on the condition `settled_when`."""
    settled_when: str = ""
    edits: Edits = Edits.ROLLED
    warns: tuple[Warned, ...] = ()
    ignore_fields: tuple[str, ...] = ()
    """Fields that are the member's once another client has written them there."""
    status_fields: tuple[Told, ...] = ()
    strip: tuple[str, ...] = ()
    """Paths that are never sent to a member."""
    joined: str = ""
    """A list of references to which a member's controllers add; it is applied whole."""
    names: Names = Names()

    @property
    def once(self) -> bool:
        if self.at_most_once is not None:
            return self.at_most_once
        return self.ended is not None or self.holds_data

    @property
    def lets_go(self) -> str:
        """What becomes of the pods of an object that is let go; empty if a new one has them."""
        if self.adopts or not self.known:
            return ""
        return self.orphan or (_LOST.format(with_article(self.kind)) if self.pods else "")

    @property
    def holds_data(self) -> bool:
        return self.data.always or bool(self.data.claims)

    @property
    def whole(self) -> bool:
        """Whether it has no number of replicas: one on a cluster."""
        return self.replicas is None

    @property
    def counted(self) -> bool:
        """Whether its replicas take room: those of a whole kind do with the pods that it has."""
        if self.replicas is not None:
            return True
        return bool(self.pods) and not (self.everywhere or self.ready.exists)

    @property
    def scales(self) -> bool:
        """Whether a lower number removes pods."""
        return self.known and self.replicas is not None and self.ended is None

    @property
    def ordered(self) -> bool:
        return self.replicas is not None and bool(self.replicas.ordinals)

    @property
    def replicas_path(self) -> str:
        """Empty for a whole kind."""
        return self.replicas.path if self.replicas is not None else ""

    @property
    def pod_path(self) -> str:
        """Empty without one."""
        only = self.pods[0] if len(self.pods) == 1 else None
        return only.template if only is not None and not (only.each or only.count) else ""

    @property
    def suspend_path(self) -> str:
        """Empty if an expression tells it."""
        return self.suspended if is_path(self.suspended) else ""


def with_article(kind: str) -> str:
    """Return `a Job`, `an Ingress`, `an MPIJob`, `a UnitedDeployment`."""
    return f"{'an' if _AN.match(kind) else 'a'} {kind}"


def kind_name(group: str, kind: str) -> str:
    """`raycluster.ray.io`."""
    return f"{kind.lower()}.{group}"


def conditions_of(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield each (field, condition) that is read of a member's object."""
    for at, each in enumerate(profile.ready.when):
        yield f"ready.when[{at}]", each
    yield "degraded", profile.degraded
    yield "suspended", profile.suspended
    if profile.holds is not None:
        yield "holds.when", profile.holds.when
    if profile.ended is not None:
        yield "ended.succeeded", profile.ended.succeeded
        yield "ended.failed", profile.ended.failed


def values_of(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield each (field, value), of objects and of templates."""
    yield from conditions_of(profile)
    for at, each in enumerate(profile.status_fields):
        yield f"statusFields[{at}].value", each.value
    yield from (
        ("ready.replicas", profile.ready.replicas),
        ("ready.updated", profile.ready.updated),
    )
    if profile.replicas is not None:
        yield "replicas.whole", profile.replicas.whole
    yield "suspendsWhen", profile.suspends_when
    for at, pods in enumerate(profile.pods):
        where = f"pods[{at}]"
        yield from ((f"{where}.count", pods.count), (f"{where}.placing", pods.placing))
        yield f"{where}.each", pods.each
        if pods.each:
            yield f"{where}.name", pods.name
        for name, amount in (pods.requests or {}).items():
            yield f"{where}.requests.{name}", amount
