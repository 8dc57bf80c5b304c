"""One kind of workload as data: the paths of its numbers, its pods, its readiness, its end.

A profile has paths and words but no code: a profile from an object can join the built-in ones.
`templates` reads a template by it, `readiness` a member's object. A kind without a profile has the
careful one: nothing is written into it, no room is counted, and only its condition Ready counts.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from machinery.kinds.paths import Equals


class Replicas(msgspec.Struct, frozen=True, eq=False):
    """The path of the number of replicas. A kind without one runs whole, once on a cluster."""

    path: str
    total: str = ""
    """The work that is divided with the replicas, such as the completions of a Job."""
    ordinals: str = ""
    """The path of the first ordinal, of a kind that numbers its pods and removes the last first."""
    whole: Equals | None = None
    """While it holds the replicas are not divided."""


class Pods(msgspec.Struct, frozen=True, eq=False):
    """One sort of pods of a replica, by the path of their template."""

    template: str
    name: str = ""


class Naming(StrEnum):
    """How the object that controls the pods is named after the template's object."""

    SAME = "Same"
    TEMPLATE_HASH = "TemplateHash"
    NUMBER = "Number"


class Maker(msgspec.Struct, frozen=True, eq=False):
    """The controller in the owner references of the pods."""

    group: str
    kind: str
    named: Naming = Naming.SAME


class When(msgspec.Struct, frozen=True, eq=False):
    """Holds while the condition of that type has that status, and that reason if given.

    A condition of an older generation does not hold.
    """

    condition: str
    status: str = "True"
    reason: str = ""


class Ready(msgspec.Struct, frozen=True, eq=False, kw_only=True):
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
    when: tuple[When, ...] = ()
    """All must hold."""
    unless: tuple[When, ...] = ()
    """None may hold."""
    exists: bool = False
    """It is ready when it exists."""
    replaces: bool = False
    """During a replacement the old replicas count as ready, but do not last."""
    at_rest: tuple[str, ...] = ()
    """The reasons of Progressing with which it keeps old replicas."""


class End(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    succeeded: When
    failed: When
    done: str = ""
    """The number of pods that have succeeded so far."""
    ttl: str = ""
    """The field by which a member removes it after its end."""


class Profile(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One kind. Profiles are compared by identity: `table` has one for each."""

    group: str
    kind: str
    versions: tuple[str, ...] = ()
    known: bool = True
    """False for the careful profile."""
    replicas: Replicas | None = None
    everywhere: bool = False
    """Every cluster that matches runs it."""
    pods: tuple[Pods, ...] = ()
    made_by: Maker | None = None
    """Without one its pods are recognized by their label and namespace alone."""
    ready: Ready = Ready()
    degraded: tuple[When, ...] = ()
    ended: End | None = None
    suspended: str = ""
    once: bool = False
    """Whether a replica never runs twice, unless the Workload says otherwise."""
    once_when: Equals | None = None
    """The case in which `once` applies, too."""
    claims: str = ""
    """The templates of the claims that hold the data of each replica."""
    service: str = ""
    """The name of the Service that governs its pods."""
    immutable: tuple[str, ...] = ()
    joined: str = ""
    """A list of references to which a member's own controllers add, and that is applied whole."""
    longest_name: int = 253

    @property
    def whole(self) -> bool:
        """Whether it has no number of replicas: one on a cluster."""
        return self.replicas is None

    @property
    def scales(self) -> bool:
        """Whether a lower number removes pods.

        Not for a kind that ends: fewer pods at once leave the same work.
        """
        return self.known and self.replicas is not None and self.ended is None

    @property
    def ordered(self) -> bool:
        """Whether it removes the highest ordinal first, ready or not."""
        return self.replicas is not None and bool(self.replicas.ordinals)

    @property
    def replicas_path(self) -> str:
        """The path of the number of replicas; empty for a whole kind."""
        return self.replicas.path if self.replicas is not None else ""

    @property
    def pod_path(self) -> str:
        """The path of the template of its only sort of pods; empty without one."""
        return self.pods[0].template if len(self.pods) == 1 else ""
