"""The Workloads of the output: each holds one object that runs pods, as its template.

A system's module asks for the Workload of an object (`Workloads.of`), and adds the fields of its
own kinds. Built-in kinds stay as they are; a system brings a `Template` for each of its kinds. What
other systems read from pods, a label and the scheduler's name, is the Workload's here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.names import API_VERSION, BINDING_LABELS, DEFAULT_SCHEDULER
from machinery.kinds.profile import with_article
from stowage.hub import SERVER_METADATA
from stowage.importing.clusters import Fleet, facts
from stowage.importing.fates import Table, lost, whole
from stowage.importing.fields import DocumentPart, Notes, keep, walk
from stowage.importing.pieces import Placed
from stowage.importing.reading import Bundle, Source, dig
from stowage.importing.shapes import shapes

Template = Callable[[DocumentPart], dict[str, Any]]
"""Makes the spec of a built-in kind from the spec of the input."""

_WRITTEN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)


_ORDER = (
    "replicas",
    "schedulerName",
    "clusterAffinity",
    "targetDeployment",
    "template",
    "replicasPath",
    "targetService",
    "manifests",
    "resources",
)
"""The order of the fields of a Workload's spec."""


@dataclass(frozen=True, slots=True)
class Form:
    """The kind that an object becomes inside of a Workload."""

    api_version: str
    kind: str
    convert: Template = DocumentPart.all


BUILT_IN: Mapping[tuple[str, str], Form] = {
    ("apps", "Deployment"): Form("apps/v1", "Deployment"),
    ("apps", "StatefulSet"): Form("apps/v1", "StatefulSet"),
    ("apps", "ReplicaSet"): Form("apps/v1", "ReplicaSet"),
    ("batch", "Job"): Form("batch/v1", "Job"),
}


@dataclass(eq=False, slots=True)
class Made:
    """A Workload of the output, and its source."""

    source: Source
    body: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.body["spec"]
        return spec

    def finished(self) -> dict[str, Any]:
        return self.body | {"spec": {key: self.spec[key] for key in _ORDER if key in self.spec}}

    @property
    def template(self) -> dict[str, Any]:
        """The object in it that runs the pods."""
        template: dict[str, Any] = self.spec.get("targetDeployment") or self.spec["template"]
        return template

    @property
    def pod(self) -> dict[str, Any]:
        """The pod template; empty for a custom kind."""
        pod = dig(self.template, "spec", "template")
        return pod if isinstance(pod, dict) else {}

    @property
    def labels(self) -> dict[str, Any]:
        labels = dig(self.pod, "metadata", "labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def bound(self) -> bool:
        """Whether a label of it, its template or its pods names a policy, which divides it."""
        places = (dig(each, "metadata", "labels") for each in (self.body, self.template, self.pod))
        known = [labels for labels in places if isinstance(labels, dict)]
        return any(labels.get(key) for labels in known for key in BINDING_LABELS)


@dataclass(eq=False, slots=True)
class Workloads:
    """The Workloads of the output, in the order in which they were asked for."""

    bundle: Bundle
    notes: Notes
    forms: Mapping[tuple[str, str], Form]
    made: dict[Source, Made] = field(default_factory=dict)

    def of(self, source: Source, replicas_path: str | None = None) -> Made:
        """Return the Workload of that object; `replicas_path` is that of a custom kind's units."""
        if source not in self.made:
            source.taken = True
            self.made[source] = Made(source, self._make(source, replicas_path))
        return self.made[source]

    def _make(self, source: Source, replicas_path: str | None) -> dict[str, Any]:
        part = DocumentPart(source.document, self.notes, source.document.body)
        form = self.forms.get((source.group, source.kind))
        part.skip("kind")
        if form and part.get("apiVersion", str) != form.api_version:
            part.note("apiVersion", f"is {with_article(form.kind)} of {form.api_version} now")
        metadata = metadata_of(part)
        metadata.pop("namespace", None)
        part.demand("spec")
        spec = part.part("spec")
        template = {
            "apiVersion": form.api_version if form else part.need("apiVersion", str),
            "kind": form.kind if form else source.kind,
            "metadata": metadata,
            "spec": form.convert(spec) if form else spec.all(),
        }
        drop_status(part)
        part.account()
        return assembled(source, template, part, None if form else replicas_path)


def assembled(
    source: Source, template: dict[str, Any], part: DocumentPart, replicas_path: str | None
) -> dict[str, Any]:
    """Return the Workload around a template."""
    spec: dict[str, Any] = {}
    if template["kind"] != "Job" and replicas_path is None and "replicas" in template["spec"]:
        spec["replicas"] = template["spec"].pop("replicas")
        where = "is spec.replicas of the Workload now: scale that one, by hand or by an HPA"
        part.notes.note(source.document, "spec.replicas", where)
    if replicas_path is not None:
        spec["replicasPath"] = replicas_path
    spec["targetDeployment" if template["kind"] == "Deployment" else "template"] = template
    return ours("Workload", source, {"name": source.name}, spec)


def ours(
    kind: str, source: Source, metadata: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an object of our kinds, in the namespace of its source."""
    named = {"name": metadata["name"]}
    if source.namespace:
        named["namespace"] = source.namespace
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {**named, **{k: v for k, v in metadata.items() if k not in named}},
        "spec": dict(spec),
    }


_METADATA = {
    "name": keep(str),
    "namespace": keep(str),
    "labels": keep(dict),
    "annotations": keep(dict),
}


def metadata_of(part: DocumentPart) -> dict[str, Any]:
    """Return name, namespace, labels and annotations; fields of a server get one note."""
    metadata = part.part("metadata")
    walked = walk(metadata, _METADATA)
    made = {key: walked[key] for key in _METADATA if key in walked}
    written = [key for key in SERVER_METADATA if key in metadata]
    for key in written:
        metadata.any(key)
    annotations = made.get("annotations", {})
    written += [key for key in _WRITTEN_ANNOTATIONS if annotations.pop(key, None) is not None]
    if not annotations:
        made.pop("annotations", None)
    if written:
        said = f"{', '.join(written)}: written by the server that it comes from, left out"
        part.notes.note(part.document, "metadata", said)
    for key in ("ownerReferences", "finalizers"):
        if metadata.any(key):
            metadata.lost(key, "names something of the cluster that it comes from; it is left out")
    return made


def drop_status(part: DocumentPart) -> None:
    if part.any("status"):
        part.note("status", "is what the cluster that it comes from has seen; it is left out")


POD_SCHEDULER = "spec.template.spec.schedulerName"


def labels_of(source: Source, *path: str) -> dict[str, Any]:
    """Return the labels of an object of the input, or of the object at a path in it."""
    labels = dig(source.document.body, *path, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def named(source: Source, keys: Sequence[str], what: str) -> str:
    """Return the value of one of these labels, of the pods or the object; empty for none.

    Raises ConfigurationError where there are several values; `what` names them in the message.
    """
    places = (labels_of(source, "spec", "template"), labels_of(source))
    found = {str(each[key]) for each in places for key in keys if each.get(key) not in (None, "")}
    if len(found) > 1:
        raise source.document.error(f"labels: name several {what}: {', '.join(sorted(found))}")
    return next(iter(found), "")


def bind(
    notes: Notes, made: Made, label: str, value: str, aliases: Sequence[str], selectors: Any
) -> None:
    """Give the Workload the label; remove the aliases unless a selector uses them."""
    made.body["metadata"].setdefault("labels", {})[label] = value
    document, moved = made.source.document, f"is the label {label} of the Workload now"
    own = dig(made.template, "metadata", "labels")
    places = (
        ("spec.template.metadata.labels", made.labels),
        ("metadata.labels", own if isinstance(own, dict) else {}),
    )
    for path, labels in places:
        for key in [key for key in aliases if key in labels]:
            if any(key in str(each) for each in selectors):
                text = f"{key} {moved}; it stays, as pods are selected by it"
                notes.note(document, path, text)
            else:
                del labels[key]
                notes.note(document, path, f"{key} {moved}")


def take_scheduler(notes: Notes, made: Made, names: Collection[str]) -> str:
    """Name our scheduler in the Workload, and none of `names` in its pods.

    Return the name that the pods had; empty for none.
    """
    made.spec["schedulerName"] = DEFAULT_SCHEDULER
    pod = made.pod.get("spec")
    name = pod.get("schedulerName") if isinstance(pod, dict) else None
    if isinstance(pod, dict) and name in names:
        del pod["schedulerName"]
        text = f"{name} is spec.schedulerName: {DEFAULT_SCHEDULER} of the Workload now; pods"
        text += " get their node from the member's own scheduler"
        notes.note(made.source.document, POD_SCHEDULER, text)
    return str(name or "")


@dataclass(eq=False, slots=True)
class Conversion:
    """One import: the input, our objects, and the notes."""

    bundle: Bundle
    notes: Notes
    workloads: Workloads
    others: list[tuple[Source, dict[str, Any]]] = field(default_factory=list)
    """Our objects besides the Workloads, each with its source."""
    placed: list[Placed] = field(default_factory=list)
    """The Workloads that rules place, which are among `others` too."""

    def register(self, source: Source, body: dict[str, Any], fleet: Fleet | None = None) -> None:
        """Add the MemberCluster that a cluster of another system becomes, also to `fleet`."""
        if fleet is not None:
            fleet.labels[source.name] = facts(body)
        text = "is a registration without a credential: `stowage join` registers the member"
        self.notes.note(source.document, "metadata.name", text, becomes="metadata.name")
        self.add(source, body)

    def add(self, source: Source, body: dict[str, Any]) -> dict[str, Any]:
        self.others.append((source, body))
        return body

    def unused(self, sources: Iterable[Source], used: Collection[int], text: str) -> None:
        """Note those that nothing of the input goes by; `used` are the ids of the others."""
        for each in sources:
            if id(each) not in used:
                self.notes.unused(each.document, text)


@dataclass(frozen=True, slots=True)
class System:
    """A system whose objects can be imported."""

    name: str
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    """The versions of its kinds that the module knows; none where it takes what it finds."""
    convert: Callable[[Conversion], None]
    """Makes our objects of the system's own, and marks these as taken."""
    forms: Mapping[tuple[str, str], Form] = field(default_factory=dict)
    """The forms in a Workload of its kinds that run pods, by group and kind."""
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)
    """What becomes of the fields of its kinds, by group and kind: of a system that places objects.

    Its other kinds are lost as a whole. Without tables its module walks each object itself.
    """
    shapes: str = ""
    """The name of the data that has the shapes of its kinds."""
    instead: str = ""
    """What to do with a kind that has no counterpart."""

    def table(self, source: Source) -> Table | None:
        """Return the table of an object's kind; None where the module itself walks over it."""
        found = self.tables.get((source.group, source.kind))
        if found is None and (self.tables or self.instead) and source.group in self.groups:
            said = f"{self.name}'s {source.kind} has no counterpart here; it is left out"
            return whole(lost("; ".join(filter(None, (said, self.instead)))))
        return found

    def shape(self, source: Source) -> Any:
        """Return the shape of an object's kind; None where it is not known."""
        return shapes(self.shapes).get(f"{source.group}/{source.kind}")


def conversion(bundle: Bundle, systems: tuple[System, ...]) -> Conversion:
    """Return an empty conversion that knows the kinds of all systems.

    Raises ConfigurationError for a version that none knows.
    """
    for system in systems:
        for source in bundle.sources:
            version = str(source.document.body["apiVersion"]).rpartition("/")[2]
            if source.group not in system.groups or not system.versions:
                continue
            if version not in system.versions:
                known = ", ".join(system.versions)
                raise source.document.error(f"apiVersion: of {system.name}, {known} are known")
    notes, forms = Notes(), dict(BUILT_IN)
    for system in systems:
        forms |= system.forms
    return Conversion(bundle, notes, Workloads(bundle, notes, forms))
