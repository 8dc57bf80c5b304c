"""WorkloadKind: what a kind of workload is, for kinds that Stowage does not know by itself.

The spec is an administrator's, and holds for the whole hub: it takes the place of a built-in
profile of the same kind, whole. A value is a path of names, such as `spec.replicas`, or an
expression in CEL. `machinery.kinds.profile` reads it. The whole status has one writer, the
controller. `crds/workloadkind.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import Condition, Count, DnsName, Flag, Int64, Kind, Model, Rule, atomic, listmap
from crds.names import GROUP, RESERVED_GROUPS, Edits, TtlWhen

MOST_PODS, MOST_CONDITIONS, MOST_PATHS, MOST_REQUESTS = 16, 8, 16, 16
LONGEST_VALUE, LONGEST_WORDS = 1024, 256
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_QUOTED = r"\[\"[^\"\\]{1,253}\"\]"
_STEP = rf"(\.{_NAME}|{_QUOTED})"
PATH = rf"^(spec|status|metadata|item){_STEP}*$"
STRIPPED = rf"^(spec|metadata){_STEP}({_STEP}|\[\*\])*$"
IGNORED = rf"^(spec|metadata\.(labels|annotations)){_STEP}({_STEP}|\[\*\])*$"
VALUE = (
    r"^(object|spec|status|metadata|item|key|conditions)([^A-Za-z0-9_][\s\S]*)?$"
    r"|^[0-9]+$|[^A-Za-z0-9_.\"\[\]]"
)
"""A path begins with a variable; whether anything else compiles, the controller says."""

Path = Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE, pattern=PATH)]
Stripped = Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE, pattern=STRIPPED)]
Ignored = Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE, pattern=IGNORED)]
Value = Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE, pattern=VALUE)]


class WorkloadKindCondition(StrEnum):
    """The condition types of a WorkloadKind."""

    VALID = "Valid"
    """Whether the profile can be used."""


class WorkloadKindValidReason(StrEnum):
    """Reasons of Valid. VALID is the one that is good."""

    VALID = "Valid"
    """Every path and expression can be read."""
    INVALID_EXPRESSION = "InvalidExpression"
    """An expression does not compile; the message names the field."""
    INVALID_PATH = "InvalidPath"
    """A field is no path, or of another form; the message names it."""


class ReplicasOfKind(Model):
    """Where the number of replicas is."""

    path: Path
    """The field that the propagator writes."""
    total: Path | None = None
    """The work that is divided with the replicas, such as completions."""
    ordinals: Path | None = None
    """Where the first ordinal of the pods is."""
    whole: Value | None = None
    """The condition on which the replicas are not divided."""


def _one_of_both(pods: Any) -> bool:
    return (pods.template is None) != (pods.requests is None)


class PodsOfKind(Model):
    """Pods of one replica, or of the whole object where the kind has no replicas."""

    rules = (
        Rule(
            field="template",
            text="give template or requests, and one of the two",
            cel="has(self.template) != has(self.requests)",
            holds=_one_of_both,
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE)] | None = None
    """What they are called; with `each` a value of the element."""
    each: Value | None = None
    """A list or map of at most 64 elements: `item` is the element, `key` its key."""
    count: Value | None = None
    """How many pods; without it one."""
    template: Path | None = None
    """The pod template."""
    otherwise: Annotated[Path | None, Field(alias="or")] = None
    """The pod template where that one is missing."""
    requests: Annotated[dict[str, Value], Field(max_length=MOST_REQUESTS)] | None = None
    """The amounts of one pod, where there is no template of it."""
    placing: Value | None = None
    """An object with nodeSelector, tolerations and affinity of these pods."""
    labels: Path | None = None
    """Where the labels of these pods are set, if there is no template of them."""


def _alone(ready: Any) -> bool:
    return not (ready.exists and (ready.when or ready.replicas))


class ReadyOfKind(Model):
    """When an object is ready."""

    rules = (
        Rule(
            field="exists",
            text="existence says all: leave when and replicas out",
            cel="!has(self.exists) || !self.exists"
            " || !((has(self.when) && size(self.when) > 0) || has(self.replicas))",
            holds=_alone,
        ),
    )

    observed_generation: Annotated[str, Field(max_length=LONGEST_VALUE, pattern=f"^$|{PATH}")] = (
        "status.observedGeneration"
    )
    """The generation that the status is about; empty where the kind does not tell one."""
    replicas: Value | None = None
    """The number of ready replicas; without it all are ready or none."""
    updated: Value | None = None
    """The number of replicas of the newest template."""
    when: list[Value] = atomic(MOST_CONDITIONS)
    """Conditions that must all hold."""
    exists: Flag = False
    """Whether it is ready when it exists."""


class EndOfKind(Model):
    """How an object ends."""

    succeeded: Value
    """The condition on which it has ended well."""
    failed: Value
    """The condition on which it has failed."""
    ttl: Path | None = None
    """The field by which a member removes it after its end."""
    ttl_when: TtlWhen = TtlWhen.ENDED
    """Ended: once its end is stored on the hub. Created: at once. Never: not at all."""
    delete_failed: Flag = False
    """Whether what failed would run again by itself: it is deleted once its end is stored."""


def _one_at_most(data: Any) -> bool:
    return not (data.claims and data.always)


class DataOfKind(Model):
    """What holds the data of replicas."""

    rules = (
        Rule(
            field="claims",
            text="give claims or always, and not both",
            cel="!has(self.claims) || !has(self.always) || !self.always",
            holds=_one_at_most,
        ),
    )

    claims: Stripped | None = None
    """The templates of the claims of each replica; `[*]` is each element of a list."""
    go_with_replicas: Flag = False
    """Whether its controller deletes the claims of a replica that a lower number removes: a scale
    to 0 is refused then, unless spec.movement.data is Leave."""
    always: Flag = False
    """Whether it has data wherever it is."""


class HoldOfKind(Model):
    """On which condition an object stays where it is, as a new one would lack what it knows."""

    when: Value
    """The condition."""
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_WORDS)]
    """What comes of a new one, in words for Moving."""


class NamesOfKind(Model):
    """The names of objects."""

    max: Annotated[int, Field(strict=True, ge=1, le=253)] = 253
    """Characters: the names of its pods are made of it."""


class FieldOfKind(Model):
    """A value of a member's object that is told on the hub."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
    """Its name in status.clusters[].fields; one of a Workload's own statusFields goes before it."""
    value: Value
    """A text, a number or true and false. A text of more than 256 characters is cut."""


class WarningOfKind(Model):
    """What plan says where an edit changes a field."""

    path: Path
    """The field."""
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_WORDS)]
    """What comes of it."""


def _ignores_none_of_ours(spec: Any) -> bool:
    taken = ["spec.selector", *([spec.replicas.path] if spec.replicas else [])]
    return not any(
        f"{GROUP}/" in path
        or any(path == own or own.startswith(f"{path}.") for own in taken)
        or path.startswith("spec.selector.")
        for path in spec.ignore_fields
    )


def _group_is_free(spec: Any) -> bool:
    return spec.group not in RESERVED_GROUPS


class WorkloadKindSpec(Model):
    """What is known of the kind."""

    rules = (
        Rule(
            field="group",
            text=f"the kinds of {', '.join(RESERVED_GROUPS)} are built in",
            cel=f"!(self.group in {list(RESERVED_GROUPS)})",
            holds=_group_is_free,
        ),
        Rule(
            field="ignoreFields",
            text=f"the replicas, the selector, and what is of {GROUP}, are Stowage's to set",
            cel="!has(self.ignoreFields) || self.ignoreFields.all(p, p != 'spec.selector'"
            f" && !p.startsWith('spec.selector.') && !p.contains('{GROUP}/')"
            " && (!has(self.replicas) || (p != self.replicas.path"
            " && !self.replicas.path.startsWith(p + '.'))))",
            holds=_ignores_none_of_ours,
        ),
    )

    group: DnsName
    """Its API group."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
    """Its kind."""
    versions: Annotated[
        list[Annotated[str, Field(pattern=r"^v[a-z0-9]+$", max_length=63)]],
        Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ]
    """The versions that this is true of; another one is an unknown kind."""
    replicas: ReplicasOfKind | None = None
    """Without it the object runs whole, one replica on a cluster."""
    pods: list[PodsOfKind] = atomic(MOST_PODS)
    """Without any no room is counted."""
    ready: ReadyOfKind | None = None
    """Without it the condition Ready tells."""
    degraded: Value | None = None
    """The condition on which something is wrong."""
    ended: EndOfKind | None = None
    """Without it the object runs until it is deleted."""
    suspended: Value | None = None
    """The field that suspends it, or the condition on which it is."""
    suspends_when: Value | None = None
    """The condition on which it outlives a suspension: any other template that asks for one is
    refused."""
    at_most_once: Flag | None = None
    """Whether a replica never runs on two clusters; by default where it ends or has data."""
    data: DataOfKind | None = None
    """Without it replicas may leave a cluster without asking their author."""
    holds: HoldOfKind | None = None
    """While it holds for an object, its replicas stay as those with data do."""
    adopts: Flag = False
    """Whether its controller takes up the pods that an object of its name left."""
    orphan: Annotated[str, Field(min_length=1, max_length=LONGEST_WORDS)] | None = None
    """What becomes of the pods of an object that is let go and made again, in words for plan."""
    immutable: list[Path] = atomic(MOST_PATHS)
    """Fields that an existing object keeps as created."""
    edits: Edits = Edits.ROLLED
    """What an edited pod template does to pods that run."""
    warns: list[WarningOfKind] = atomic(MOST_PATHS)
    """What plan says of edits of other fields."""
    ignore_fields: list[Ignored] = atomic(MOST_PATHS)
    """Fields that are the member's once another client has written them there."""
    status_fields: list[FieldOfKind] = listmap("name", most=16)
    """Values of a member's object that stand in status.clusters[].fields."""
    strip: list[Stripped] = atomic(MOST_PATHS)
    """Fields that are never sent; `[*]` is each element of a list."""
    names: NamesOfKind | None = None
    """Without it a name has 253 characters at most."""


class WorkloadKindStatus(Model):
    """Whether the kind is in use. Writer of every field: controller."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Valid. Writer: controller."""
    workloads: Count | None = None
    """How many Workloads are of the kind. Writer: controller."""


def _is_named_so(thing: Any) -> bool:
    name = thing.metadata.get("name")  # a spec alone has none
    return name is None or bool(name == f"{thing.spec.kind.lower()}.{thing.spec.group}")


class WorkloadKind(Kind):
    """What a kind of workload is: its replicas, its pods, when it is ready, how it ends."""

    rules = (
        Rule(
            field="metadata.name",
            text="must be <kind in lower case>.<group>, as raycluster.ray.io",
            cel="self.metadata.name == self.spec.kind.lowerAscii() + '.' + self.spec.group",
            holds=_is_named_so,
            located=False,
        ),
    )

    plural = "workloadkinds"
    short = "wk"
    namespaced = False
    columns = (
        ("Kind", "string", ".spec.kind", 0),
        ("Group", "string", ".spec.group", 0),
        ("Versions", "string", ".spec.versions", 0),
        ("Valid", "string", '.status.conditions[?(@.type=="Valid")].status', 0),
        ("Workloads", "integer", ".status.workloads", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["WorkloadKind"] = "WorkloadKind"
    spec: WorkloadKindSpec
    """What is known of the kind."""
    status: WorkloadKindStatus | None = None
    """Whether it is in use."""
