"""Which object names which, and so the Workloads that each one belongs to.

Pods name ConfigMaps and accounts, a Service selects pods, an Ingress names a Service, a RoleBinding
names an account and a Role. An object belongs to the Workloads to which the fewest such steps lead,
in either direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from machinery.kinds.paths import InvalidTemplate, value_at
from machinery.kinds.templates import PodSet, pods_in
from machinery.types import pod_references
from machinery.types.selectors import LabelSelector, parse_label_selector
from stowage.importing.pods import maps
from stowage.wrapping.objects import Item, texts

_BY_NAME = {
    "serviceName": "Service",
    "secretName": "Secret",
    "serviceAccountName": "ServiceAccount",
    "claimName": "PersistentVolumeClaim",
    "configMapName": "ConfigMap",
    "ingressClassName": "IngressClass",
    "priorityClassName": "PriorityClass",
    "storageClassName": "StorageClass",
    "runtimeClassName": "RuntimeClass",
}
"""Fields that hold the name of an object of that kind."""
_BY_REFERENCE = {
    "service": "Service",
    "backendRefs": "Service",
    "parentRefs": "Gateway",
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMap": "ConfigMap",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
    "imagePullSecrets": "Secret",
    "scaleTargetRef": "Deployment",
}
"""Fields that hold references, and the kind of those that name none."""


class Name(NamedTuple):
    """What an object names; `namespace` is empty where it is its own."""

    kind: str
    name: str
    namespace: str = ""


def names_in(body: Any) -> set[Name]:
    """Return all that an object names, at any depth."""
    return {name for value in maps(body) for name in _named(value)}


def _named(value: Mapping[str, Any]) -> Iterator[Name]:
    if isinstance(value.get("containers"), list):
        yield from (Name(each.kind, each.name) for each in pod_references.references(value))
    if isinstance(value.get("kind"), str):
        yield from _reference(value, value["kind"])
    for key, kind in _BY_NAME.items():
        if isinstance(value.get(key), str) and value[key]:
            yield Name(kind, value[key])
    for key, kind in _BY_REFERENCE.items():
        inner = value.get(key)
        for each in inner if isinstance(inner, list) else [inner]:
            if isinstance(each, dict) and not isinstance(each.get("kind"), str):
                yield from _reference(each, kind)


def _reference(value: Mapping[str, Any], kind: str) -> Iterator[Name]:
    name, namespace = value.get("name"), value.get("namespace")
    if isinstance(name, str) and name:
        yield Name(kind, name, namespace if isinstance(namespace, str) else "")


def needs_of_pods(item: Item) -> dict[Name, bool]:
    """Return what the pods of an object that runs some name, and whether they start without it."""
    found = pod_references.once(
        each
        for pods in pods_of(item)
        for each in pod_references.references(pods.template.get("spec"))
    )
    return {
        Name(each.kind, each.name): each.optional
        for each in found
        if each[:2] != (pod_references.SERVICE_ACCOUNT, "default")
    }


def pods_of(item: Item) -> list[PodSet]:
    """Return the pods of an object that runs some. Raises ConfigurationError."""
    try:
        return list(pods_in(item.profile, item.body))
    except InvalidTemplate as e:
        raise item.document.error(str(e)) from e


class Links:
    """The objects beside those that run pods, and which of these each one belongs to."""

    def __init__(self, mains: Sequence[Item], others: Sequence[Item], namespace: str) -> None:
        """`namespace` is that of objects that name none, as far as it is known."""
        self._default = namespace
        self._all = [*mains, *others]
        self._named: dict[tuple[str, str], list[Item]] = {}
        for each in self._all:
            self._named.setdefault((each.kind, each.name), []).append(each)
        self._labels = {each: _labels(each) for each in self._all}
        self._beside = self._linked()
        self._owners = self._spread(mains)

    def owners(self, item: Item) -> list[Item]:
        """Return those that it belongs to, in the order of the input; none for a stray one."""
        return self._owners.get(item, [])

    def found(self, item: Item, name: Name) -> list[Item]:
        """Return the objects that `item` means by a name."""
        namespace = name.namespace or self._of(item)
        return [
            each
            for each in self._named.get((name.kind, name.name), ())
            if each.of_cluster or item.of_cluster or self._of(each) == namespace
        ]

    def _of(self, item: Item) -> str:
        return item.namespace or self._default

    def _linked(self) -> dict[Item, list[Item]]:
        beside: dict[Item, list[Item]] = defaultdict(list)
        kinds = {_defined(each): each for each in self._all if all(_defined(each))}
        for item in self._all:
            targets = [
                each for name in sorted(names_in(item.body)) for each in self.found(item, name)
            ]
            targets += self._selected(item)
            if (item.group, item.kind) in kinds:
                targets.append(kinds[item.group, item.kind])
            for each in targets:
                if each is not item:
                    beside[item].append(each)
                    beside[each].append(item)
        return beside

    def _selected(self, item: Item) -> Iterator[Item]:
        selectors = [] if item.runs else list(_selectors(item))
        for each in self._all if selectors else ():
            near = each is not item and self._of(each) == self._of(item)
            if near and any(s.matches(labels) for s in selectors for labels in self._labels[each]):
                yield each

    def _spread(self, mains: Sequence[Item]) -> dict[Item, list[Item]]:
        owners = {each: [each] for each in mains}
        edge = list(mains)
        while edge:
            reached: dict[Item, set[Item]] = defaultdict(set)
            for each in edge:
                for other in self._beside[each]:
                    if other not in owners:
                        reached[other] |= set(owners[each])
            for other, found in reached.items():
                owners[other] = [each for each in mains if each in found]
            edge = list(reached)
        return owners


def _labels(item: Item) -> list[dict[str, str]]:
    """Return the labels by which a selector finds it: those of its pods, or a Service's own."""
    if item.runs:
        metas = (pods.template.get("metadata") for pods in pods_of(item))
        return [texts(each.get("labels")) for each in metas if isinstance(each, dict)]
    return [item.labels] if item.kind == "Service" and item.group == "" else []


def _selectors(item: Item) -> Iterator[LabelSelector]:
    spec = item.body.get("spec")
    if not isinstance(spec, dict):
        return
    for key in ("selector", "podSelector"):
        given = spec.get(key)
        if not isinstance(given, dict):
            continue
        if item.kind == "Service" and item.group == "":
            # A Service without a selector has none; elsewhere an empty one selects everything.
            if given:
                yield LabelSelector(texts(given))
            continue
        try:
            yield parse_label_selector(given)
        except ValueError:
            continue  # the member's server will say so


def _defined(item: Item) -> tuple[str, str]:
    """Return (group, kind) that a definition of a kind defines."""
    if item.kind != "CustomResourceDefinition":
        return ("", "")
    group, kind = (value_at(item.body, f"spec.{each}") for each in ("group", "names.kind"))
    return (str(group or ""), str(kind or ""))


def only(namespaces: Iterable[str]) -> str:
    """Return the one namespace among them, empty where there are several or none."""
    found = set(namespaces) - {""}
    return found.pop() if len(found) == 1 else ""
