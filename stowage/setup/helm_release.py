"""What `stowage install` has made becomes a release of Helm: `install --adopt-helm RELEASE`.

Helm takes an object that exists only where a label and two annotations name its release, and leaves
behind at uninstall whatever lacks them. Helm 4 applies on the server, where fields of another
manager are conflicts, so `stowage install` lets go of them. Nothing else of an object changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, Resource
from machinery.errors import ConfigurationError, Conflict
from stowage.setup import install

MANAGER = "helm"
"""The field manager of Helm 4."""
_LABEL = ("app.kubernetes.io/managed-by", "Helm")
_NAME, _NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_TRIES = 5

Manifest = Mapping[str, Any]


class Release(NamedTuple):
    """A release of Helm."""

    name: str
    namespace: str

    def __str__(self) -> str:
        """Return `name (namespace)`."""
        return f"{self.name} ({self.namespace})"


def release_of(body: Manifest) -> Release | None:
    """Return the release that an object says it belongs to."""
    annotations = body["metadata"].get("annotations") or {}
    name = annotations.get(_NAME)
    return Release(name, annotations.get(_NAMESPACE, "")) if name else None


async def of_hub(hub: ApiClient, home: str) -> Release | None:
    """Return the release that the controller belongs to; None without one."""
    found = await hub.find(DEPLOYMENTS, install.CONTROLLER, namespace=home)
    return release_of(found) if found is not None else None


async def adopt(
    hub: ApiClient, objects: Iterable[Manifest], release: Release, say: Callable[[str], object]
) -> None:
    """Make those of the objects that are there parts of the release.

    Raises ConfigurationError, before anything is written, where one belongs to another release. Run
    again after an interruption, it goes on.
    """
    there: list[tuple[Resource, Manifest]] = []
    for each in objects:
        if each["kind"] == "Namespace":
            continue  # the chart has none
        resource = await hub.resource(each["apiVersion"], each["kind"])
        meta = each["metadata"]
        found = await hub.find(resource, meta["name"], namespace=meta.get("namespace"))
        there += [(resource, found)] if found is not None else []
    for _, body in there:
        other = release_of(body)
        if other not in (None, release):
            name = body["metadata"]["name"]
            raise ConfigurationError(
                f"{body['kind']} {name} belongs to the release {other} of Helm, not to {release}: "
                "nothing is changed"
            )
    for resource, body in there:
        await hand_over(hub, resource, body, release)
        say(f"{resource.kind} {body['metadata']['name']} is of the release {release.name}")


async def hand_over(hub: ApiClient, resource: Resource, body: Manifest, release: Release) -> None:
    """Mark one object as a part of the release, and let go of its fields."""
    meta = body["metadata"]
    name, namespace = meta["name"], meta.get("namespace")
    where = {"name": name, **({"namespace": namespace} if namespace else {})}
    marks = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            **where,
            "labels": dict([_LABEL]),
            "annotations": {_NAME: release.name, _NAMESPACE: release.namespace},
        },
    }
    for left in reversed(range(_TRIES)):
        live = await hub.get(resource, name, namespace=namespace)
        if not _marked(live, release):
            live = await hub.apply(
                resource, marks, name=name, namespace=namespace, field_manager=MANAGER, force=True
            )
        fields = live["metadata"].get("managedFields") or []
        others = [each for each in fields if each.get("manager") != install.MANAGER]
        if len(others) == len(fields):
            return
        version = live["metadata"]["resourceVersion"]
        patch = {"managedFields": others, "resourceVersion": version}
        try:
            await hub.merge_patch(resource, name, {"metadata": patch}, namespace=namespace)
        except Conflict:
            if not left:
                raise
            continue
        return


def _marked(body: Manifest, release: Release) -> bool:
    labels = body["metadata"].get("labels") or {}
    return release_of(body) == release and labels.get(_LABEL[0]) == _LABEL[1]
