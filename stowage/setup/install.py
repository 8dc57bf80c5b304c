"""The manifests that a hub needs, those of the web page too, and their installation.

Kinds and admission policies come from `crds`, the rest from `deploy/`. All are applied on the
server, in their order, so a second run changes nothing.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

import crds
from crds.names import API_VERSION
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    WORKLOAD_KINDS,
    WORKLOADS,
)
from machinery.clock import SystemClock
from machinery.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    StowageError,
)
from machinery.kinds.table import profile_of_main
from machinery.kinds.workloadkinds import WorkloadKind, use_stored
from machinery.tasks import patiently
from machinery.types import conditions
from stowage.console import output
from stowage.console.progress import Progress
from stowage.hub import ObjectReader
from stowage.setup import rollout, shards

MANAGER = "stowage-install"
"""The field manager of all that is applied."""
ADMISSION = "admissionregistration.k8s.io/v1"
ESTABLISHED_SECONDS = 120.0
VALIDATING = "ValidatingAdmissionPolicy"
MUTATING = "MutatingAdmissionPolicy"
_POLICY_WORK = {
    VALIDATING: "the controller refuses wrong Workloads itself, after they are stored",
    MUTATING: "the controller fills in labels and defaults itself",
}
"""The kinds of our policies, and the process that does their work on a hub without the kind."""
DEFAULTS = "stowage-controller-defaults"
"""The binding that a hub needs where it serves no MutatingAdmissionPolicy."""
DECISIONS = "stowage-clusterdecisions"
"""The name of what an Argo CD has in its namespace to read ClusterDecisions."""
_PARTS = (
    "rbac.yaml",
    "priority.yaml",
    "flow.yaml",
    "network.yaml",
    "controller.yaml",
    "propagator.yaml",
)


def manifests(
    *,
    namespace: str,
    image: str = "",
    crds_only: bool = False,
    all_namespaces: bool = False,
    argocd: str | None = None,
    number: int | None = None,
) -> list[dict[str, Any]]:
    """Return all manifests in the order in which they are applied.

    `number` is that of the propagator's shards; None leaves it as it is. `all_namespaces` makes
    every namespace of the hub a tenant (`stowage.setup.tenants`). `argocd` is the namespace of an
    Argo CD that reads ClusterDecisions.
    """
    generator = load("argocd/generator.yaml", namespace=argocd) if argocd else []
    kinds = [*crds.manifests(), *load("users.yaml", namespace=namespace)]
    if crds_only:
        return [*kinds, *generator]
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    parts = [o for part in _PARTS for o in load(part, namespace=namespace, image=image)]
    tenants = _everywhere(namespace) if all_namespaces else []
    settled = []
    if number is not None:
        settled, parts = [shards.config_map(namespace, number)], shards.sized(parts, number)
    return [*kinds, home, *settled, *parts, *tenants, *generator]


def without_mutating(objects: Iterable[dict[str, Any]], *, namespace: str) -> list[dict[str, Any]]:
    """Return the manifests for a hub that serves no MutatingAdmissionPolicy (Kubernetes 1.30)."""
    bindings = [each for each in wide(namespace) if each["metadata"]["name"] == DEFAULTS]
    return [*(each for each in objects if not is_policy(each, [MUTATING])), *bindings]


def tenancy(namespace: str) -> list[dict[str, Any]]:
    """Return the roles of a tenant, and the bindings by which every namespace is one."""
    bindings = _everywhere(namespace)
    named = {each["roleRef"]["name"] for each in bindings}
    roles = load("rbac.yaml", namespace=namespace)
    return [*(each for each in roles if each["metadata"]["name"] in named), *bindings]


def _everywhere(namespace: str) -> list[dict[str, Any]]:
    return [each for each in wide(namespace) if each["metadata"]["name"] != DEFAULTS]


def wide(namespace: str) -> list[dict[str, Any]]:
    """Return the cluster-wide bindings, which are applied only where they are needed."""
    return load("wide.yaml", namespace=namespace)


def default_image() -> str:
    """Return the image of this version, under the name that docs/install.md builds."""
    return f"stowage:{metadata.version('stowage')}"


async def apply(
    client: ApiClient, objects: Sequence[dict[str, Any]], *, say: Callable[[str], object]
) -> None:
    """Apply the manifests one after the other; return when the kinds are served and guarded.

    A kind of admission policy that the hub does not serve is left out (ValidatingAdmissionPolicy v1
    came with Kubernetes 1.30, MutatingAdmissionPolicy v1 with 1.36): the controller does its work.
    """
    absent = await unserved_policies(client)
    for kind in absent:
        say(f"This hub serves no {kind} v1: {_POLICY_WORK[kind]}")
    objects = [each for each in objects if not is_policy(each, absent)]
    objects = await shards.with_processes(client, objects)
    for each in objects:
        await apply_one(client, each, manager=MANAGER)
        name = each["metadata"]["name"]
        say(f"{each['kind']} {name} applied")
        if each["kind"] == CRDS.kind:
            await _established(client, name)
    if any(each["kind"] == VALIDATING for each in objects):
        await _guarded(client)


async def until_running(
    client: ApiClient,
    objects: Iterable[dict[str, Any]],
    *,
    progress: Progress,
    seconds: float = rollout.SECONDS,
) -> None:
    """Return when the Deployments among the manifests run.

    Raises StowageError with the reasons of the pods that do not.
    """
    deployments = [each["metadata"] for each in objects if each["kind"] == DEPLOYMENTS.kind]
    if not deployments:
        return
    names, namespace = [each["name"] for each in deployments], deployments[0]["namespace"]
    try:
        await rollout.wait(client, names, namespace=namespace, progress=progress, seconds=seconds)
    except StowageError as e:
        if any(reason in str(e) for reason in rollout.NO_IMAGE):
            hint = "docs/install.md says how to build the image and bring it to the hub's nodes"
            raise StowageError(f"{e}\n{hint}; then name it with --image") from e
        raise


async def fills_in_defaults(client: ApiClient) -> bool:
    """Return whether the hub can fill in defaults, so that the controller need not."""
    return MUTATING not in await unserved_policies(client)


async def unserved_policies(client: ApiClient) -> list[str]:
    """Return the kinds of our policies that the hub does not serve."""
    served = {resource.kind for resource in await client.discover(ADMISSION)}
    return [kind for kind in _POLICY_WORK if kind not in served]


def is_policy(manifest: Mapping[str, Any], kinds: Sequence[str]) -> bool:
    """Return whether it is a policy of these kinds, or the binding of one."""
    return any(manifest["kind"] in (kind, f"{kind}Binding") for kind in kinds)


async def apply_one(client: ApiClient, manifest: Mapping[str, Any], *, manager: str) -> None:
    """Apply one object, and take over fields that another manager has set."""
    resource = await client.resource(manifest["apiVersion"], manifest["kind"])
    meta = manifest["metadata"]
    await client.apply(
        resource,
        manifest,
        name=meta["name"],
        namespace=meta.get("namespace"),
        field_manager=manager,
        force=True,
    )


async def ensure_namespace(client: ApiClient, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.apply(NAMESPACES, body, name=name, field_manager=MANAGER, force=True)


def load(part: str, **values: str) -> list[dict[str, Any]]:
    """Return the manifests of a file of `deploy/`, with its `${name}`s filled in."""
    text = (folder() / part).read_text()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return [each for each in yaml.load_all(text, Loader=crds.LOADER) if each]


def folder() -> Path:
    """Return `deploy/`: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parents[1] / "deploy"
    return inside if inside.exists() else Path(__file__).parents[2] / "deploy"


async def _established(client: ApiClient, name: str) -> None:
    async def check() -> bool:
        found = await client.get(CRDS, name)
        return conditions.holds(found.get("status", {}), "Established")

    await _until(check, f"CustomResourceDefinition {name} to be established")


async def _guarded(client: ApiClient) -> None:
    """Return when admission refuses a wrong Workload: a new policy takes effect after a moment."""
    canary = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": "canary", "namespace": "default"},
        "spec": {
            "targetDeployment": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "canary"},
                "spec": {
                    "replicas": -1,  # valid by the schema; the policy alone refuses it
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


async def _until(check: Callable[[], Awaitable[bool]], what: str) -> None:
    async def missing() -> str:
        return "" if await check() else what

    clock = SystemClock()
    if await patiently(missing, seconds=ESTABLISHED_SECONDS, every=0.1, clock=clock):
        raise StowageError(f"after {ESTABLISHED_SECONDS:.0f} s still waiting for {what}")


# --- the web page ---------------------------------------------------------------------------------

SESSION_SECRET = "stowage-ui-session"  # noqa: S105 - a name
KEY_BYTES = 48


def page_manifests(*, namespace: str, image: str) -> list[dict[str, Any]]:
    return load("ui.yaml", namespace=namespace, image=image)


async def ensure_session_key(
    client: ApiClient, namespace: str, *, say: Callable[[str], object]
) -> None:
    """Make the Secret with a new key where there is none.

    The key is never printed, and a second run leaves it, so that open sessions go on. To rotate it,
    a person moves `current` to `previous` in the Secret.
    """
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SESSION_SECRET, "labels": {"app": "stowage-ui"}},
        "type": "Opaque",
        "data": {"current": key},
    }
    with suppress(AlreadyExists):
        await client.create(SECRETS, body, namespace=namespace)
        say(f"Secret {SESSION_SECRET} created")


# --- what an install over another release changes -------------------------------------------------

CONTROLLER = "stowage-controller"
"""The Deployment whose image tells which release runs."""
NAMED = 5
"""The most Workloads of a kind that are named."""


def _unknown_kinds(api: ObjectReader, *, home: str, image: str) -> dict[str, list[str]]:
    """Return the Workloads of kinds without a profile, by kind; none where `image` runs already.

    `home` is the namespace of our processes. Raises TransportError.
    """
    try:
        running = api.read(DEPLOYMENTS, CONTROLLER, home, dict[str, Any])
        containers = running["spec"]["template"]["spec"]["containers"]
        if any(each.get("image") == image for each in containers):
            return {}
    except NotFound:
        pass
    with suppress(NotFound, Forbidden):  # an older hub, or an older role
        use_stored(api.each(WORKLOAD_KINDS, WorkloadKind))
    found: dict[str, list[str]] = {}
    try:
        for each in api.each(WORKLOADS, dict[str, Any]):
            profile = profile_of_main(each.get("spec") or {})
            if not profile.known:
                kind = f"{profile.kind}.{profile.group}" if profile.group else profile.kind
                meta = each["metadata"]
                found.setdefault(kind or "?", []).append(f"{meta['namespace']}/{meta['name']}")
    except NotFound:
        return {}  # a new hub
    return found


def foretold(api: ObjectReader, *, home: str, image: str) -> str:
    """Return what an install changes for what runs, for people; empty where that is nothing.

    Raises TransportError.
    """
    found = _unknown_kinds(api, home=home, image=image)
    if not found:
        return ""
    rows = [
        {"kind": kind, "number": len(names), "workloads": output.named(sorted(names), NAMED)}
        for kind, names in sorted(found.items())
    ]
    return (
        "This release has no profile of these kinds. Each of these Workloads is ready while its "
        "condition Ready is True, leaves no cluster by itself unless spec.movement.maxSurge is "
        f"written, and counts no room:\n{output.table(rows, ('kind', 'number', 'workloads'))}"
    )
