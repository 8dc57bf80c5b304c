"""From objects to Workloads: each object that runs pods is held by one, with what belongs to it.

A Secret stays an object of the hub, from where it is followed, and so does what the pods of several
Workloads name: each of them needs it on its own clusters. A hook of Helm or Argo CD is run by its
tool, on the hub. An autoscaler scales the Workload there.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.admission.carried import guarded_kinds
from crds.base import NAME
from crds.fields.placing import Distribution
from crds.names import API_VERSION, forbidden_namespace
from machinery.kinds.paths import value_at
from machinery.types.pod_references import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from stowage.console.output import named
from stowage.wrapping.links import Links, Name, names_in, needs_of_pods, only
from stowage.wrapping.objects import (
    Item,
    in_order,
    release_label,
    release_of,
)

Say = Callable[[Item, str], None]
_NAMED = 5
_FOLLOWED = (CONFIG_MAP, SERVICE_ACCOUNT)
"""What stays on the hub and is followed where the pods of several Workloads name it."""
_KEEP = "helm.sh/resource-policy"


@dataclass(eq=False, slots=True)
class Wrapped:
    """A Workload, and the object that it is made of; None for one of manifests alone."""

    name: str
    namespace: str
    main: Item | None
    body: dict[str, Any]
    held: list[Item] = field(default_factory=list)
    follows: bool = False

    @property
    def first(self) -> Item:
        """The object that stands for it in what is said."""
        return self.main or self.held[0]

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.body["spec"]
        return spec


@dataclass(slots=True)
class Result:
    """The objects that stay as they are, in their order, and the Workloads."""

    passed: list[tuple[Item, dict[str, Any]]]
    workloads: list[Wrapped]


def wrap(items: Sequence[Item], *, namespace: str, rest_with: str, say: Say) -> Result:
    """Return what the objects become; each is in one place.

    `namespace` is that of objects that name none, `rest_with` the Workload of what belongs to none;
    both may be empty. `say` is told what a person has to know of an object. Raises
    ConfigurationError.
    """
    return _Wrapping(items, namespace, rest_with, say).result()


class _Wrapping:
    def __init__(self, items: Sequence[Item], namespace: str, rest_with: str, say: Say) -> None:
        self._items = in_order(items)
        self._namespace = namespace
        self._rest_with = rest_with
        self._say = say
        inside = [each for each in self._items if not (each.hook or each.ours)]
        self._mains = [each for each in inside if each.runs]
        others = [each for each in inside if not each.runs and each.kind != "Namespace"]
        known = namespace or only(each.namespace for each in self._items)
        self._links = Links(self._mains, others, known)
        self._workloads = [self._workload(each, name) for each, name in self._names()]
        self._of = {each.main: each for each in self._workloads}
        self._needs = {each: needs_of_pods(each) for each in self._mains}

    def result(self) -> Result:
        passed: list[tuple[Item, dict[str, Any]]] = []
        rest: list[Item] = []
        for item in self._items:
            if item in self._of:
                continue
            kept = self._passed(item)
            if kept is not None:
                passed.append((item, kept))
            elif owners := self._links.owners(item):
                self._hold(item, owners)
            else:
                rest.append(item)
        self._workloads += self._rest(rest)
        for each in self._workloads:
            self._finish(each)
        self._tell_tenants()
        return Result(passed, self._workloads)

    # --- Workloads --------------------------------------------------------------------------------

    def _names(self) -> list[tuple[Item, str]]:
        """Return the name of each one's Workload: its own, with its kind where that is taken."""
        taken, found = set[tuple[str, str]](), []
        for item in self._mains:
            name = item.name
            if (item.namespace, name) in taken:
                name = f"{name}-{item.kind.lower()}"
                self._say(item, f"becomes the Workload {name}, as another one has its name")
            taken.add((item.namespace, name))
            found.append((item, name))
        return found

    def _workload(self, item: Item, name: str) -> Wrapped:
        template = item.carried(item.namespace or self._namespace)
        spec, inner = dict[str, Any](), template.get("spec")
        replicas, ends = item.profile.replicas, item.profile.ended
        # The Workload has the number; a Job's is that of its pods side by side, and stays.
        moves = replicas is not None and replicas.path == "spec.replicas" and not ends
        if moves and isinstance(inner, dict) and "replicas" in inner:
            spec["replicas"] = inner.pop("replicas")
        deployment = (item.group, item.kind) == ("apps", "Deployment")
        spec["targetDeployment" if deployment else "template"] = template
        return self._made(name, item.namespace, item, spec)

    def _made(self, name: str, namespace: str, main: Item | None, spec: dict[str, Any]) -> Wrapped:
        namespace = namespace or self._namespace
        meta = {
            "name": name,
            "namespace": namespace,
            "labels": main.labels if main else {**release_label(release_of(self._items))},
            "annotations": main.delivered() if main else {},
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "metadata": {key: value for key, value in meta.items() if value},
            "spec": spec,
        }
        return Wrapped(name, namespace, main, body)

    def _hold(self, item: Item, owners: Sequence[Item]) -> None:
        needing = self._naming(item)
        owners = [*needing, *(each for each in owners if each not in needing)]
        self._into(self._of[owners[0]], item)
        others = [self._of[each].name for each in owners[1:]]
        if others:
            text = f"goes with the Workload {self._of[owners[0]].name}, and belongs to "
            self._say(
                item,
                f"{text}{named(others, _NAMED)} too: what runs on other clusters lacks it; "
                "spec.workloadAffinity keeps them together",
            )

    def _into(self, workload: Wrapped, item: Item) -> None:
        if forbidden_namespace(item.namespace):
            raise item.document.error(
                f"metadata.namespace: no Workload brings anything into {item.namespace}: leave it "
                "out here, and apply it to the members yourself"
            )
        workload.held.append(item)
        workload.spec.setdefault("manifests", []).append(item.carried(workload.namespace))
        if _KEEP in item.annotations:
            text = (
                f"{_KEEP}: Helm sees the Workload {workload.name} alone, with which this one goes"
            )
            self._say(item, text)

    # --- what stays on the hub --------------------------------------------------------------------

    def _passed(self, item: Item) -> dict[str, Any] | None:
        """Return the object as it stays on the hub; None for one that a Workload holds."""
        if item.hook:
            self._say(item, f"is a hook ({item.hook}): its tool runs it, on the hub")
        elif item.kind == "Namespace":
            self._say(item, "stays on the hub; members have their own namespaces")
        elif item.kind == SECRET and item.group == "":
            self._secret(item)
        elif item.group == "" and item.kind in _FOLLOWED and len(self._naming(item)) > 1:
            self._shared(item)
        elif not item.ours:
            return self._autoscaler(item)
        return item.body

    def _naming(self, item: Item) -> list[Item]:
        """Return those whose pods name the object."""
        return [
            each
            for each in self._mains
            if any(item in self._links.found(each, name) for name in self._needs[each])
        ]

    def _secret(self, item: Item) -> None:
        if not self._naming(item) and not self._links.owners(item):
            self._say(item, "stays on the hub, as no Workload here names it")

    def _shared(self, item: Item) -> None:
        users = named([self._of[each].name for each in self._naming(item)], _NAMED)
        lost = item.kind == SERVICE_ACCOUNT and item.annotations.keys() - {*item.delivered()}
        more = "; its annotations do not go along" if lost else ""
        self._say(item, f"stays on the hub, and goes along with each of {users}{more}")

    def _autoscaler(self, item: Item) -> dict[str, Any] | None:
        """Return an autoscaler of a Workload, which scales that one; None for any other object."""
        target = value_at(item.body, "spec.scaleTargetRef")
        if not isinstance(target, dict):
            return None
        asked = Name(str(target.get("kind") or "Deployment"), str(target.get("name")))
        found = [each for each in self._links.found(item, asked) if each in self._of]
        if not found or not found[0].profile.replicas:
            return None
        workload = self._of[found[0]]
        body = copy.deepcopy(item.body)
        body["spec"]["scaleTargetRef"] = {
            **body["spec"]["scaleTargetRef"],
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "name": workload.name,
        }
        if "replicas" not in workload.spec:
            # the scale of an object without a number cannot be read, and so not be changed
            least = body["spec"].get("minReplicas") or body["spec"].get("minReplicaCount")
            workload.spec["replicas"] = least if isinstance(least, int) and least > 0 else 1
        self._say(
            item, f"scales the Workload {workload.name}, on the hub, which must have its metrics"
        )
        return body

    # --- the rest ---------------------------------------------------------------------------------

    def _rest(self, rest: Sequence[Item]) -> list[Wrapped]:
        """Give the rest to the Workload that is asked for, or to one of manifests alone."""
        if not rest:
            return []
        asked, known = self._rest_with, {each.name: each for each in reversed(self._workloads)}
        release = release_of(self._items)
        name = asked or (f"{release}-rest" if is_name(release) else "")
        if not name:
            raise rest[0].document.error(
                f"no object here refers to it{_more(rest)}: name the Workload that takes it along "
                f"by --rest-with: {_one_of(list(known))}"
            )
        if asked in known:
            for each in rest:
                self._say(each, f"no object here refers to it: it goes with the Workload {asked}")
                self._into(known[asked], each)
            return []
        made: dict[str, Wrapped] = {}
        for each in rest:
            self._say(each, f"no object here refers to it: it goes with {name}, on each cluster")
            namespace = each.namespace or self._namespace
            if namespace not in made:
                spec: dict[str, Any] = {"distribution": Distribution.DUPLICATED.value}
                made[namespace] = self._made(name, namespace, None, spec)
            self._into(made[namespace], each)
        return list(made.values())

    # --- finished ---------------------------------------------------------------------------------

    def _finish(self, workload: Wrapped) -> None:
        main, own = workload.main, {(each.kind, each.name) for each in workload.held}
        needs = self._needs[main] if main else {}
        outside = {
            each
            for each, optional in needs.items()
            if each[:2] not in own
            and each.kind in _NEEDED
            and not (optional and not self._links.found(workload.first, each))
        }
        if outside:
            workload.spec["dependencies"] = "Follow"
            workload.follows = True
        # Secrets that no pod names, but an Ingress or an account that goes along
        named_there = {each for item in workload.held for each in names_in(item.body)} - outside
        secrets = sorted(each.name for each in named_there if self._has(each, workload.namespace))
        if secrets:
            workload.spec["resources"] = [{"name": each} for each in dict.fromkeys(secrets)]
        if guarded := guarded_kinds(workload.spec):
            self._say(
                workload.first,
                f"its Workload {workload.name} brings along {', '.join(guarded)}: who applies it "
                "needs the right to each, and members must allow them (docs/admission.md)",
            )

    def _has(self, name: Name, namespace: str) -> bool:
        """Whether it is a Secret of the input that may be in that namespace."""
        return name.kind == SECRET and any(
            (item.kind, item.name) == (SECRET, name.name)
            and (not namespace or item.namespace in ("", namespace))
            for item in self._items
        )

    def _tell_tenants(self) -> None:
        following = [each for each in self._workloads if each.follows or "resources" in each.spec]
        for namespace in dict.fromkeys(each.namespace for each in following):
            self._say(
                next(each.first for each in following if each.namespace == namespace),
                "what its pods name is copied from the hub, where their namespace has to be a "
                f"tenant: stowage tenant add {namespace or 'NAMESPACE'}",
            )


def is_name(text: str) -> bool:
    """Whether an object may have that name."""
    return re.fullmatch(rf"{NAME}(\.{NAME})*", text) is not None


_NEEDED = (CONFIG_MAP, SECRET, SERVICE_ACCOUNT)


def _more(rest: Sequence[Item]) -> str:
    names = [each.named for each in rest[1:]]
    return f" (nor to {named(names, _NAMED)})" if names else ""


def _one_of(names: Sequence[str]) -> str:
    return f"{named(names, _NAMED)}, or a new one" if names else "a new one"


_ORDER = (
    "replicas",
    "distribution",
    "targetDeployment",
    "template",
    "manifests",
    "resources",
    "dependencies",
)
"""The order of the fields of a Workload's spec; others come after these."""


def ordered(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec in the order in which it is printed."""
    return {key: spec[key] for key in sorted(spec, key=_place)}


def _place(key: str) -> int:
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)


def check_unique(workloads: Sequence[Wrapped]) -> None:
    """Raise ConfigurationError for two Workloads of one name."""
    seen: dict[tuple[str, str], Wrapped] = {}
    for each in workloads:
        key = (each.namespace, each.name)
        if seen.setdefault(key, each) is not each:
            raise each.first.document.error(
                f"its Workload {each.name} has the name of that of {seen[key].first.named}: wrap "
                "them apart"
            )
