"""Whether the hub itself enforces one of our admission policies, as far as this process has seen.

Both processes do less where it does: the controller leaves its own review of Workloads out, and the
propagator needs none. So the answer is a careful one. A policy is in force when it is there with
just the rules that this version was built with, and its binding is there too; a policy of another
version, which may know fewer rules, counts as none. A hub that does not serve the resources has
none; until both lists were seen, or refused in this way, nothing is `known`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from crds.admission.mutating import mutating_policy
from crds.admission.policies import validating_policy
from crds.admission.policy import ANNOTATION_RULES, rules_of
from machinery.api.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object


class InForce:
    """One policy and its binding, watched; `changed` is called when the answer may have changed."""

    def __init__(
        self,
        client: Verbs,
        manifest: Mapping[str, Any],
        *,
        resources: tuple[Resource, Resource],
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._rules = rules_of(manifest)
        self._changed = changed
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
            informer.add_handler(lambda old, new: self._changed())

    @property
    def known(self) -> bool:
        """Whether the answer is one; an older hub does not know the resources."""
        return all(
            informer.synced or isinstance(informer.last_error, NotFound)
            for informer in (self._policies, self._bindings)
        )

    @property
    def obstacle(self) -> str:
        """Why it is not known; empty when nothing is in the way, or when it is known."""
        errors = (self._policies.last_error, self._bindings.last_error)
        found = next((error for error in errors if error is not None), None)
        return "" if self.known or found is None else str(found)

    def __call__(self) -> bool:
        """Whether it is in force; False until that is known."""
        there = any(
            policy.metadata.annotations.get(ANNOTATION_RULES) == self._rules
            for policy in self._policies.values()
        )
        return there and len(self._bindings) > 0

    async def run(self) -> None:
        """Watch, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._policies.run())
            tasks.create_task(self._bindings.run())


def validating(
    client: Verbs, *, clock: Clock, changed: Callable[[], None] = lambda: None
) -> InForce:
    """Of the policy that refuses wrong Workloads."""
    resources = VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
    manifest = validating_policy()
    return InForce(client, manifest, resources=resources, clock=clock, changed=changed)


def mutating(client: Verbs, *, clock: Clock) -> InForce:
    """Of the policy that brings labels and defaults into their one form."""
    resources = MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
    return InForce(client, mutating_policy(), resources=resources, clock=clock)
