"""What Stowage needs on a hub, as manifests, and how they get there.

Kinds and admission policies come from `crds`, the rest from `deploy/`. Everything is applied by
server-side apply in the order of the list, so a second run changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

import crds
from crds.names import API_VERSION
from machinery.errors import ApiError, Invalid, StowageError
from machinery.resources import CRDS, NAMESPACES, WORKLOADS
from machinery.transport import ApiClient

ADMISSION = "admissionregistration.k8s.io/v1"
ESTABLISHED_SECONDS = 60.0
_PARTS = ("rbac.yaml", "controller.yaml", "propagator.yaml")


def manifests(*, namespace: str, image: str = "", crds_only: bool = False) -> list[dict[str, Any]]:
    """Everything in the order in which it is applied."""
    kinds = crds.manifests()
    if crds_only:
        return kinds
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    parts = [o for part in _PARTS for o in _load(part, namespace=namespace, image=image)]
    return [*kinds, home, *parts]


def as_yaml(objects: Iterable[dict[str, Any]]) -> str:
    """The manifests as one YAML stream."""
    return yaml.safe_dump_all(objects, sort_keys=False, width=100)


async def apply(
    client: ApiClient, objects: Sequence[dict[str, Any]], *, say: Callable[[str], object]
) -> None:
    """Apply the manifests one after the other, and wait until the kinds are served and guarded.

    Admission policies are left out, all of them, on a hub that does not serve every kind of them:
    the controller takes over the work of admission only where it finds none.
    """
    guards = await _serves_admission(client)
    if not guards:
        say("This hub serves no MutatingAdmissionPolicy v1: the controller checks Workloads itself")
    for each in objects:
        if each["apiVersion"] == ADMISSION and not guards:
            continue
        resource = await client.resource(each["apiVersion"], each["kind"])
        meta = each["metadata"]
        await client.apply(
            resource,
            each,
            name=meta["name"],
            namespace=meta.get("namespace"),
            field_manager="stowage-install",
            force=True,
        )
        say(f"{each['kind']} {meta['name']} applied")
        if each["kind"] == CRDS.kind:
            await _established(client, meta["name"])
    if guards and any(each["apiVersion"] == ADMISSION for each in objects):
        await _guarded(client)


async def _serves_admission(client: ApiClient) -> bool:
    served = {resource.kind for resource in await client.discover(ADMISSION)}
    return {"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"} <= served


async def ensure_namespace(client: ApiClient, name: str) -> None:
    """Create a namespace where it is missing."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.apply(NAMESPACES, body, name=name, field_manager="stowage-install", force=True)


def _load(part: str, **values: str) -> list[dict[str, Any]]:
    text = (folder() / part).read_text()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return [each for each in yaml.safe_load_all(text) if each]


def folder() -> Path:
    """`deploy/`: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parent / "deploy"
    return inside if inside.exists() else Path(__file__).parent.parent / "deploy"


async def _established(client: ApiClient, name: str) -> None:
    async def check() -> bool:
        found = await client.get(CRDS, name)
        conditions = found.get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    await _until(check, f"CustomResourceDefinition {name} to be established")


async def _guarded(client: ApiClient) -> None:
    """Until a Workload that admission must refuse is refused: policies take a moment to be seen."""
    canary = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": "canary", "namespace": "default"},
        "spec": {
            "manifests": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "canary", "namespace": "kube-system"},
                }
            ],
            "targetDeployment": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "canary"},
                "spec": {
                    "selector": {"matchLabels": {"app": "canary"}},
                    "template": {
                        "metadata": {"labels": {"app": "canary"}},
                        "spec": {"containers": [{"name": "canary", "image": "canary"}]},
                    },
                },
            },
        },
    }

    async def check() -> bool:
        try:
            await client.create(WORKLOADS, canary, dry_run=True)
        except Invalid:
            return True
        except ApiError as e:
            return e.code == 403
        return False

    await _until(check, "the admission policies to be in force")


async def _until(check: Callable[[], Any], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + ESTABLISHED_SECONDS
    while not await check():
        if asyncio.get_running_loop().time() > deadline:
            raise StowageError(f"after {ESTABLISHED_SECONDS:.0f} s still waiting for {what}")
        await asyncio.sleep(0.1)
