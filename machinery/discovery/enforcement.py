"""Whether the hub enforces one of our admission policies.

So the answer is conservative: the policy has exactly the rules of this version, and its binding
exists. Until both lists were seen, nothing is `known`.

So a canary, a Workload created as a dry run, must be treated as the policy says, after each change
and every few minutes. If none can be sent (a missing right), the stored policy is believed.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from crds.admission.mutating import mutating_policy
from crds.admission.policies import validating_policy
from crds.admission.policy import ANNOTATION_RULES, rules_of
from crds.names import API_VERSION, CANARY_NAMESPACE, SYSTEM_NAMESPACE
from machinery import logs
from machinery.api.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    WORKLOADS,
    Resource,
)
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Invalid, LeaseLost, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object

LOG = logs.get(__name__)
TRY_SECONDS = 180.0
"""Seconds between two canaries."""
RETRY_SECONDS = 2.0
"""Seconds between canaries while the policy has no effect."""
Canary: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the hub does what the policy says. Raises TransportError if no canary can be sent."""


class InForce:
    """One policy and its binding, watched; `changed` is called when the answer may have changed."""

    def __init__(
        self,
        client: Verbs,
        manifest: Mapping[str, Any],
        *,
        resources: tuple[Resource, Resource],
        canary: Canary,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._rules = rules_of(manifest)
        self._changed = changed
        self._canary = canary
        self._clock = clock
        self._works = self._tried = False
        self._due = asyncio.Event()
        self._due.set()
        self._what = f"{manifest['kind']} {manifest['metadata']['name']}"
        name = manifest["metadata"]["name"]
        self._policies, self._bindings = (
            Informer(
                client,
                resource,
                Object,
                field_selector=f"metadata.name={name}",
                metadata_only=True,
                clock=clock,
            )
            for resource in resources
        )
        for informer in (self._policies, self._bindings):
            informer.add_handler(lambda old, new: self._altered())

    @property
    def known(self) -> bool:
        return self._listed and (self._tried or not self._there)

    @property
    def obstacle(self) -> str:
        errors = (self._policies.last_error, self._bindings.last_error)
        found = next((error for error in errors if error is not None), None)
        return "" if self.known or found is None else str(found)

    def __call__(self) -> bool:
        """Whether the policy is in force; False until that is known."""
        return self._works and self._there

    @property
    def _listed(self) -> bool:
        return all(
            informer.synced or isinstance(informer.last_error, NotFound)
            for informer in (self._policies, self._bindings)
        )

    @property
    def _there(self) -> bool:
        there = any(
            policy.metadata.annotations.get(ANNOTATION_RULES) == self._rules
            for policy in self._policies.values()
        )
        return there and len(self._bindings) > 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._policies.run())
            tasks.create_task(self._bindings.run())
            tasks.create_task(self._tries())
            tasks.create_task(self._ticks())

    def _altered(self) -> None:
        self._due.set()
        self._changed()

    async def _ticks(self) -> None:
        while True:
            await self._clock.sleep(TRY_SECONDS)
            self._due.set()

    async def _tries(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if not self._there:
                self._works = self._tried = False
                continue
            works = await self._try()
            if works != self._works or not self._tried:
                self._works, self._tried = works, True
                self._changed()
            if not works:
                await self._clock.sleep(RETRY_SECONDS)
                self._due.set()

    async def _try(self) -> bool:
        try:
            works = await self._canary()
        except (TransportError, LeaseLost) as e:
            if not self._tried:
                LOG.warning(
                    "%s is believed to be in force, as it cannot be tried: %s", self._what, e
                )
            return self._works or not self._tried
        if not works and (self._works or not self._tried):
            LOG.warning("%s is there and does nothing: its work is done here", self._what)
        return works


def validating(
    client: Verbs,
    *,
    clock: Clock,
    namespace: str = SYSTEM_NAMESPACE,
    changed: Callable[[], None] = lambda: None,
) -> InForce:
    """Return the state of the policy that refuses wrong Workloads; tried in `namespace`."""

    async def refused() -> bool:
        body = _canary(replicas=-1)  # the schema accepts it, and only the policy refuses it
        try:
            await client.create(WORKLOADS, body, namespace=namespace, dry_run=True)
        except Invalid as e:
            if "ValidatingAdmissionPolicy" in str(e):
                return True
            raise
        return False

    resources = VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
    manifest = validating_policy()
    return InForce(
        client, manifest, resources=resources, canary=refused, clock=clock, changed=changed
    )


def mutating(client: Verbs, *, clock: Clock, namespace: str = SYSTEM_NAMESPACE) -> InForce:
    """Return the state of the policy that sets labels and defaults; tried in `namespace`."""

    async def completed() -> bool:
        body = _canary(replicas=1)
        made = await client.create(WORKLOADS, body, namespace=namespace, dry_run=True)
        return bool(made["spec"].get("schedulerName"))

    resources = MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
    return InForce(client, mutating_policy(), resources=resources, canary=completed, clock=clock)


def _canary(*, replicas: int) -> dict[str, Any]:
    # Its target namespace is reserved for the canary: no Workload may target the processes' own
    # namespace, in which the canary is created.
    body = copy.deepcopy(_CANARY)
    body["spec"]["targetDeployment"]["spec"]["replicas"] = replicas
    return body


_CANARY: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "Workload",
    "metadata": {"name": "canary"},
    "spec": {
        "schedulerName": "",
        "targetNamespace": CANARY_NAMESPACE,
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
