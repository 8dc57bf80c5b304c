"""The hub's side of an agent's credential, with the rights of `deploy/rbac.yaml` and no others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from crds.names import (
    AGENT_TOKEN_SECRET,
    ANNOTATION_INVITED,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_REVOKED,
    SYSTEM_NAMESPACE,
)
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from machinery.clock import SystemClock, timestamp
from machinery.errors import NotFound
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.pull import HubFacts
from propagator.credentials.agent_credential import AgentCredential
from propagator.hub.agent_accounts import AgentAccounts, oldest_served
from propagator.members.context import HubIdentity
from propagator.types.cluster import MemberCluster
from stowage.setup import agent_manifests, install, pull
from tests.inforce import until_may
from tests.patience import until
from tests.propagator.contexts import Context

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-propagator"
_numbers = itertools.count(1)


class Hub:
    """The hub as its administrator sees it, with a member that is invited."""

    def __init__(self, client, cluster) -> None:
        self.client, self.cluster = client, cluster
        self.name = f"agent-{next(_numbers)}"
        self.namespace = ""
        self.listeners: list[Callable[[str], None]] = []

    async def tell(self):
        """As a session tells that the MemberReport or the Lease has changed."""
        while True:
            for listener in self.listeners:
                listener(self.name)
            await asyncio.sleep(0.2)

    async def invite(self, **more):
        plan = pull.Invite(
            name=self.name, namespace=SYSTEM_NAMESPACE, server=self.cluster.server, **more
        )
        invited = await pull.invite(self.client, plan, say=lambda _: None)
        self.namespace = invited.namespace
        user = f"create serviceaccounts/agent --subresource=token -n {self.namespace}"
        await asyncio.to_thread(until_may, self.cluster, ACCOUNT, user)
        return invited

    async def agent(self, invited):
        """Return a credential with that invitation in its Secret."""
        data = agent_manifests.secret_data(
            invited.facts, namespace=invited.namespace, invitation=invited.token
        )
        made = agent_manifests.agent(self.name, image="agent", data=data)
        (secret,) = [each for each in made if each["kind"] == "Secret"]
        await self.make_namespace(self.name)
        await self.client.create(SECRETS, secret)
        return AgentCredential(self.client, clock=SystemClock(), home=self.name)

    async def make_namespace(self, name):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.apply(NAMESPACES, body, name=name, force=True)

    async def stands(self, resource, name):
        try:
            return bool(await self.client.get(resource, name, namespace=self.namespace))
        except NotFound:
            return False

    async def notes(self):
        return (await self.client.get(MEMBER_CLUSTERS, self.name))["metadata"]["annotations"]

    async def patch(self, **patch):
        await self.client.merge_patch(MEMBER_CLUSTERS, self.name, patch)

    async def told(self):
        found = await self.client.get(CONFIG_MAPS, "hub", namespace=self.namespace)
        return HubFacts.of(found["data"])


@pytest.fixture
async def hub_of(hub):
    """The hub, on which the propagator's part works as its account."""
    roles = install.load("rbac.yaml", namespace=SYSTEM_NAMESPACE)
    wanted = ("stowage-propagator", "stowage-propagator-member")
    given = [
        each
        for each in roles
        if each["kind"].startswith("ClusterRole") and each["metadata"]["name"] in wanted
    ]
    itself = replace(hub.connection(), impersonate=ACCOUNT)
    async with ApiClient(hub.connection()) as admin, ApiClient(itself) as client:
        for each in given:
            await install.apply_one(admin, each, manager="test")
        await asyncio.to_thread(until_may, hub, ACCOUNT, "watch memberclusters.stowage.dev -A")
        clock = SystemClock()
        recorder = EventRecorder(client, controller="test", instance="test", clock=clock)
        clusters = Informer(client, MEMBER_CLUSTERS, MemberCluster, clock=clock)
        found = Hub(admin, hub)
        context: Any = Context(
            hub=client,
            clusters=clusters,
            registry=SimpleNamespace(on_facts=found.listeners.append),
            identity=HubIdentity(client),
            recorder=recorder,
            clock=clock,
        )
        accounts = AgentAccounts(context)
        tasks = [
            asyncio.create_task(each)
            for each in (clusters.run(), recorder.run(), accounts.run(), found.tell())
        ]
        yield found
        await end(tasks)
        with suppress(NotFound):
            await admin.delete(MEMBER_CLUSTERS, found.name)
        for each in reversed(given):
            resource = await admin.resource(each["apiVersion"], each["kind"])
            await admin.delete(resource, each["metadata"]["name"])


@pytest.mark.proves("PL6", "PL7")
async def test_an_invitation_is_over_once_its_agent_has_used_its_token(hub_of):
    agent = await hub_of.agent(await hub_of.invite())
    access = await agent.obtain()
    async with ApiClient(access.connection) as itself:
        assert await itself.get(CONFIG_MAPS, "hub", namespace=hub_of.namespace)

    async def over():
        return ANNOTATION_INVITED not in await hub_of.notes()

    await until(over)
    assert not await hub_of.stands(SERVICE_ACCOUNTS, "invite")
    assert not await hub_of.stands(SECRETS, AGENT_TOKEN_SECRET)
    assert await hub_of.stands(SERVICE_ACCOUNTS, "agent")

    async def noted():
        listed = (await hub_of.client.list(EVENTS))["items"]
        return any(
            each["reason"] == "InviteUsed" and each["regarding"]["name"] == hub_of.name
            for each in listed
        )

    await until(noted)
    # Where a revocation was interrupted after its mark, the accounts go all the same.
    await hub_of.patch(metadata={"annotations": {ANNOTATION_REVOKED: "2026-01-02T03:04:05Z"}})

    async def ended():
        return not await hub_of.stands(SERVICE_ACCOUNTS, "agent")

    await until(ended)


async def test_an_invitation_that_nobody_used_ends_with_its_time(hub_of):
    await hub_of.invite()
    past = timestamp(SystemClock().now() - timedelta(seconds=1))
    await hub_of.patch(metadata={"annotations": {ANNOTATION_INVITED: past}})

    async def over():
        return not await hub_of.stands(SERVICE_ACCOUNTS, "invite")

    await until(over)
    await until(lambda: _without(hub_of, ANNOTATION_INVITED))


async def _without(hub_of, key):
    return key not in await hub_of.notes()


async def test_an_agent_is_told_the_mode_and_its_addresses_are_left(hub_of):
    await hub_of.invite()
    before = await hub_of.told()
    uid = (await hub_of.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    assert (before.uid, before.mode, before.servers) == (uid, "Pull", (hub_of.cluster.server,))
    wrong = {"data": {"uid": "another", "minAgent": "9.0.0"}}
    await hub_of.client.merge_patch(CONFIG_MAPS, "hub", wrong, namespace=hub_of.namespace)
    reference = {"namespace": SYSTEM_NAMESPACE, "name": hub_of.name}
    await hub_of.patch(spec={"mode": "Push", "secretRef": reference})

    async def equal():
        found = await hub_of.told()
        return found == replace(before, mode="Push")

    await until(equal)
    assert (await hub_of.notes())[ANNOTATION_MEMBER_NAMESPACE] == hub_of.namespace


@pytest.mark.parametrize(
    ("running", "oldest"),
    [("0.1.0", ""), ("0.2.0", "0.0.0"), ("1.7.3", "1.5.0"), ("", ""), ("dev", "")],
)
def test_agents_of_two_releases_before_are_served(running, oldest):
    assert oldest_served(running) == oldest
