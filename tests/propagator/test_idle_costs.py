"""Whatever is waited for, and whoever wakes us meanwhile: few requests, few looks, no burning core.

All kinds of waiting at once on real servers, each of a Workload of its own; then the requests of
some seconds are counted by the names in them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, WORKLOADS, Resource
from machinery.errors import ApiError, NotFound
from propagator.reconciler import WorkloadReconciler
from propagator.settings import SessionSettings
from propagator.status.controller import Reporter
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import kubeconfig, token_for
from tests.propagator.stage import (
    AUTOSCALERS,
    CONFIGMAPS,
    DEPLOYMENTS,
    Stage,
    autoscaler,
    configmap,
    deployment,
    staged,
    swept,
)
from tests.propagator.waits import until

NO_WATCH = ["get", "list", "create", "patch", "delete"]
POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


@dataclass
class Tally:
    """What the propagator did, by the name of the Workload, which its objects have too."""

    requests: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    """Each request by itself, for whoever wants to know which ones were too many."""
    syncs: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    counted = Tally()
    attempt, report = ApiClient._attempt, Reporter._report
    reconcile = WorkloadReconciler.reconcile

    async def _attempt(client: ApiClient, call: Any, *rest: Any) -> Any:
        if ("User-Agent", "somebody-else") not in client._identity:
            parts = call.url.path.split("/")
            for name in KINDS_OF_WAITING:
                if name in parts:
                    counted.requests[name] += 1
                    counted.sent[f"{call.method} {call.url.path}"] += 1
        return await attempt(client, call, *rest)

    async def _reconcile(reconciler: WorkloadReconciler, session: Any, key: Any) -> Any:
        counted.syncs[key[1]] += 1
        return await reconcile(reconciler, session, key)

    async def _report(reporter: Reporter, key: Any) -> Any:
        counted.reports[key[1]] += 1
        return await report(reporter, key)

    monkeypatch.setattr(ApiClient, "_attempt", _attempt)
    monkeypatch.setattr(WorkloadReconciler, "reconcile", _reconcile)
    monkeypatch.setattr(Reporter, "_report", _report)
    return counted


def admission(name: str, kind: Resource, operation: str, rule: str) -> list[dict[str, Any]]:
    """A ValidatingAdmissionPolicy and its binding."""
    resources = [kind.plural, f"{kind.plural}/status"]
    matching = {
        "apiGroups": [kind.group],
        "apiVersions": ["*"],
        "operations": [operation],
        "resources": resources,
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [matching]},
            "validations": [{"expression": rule, "message": "the test says no"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


async def refused(call: Callable[[], Awaitable[Any]], words: str = "the test says no") -> bool:
    """Whether it is now; a rule takes a while to come into force."""
    try:
        await call()
    except ApiError as e:
        return words in str(e)
    return False


async def finalizer(stage: Stage) -> None:
    await stage.push("finalizer", manifests=[configmap("finalizer")])
    patch = {"metadata": {"finalizers": ["example.com/hold"]}}
    await stage.members["m1"].merge_patch(CONFIGMAPS, "finalizer", patch, namespace=stage.namespace)
    await stage.delete("finalizer")
    await stage.refused("finalizer", "Propagating", "example.com/hold")


async def undeletable(stage: Stage) -> None:
    member = stage.members["m1"]
    rule = "!oldObject.metadata.name.startsWith('undeletable')"
    policy, binding = admission("undeletable", CONFIGMAPS, "DELETE", rule)
    await member.create(POLICIES, policy)
    await member.create(BINDINGS, binding)
    await stage.push("undeletable", manifests=[configmap("undeletable")])
    await until(
        lambda: refused(
            lambda: stage.dry_delete("m1", CONFIGMAPS, "undeletable"),
        )
    )
    await stage.delete("undeletable")
    assert "the test says no" in await stage.refused("undeletable", "Rejected")


async def unwatched(stage: Stage) -> None:
    """The account may list autoscalers, and not watch them."""
    await stage.push("unwatched", manifests=[autoscaler("v2", name="unwatched")])
    await stage.end("unwatched")
    assert await stage.on("m1", "unwatched", kind=AUTOSCALERS) is None


async def quota(stage: Stage) -> None:
    member, what = stage.members["m1"], "count/horizontalpodautoscalers.autoscaling"
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": stage.namespace},
        "spec": {"hard": {what: "0"}},
    }
    await member.create(QUOTAS, body)
    status = {"status": {"hard": {what: "0"}, "used": {what: "0"}}}
    await member.merge_patch(
        QUOTAS, "none", status, namespace=stage.namespace, subresource="status"
    )
    tried = {"namespace": stage.namespace, "dry_run": True}
    wanted = autoscaler("v2", name="tried")
    await until(
        lambda: refused(lambda: member.create(AUTOSCALERS, wanted, **tried), "exceeded quota")
    )
    await stage.create(
        "quota",
        manifests=[autoscaler("v2", name="quota")],
        targetDeployment=deployment("quota"),
    )
    await stage.place("quota", m1=1)
    assert "exceeded quota" in await stage.refused("quota", "Rejected")


async def terminating(stage: Stage) -> None:
    member, name = stage.members["m1"], f"ending-{stage.namespace}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await member.create(NAMESPACES, body)
    await member.delete(NAMESPACES, name)
    await stage.create(
        "terminating", targetNamespace=name, targetDeployment=deployment("terminating")
    )
    await stage.place("terminating", m1=1)
    assert "is being deleted there" in await stage.refused("terminating", "Propagating")


async def exists(stage: Stage) -> None:
    body = deployment("exists")
    body["metadata"]["namespace"] = stage.namespace
    await stage.members["m1"].create(DEPLOYMENTS, body)
    await stage.run("exists", {"m1": 1}, targetDeployment=deployment("exists"))
    await stage.refused("exists", "AlreadyExists")


async def secretless(stage: Stage) -> None:
    await stage.run("secretless", {"m1": 1}, resources=[{"name": "secretless"}])
    await stage.refused("secretless", "SecretNotFound")


async def webhook(stage: Stage) -> None:
    hook = {
        "name": "broken.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "objectSelector": {"matchLabels": {"broken": "yes"}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "broken"},
        "webhooks": [hook],
    }
    await stage.members["m1"].create(WEBHOOKS, body)
    wanted = configmap("webhook")
    wanted["metadata"]["labels"] = {"broken": "yes"}
    tried = {"namespace": stage.namespace, "dry_run": True}
    create = stage.members["m1"].create
    await until(lambda: refused(lambda: create(CONFIGMAPS, wanted, **tried), "broken.example.com"))
    await stage.run(
        "webhook", {"m1": 1}, manifests=[wanted], targetDeployment=deployment("webhook")
    )
    assert "broken.example.com" in await stage.refused("webhook", "Rejected")


async def untold(stage: Stage) -> None:
    """The hub takes no status of it."""
    rule = "!object.metadata.name.startsWith('untold') || !has(object.status.readySummary)"
    policy, binding = admission("untold", WORKLOADS, "UPDATE", rule)
    await stage.hub.create(POLICIES, policy)
    await stage.hub.create(BINDINGS, binding)
    await stage.create("untold-probe", targetDeployment=deployment("probe"))
    patch = {"status": {"readySummary": "0/0"}}
    await until(lambda: refused(lambda: stage.patch("untold-probe", patch, subresource="status")))
    await stage.run("untold", {"m1": 1}, targetDeployment=deployment("untold"))
    await stage.appears("m1", "untold")


async def stops(stage: Stage) -> None:
    """First of all, as it takes a while until that is noticed: a member with a Workload on it."""
    await stage.push("away", "m2")
    stage.clusters["m2"].freeze()


async def away(stage: Stage) -> None:
    await until(lambda: not stage.process.term.registry.get("m2").ready)
    await stage.delete("away")
    await stage.refused("away", "ClusterUnreachable")


KINDS_OF_WAITING = {
    "finalizer": finalizer,
    "undeletable": undeletable,
    "unwatched": unwatched,
    "quota": quota,
    "terminating": terminating,
    "exists": exists,
    "secretless": secretless,
    "webhook": webhook,
    "untold": untold,
    "away": away,
}
SLOW = SessionSettings(
    request_timeout=60.0, probe_period=0.5, probe_timeout=6.0, probe_confirm=0.2, probe_backoff=1.0
)
"""The other member is not taken for lost because the machine stood still."""


def looks(seconds: float) -> int:
    """How often one that rests ever longer is looked at: after 1, 2, 4, 8 and 16 s."""
    return math.ceil(math.log2(1 + seconds))


@asynccontextmanager
async def waiting(stage: Stage) -> AsyncIterator[None]:
    """All of them at once; afterwards nothing of them is left."""
    try:
        await stops(stage)
        await unwatched(stage)  # before there is a quota of what it needs
        async with asyncio.TaskGroup() as group:
            for arrange in KINDS_OF_WAITING.values():
                if arrange is not unwatched:
                    group.create_task(arrange(stage))
        yield
    finally:
        stage.clusters["m2"].thaw()
        member = stage.members["m1"]
        for client, name in ((member, "undeletable"), (stage.hub, "untold")):
            for kind in (BINDINGS, POLICIES):
                await ended(client, kind, name)
        await ended(member, WEBHOOKS, "broken")
        await ended(member, QUOTAS, "none", namespace=stage.namespace)
        patch: dict[str, Any] = {"metadata": {"finalizers": None}}
        with suppress(NotFound):
            await member.merge_patch(CONFIGMAPS, "finalizer", patch, namespace=stage.namespace)


async def ended(client: ApiClient, kind: Resource, name: str, **where: str) -> None:
    with suppress(NotFound):
        await client.delete(kind, name, **where)


async def disturb(stage: Stage) -> None:
    """Change an object of a Workload that waits, ten times a second."""
    for number in itertools.count():
        patch = {"metadata": {"annotations": {"number": str(number)}}}
        member = stage.members["m1"]
        await member.merge_patch(DEPLOYMENTS, "quota", patch, namespace=stage.namespace)
        await asyncio.sleep(0.1)


@pytest.fixture
def narrow(m1: Cluster) -> str:
    """A kubeconfig of an account that may do all on m1 but watch autoscalers."""
    rules = [
        {"apiGroups": ["autoscaling"], "resources": ["*"], "verbs": NO_WATCH},
        {
            "apiGroups": ["", "apps", "batch", "networking.k8s.io"],
            "resources": ["*"],
            "verbs": ["*"],
        },
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "not-watching"},
        "rules": rules,
    }
    m1.kubectl("apply", "-f", "-", input=json.dumps(role))
    token = token_for(m1, "not-watching", role="not-watching")
    none = dict.fromkeys(("client_certificate_data", "client_key_data"))
    return kubeconfig(m1, token=token, **none)


@pytest.mark.proves("R4")
@pytest.mark.long
async def test_whatever_is_waited_for_costs_few_requests(
    hub: Cluster, m1: Cluster, m2: Cluster, narrow: str, tally: Tally
):
    seconds = 20.0
    with swept(hub):
        kubeconfigs = {"m1": narrow}
        async with staged(
            hub, {"m1": m1, "m2": m2}, kubeconfigs=kubeconfigs, sessions=SLOW
        ) as stage:
            async with waiting(stage):
                disturbing = asyncio.create_task(disturb(stage))
                for counts in (tally.requests, tally.sent, tally.syncs, tally.reports):
                    counts.clear()
                began = time.monotonic()
                await asyncio.sleep(seconds)
                seen = {
                    name: (tally.requests[name], tally.syncs[name], tally.reports[name])
                    for name in KINDS_OF_WAITING
                }
                lasted = time.monotonic() - began
                disturbing.cancel()
            print(seen, tally.sent)
            requests = 2 * looks(lasted)  # a look may take two
            syncs = looks(lasted) + 3
            reports = 2 * syncs  # one that rests is looked at, and costs nothing
            woken = seen.pop("quota")
            assert woken[0] <= requests
            assert woken[1] <= 2 * lasted + 10, "two in a second, whoever wakes us all the time"
            assert {name: n for name, n in seen.items() if n[0] > requests} == {}
            assert {name: n for name, n in seen.items() if n[1] > syncs or n[2] > reports} == {}
            assert seen["unwatched"] == (0, 0, 0), "it was gone"
