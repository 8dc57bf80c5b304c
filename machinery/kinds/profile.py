"""What Stowage knows of one kind, as data: where its numbers are, what it runs, how it ends.

A profile holds paths and words, and no code, so that one that somebody wrote as an object can stand
beside those that come with Stowage (`builtin`). `templates` reads a template by it, `readiness`
an object of a member. A kind without a profile has the careful one: nothing is written into it, no
room is counted for it, and nothing is taken for ready but its condition Ready.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from machinery.kinds.paths import Equals


class Replicas(msgspec.Struct, frozen=True, eq=False):
    """Where the number of replicas stands. A kind without one runs whole, once on a cluster."""

    path: str
    total: str = ""
    """The work that is divided with the replicas, such as the completions of a Job."""
    ordinals: str = ""
    """Where the first ordinal stands, of a kind that counts its pods, and loses the last first."""
    whole: Equals | None = None
    """While it holds the replicas are not divided."""


class Pods(msgspec.Struct, frozen=True, eq=False):
    """One sort of pods of a replica, by the path of their template."""

    template: str
    name: str = ""


class Naming(StrEnum):
    """How the object that controls the pods is named after the one of the template."""

    SAME = "Same"
    TEMPLATE_HASH = "TemplateHash"
    NUMBER = "Number"


class Maker(msgspec.Struct, frozen=True, eq=False):
    """The controller in the owner references of the pods."""

    group: str
    kind: str
    named: Naming = Naming.SAME


class When(msgspec.Struct, frozen=True, eq=False):
    """Holds while the condition of that type has that status, and that reason where one is given.

    A condition of an older generation holds nothing.
    """

    condition: str
    status: str = "True"
    reason: str = ""


class Ready(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """When replicas are ready."""

    observed_generation: str = "status.observedGeneration"
    """The generation that the counts are about; empty: they are always of the present one."""
    replicas: str = ""
    """The number that is ready; without it all or none are."""
    updated: str = ""
    """The number of the newest template; without it all that are ready."""
    present: str = ""
    """The number that is there, of whatever template: more than updated ones are outdated."""
    wanted: str = ""
    """The number that the kind's own controller wants: the copy is ready when that many are."""
    when: tuple[When, ...] = ()
    """All must hold."""
    unless: tuple[When, ...] = ()
    """None may hold."""
    exists: bool = False
    """It is ready when it exists."""
    replaces: bool = False
    """While it replaces old replicas these are among the ready ones, and last no longer."""
    at_rest: tuple[str, ...] = ()
    """The reasons of Progressing with which it goes on with old ones."""


class End(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How it comes to an end."""

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
    """False for the careful answer."""
    replicas: Replicas | None = None
    everywhere: bool = False
    """Every cluster that matches runs it."""
    pods: tuple[Pods, ...] = ()
    made_by: Maker | None = None
    """Without one its pods are known by their label and their namespace alone."""
    ready: Ready = Ready()
    degraded: tuple[When, ...] = ()
    ended: End | None = None
    suspended: str = ""
    once: bool = False
    """Whether no replica is made twice unless the Workload says otherwise."""
    once_when: Equals | None = None
    """Or in which case."""
    claims: str = ""
    """The templates of the claims that hold the data of each replica."""
    service: str = ""
    """The name of the Service that governs its pods."""
    immutable: tuple[str, ...] = ()
    """The parts that stay as they were made."""
    longest_name: int = 253

    @property
    def whole(self) -> bool:
        """Whether it has no number of replicas: one on a cluster."""
        return self.replicas is None

    @property
    def scales(self) -> bool:
        """Whether its object tells how many pods it keeps: it loses some by a lower number.

        What ends does not: a lower number of pods at once leaves as much to do.
        """
        return self.known and self.replicas is not None and self.ended is None

    @property
    def ordered(self) -> bool:
        """Whether it loses the highest ordinal first, whether its pod is ready or not."""
        return self.replicas is not None and bool(self.replicas.ordinals)

    @property
    def replicas_path(self) -> str:
        """Where the number of replicas stands; empty for a whole kind."""
        return self.replicas.path if self.replicas is not None else ""

    @property
    def pod_path(self) -> str:
        """Where the template of its only sort of pods stands; empty without one."""
        return self.pods[0].template if len(self.pods) == 1 else ""
