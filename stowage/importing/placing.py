"""Objects that a rule of another system places become Workloads.

Each object that runs replicas is a Workload; what belongs to one of them alone goes along with it:
a Service that selects its pods, what its pods name, its Ingresses, budgets and autoscalers. The
rest of a rule is one Workload without replicas, on each cluster that the rule chooses.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.admission.carried import GUARDED_GROUPS, GUARDED_KINDS, KIND_LIMIT
from crds.admission.validation import rights_needed
from crds.names import GROUP, forbidden_namespace
from machinery.kinds import stripped
from machinery.kinds.profile import Profile
from machinery.kinds.table import profile_of
from stowage.importing import pods
from stowage.importing.clusters import Clusters, Fleet, by_names
from stowage.importing.differing import Change, Differences, differences, named_apart
from stowage.importing.fates import SERVER, at
from stowage.importing.pieces import AUTOSCALERS, Piece, Placed
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, ours

MOST_MANIFESTS = 64
_RULES_OF_REPLICAS = ("distributionWeights", "packing", "replicas", "movement")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_UNKNOWN = (
    "which clusters get this number is not certain without the clusters: add the clusters to the"
    " input, or name them"
)
_FORCED_PATHS = {
    ("apps.kruise.io", "UnitedDeployment"): "spec.replicas",
    ("apps.kruise.io", "BroadcastJob"): "spec.parallelism",
}
"""Where kinds without a profile have their number of replicas."""
ORDER = (
    "replicas",
    "distribution",
    "schedulerName",
    "priority",
    "distributionWeights",
    "packing",
    "spreadConstraints",
    "targetCluster",
    "clusterSelector",
    "clusterAffinity",
    "tolerations",
    "targetNamespace",
    "targetDeployment",
    "template",
    "replicasPath",
    "manifests",
    "resources",
    "dependencies",
    "overrides",
    "adoption",
    "ignoreFields",
    "drift",
    "onDelete",
    "movement",
    "rollout",
    "delivery",
)


@dataclass(eq=False, slots=True)
class Placement:
    """A rule, as the fields of a Workload's spec, and the objects that it places."""

    source: Source
    name: str
    namespace: str
    """Of the Workload of the rest."""
    rules: Mapping[str, Any]
    terms: Sequence[Clusters] = ()
    """The clusters that it may choose, ORed; none for every one."""
    pieces: list[Piece] = field(default_factory=list)
    changes: Callable[[Piece], Sequence[Change]] = lambda _: ()
    suffix: str = ""
    """Added to a name that another Workload has too."""
    divided: Callable[[int], Mapping[str, int] | None] = lambda _: None
    """The shares of so many replicas, where they are certain."""


@dataclass(slots=True)
class Rules:
    """Reads the rules of a system."""

    into: Conversion
    fleet: Fleet
    used: set[int] = field(default_factory=set)
    """The ids of the objects that something of the input goes by."""

    def lost(self, source: Source, path: str, text: str) -> None:
        self.into.notes.lost(source.document, path, text)

    def note(self, source: Source, path: str, text: str, becomes: str = "") -> None:
        self.into.notes.note(source.document, path, text, becomes=becomes)


@dataclass(slots=True)
class Placer:
    """Makes Workloads of placements; `marks` says which labels and annotations are a peer's own."""

    into: Conversion
    fleet: Fleet
    marks: Callable[[str], bool] = lambda _: False
    paths: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Where custom kinds of the input have their number of replicas."""
    made: list[Placed] = field(default_factory=list)

    # --- what runs replicas, and what goes along with it ------------------------------------------

    def place(self, placement: Placement) -> None:
        """Make the Workloads of one placement."""
        mains: list[Piece] = []
        others: list[Piece] = []
        for piece in sorted(placement.pieces, key=lambda each: each.key):
            if not self._possible(piece):
                continue
            (mains if self.runs(piece) else others).append(piece)
        owned = _owned(mains, others)
        for piece in mains:
            along = [each for each in others if owned.get(id(each)) == [piece]]
            secrets = [s for s in others if _secret(s) and piece in owned.get(id(s), ())]
            self._main(placement, piece, [each for each in along if not _secret(each)], secrets)
        rest = [each for each in others if len(owned.get(id(each), ())) != 1]
        rest = [each for each in rest if not (_secret(each) and owned.get(id(each)))]
        self._rest(placement, rest)

    def runs(self, piece: Piece) -> bool:
        """Whether an object is a Workload of its own."""
        if (piece.group, piece.kind) in (*self.paths, *_FORCED_PATHS):
            return True
        profile = self._profile(piece)
        return profile.known and bool(profile.pods or profile.replicas or profile.ended)

    def _profile(self, piece: Piece) -> Profile:
        return profile_of(piece.body.get("apiVersion"), piece.kind, self._path(piece))

    def _path(self, piece: Piece) -> str:
        """Return where the number of a kind is that has no profile of ours; empty for others."""
        key = (piece.group, piece.kind)
        if profile_of(piece.body.get("apiVersion"), piece.kind).known:
            return ""
        return self.paths.get(key) or _FORCED_PATHS.get(key, "")

    def _possible(self, piece: Piece) -> bool:
        say = self.into.notes.lost
        place = piece.source.document, piece.path
        if forbidden_namespace(piece.namespace) or (
            piece.kind == "Namespace" and piece.group == "" and forbidden_namespace(piece.name)
        ):
            say(*place, "is of kube-* or stowage-system, to which no Workload writes; left out")
        elif piece.group == GROUP or piece.group.endswith(f".{GROUP}"):
            say(*place, "is one of Stowage's own kinds, which no Workload brings along")
        elif not piece.kind or not isinstance(piece.body.get("apiVersion"), str):
            say(*place, "has no apiVersion and kind")
        elif self.runs(piece) and not isinstance(piece.body.get("spec"), dict):
            say(*place, "has no spec")
        elif not _NAME.fullmatch(piece.name):
            say(*place, f"the name {piece.name!r:.60} can be no name of an object that goes along")
        else:
            return True
        return False

    # --- a Workload -------------------------------------------------------------------------------

    def _main(
        self,
        placement: Placement,
        piece: Piece,
        along: Sequence[Piece],
        secrets: Sequence[Piece],
    ) -> None:
        template = self.cleaned(piece)
        path = self._path(piece)
        profile = self._profile(piece)
        replicas = profile.replicas.path if profile.replicas else ""
        rules = dict(placement.rules)
        if not profile.replicas or _job(piece):
            rules.pop("rollout", None)
        if not profile.replicas:
            for key in _RULES_OF_REPLICAS:
                rules.pop(key, None)
            if rules.get("distribution") == "Divided":
                rules["distribution"] = "Duplicated"
        found = self._differences(placement, piece, template, replicas)
        spec: dict[str, Any] = dict(rules)
        self._numbers(placement, piece, template, spec, found, replicas)
        if replicas == "spec.replicas" and "replicas" not in spec:
            number = dig(template, "spec", "replicas")
            if isinstance(number, int):
                spec["replicas"] = number
        if replicas == "spec.replicas":
            template["spec"].pop("replicas", None)
        where = (
            "targetDeployment"
            if (piece.group, piece.kind) == ("apps", "Deployment")
            else "template"
        )
        spec[where] = template
        if path:
            spec["replicasPath"] = path
        placed = self._workload(placement, piece.namespace, piece.name, spec, piece)
        self._carry(placement, placed, piece, f"spec.{where}")
        overrides = list(found.overrides)
        overrides += self._along(placement, placed, along)
        self._secrets(placement, placed, secrets)
        self._finish(placed, overrides)

    def _rest(self, placement: Placement, pieces: Sequence[Piece]) -> None:
        secrets = [each for each in pieces if _secret(each)]
        chunks = list(_chunks([each for each in pieces if not _secret(each)]))
        if not chunks:
            for each in secrets:
                text = "a Secret goes along with what else is placed, and nothing is; left out"
                self.into.notes.lost(each.source.document, each.path, text)
            return
        rules = {k: v for k, v in placement.rules.items() if k not in _RULES_OF_REPLICAS}
        if rules.get("distribution") == "Divided":
            rules["distribution"] = "Duplicated"
        for n, chunk in enumerate(chunks):
            name = placement.name if not n else f"{placement.name}-{n + 1}"
            placed = self._workload(placement, placement.namespace, name, dict(rules), None)
            overrides = self._along(placement, placed, chunk)
            self._secrets(placement, placed, [] if n else secrets)
            self._finish(placed, overrides)

    def _workload(
        self,
        placement: Placement,
        namespace: str,
        name: str,
        spec: dict[str, Any],
        main: Piece | None,
    ) -> Placed:
        source = main.source if main else placement.source
        body = ours("Workload", source, {"name": name}, spec)
        body["metadata"].pop("namespace", None)
        if namespace:
            body["metadata"]["namespace"] = namespace
        rule = placement.source
        placed = Placed(source, body, main, placement.suffix, rule, [rule.document])
        self.made.append(placed)
        return placed

    def _along(
        self, placement: Placement, placed: Placed, pieces: Sequence[Piece]
    ) -> list[dict[str, Any]]:
        """Put objects into spec.manifests. Return the overrides of them."""
        overrides: list[dict[str, Any]] = []
        own = placed.body["metadata"].get("namespace", "")
        for piece in pieces:
            body = self.cleaned(piece)
            if piece.namespace and piece.namespace != own:
                body["metadata"]["namespace"] = piece.namespace
            target = {"kind": piece.kind, "name": piece.name}
            found = self._differences(placement, piece, body, "", target)
            overrides += found.overrides
            listed = placed.body["spec"].setdefault("manifests", [])
            listed.append(body)
            placed.pieces.append(piece)
            self._carry(placement, placed, piece, f"spec.manifests[{len(listed) - 1}]")
            if piece.kind in AUTOSCALERS and placed.main is not None:
                text = "no Workload runs with an autoscaler of its own object: take it out of"
                more = (
                    f"spec.manifests, and have it scale the Workload {placed.main.name} on the hub"
                )
                at_ = piece.at("spec.scaleTargetRef")
                self.into.notes.note(piece.source.document, at_, f"{text} {more}")
        return overrides

    def _secrets(self, placement: Placement, placed: Placed, secrets: Sequence[Piece]) -> None:
        for each in secrets:
            for change in placement.changes(each):
                text = f"the Secret {each.name} is the hub's, and the same on every cluster"
                self.into.notes.lost(change.document, change.path, text)
            placed.body["spec"].setdefault("resources", []).append({"name": each.name})
            placed.secrets.append(each)
            text = "is not printed: apply it to the hub; spec.resources of the Workload names it"
            self.into.notes.note(each.source.document, each.path, text)

    def _finish(self, placed: Placed, overrides: Sequence[dict[str, Any]]) -> None:
        spec = placed.body["spec"]
        if overrides:
            spec["overrides"] = named_apart(overrides)
        placed.body["spec"] = {
            key: _in_order(spec[key]) if key in _AS_GIVEN else spec[key]
            for key in ORDER
            if key in spec
        }

    def _carry(self, placement: Placement, placed: Placed, piece: Piece, where: str) -> None:
        placed.documents.append(piece.source.document)
        placed.documents += [change.document for change in placement.changes(piece)]
        self.into.notes.carry(piece.source.document, piece.path, where)
        piece.source.taken = True

    def _differences(
        self,
        placement: Placement,
        piece: Piece,
        body: dict[str, Any],
        replicas: str,
        target: Any = None,
    ) -> Differences:
        changes = placement.changes(piece)
        notes, fleet = self.into.notes, self.fleet
        return differences(body, changes, notes, fleet, replicas_path=replicas, target=target)

    # --- numbers ----------------------------------------------------------------------------------

    def _numbers(
        self,
        placement: Placement,
        piece: Piece,
        template: Mapping[str, Any],
        spec: dict[str, Any],
        found: Differences,
        replicas: str,
    ) -> None:
        """Turn numbers of replicas on some clusters into bounds of their shares."""
        if not found.numbers or (by := found.numbered_by) is None:
            return
        base = dig(template, *replicas.split("."))
        shares = self._shares(placement, spec, found, base if isinstance(base, int) else 1)
        if isinstance(shares, str):
            text = f"/{replicas.replace('.', '/')}: {shares}"
            self.into.notes.lost(by.document, by.path, text)
            return
        spec |= fixed(shares)
        text = f"{piece.kind} {piece.name}: is minReplicas and maxReplicas of these clusters now"
        self.into.notes.note(by.document, by.path, text, becomes="spec.distributionWeights")

    def _shares(
        self, placement: Placement, spec: Mapping[str, Any], found: Differences, base: int
    ) -> dict[str, int] | str:
        """Return the replicas of each cluster, or why they are not certain."""
        names = self.fleet.among(placement.terms)
        if names is None or spec.get("spreadConstraints"):
            return _UNKNOWN
        usual: Mapping[str, int] | None = None
        if spec.get("distribution") == "Divided":
            usual = placement.divided(base)
        shares: dict[str, int] = {}
        for name in names:
            number: int | None = None
            for clusters, said in found.numbers:
                there = self.fleet.matches(clusters, name)
                if there is None:
                    return _UNKNOWN
                number = said if there else number
            if number is None:
                number = base if spec.get("distribution") != "Divided" else (usual or {}).get(name)
            if number is None:
                return f"how many replicas {name} has beside them is not certain: say it as well"
            shares[name] = number
        return shares

    # --- the objects themselves -------------------------------------------------------------------

    def cleaned(self, piece: Piece) -> dict[str, Any]:
        """Return the object as a Workload carries it: without what a server or a peer wrote."""
        body = copy.deepcopy(piece.body)
        self._quiet(piece, body, "status")
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        for key in [*metadata]:
            if key not in ("name", "labels", "annotations"):
                del metadata[key]
                text = "is that of the Workload" if key == "namespace" else SERVER
                self._note(piece, at(piece.at("metadata"), key), text)
        for kind in ("labels", "annotations"):
            said = metadata.get(kind)
            keys = said if isinstance(said, dict) else {}
            for key in [*keys]:
                if self.marks(key) or key in stripped.ANNOTATIONS:
                    del keys[key]
                    self._note(piece, at(piece.at(f"metadata.{kind}"), key), SERVER)
            if not keys:
                metadata.pop(kind, None)
        before = copy.deepcopy(body)
        stripped.unbind(body)
        for key in ("spec", "metadata", "secrets"):
            for path in _gone(before.get(key), body.get(key), key):
                self._note(piece, piece.at(path), SERVER)
        first = {k: body[k] for k in ("apiVersion", "kind", "metadata")}
        return first | {k: v for k, v in body.items() if k not in first}

    def _quiet(self, piece: Piece, body: dict[str, Any], field: str) -> None:
        if field in body:
            del body[field]
            self._note(piece, piece.at(field), "is what a cluster has seen; left out")

    def _note(self, piece: Piece, path: str, text: str) -> None:
        self.into.notes.note(piece.source.document, path, text, quiet=True)

    # --- the end ----------------------------------------------------------------------------------

    def done(self) -> list[Placed]:
        """Name the Workloads apart, add them to the output, and tell the rights they need."""
        for placed in named(self.made):
            name = placed.body["metadata"]["name"]
            wanted = placed.main.name if placed.main else name
            if name != wanted and placed.main:
                text = f"is the Workload {name}: another one has the name {wanted}"
                self.into.notes.note(placed.source.document, placed.main.at("metadata.name"), text)
            self.into.add(placed.source, placed.body)
            self.into.placed.append(placed)
            self._rights(placed)
        return self.made

    def _rights(self, placed: Placed) -> None:
        workload = {**placed.body, "metadata": {"namespace": "", **placed.body["metadata"]}}
        needed = [str(each) for each in rights_needed(workload)]
        if needed:
            said = placed.body["metadata"]
            text = (
                f"the author of the Workload {said['name']} needs on the hub: {'; '.join(needed)}"
            )
            kinds = sorted({kind for piece in placed.pieces for kind in _guarded(piece)})
            if kinds:
                text += f"; and each member lists in spec.allowedKinds: {', '.join(kinds)}"
            self.into.notes.note(placed.source.document, "metadata", text)


_AS_GIVEN = ("targetDeployment", "template", "manifests", "overrides", "tolerations")
"""Fields with values of the input, whose keys come in the order of whoever printed it."""
_FIRST = ("apiVersion", "kind", "metadata", "name")


def _in_order(value: Any) -> Any:
    """Return a value whose keys are in one order, whatever their order in the input."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (key not in _FIRST, key))
        return {key: _in_order(value[key]) for key in keys}
    return [_in_order(each) for each in value] if isinstance(value, list) else value


def _gone(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict):
        inner = after if isinstance(after, dict) else {}
        for key, value in before.items():
            if key not in inner:
                yield at(path, key)
            elif inner[key] != value:
                yield from _gone(value, inner[key], at(path, key))
    elif before is not None and after is None:
        yield path


def fixed(shares: Mapping[str, int]) -> dict[str, Any]:
    """Return the rules that give each cluster just its number of replicas."""
    by_number: dict[int, list[str]] = {}
    for name, number in sorted(shares.items()):
        if number:
            by_number.setdefault(number, []).append(name)
    weights = [
        {"clusterSelector": selector, "weight": 1, "minReplicas": number, "maxReplicas": number}
        for number, names in sorted(by_number.items(), reverse=True)
        for selector in by_names(names).selectors()
    ]
    total = sum(shares.values())
    return {"distribution": "Divided", "replicas": total, "distributionWeights": weights}


def named(made: Sequence[Placed]) -> list[Placed]:
    """Give Workloads of one namespace and name names that differ; return all in their order."""
    groups: dict[tuple[str, str], list[Placed]] = {}
    for each in made:
        metadata = each.body["metadata"]
        groups.setdefault((metadata.get("namespace", ""), metadata["name"]), []).append(each)
    for listed in groups.values():
        if len(listed) == 1:
            continue
        for keep in (_by_kind, _by_suffix):
            if len({keep(each) for each in listed}) == len(listed):
                break
        keeps_name = sorted((p for p in listed if p.main), key=_by_kind)[:1]
        for each in listed:
            if each not in keeps_name or keep is _by_suffix:
                each.body["metadata"]["name"] += f"-{keep(each)}"
    return sorted(made, key=lambda p: (p.body["metadata"].get("namespace", ""), _named(p)))


def _named(placed: Placed) -> str:
    return str(placed.body["metadata"]["name"])


def _by_kind(placed: Placed) -> str:
    return placed.main.kind.lower() if placed.main else "rest"


def _by_suffix(placed: Placed) -> str:
    kind = "" if placed.main else "rest"
    return "-".join(filter(None, (placed.suffix, kind))) or "rest"


# --- what belongs to what -------------------------------------------------------------------------


def _secret(piece: Piece) -> bool:
    return (piece.group, piece.kind) == ("", "Secret")


def _job(piece: Piece) -> bool:
    return (piece.group, piece.kind) == ("batch", "Job")


def _owned(mains: Sequence[Piece], others: Sequence[Piece]) -> dict[int, list[Piece]]:
    """Return of each other object, by id, the ones that run replicas and that it belongs to."""
    asked: dict[tuple[str, str, str], list[Piece]] = {}
    scaled: dict[tuple[str, str, str], list[Piece]] = {}
    for main in mains:
        for template in pods.templates(main.body):
            for kind, name in pods.references(template.get("spec")):
                listed = asked.setdefault((main.namespace, kind, name), [])
                listed += [] if main in listed else [main]
        scaled.setdefault((main.namespace, main.kind, main.name), []).append(main)
    owned: dict[int, list[Piece]] = {}
    services: dict[tuple[str, str], list[Piece]] = {}
    for each in others:
        found = _of_pods(each, mains, asked, scaled)
        owned[id(each)] = found
        if each.kind == "Service":
            services[each.namespace, each.name] = found
    for each in others:
        if each.kind == "Ingress":
            backed = [services.get((each.namespace, name), []) for name in _backends(each.body)]
            owned[id(each)] = list({id(m): m for listed in backed for m in listed}.values())
    return owned


def _of_pods(
    piece: Piece,
    mains: Sequence[Piece],
    asked: Mapping[tuple[str, str, str], list[Piece]],
    scaled: Mapping[tuple[str, str, str], list[Piece]],
) -> list[Piece]:
    spec = piece.body.get("spec")
    if piece.group == "" and piece.kind == "Service":
        return _selected(piece, mains, dig(spec, "selector"))
    if piece.kind == "PodDisruptionBudget":
        return _selected(piece, mains, dig(spec, "selector", "matchLabels"))
    if piece.kind in AUTOSCALERS:
        ref = dig(spec, "scaleTargetRef")
        kind = str(dig(ref, "kind") or "Deployment")
        return scaled.get((piece.namespace, kind, str(dig(ref, "name"))), [])
    return asked.get((piece.namespace, piece.kind, piece.name), [])


def _selected(piece: Piece, mains: Sequence[Piece], selector: Any) -> list[Piece]:
    if not isinstance(selector, dict) or not selector:
        return []
    return [
        main
        for main in mains
        if main.namespace == piece.namespace
        and any(
            selector.items() <= (dig(each, "metadata", "labels") or {}).items()
            for each in pods.templates(main.body)
            if isinstance(dig(each, "metadata", "labels") or {}, dict)
        )
    ]


def _backends(body: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    todo: list[Any] = [body.get("spec")]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            for name in (dig(value, "service", "name"), value.get("serviceName")):
                if isinstance(name, str):
                    found.add(name)
            todo += value.values()
    return found


def _chunks(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield lists of objects that one Workload may bring along."""
    listed: list[Piece] = []
    guarded: set[str] = set()
    for each in pieces:
        mine = _guarded(each)
        if len(listed) == MOST_MANIFESTS or len(guarded | mine) > KIND_LIMIT:
            yield listed
            listed, guarded = [], set()
        listed.append(each)
        guarded |= mine
    if listed:
        yield listed


def _guarded(piece: Piece) -> set[str]:
    name = f"{piece.group or 'core'}/{piece.kind}"
    return {name} if piece.group in GUARDED_GROUPS or name in GUARDED_KINDS else set()
