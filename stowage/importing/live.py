"""The objects of another system, read from its hub by get and list alone.

The kinds of the system that say something are listed first, then the kinds that its rules select.
Of Secrets only the metadata is asked for: no value of one ever arrives, but for the cluster Secrets
of Argo CD, of which name and labels are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crds.names import forbidden_namespace
from machinery.api.responses import onward
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Forbidden, NotFound
from stowage.fleet.manifests import Document
from stowage.hub import METADATA_LIST, PAGE, reader
from stowage.importing.fields import Fate
from stowage.importing.reading import dig
from stowage.importing.systems import argocd, karmada, kubefed, kubefleet, ocm
from stowage.importing.workloads import System

SYSTEMS: Mapping[str, System] = {
    "karmada": karmada.SYSTEM,
    "ocm": ocm.SYSTEM,
    "kubefleet": kubefleet.SYSTEM,
    "kubefed": kubefed.SYSTEM,
    "argocd": argocd.SYSTEM,
}
_NEVER = frozenset(
    {
        "Binding",
        "ControllerRevision",
        "EndpointSlice",
        "Endpoints",
        "Event",
        "Lease",
        "LocalSubjectAccessReview",
        "Node",
        "NodeMetrics",
        "Pod",
        "PodMetrics",
    }
)
"""Kinds that a hub's own controllers make, and that no rule means by a whole namespace."""
_OF_THE_HUB = ("KubeFedCluster", "FederatedTypeConfig")
"""Kinds with a namespace whose objects count for all namespaces."""
_OF_A_NAMESPACE = ("kube-root-ca.crt", "default")
"""The ConfigMap and the ServiceAccount that every namespace has."""


class Reading(Protocol):
    """What is asked of an API server."""

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = ...
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that a server has."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def read(name: str, connection: Connection, namespace: str) -> list[Document]:
    """Return the objects of a system's hub; an empty namespace means all.

    Raises ConfigurationError, among them for a right that lacks.
    """
    with reader(connection) as hub:
        found = documents(name, hub, namespace, connection.server)
    if not found:
        where = f"in namespace {namespace}: -A reads all" if namespace else "anywhere"
        raise ConfigurationError(f"{connection.server} has no object of {name} {where}")
    return found


def documents(name: str, hub: Reading, namespace: str, server: str) -> list[Document]:
    """Return the objects of a system that a hub has, as `read` does."""
    lister = _Lister(hub, namespace)
    system = SYSTEMS[name]
    own = [
        body
        for kind in lister.of_groups({group for group, _ in system.tables} | {*system.groups})
        if _says(system, kind)
        for body in lister.objects(kind, own=True)
    ]
    if name == "argocd":
        own += lister.objects(Kind("", "v1", "secrets", "Secret", True),
                              selector=f"{argocd.LABEL}=cluster")  # fmt: skip
    bodies = own + list(_selected(name, lister, own))
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for body in bodies:
        metadata = body["metadata"]
        key = (body["apiVersion"], body["kind"], metadata.get("namespace"), metadata["name"])
        seen.setdefault(key, body)
    return [Document(server, n, body) for n, body in enumerate(seen.values(), start=1)]


def _says(system: System, kind: Kind) -> bool:
    """Whether objects of a kind say anything that is imported, or lost."""
    if kind.group == kubefed.TYPES:
        return True
    if (kind.group, kind.kind) not in system.tables:
        return kind.group in system.groups
    whole = system.tables[kind.group, kind.kind].get("")
    return whole is None or whole.fate is Fate.LOST or kind.kind == "FederatedTypeConfig"


# --- what rules select ----------------------------------------------------------------------------


def _selected(name: str, lister: _Lister, own: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the objects of the kinds that rules select."""
    for api_version, kind, whole in sorted(set(_wanted(name, own))):
        if whole:
            yield from lister.whole(kind)
        else:
            yield from lister.named(api_version, kind)


def _wanted(name: str, own: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    for body in own:
        spec = dig(body, "spec") or {}
        if name == "karmada" and "PropagationPolicy" in body["kind"]:
            for each in spec.get("resourceSelectors") or ():
                yield str(each.get("apiVersion")), str(each.get("kind")), False
            if spec.get("schedulePriority"):
                yield "scheduling.k8s.io/v1", "PriorityClass", False
        if name == "kubefleet" and body["kind"] in kubefleet.PLACEMENTS:
            for each in spec.get("resourceSelectors") or ():
                group, version = each.get("group") or "", each.get("version") or "v1"
                kind = str(each.get("kind"))
                yield f"{group}/{version}" if group else version, kind, False
                if (group, kind) == ("", "Namespace") and each.get(
                    "selectionScope"
                ) != "NamespaceOnly":
                    yield "", str(each.get("name") or ""), True


class _Lister:
    def __init__(self, hub: Reading, namespace: str) -> None:
        self._hub, self._namespace = hub, namespace
        self._of_version: dict[str, list[Kind]] = {}

    def of_groups(self, groups: Iterable[str]) -> Iterator[Kind]:
        """Yield the kinds of some groups, each in the first version that has it."""
        for group in sorted(filter(None, groups)):
            try:
                found = json.loads(self._hub.get(f"/apis/{group}"))
            except NotFound:
                continue
            yield from self._first(found)

    def _first(self, group: Mapping[str, Any]) -> Iterator[Kind]:
        """Yield the kinds of a group, each in the preferred version, or the next that has it."""
        versions = [group["preferredVersion"], *(group.get("versions") or ())]
        seen: set[str] = set()
        for version in dict.fromkeys(str(each["groupVersion"]) for each in versions):
            for kind in self._kinds(version):
                if kind.kind not in seen:
                    seen.add(kind.kind)
                    yield kind

    def _kinds(self, api_version: str) -> list[Kind]:
        """Return the kinds of a version that can be listed; none of one that is not served."""
        if api_version not in self._of_version:
            group, _, version = api_version.rpartition("/")
            root = f"/apis/{api_version}" if group else f"/api/{version}"
            try:
                listed = json.loads(self._hub.get(root)).get("resources") or ()
            except NotFound:
                listed = ()
            self._of_version[api_version] = [
                Kind(group, version, each["name"], each["kind"], bool(each.get("namespaced")))
                for each in listed
                if "/" not in each["name"] and "list" in each.get("verbs", ())
            ]
        return self._of_version[api_version]

    def named(self, api_version: str, name: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of one kind."""
        for kind in self._kinds(api_version):
            if kind.kind == name and (kind.namespaced or not self._namespace or
                                      kind.kind in ("Namespace", "PriorityClass")):  # fmt: skip
                yield from self.objects(kind)

    def whole(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield all objects in one namespace, or in each, that somebody wrote there."""
        if self._namespace not in ("", namespace or self._namespace):
            return
        groups = json.loads(self._hub.get("/apis")).get("groups") or ()
        kinds = [*self._kinds("v1"), *(kind for each in groups for kind in self._first(each))]
        for kind in kinds:
            if kind.namespaced and kind.kind not in _NEVER and not _of_a_peer(kind):
                yield from self.objects(kind, namespace=namespace)

    def objects(
        self, kind: Kind, *, namespace: str = "", selector: str = "", own: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a kind in the namespace that is asked for; `own` are the system's.

        Its clusters are in a namespace of their own, and are read wherever they are.
        """
        anywhere = kind.kind in _OF_THE_HUB
        space = (namespace or self._namespace) if kind.namespaced and not anywhere else ""
        path = (
            f"{kind.root}/namespaces/{space}/{kind.plural}"
            if space
            else f"{kind.root}/{kind.plural}"
        )
        hidden = (kind.group, kind.kind) == ("", "Secret") and not selector
        for each in self._pages(kind, path, space, selector, hidden=hidden):
            body = {**each, "apiVersion": kind.api_version, "kind": kind.kind}
            metadata = body.get("metadata") or {}
            in_space = str(metadata.get("namespace") or "")
            made = metadata.get("ownerReferences") and kind.group in ("", "apps", "batch")
            if own or not (forbidden_namespace(in_space) or made or _everywhere(kind, metadata)):
                yield body

    def _pages(
        self, kind: Kind, path: str, space: str, selector: str, *, hidden: bool
    ) -> Iterator[Any]:
        params = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        following = ""
        while True:
            asked = params | ({"continue": following} if following else {})
            try:
                page = (self._hub.get(path, asked, accept=METADATA_LIST) if hidden
                        else self._hub.get(path, asked))  # fmt: skip
            except Forbidden as e:
                resource = f"{kind.plural}.{kind.group}".rstrip(".")
                where = f" in namespace {space}" if space else ""
                text = f"the right to list {resource}{where} lacks: get and list are all it takes"
                raise ConfigurationError(text) from e
            except NotFound:
                return
            yield from json.loads(page).get("items") or ()
            following = onward(page)
            if not following:
                return


def _of_a_peer(kind: Kind) -> bool:
    return any(kind.group in each.groups for each in SYSTEMS.values())


def _everywhere(kind: Kind, metadata: Mapping[str, Any]) -> bool:
    """Whether every namespace has this object by itself."""
    return (
        kind.group == ""
        and kind.kind in ("ConfigMap", "ServiceAccount")
        and (metadata.get("name") in _OF_A_NAMESPACE)
    )
