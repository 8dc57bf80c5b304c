"""The credential of an agent: what it may, how it is given and taken, on a real API server.

The hub has a propagator beside it. As the member of an agent the same server stands in, with a
namespace for each agent's Secret: of the member the credential needs nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
import yaml

from crds.names import (
    AGENT,
    ANNOTATION_INVITED,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_TOKEN_ENDS,
    LABEL_MEMBER_NAMESPACE,
    SYSTEM_NAMESPACE,
)
from machinery.api.client import ApiClient
from machinery.api.resources import (
    ASSIGNMENTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MEMBER_CLUSTERS,
    MEMBER_REPORTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
)
from machinery.clock import SystemClock
from machinery.errors import ConfigurationError, Forbidden, TransportError, Unauthorized
from machinery.tasks import end
from machinery.types.pull import HubFacts
from propagator.credentials import agent_credential
from propagator.credentials.agent_credential import (
    AgentCredential,
    InviteUsed,
    NotInvited,
    WrongHub,
)
from propagator.credentials.agent_image import follow_image
from propagator.credentials.tokens import request_token
from stowage.setup import agent_manifests, install, pull
from tests.patience import until

from .conftest import FLEET
from .crawler import ANYWHERE, Attempt, Crawler

pytestmark = FLEET

DEAD_SECONDS = 15.0
"""A token is refused so long after its account is gone; the API server keeps answers for ten."""
_numbers = itertools.count(1)


class Member:
    """A member by the name that it has on the hub, and the ways to its Secret."""

    def __init__(self, hub, stowage, client) -> None:
        self.hub, self.client, self._stowage = hub, client, stowage
        self.name = f"pulled-{next(_numbers)}"

    async def invite(self, *more):
        """Return what `stowage invite` prints."""
        args = ("invite", self.name, f"--hub-server={self.hub.server}", *more)
        printed = await asyncio.to_thread(
            self._stowage.succeed, *args, f"--kubeconfig={self.hub.kubeconfig}"
        )
        return list(yaml.safe_load_all(printed))

    async def run(self, *args):
        return await asyncio.to_thread(
            self._stowage.succeed, *args, f"--kubeconfig={self.hub.kubeconfig}"
        )

    async def apply(self, printed, home):
        """Have the Secret that was printed in that namespace."""
        (secret,) = [each for each in printed if each["kind"] == "Secret"]
        secret["metadata"] = {"name": AGENT, "namespace": home}
        name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}
        await self.client.apply(NAMESPACES, name, name=home, force=True)
        await self.client.apply(
            SECRETS, secret, name=AGENT, namespace=home, force=True, field_manager="kubectl"
        )

    def credential(self, home, **more):
        return AgentCredential(self.client, clock=SystemClock(), home=home, **more)

    async def obtained(self, *more):
        """Invite an agent, and return its credential and access."""
        await self.apply(await self.invite(*more), self.name)
        credential = self.credential(self.name)
        return credential, await credential.obtain()

    async def cluster(self):
        return await self.client.get(MEMBER_CLUSTERS, self.name)


@pytest.fixture
async def member(propagated_hub, stowage, monkeypatch):
    monkeypatch.setattr(agent_credential, "_POLL_SECONDS", 0.05)
    roles = install.load("rbac.yaml", namespace=SYSTEM_NAMESPACE)
    (role,) = [each for each in roles if each["metadata"]["name"] == "stowage-propagator-member"]
    async with ApiClient(propagated_hub.connection()) as client:
        await install.apply_one(client, role, manager="test")
        made = Member(propagated_hub, stowage, client)
        yield made
        with suppress(TransportError):
            await client.delete(MEMBER_CLUSTERS, made.name)


async def refused(connection, namespace):
    """Wait until the token is refused; return after how many seconds."""
    began = time.monotonic()
    async with ApiClient(connection) as hub:

        async def gone():
            try:
                await hub.get(CONFIG_MAPS, "hub", namespace=namespace)
            except Unauthorized:
                return True
            return False

        await until(gone, seconds=DEAD_SECONDS, every=0.2)
    return time.monotonic() - began


async def bearer(access):
    return await access.connection.token_source()


# --- what the credential may ----------------------------------------------------------------------

EVERYBODY = {
    *(
        Attempt("create", f"authorization.k8s.io/{each}", ANYWHERE)
        for each in ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    ),
    Attempt("create", "authentication.k8s.io/selfsubjectreviews", ANYWHERE),
    *(
        Attempt("get", path, ANYWHERE)
        for path in (
            *("/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/version/"),
            *("/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration"),
            "/openid/v1/jwks",
        )
    ),
}
"""What every account of a cluster may."""
NAMES = ("hub", "agent", "member")
"""Names that are tried in the agent's own namespace."""


def agents_own(namespace):
    """What the agent may in its namespace, by the list of its rights."""
    own = set()
    for resource in ("stowage.dev/assignments", "/secrets"):
        own |= {Attempt(verb, resource, namespace) for verb in ("list", "watch")}
        for name in NAMES:
            own |= {Attempt(v, resource, namespace, name) for v in ("get", "list", "watch")}
    own |= {Attempt("patch", "stowage.dev/assignments/status", namespace, n) for n in NAMES}
    own |= {
        Attempt("get", "stowage.dev/memberreports", namespace, "member"),
        Attempt("patch", "stowage.dev/memberreports/status", namespace, "member"),
        Attempt("get", "coordination.k8s.io/leases", namespace, "agent"),
        Attempt("patch", "coordination.k8s.io/leases", namespace, "agent"),
        Attempt("create", "/serviceaccounts/token", namespace, "agent"),
        Attempt("create", "/events", namespace),
    }
    own |= {Attempt("patch", "/events", namespace, n) for n in NAMES}
    return own | {Attempt(v, "/configmaps", namespace, "hub") for v in ("get", "list", "watch")}


@pytest.mark.proves("PL3", "PL4", "PL5")
async def test_a_crawler_with_the_token_finds_what_is_listed_and_no_more(member):
    hub = member.hub
    canary = "canary-7f3a"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": canary}}
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": canary}}
    await member.client.apply(NAMESPACES, named, name=canary, force=True)
    await member.client.apply(SECRETS, secret, name=canary, namespace=canary, force=True)
    workload = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": canary},
        "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
    }
    await member.client.apply(WORKLOADS, workload, name=canary, namespace=canary, force=True)
    other = Member(hub, member._stowage, member.client)
    await other.invite()
    _, access = await member.obtained()
    mine, theirs = access.namespace, (await other.cluster())["metadata"]["annotations"]
    foreign = theirs[ANNOTATION_MEMBER_NAMESPACE]
    token = await bearer(access)

    def crawl():
        crawler = Crawler(hub.server, hub.ca.decode(), token)
        try:
            places = dict.fromkeys((ANYWHERE, foreign, canary), ("agent",)) | {mine: NAMES}
            found = crawler.crawl(places)
            rules = {"spec": {"namespace": mine}}
            path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
            _, text = crawler.ask("POST", path, rules)
        finally:
            crawler.close()
        return found, json.loads(text)["status"], crawler

    found, rules, crawler = await asyncio.to_thread(crawl)
    assert crawler.tried > 1500
    assert found - EVERYBODY - agents_own(mine) == set()
    assert agents_own(mine) - found == set()
    assert EVERYBODY - found == set()
    listed = {
        (verb, group, resource, tuple(sorted(rule.get("resourceNames", ()))))
        for rule in rules["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    own = {each for each in listed if not each[2].startswith("selfsubject")}
    told = ("hub", "kube-root-ca.crt")
    assert own == {
        *((verb, "stowage.dev", "assignments", ()) for verb in ("get", "list", "watch")),
        ("patch", "stowage.dev", "assignments/status", ()),
        ("get", "stowage.dev", "memberreports", ("member",)),
        ("patch", "stowage.dev", "memberreports/status", ("member",)),
        *((verb, "", "secrets", ()) for verb in ("get", "list", "watch")),
        *((verb, "coordination.k8s.io", "leases", ("agent",)) for verb in ("get", "patch")),
        *((verb, "", "configmaps", told) for verb in ("get", "list", "watch")),
        ("create", "", "serviceaccounts/token", ("agent",)),
        *((verb, "", "events", ()) for verb in ("create", "patch")),
    }
    # And of everything that came back, nothing was another one's.
    for secret_word in (canary, other.name, foreign):
        asked_for = crawler.seen.replace(f'"{secret_word}" cannot'.encode(), b"")
        told_of = [line for line in asked_for.split(b"}") if secret_word.encode() in line]
        assert all(b"is forbidden" in line or b"cannot" in line for line in told_of), told_of[:3]


@pytest.mark.proves("PL5")
async def test_the_token_changes_nothing_of_another_one(member):
    _, access = await member.obtained()
    other = Member(member.hub, member._stowage, member.client)
    _, theirs = await other.obtained()
    async with ApiClient(access.connection) as agent:
        spec = {"spec": {"order": "Remove"}}
        lease = {"spec": {"holderIdentity": "me"}}
        for wrong in (
            agent.merge_patch(ASSIGNMENTS, "uid", spec, namespace=access.namespace),
            agent.merge_patch(ASSIGNMENTS, "uid", spec, namespace=theirs.namespace),
            agent.merge_patch(
                ASSIGNMENTS, "uid", {"status": {}}, namespace=theirs.namespace, subresource="status"
            ),
            agent.merge_patch(WORKLOADS, "demo", {"spec": {}}, namespace="default"),
            agent.merge_patch(LEASES, "agent", lease, namespace=theirs.namespace),
            agent.merge_patch(LEASES, "stowage-propagator", lease, namespace=SYSTEM_NAMESPACE),
            *(
                agent.request("POST", SERVICE_ACCOUNTS.path(where, name, "token"), body={})
                for where, name in (
                    (access.namespace, "invite"),
                    (access.namespace, "default"),
                    (theirs.namespace, "agent"),
                    (SYSTEM_NAMESPACE, "stowage-propagator"),
                )
            ),
        ):
            with pytest.raises(Forbidden):
                await wrong


# --- how it is given ------------------------------------------------------------------------------


@pytest.mark.proves("PL6")
async def test_an_invitation_that_two_use_is_good_for_one(member, monkeypatch):
    monkeypatch.setattr(pull, "DEAD_SECONDS", 0.0)  # no thief is here
    before = None
    for _ in range(2):
        printed = await member.invite("--renew")
        homes = [f"{member.name}-{side}-{next(_numbers)}" for side in "ab"]
        for home in homes:
            await member.apply(json.loads(json.dumps(printed)), home)
        agents = [member.credential(home) for home in homes]
        ended = await asyncio.gather(*(each.obtain() for each in agents), return_exceptions=True)
        won = [each for each in ended if not isinstance(each, BaseException)]
        lost = [each for each in ended if isinstance(each, BaseException)]
        assert len(won) == 1, ended
        # 422 while the account of the invitation stands, and 401 after it.
        assert isinstance(lost[0], InviteUsed | NotInvited), lost
        earlier, before, loser = before, won[0], agents[ended.index(lost[0])]

    async def over():
        try:
            await loser.obtain()
        except NotInvited:
            return True
        except InviteUsed:
            return False
        raise AssertionError

    await asyncio.gather(
        until(over, seconds=DEAD_SECONDS, every=0.2),
        refused(earlier.connection, earlier.namespace),
        until(lambda: _settled(member)),
    )
    found = await member.client.get(LEASES, "agent", namespace=before.namespace)
    assert found["metadata"]["annotations"][ANNOTATION_TOKEN_ENDS]


async def _settled(member):
    """Whether the invitation is over."""
    return ANNOTATION_INVITED not in (await member.cluster())["metadata"]["annotations"]


@pytest.mark.proves("PL6")
async def test_a_renewed_invitation_gives_an_old_token_nothing_of_the_new_accounts(member):
    """An API server takes the old token for seconds after its account is gone, by the name alone."""
    _, access = await member.obtained()
    won = []
    async with ApiClient(access.connection) as thief:

        async def claim():
            status = {"status": {"claim": base64.b64encode(b"t" * 32).decode()}}
            where = {"namespace": access.namespace, "subresource": "status"}
            while True:
                for trying in (
                    partial(request_token, thief, (access.namespace, "agent"), seconds=600),
                    partial(thief.merge_patch, MEMBER_REPORTS, "member", status, **where),
                ):
                    with suppress(TransportError):
                        won.append(await trying())
                await asyncio.sleep(0.05)

        stealing = asyncio.create_task(claim())
        try:
            await until(lambda: won)  # of its own account
            lease = {"metadata": {"finalizers": ["example.com/stays"]}}
            await thief.merge_patch(LEASES, "agent", lease, namespace=access.namespace)
            await member.invite("--renew")
        finally:
            await end([stealing])
    account = await member.client.get(SERVICE_ACCOUNTS, "agent", namespace=access.namespace)
    uid = account["metadata"]["uid"]
    tokens = [each for each in won if isinstance(each, str)]
    assert tokens
    assert not any(_account_uid(each) == uid for each in tokens)
    report = await member.client.get(MEMBER_REPORTS, "member", namespace=access.namespace)
    assert not (report.get("status") or {}).get("claim")
    found = await member.client.get(LEASES, "agent", namespace=access.namespace)
    assert not found["metadata"].get("finalizers")
    assert ANNOTATION_TOKEN_ENDS not in (found["metadata"].get("annotations") or {})


def _account_uid(token):
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims["kubernetes.io"]["serviceaccount"]["uid"]


@pytest.mark.proves("PL5")
async def test_an_annotation_alone_ends_and_deletes_nothing(member):
    """Who may edit MemberClusters names what they like; the label of a namespace says whose it is."""
    _, access = await member.obtained()
    for named in (access.namespace, "innocent"):
        if named == "innocent":
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": named}}
            await member.client.apply(NAMESPACES, body, name=named, force=True)
        evil = Member(member.hub, member._stowage, member.client)
        meta = {"name": evil.name, "annotations": {ANNOTATION_MEMBER_NAMESPACE: named}}
        body = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
        await member.client.create(MEMBER_CLUSTERS, {**body, "metadata": meta, "spec": {}})
        await evil.run("revoke", evil.name)
        await evil.run("agents", "upgrade", "--image=example.com/evil")
        await evil.run("unjoin", evil.name)
        found = await member.client.get(NAMESPACES, named)
        assert not found["metadata"].get("deletionTimestamp")
    assert await member.client.get(SERVICE_ACCOUNTS, "agent", namespace=access.namespace)
    # And its own goes before the MemberCluster, so that an interrupted command goes on.
    await member.run("unjoin", member.name)
    gone = await member.client.find(NAMESPACES, access.namespace)
    assert gone is None or gone["metadata"]["deletionTimestamp"]


class Interrupted(Exception):
    """As by Ctrl-C."""


async def invited(member, last):
    """Invite, interrupted before the write of that number."""
    plan = pull.Invite(name=member.name, namespace=SYSTEM_NAMESPACE, server=member.hub.server)
    numbers = itertools.count(1)

    def counted():
        if next(numbers) == last:
            raise Interrupted

    async with ApiClient(member.hub.connection(), before_write=counted) as hub:
        return await pull.invite(hub, plan, say=lambda _: None)


async def test_an_invitation_that_is_interrupted_before_any_write_is_made_by_a_second_one(member):
    for last in itertools.count(1):
        each = Member(member.hub, member._stowage, member.client)
        try:
            await invited(each, last)
        except Interrupted:
            await _invited_at_last(each, await invited(each, 0))
        else:
            break
    assert last > 10


async def _invited_at_last(member, found):
    labelled = f"{LABEL_MEMBER_NAMESPACE}={member.name}"
    named = (await member.cluster())["metadata"]["annotations"][ANNOTATION_MEMBER_NAMESPACE]
    assert named == found.namespace
    for each in (await member.client.list(NAMESPACES, label_selector=labelled))["items"]:
        name = each["metadata"]["name"]
        listed = (await member.client.list(SERVICE_ACCOUNTS, namespace=name))["items"]
        ours = {one["metadata"]["name"] for one in listed} & {"agent", "invite"}
        assert bool(ours) is (name == named)
    data = agent_manifests.secret_data(
        found.facts, namespace=found.namespace, invitation=found.token
    )
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {}, "stringData": data}
    await member.apply([secret], member.name)
    assert (await member.credential(member.name).obtain()).namespace == named


@pytest.mark.proves("PL7")
async def test_a_revoked_credential_is_refused_and_its_namespace_is_left(member):
    credential, access = await member.obtained()
    async with ApiClient(access.connection) as agent:
        watch = agent.watch(
            SECRETS,
            namespace=access.namespace,
            resource_version=await agent.latest(SECRETS, namespace=access.namespace),
        )
        async with watch as lines:
            seen = []

            async def listen():
                async for line in lines:
                    seen.append(json.loads(line))  # noqa: PERF401 - it never ends

            listening = asyncio.create_task(listen())
            try:
                await member.run("revoke", member.name)
                assert await refused(access.connection, access.namespace) < DEAD_SECONDS
                with pytest.raises(NotInvited, match="invite --renew"):
                    await credential.obtain()
                fresh = Member(member.hub, member._stowage, member.client)
                fresh.name = member.name
                _, again = await fresh.obtained("--renew")
                assert again.namespace != access.namespace
                assert again.namespace.startswith(f"stowage-member-{member.name}-")
            finally:
                await end([listening])
    made = [each for each in seen if each["type"] in ("ADDED", "MODIFIED")]
    assert [each["object"]["metadata"]["name"] for each in made] in ([], ["agent-token"])
    left = await member.client.get(NAMESPACES, access.namespace)
    assert left["metadata"]["labels"][LABEL_MEMBER_NAMESPACE] == member.name
    states = json.loads(await member.run("agents", "-o", "json"))["agents"]
    (row,) = [each for each in states if each["name"] == member.name]
    assert set(row) == {"name", "release", "state", "silentSeconds", "tokenEnds"}
    assert row["tokenEnds"] > "2"


async def unbroken(agent, namespace):
    """Watch for ever; end with the fault if a watch cannot be opened again at once."""
    while True:
        version = await agent.latest(SECRETS, namespace=namespace)
        chosen = {"namespace": namespace, "resource_version": version, "timeout_seconds": 60}
        async with agent.watch(SECRETS, **chosen) as lines:
            async for _ in lines:
                pass


async def renewals(member, *, every, times):
    """Have so many tokens one after the other, while the hub is asked again and again."""
    await member.apply(await member.invite(), member.name)
    credential = member.credential(member.name, seconds=600, renew_after=every / 600)
    access = await credential.obtain()
    await credential.renew()  # the first token is one of seven days
    keeping = asyncio.create_task(credential.keep())
    tokens = set()
    try:
        async with ApiClient(access.connection) as agent:
            watching = asyncio.create_task(unbroken(agent, access.namespace))

            async def renewed():
                tokens.add(await bearer(access))
                await agent.get(CONFIG_MAPS, "hub", namespace=access.namespace)  # never 401
                assert not watching.done()
                return len(tokens) == times

            await until(renewed, seconds=2 * every * times, every=0.1)
            await end([watching])
    finally:
        await end([keeping])
    stored = await member.client.get(SECRETS, AGENT, namespace=member.name)
    assert base64.b64decode(stored["data"]["token"]).decode() == await bearer(access)


@pytest.mark.proves("PL8")
async def test_a_token_is_renewed_again_and_again_and_is_never_refused(member):
    await renewals(member, every=1, times=4)


@pytest.mark.long
@pytest.mark.proves("PL8")
async def test_grants_of_ten_minutes_are_renewed_each_half_minute_for_ten(member):
    await renewals(member, every=30, times=20)


@pytest.mark.proves("PL9")
async def test_other_addresses_are_taken_once_they_answer_and_another_hub_is_not(member):
    credential, access = await member.obtained()
    facts = access.facts
    assert await credential.learn(facts) is None
    other = facts.servers[0].replace("127.0.0.1", "localhost")
    assert other != facts.servers[0]
    with pytest.raises(TransportError):
        await credential.learn(replace(facts, servers=("https://127.0.0.1:1",)))
    with pytest.raises(ConfigurationError, match="the CA"):
        await credential.learn(replace(facts, ca="no CA"))
    assert (await member.credential(member.name).obtain()).facts == facts
    moved = await credential.learn(replace(facts, servers=(other,)))
    assert moved is not None
    assert moved.connection.server == other
    # A new process goes by what is stored: the new address, and the former one behind it.
    again = await member.credential(member.name).obtain()
    assert again.connection.server == other
    with pytest.raises(WrongHub, match="is another hub"):
        await credential.learn(replace(facts, uid="0" * 8))
    await member.run("invite", member.name, f"--hub-server={other}")
    config = await member.client.get(CONFIG_MAPS, "hub", namespace=access.namespace)
    assert HubFacts.of(config["data"]).servers == (other,)


async def test_a_server_that_is_another_hub_gets_no_agent(member):
    credential, _ = await member.obtained()
    other = base64.b64encode(b"11111111-1111-1111-1111-111111111111").decode()
    patch = {"data": {"uid": other}}
    await member.client.merge_patch(SECRETS, AGENT, patch, namespace=member.name)
    with pytest.raises(WrongHub, match="Nothing is written for it"):
        await credential.obtain()


# --- the commands ---------------------------------------------------------------------------------


async def test_join_pull_refuses_an_address_of_this_machine_unless_it_is_given(member, stowage):
    hub = member.hub
    args = ("join", member.name, "--pull", f"--kubeconfig={hub.kubeconfig}")
    refusal = stowage(*args, f"--member-kubeconfig={hub.kubeconfig}", "--itself")
    assert refusal.code == 1
    assert "--hub-server" in refusal.err
    assert stowage("invite", member.name, f"--kubeconfig={hub.kubeconfig}").code == 1
    told = stowage(*args, f"--member-kubeconfig={hub.kubeconfig}", "--member-server=https://x")
    assert told.code == 2
    assert await member.invite()


async def test_what_is_printed_has_the_agent_and_the_rights_of_a_join(member):
    printed = await member.invite("--image=example.com/agent:1")
    kinds = [each["kind"] for each in printed]
    assert kinds[0] == "Namespace"
    assert kinds.index("ValidatingAdmissionPolicy") < kinds.index("ServiceAccount")
    (deployment,) = [each for each in printed if each["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "example.com/agent:1"
    for each in printed:
        namespace = each["metadata"].get("namespace")
        assert namespace in (None, SYSTEM_NAMESPACE)
        resource = await member.client.resource(each["apiVersion"], each["kind"])
        await member.client.apply(
            resource, each, name=each["metadata"]["name"], namespace=namespace, dry_run=True,
            force=True,
        )  # fmt: skip


async def test_an_upgrade_tells_the_agents_of_the_members_that_are_meant(member):
    _, access = await member.obtained()
    await member.run("agents", "upgrade", "--image=example.com/agent:2", "--label=tier=none")
    config = await member.client.get(CONFIG_MAPS, "hub", namespace=access.namespace)
    assert not HubFacts.of(config["data"]).image
    said = await member.run("agents", "upgrade", "--image=example.com/agent:2")
    assert f"{member.name}: its agent is told to run example.com/agent:2" in said
    config = await member.client.get(CONFIG_MAPS, "hub", namespace=access.namespace)
    assert HubFacts.of(config["data"]).image == "example.com/agent:2"


def test_a_hub_that_is_named_before_upgrade_is_not_passed_over(propagated_hub, stowage):
    named = f"--kubeconfig={propagated_hub.kubeconfig}"
    outcome = stowage("agents", named, "upgrade", "--image=example.com/agent:2")
    assert outcome.code == 2
    assert "come after it" in outcome.err


async def test_the_mode_alone_is_refused_where_the_credential_lacks(member):
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": member.name},
        "spec": {"mode": "Pull"},
    }
    with pytest.raises(Forbidden, match="stowage join --pull"):
        await member.client.create(MEMBER_CLUSTERS, body)
    await member.invite()
    push = {"spec": {"mode": "Push"}}
    with pytest.raises(Forbidden, match="stowage join"):
        await member.client.merge_patch(MEMBER_CLUSTERS, member.name, push)


async def test_an_agent_has_its_own_deployment_run_the_image_that_the_hub_names(member):
    printed = await member.invite()
    (deployment,) = [each for each in printed if each["kind"] == "Deployment"]
    home = f"{member.name}-home"
    await member.apply(printed, home)
    deployment["metadata"]["namespace"] = home
    await member.client.create(DEPLOYMENTS, deployment)
    assert not await follow_image(member.client, "", home=home)
    assert not await follow_image(member.client, "example.com/agent:3", home=f"{home}-none")
    assert not await follow_image(member.client, "example.com/agent:3", home=home)
    stored = await member.client.get(DEPLOYMENTS, AGENT, namespace=home)
    spec = stored["spec"]["template"]["spec"]
    assert [each["image"] for each in spec["containers"]] == ["example.com/agent:3"]
    assert spec["containers"][0]["args"][:2] == ["agent", f"--namespace={SYSTEM_NAMESPACE}"]
    stuck = {"type": "Progressing", "status": "False", "message": "no such image"}
    status = {"status": {"conditions": [stuck]}}
    await member.client.merge_patch(
        DEPLOYMENTS, AGENT, status, namespace=home, subresource="status"
    )
    assert "no such image" in await follow_image(member.client, "example.com/agent:3", home=home)
