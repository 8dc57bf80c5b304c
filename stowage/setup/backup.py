"""`stowage backup`: all that a hub knows of Stowage, in one file from which it can be restored.

That is what `stowage install` and `stowage join` cannot make again: the objects of our kinds with
their statuses, registrations, tenants, and what Workloads need of the hub's other objects. The
kinds and processes themselves come from `stowage install`. Objects stand in the order in which they
are restored, and are written as the pages of the lists arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from crds.fields.dependencies import Dependencies
from crds.names import LABEL_MIGRATION, LABEL_REGISTER, LABEL_WORKLOAD_UID
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    RESERVATIONS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    WORKLOAD_GROUPS,
    WORKLOAD_KINDS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.api.responses import decode
from machinery.errors import Forbidden, Gone, NotFound, StowageError
from machinery.kinds.workloadkinds import WorkloadKind, use_stored
from machinery.release import release
from propagator.dependencies.named import named_by
from stowage.setup import tenants
from stowage.setup.backup_file import Origin, Writer

Json = Mapping[str, Any]
Place = tuple[str, str, str]
"""Kind, namespace, name."""

RULES = (
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOAD_GROUPS,
    RESERVATIONS,
    CLUSTER_DECISIONS,
)
"""The kinds that stand on Workloads: they are restored after these."""
NAMED = {each.kind: each for each in (SECRETS, CONFIG_MAPS, SERVICE_ACCOUNTS, SERVICES)}
"""What Workloads may need of the hub's other objects."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Backup:
    """One backup in the making; `home` is where Stowage lives."""

    def __init__(self, hub: ApiClient, file: IO[bytes], *, home: str, secrets: bool) -> None:
        self._hub = hub
        self._home = home
        self._secrets = secrets
        self._file = Writer(file)
        self._needed = dict[Place, None]()
        self._versions = dict[str, str]()
        self._kinds = list[WorkloadKind]()
        self._spaces = {home}
        """The namespaces that are in it, or need not be."""
        self.counts = Counter[str]()
        """How many objects of each kind are in it."""
        self.left_out = list[str]()
        """The objects that are not in it, as their spec holds a Secret."""

    async def write(self) -> Origin:
        """Raises TransportError, and StowageError where something may not be read."""
        hub = (await self._hub.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._all(WORKLOAD_KINDS)
        use_stored(self._kinds)  # they say where the pods of a kind are
        await self._namespaces()
        await self._tenants()
        await self._all(MEMBER_CLUSTERS)
        await self._all(SECRETS, namespace=self._home, label_selector=f"{LABEL_REGISTER}=true")
        await self._all(WORKLOADS)
        await self._all(SECRETS, namespace=self._home, label_selector=LABEL_MIGRATION)
        await self._all(CONTROLLER_REVISIONS, label_selector=LABEL_WORKLOAD_UID)
        for res in RULES:
            await self._all(res)
        await self._named()
        origin = Origin(hub, self._versions, release(), taken, self._secrets)
        self._file.end(origin, namespace=self._home)
        return origin

    async def _all(self, res: Resource, **chosen: Any) -> None:
        async for each in self._listed(res, **chosen):
            self._add(res, each)

    async def _listed(self, res: Resource, **chosen: Any) -> AsyncIterator[dict[str, Any]]:
        try:
            async for page in self._hub.pages(res, **chosen):
                found = decode(page)
                if not chosen.get("metadata_only"):
                    version = (found.get("metadata") or {}).get("resourceVersion", "")
                    self._versions.setdefault(f"{res.plural}.{res.group or 'core'}", version)
                for each in found.get("items") or ():
                    yield each
        except Forbidden as e:
            raise StowageError(f"{res.plural} may not be read, and belong to a backup: {e}") from e
        except Gone as e:
            raise StowageError(
                f"the hub forgot its list of {res.plural} while it was read: run it again"
            ) from e

    async def _namespaces(self) -> None:
        """Add the namespaces that have objects of ours."""
        names = dict[str, None]()
        for res in (WORKLOADS, *RULES):
            async for each in self._listed(res, metadata_only=True):
                names[each["metadata"]["namespace"]] = None
        for name in sorted(names):
            await self._space(name)

    async def _space(self, name: str) -> None:
        """Add a namespace, once: what is in it cannot be made on a hub that lacks it."""
        if name in self._spaces:
            return
        self._spaces.add(name)
        with suppress(NotFound):
            self._add(NAMESPACES, await self._hub.get(NAMESPACES, name))

    async def _tenants(self) -> None:
        for name in sorted({each["metadata"]["name"] for each in tenants.bindings("any", home="")}):
            async for each in self._listed(ROLE_BINDINGS, field_selector=f"metadata.name={name}"):
                await self._space(each["metadata"]["namespace"])
                self._add(ROLE_BINDINGS, each)
            with suppress(NotFound):
                res = tenants.CLUSTER_ROLE_BINDINGS
                self._add(res, await self._hub.get(res, name))

    async def _named(self) -> None:
        """Add what Workloads and MemberClusters need of other objects, where it is there."""
        for kind, namespace, name in self._needed:
            with suppress(NotFound):
                found = await self._hub.get(NAMED[kind], name, namespace=namespace)
                await self._space(namespace)
                self._add(NAMED[kind], found)

    def _add(self, res: Resource, found: Json) -> None:
        meta = {
            k: v for k, v in found["metadata"].items() if k not in ("managedFields", "selfLink")
        }
        item = {"apiVersion": res.api_version, "kind": res.kind, **found, "metadata": meta}
        if res == WORKLOAD_KINDS:
            self._kinds.append(msgspec.convert(item, WorkloadKind))
        self._needed |= dict.fromkeys(_needs(item, self._home))
        if not self._secrets:
            if res.kind != SECRETS.kind and holds_secret(found):
                where = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
                self.left_out.append(f"{res.kind} {where}")
                return
            if res.kind == SECRETS.kind:
                item = emptied(item)
        self._file.add(item)
        self.counts[res.kind] += 1


def _needs(item: Json, home: str) -> Iterable[Place]:
    spec, namespace = item.get("spec") or {}, item["metadata"].get("namespace", "")
    if item["kind"] == MEMBER_CLUSTERS.kind:
        ref = spec.get("secretRef") or {}
        if ref.get("name") and ref.get("namespace", home) != home:
            yield SECRETS.kind, ref["namespace"], ref["name"]
    if item["kind"] != WORKLOADS.kind:
        return
    for each in spec.get("resources") or ():
        yield SECRETS.kind, namespace, each.get("secretName") or each.get("name", "")
    if spec.get("dependencies") == Dependencies.FOLLOW.value:
        for kind, name in _followed(spec):
            if kind in NAMED:
                yield kind, namespace, name
        # These are also named by an override, an account, or a revision that runs still.
        for each in (item.get("status") or {}).get("dependencies") or ():
            if each["kind"] in NAMED:
                yield each["kind"], namespace, each["name"]


def _followed(spec: Json) -> Iterable[tuple[str, str]]:
    main = spec.get("template") or spec.get("targetDeployment")
    for body in [main] if main else spec.get("manifests") or ():
        yield from (each[:2] for each in named_by(body))


def emptied(secret: Json) -> dict[str, Any]:
    """Return a Secret without its values, which kubectl's annotation has as well."""
    meta = secret["metadata"]
    notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
    without = {k: v for k, v in secret.items() if k not in ("data", "stringData")}
    return {**without, "metadata": {**meta, "annotations": notes}}


def holds_secret(value: Any) -> bool:
    """Whether a Secret is somewhere in an object."""
    if isinstance(value, Mapping):
        if value.get("kind") == SECRETS.kind and (value.get("data") or value.get("stringData")):
            return True
        return any(map(holds_secret, value.values()))
    return isinstance(value, list) and any(map(holds_secret, value))
