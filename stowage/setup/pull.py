"""Members in mode Pull: `join --pull`, `invite`, `revoke` and `agents`.

An invitation is a token of the account `invite` in the member's namespace on the hub. Who has it
may claim the member once; the propagator then seals the agent's first token for that claim
(`propagator.hub.agent_accounts`). All steps are made with the rights of who calls the command, and
may be made again. The MemberCluster names the namespace once all is there, so nobody else can make
one of that name before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from crds.membercluster import MemberMode
from crds.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE,
    AGENT_TOKEN_SECRET,
    ANNOTATION_IDENTITY,
    ANNOTATION_INVITED,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_RELEASE,
    ANNOTATION_REVOKED,
    ANNOTATION_TOKEN_ENDS,
    ANNOTATION_UNJOIN,
    HUB_CONFIG,
    INVITE_ACCOUNT,
    MEMBER_REPORT,
)
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    LEASES,
    MEMBER_CLUSTERS,
    MEMBER_REPORTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from machinery.clock import SystemClock, stored_time, timestamp
from machinery.config.address import check_server, loopback
from machinery.errors import (
    AlreadyExists,
    ConfigurationError,
    NotFound,
)
from machinery.types import conditions
from machinery.types.pull import HubFacts
from machinery.types.selectors import label_selector
from propagator.credentials.credentials import PodSecurity
from propagator.credentials.tokens import SHORTEST_SECONDS, request_token
from stowage.hub import no_such_cluster
from stowage.setup import agent_manifests, member_namespace
from stowage.setup.install import apply_one
from stowage.setup.member_side import Say

MANAGER = "stowage-invite"
LONGEST_TTL = 7 * 24 * 3600
DEAD_SECONDS = 15.0
"""An API server takes a token for ten seconds after it has last looked for its account. Tokens name
the account, so new accounts of the names wait for so long: with an old token a thief would ask for
one of theirs, or claim the member again.
"""


@dataclass(frozen=True, kw_only=True)
class Invite:
    """The arguments of an invitation.

    Args:
        namespace: of Stowage, on the hub and on the member.
        seconds: for how long the invitation is good.
        renew: whether the present agent's credential ends.
        server: the hub's address as the agent reaches it; None for that of this command.
        switch: whether a member in mode Push may become one in Pull.
    """

    name: str
    namespace: str
    seconds: int = 3600
    renew: bool = False
    server: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    switch: bool = False
    identity: str = ""
    """The UID of the member's kube-system, where it is known."""


@dataclass(frozen=True, slots=True)
class Invited:
    """What the agent's Secret has to say."""

    facts: HubFacts
    namespace: str
    token: str
    """Empty where the agent has its credential already."""


async def invite(hub: ApiClient, plan: Invite, *, say: Say) -> Invited:
    """Make all that an agent needs on the hub. Raises ConfigurationError saying what to do."""
    facts = await hub_facts(hub, plan)
    cluster = await hub.find(MEMBER_CLUSTERS, plan.name)
    notes: Mapping[str, str] = ((cluster or {}).get("metadata") or {}).get("annotations") or {}
    pulls = cluster is not None and (cluster.get("spec") or {}).get("mode") == MemberMode.PULL
    if cluster is not None and not pulls and not plan.switch and _reached(cluster):
        raise ConfigurationError(
            f"{plan.name} is a member in mode Push: `stowage join {plan.name} --pull` switches it"
        )
    own = await member_namespace.members(hub, plan.name)
    named = member_namespace.named(cluster)
    where = named if pulls and named in own and ANNOTATION_REVOKED not in notes else ""
    open_already = bool(notes.get(ANNOTATION_INVITED))
    if where and not plan.renew and not open_already and await _has_agent(hub, where):
        if plan.server is None:
            raise ConfigurationError(
                f"{plan.name} has an agent with a credential: --renew ends that one, and invites "
                "another"
            )
        await apply_one(hub, member_namespace.hub_config(where, facts), manager=MANAGER)
        say(f"the agent of {plan.name} is told the address {plan.server}")
        return Invited(facts, where, "")
    anew = not where
    if anew:
        where = member_namespace.new_name(plan.name)
        # It is never one that is there: what others have in that is not known.
        await hub.create(NAMESPACES, member_namespace.namespace(where, plan.name))
    for manifest in (
        *member_namespace.rights(where, plan.namespace),
        member_namespace.hub_config(where, facts),
    ):
        await apply_one(hub, manifest, manager=MANAGER)
    for each in own:
        if each != where:  # of a MemberCluster that was deleted, or of a revocation
            await _end_accounts(hub, each)
    if plan.renew and not anew:
        say(f"{plan.name}: waits {DEAD_SECONDS:.0f} s until no server takes the former tokens")
        await _end(hub, where)
        await SystemClock().sleep(DEAD_SECONDS)
    await _make_credential(hub, where)
    ends = timestamp(SystemClock().now() + timedelta(seconds=plan.seconds))
    await _open(hub, plan, cluster, where, ends)
    token = await request_token(hub, (where, INVITE_ACCOUNT), seconds=plan.seconds)
    made = "is made" if anew else "stays"
    say(f"{plan.name}: namespace {where} {made}; the invitation ends at {ends}")
    return Invited(facts, where, token)


async def hub_facts(hub: ApiClient, plan: Invite) -> HubFacts:
    """Return what agents are told of the hub. Raises ConfigurationError.

    An address of this machine that was derived is refused: an agent would find itself there.
    """
    server = plan.server or hub.connection.server
    try:
        check_server(server)
    except ValueError as e:
        raise ConfigurationError(f"--hub-server: the hub's address {e}") from e
    host = urlsplit(server).hostname or ""
    if plan.server is None and (loopback(host) or host.endswith(".localhost")):
        raise ConfigurationError(
            f"the hub is {host} to this machine, where an agent would look on its own member: name "
            "the address that the member reaches with --hub-server"
        )
    uid = (await hub.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    return HubFacts(uid, (server,), (hub.connection.ca or b"").decode())


def agent(
    plan: Invite,
    invited: Invited,
    *,
    image: str,
    proxy: str = "",
    narrow: bool = True,
    pod_security: PodSecurity = PodSecurity.BASELINE,
) -> list[dict[str, Any]]:
    """Return the agent for a member that has its rights (`agent_manifests.rights`, or `join`)."""
    data = agent_manifests.secret_data(
        invited.facts,
        namespace=invited.namespace,
        invitation=invited.token,
        proxy=proxy,
        narrow=narrow,
        pod_security=pod_security,
    )
    return agent_manifests.agent(plan.namespace, image=image, data=data)


async def revoke(hub: ApiClient, name: str, *, say: Say) -> None:
    """End the credential of a member's agent. Raises ConfigurationError where it has none.

    The mark comes first: nothing is written into the namespace after it, and the propagator deletes
    the accounts where this command dies before.
    """
    cluster = await hub.find(MEMBER_CLUSTERS, name)
    if cluster is None:
        raise await no_such_cluster(hub, name)
    named = member_namespace.named(cluster)
    if not named:
        raise ConfigurationError(f"{name} is not in mode Pull: it has no agent to revoke")
    notes = {ANNOTATION_REVOKED: timestamp(SystemClock().now()), ANNOTATION_INVITED: None}
    await hub.merge_patch(MEMBER_CLUSTERS, name, {"metadata": {"annotations": notes}})
    for where in await member_namespace.members(hub, name):
        await _end_accounts(hub, where)
    say(
        f"{name}: its agent's credential has ended. What runs there goes on; `stowage invite "
        f"{name} --renew` invites another agent"
    )
    say(
        f"{name}: new requests are refused within seconds, but a watch that is open now goes on "
        f"for up to about half an hour: so nothing is written into namespace {named} any more"
    )


async def agents(hub: ApiClient, now: datetime) -> list[dict[str, Any]]:
    """Return a row for each member in mode Pull, by name. Raises TransportError."""
    listed = (await hub.list(LEASES, field_selector=f"metadata.name={AGENT_LEASE}"))["items"]
    leases = {each["metadata"]["namespace"]: each for each in listed}
    clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
    rows = [_row(each, leases, now) for each in clusters if _pulls(each)]
    return sorted(rows, key=lambda row: str(row["name"]))


async def upgrade(
    hub: ApiClient, image: str, labels: Mapping[str, str], *, say: Say
) -> Sequence[str]:
    """Have the agents of members with these labels run another image; return their names."""
    selector = label_selector({"matchLabels": dict(labels)})
    own, told = await member_namespace.members(hub), []
    for each in (await hub.list(MEMBER_CLUSTERS))["items"]:
        meta = each["metadata"]
        notes = meta.get("annotations") or {}
        if not _pulls(each) or ANNOTATION_REVOKED in notes:
            continue
        if not selector.matches(meta.get("labels") or {}):
            continue
        where = member_namespace.named(each)
        if own.get(where) != meta["name"]:
            continue  # `agents` says that it has none
        patch = {"data": {"image": image}}
        await hub.merge_patch(CONFIG_MAPS, HUB_CONFIG, patch, namespace=where)
        say(f"{meta['name']}: its agent is told to run {image}")
        told.append(meta["name"])
    return told


def _row(cluster: Mapping[str, Any], leases: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    meta, status = cluster["metadata"], cluster.get("status") or {}
    notes, pull = meta.get("annotations") or {}, status.get("pull") or {}
    lease = leases.get(member_namespace.named(cluster), {})
    told = (lease.get("metadata") or {}).get("annotations") or {}
    ready = conditions.find(status, "Ready")
    state = "Revoked" if ANNOTATION_REVOKED in notes else str(ready.get("reason") or "")
    state = state or ("Invited" if notes.get(ANNOTATION_INVITED) else "")
    renewed = stored_time(str((lease.get("spec") or {}).get("renewTime") or ""))
    skew = timedelta(seconds=pull.get("skewSeconds") or 0)
    silent = None if renewed is None else max(0, round((now - renewed + skew).total_seconds()))
    return {
        "name": meta["name"],
        "release": told.get(ANNOTATION_RELEASE) or pull.get("release") or "",
        "state": state,
        "silentSeconds": silent,
        "tokenEnds": told.get(ANNOTATION_TOKEN_ENDS) or pull.get("tokenEnds") or "",
    }


def _pulls(cluster: Mapping[str, Any]) -> bool:
    return (cluster.get("spec") or {}).get("mode") == MemberMode.PULL


def _reached(cluster: Mapping[str, Any]) -> bool:
    """Whether the propagator has, or had, a way into it."""
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    return bool(spec.get("secretRef") or status.get("clusterID"))


async def _open(
    hub: ApiClient, plan: Invite, cluster: Mapping[str, Any] | None, where: str, ends: str
) -> None:
    """Have the MemberCluster name its namespace, and until when it is open; make it if need be."""
    # In one write: the accounts of a namespace are ended while its member is revoked.
    notes: dict[str, Any] = {ANNOTATION_MEMBER_NAMESPACE: where, ANNOTATION_INVITED: ends}
    if plan.identity:
        notes[ANNOTATION_IDENTITY] = plan.identity
    meta = {"name": plan.name, "labels": dict(plan.labels), "annotations": notes}
    body: dict[str, Any] = {"metadata": meta, "spec": {"mode": MemberMode.PULL.value}}
    if cluster is None:
        kind = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
        await hub.create(MEMBER_CLUSTERS, {**kind, **body})
        return
    # A cluster that an `unjoin` had begun to give up is given up no more.
    notes |= {ANNOTATION_REVOKED: None, ANNOTATION_UNJOIN: None}
    await hub.merge_patch(MEMBER_CLUSTERS, plan.name, body)


async def _has_agent(hub: ApiClient, where: str) -> bool:
    """Whether an agent has claimed the member."""
    found = await hub.find(MEMBER_REPORTS, MEMBER_REPORT, namespace=where) or {}
    return bool((found.get("status") or {}).get("claim"))


async def _end_accounts(hub: ApiClient, where: str) -> None:
    for name in (AGENT_ACCOUNT, INVITE_ACCOUNT):
        await _delete(hub, SERVICE_ACCOUNTS, name, where)
    await _delete(hub, SECRETS, AGENT_TOKEN_SECRET, where)


async def _end(hub: ApiClient, where: str) -> None:
    """End what one agent has for itself; accounts come first, so that its tokens are refused."""
    await _end_accounts(hub, where)
    await _delete(hub, LEASES, AGENT_LEASE, where)
    await _delete(hub, MEMBER_REPORTS, MEMBER_REPORT, where)
    with suppress(NotFound):  # an agent may have put a finalizer on its Lease
        lease = {"metadata": {"finalizers": None}}
        await hub.merge_patch(LEASES, AGENT_LEASE, lease, namespace=where)


async def _make_credential(hub: ApiClient, where: str) -> None:
    """Make what is not there: of accounts that stay, the tokens stay good."""
    for manifest in member_namespace.credential(where):
        resource = await hub.resource(manifest["apiVersion"], manifest["kind"])
        with suppress(AlreadyExists):
            await hub.create(resource, manifest, namespace=where)


async def _delete(hub: ApiClient, resource: Resource, name: str, where: str) -> None:
    with suppress(NotFound):
        await hub.delete(resource, name, namespace=where)


def checked_ttl(seconds: float) -> int:
    """Return the seconds of an invitation. Raises ConfigurationError for what no hub grants."""
    if not SHORTEST_SECONDS <= seconds <= LONGEST_TTL:
        raise ConfigurationError("--ttl: an invitation is good for 10m to 168h")
    return int(seconds)
