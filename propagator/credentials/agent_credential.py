"""The credential by which the agent of a member in mode Pull talks to its hub.

It lies in the Secret `stowage-agent` on the member, which `stowage invite` prints with an
invitation. `AgentCredential.obtain` makes a key, stores it, writes its public half into the claim
of the MemberReport, and opens the token that the hub seals for it. `keep` renews the token. Each
token is stored before it is used: a process that dies between the two finds the newer one. Of two
agents with one Secret both use what is stored, as each store is made on the version that was read.

No token is sent to a server that the hub's CA does not verify, and nothing but the question who it
is to one that has not told the hub's UID yet.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from crds.names import (
    AGENT,
    AGENT_ACCOUNT,
    AGENT_LEASE,
    AGENT_TOKEN_SECRET,
    ANNOTATION_TOKEN_ENDS,
    HUB_CONFIG,
    MEMBER_REPORT,
    SYSTEM_NAMESPACE,
)
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, LEASES, MEMBER_REPORTS, SECRETS
from machinery.api.verbs import Verbs
from machinery.clock import Clock, timestamp
from machinery.config.address import check_server
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ConfigurationError,
    Forbidden,
    Invalid,
    KubeconfigError,
    NotFound,
    StowageError,
    TransportError,
    Unauthorized,
)
from machinery.release import user_agent
from machinery.types.pull import HubFacts
from propagator.credentials import sealed_tokens
from propagator.credentials.accounts import MEMBER_ACCOUNT
from propagator.credentials.credentials import (
    POD_SECURITY,
    RIGHTS,
    Credentials,
    HeldToken,
    PodSecurity,
    Rights,
)
from propagator.credentials.tokens import (
    SHORTEST_SECONDS,
    TOKEN_LIMIT,
    Life,
    life_of,
    request_token,
)

LOG = logs.get(__name__)

WEEK = 7 * 24 * 3600
"""Seconds that an agent asks a token for."""
RENEW_AFTER = 1 / 3
"""The part of its life after which a token is renewed."""
SEALED_SECONDS = 60.0
"""How long an agent waits for the token that is sealed for its claim."""
_POLL_SECONDS = 0.5
_FIRST_RETRY, _LAST_RETRY = 5.0, 300.0
_LEAST_SECONDS = 1.0
"""The minimum time between two renewals, however short the granted life."""
_CHECK_SECONDS = 3600.0
"""The maximum time between two looks at a token: clocks jump, and machines sleep."""
_MEMBER_SECONDS = 3600
"""The life of the tokens by which an agent writes its member."""

UID, SERVERS, CA, NAMESPACE, INVITATION = "uid", "servers", "ca", "namespace", "invitation"
PROXY, KEY, TOKEN = "proxy", "key", "token"
"""Keys of the Secret on the member. The first five come with the invitation, and `key` and `token`
are the agent's own."""


class InviteUsed(StowageError):
    """Another agent came with the invitation first."""


class NotInvited(StowageError):
    """Neither token nor invitation is good any more."""


class WrongHub(StowageError):
    """The server is that of another hub: nothing may be written for it."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How an agent reaches its hub.

    `connection` carries the token; the same object stays good while the token is renewed.
    `namespace` is the member's on the hub, and `facts` what the hub's ConfigMap said of itself.
    """

    connection: Connection
    namespace: str
    facts: HubFacts


class _Stored(msgspec.Struct, frozen=True):
    """The Secret on the member, decoded."""

    version: str
    data: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        return self.data.get(key, "")

    @property
    def servers(self) -> Sequence[str]:
        return self[SERVERS].split()


class AgentCredential:
    """`member` is a client of the member's API server that may read and patch the Secret.

    Args:
        home: the namespace of the Secret.
        seconds: the life that tokens are asked for, 600 at least.
        renew_after: the part of a token's life after which it is renewed.
        timeout: seconds for one request to the hub.
    """

    def __init__(
        self,
        member: Verbs,
        *,
        clock: Clock,
        home: str = SYSTEM_NAMESPACE,
        seconds: int = WEEK,
        renew_after: float = RENEW_AFTER,
        timeout: float = 10.0,
    ) -> None:
        self._member = member
        self._clock = clock
        self._home = home
        self._seconds = max(seconds, SHORTEST_SECONDS)
        self._renew_after = renew_after
        self._timeout = timeout
        self._held = HeldToken("")
        self._since = 0.0
        self._life: Life | None = None
        self._access: HubAccess | None = None

    @property
    def token_ends(self) -> datetime | None:
        """When the token ends, by the clock of the hub; None without one."""
        return self._life.expires if self._life is not None else None

    async def obtain(self) -> HubAccess:
        """Return a way to the hub that was tried: one attempt, which may be made again.

        Raises ConfigurationError for a Secret that is missing or malformed, InviteUsed if another
        agent has claimed the member, NotInvited if hub and invitation refuse, WrongHub, and
        TransportError.
        """
        stored = await self._read()
        if stored[TOKEN] and _account_of(stored[TOKEN]) == (stored[NAMESPACE], AGENT_ACCOUNT):
            self._use(stored[TOKEN])
            try:
                return await self._reach(stored)
            except Unauthorized as e:
                if not stored[INVITATION]:
                    told = "the hub refuses the token: run `stowage invite --renew` on it"
                    raise NotInvited(told) from e
        if not stored[INVITATION]:
            raise NotInvited(f"Secret {self._home}/{AGENT} holds no invitation: {_ADVICE}")
        return await self._claim(stored)

    async def keep(self) -> None:
        """Renew the token before it ends, for ever. A fault is logged, and tried again.

        A hub that refuses the token is asked again, ever slower: only a new invitation helps, which
        the Secret may hold meanwhile.
        """
        pause = _FIRST_RETRY
        while True:
            await self._clock.sleep(min(max(self.due_in(), _LEAST_SECONDS), _CHECK_SECONDS))
            if self.due_in() > 0:
                continue
            try:
                await self.renew()
                pause = _FIRST_RETRY
            except (StowageError, ValueError) as fault:
                LOG.warning("its token was not renewed", extra={"error": str(fault)})
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LAST_RETRY)

    def due_in(self) -> float:
        """Return the seconds until the token is to be renewed; 0 if it is due, or none is known."""
        if self._life is None:
            return 0.0
        whole = (self._life.expires - self._life.issued).total_seconds()
        return max(self._since + self._renew_after * whole - self._clock.monotonic(), 0.0)

    async def renew(self) -> None:
        """Take the stored token if another agent has renewed it, else ask for one and store it.

        Raises Conflict if the Secret was changed meanwhile, ValueError for an answer that is no
        token, and as `obtain`.
        """
        stored = await self._read()
        access = self._access
        if access is None or access.namespace != stored[NAMESPACE]:
            await self.obtain()
            return
        life = life_of(stored[TOKEN])
        if life is not None and self._life is not None and life.expires > self._life.expires:
            self._use(stored[TOKEN])
            return
        async with self._client(access.connection) as hub:
            account = (access.namespace, AGENT_ACCOUNT)
            token = _believed(await request_token(hub, account, seconds=self._seconds))
        await self._store(stored, {TOKEN: token})
        self._use(token)
        await self._tell(access)
        LOG.info("its token was renewed")

    async def learn(self, facts: HubFacts) -> HubAccess | None:
        """Take the addresses and the CA that the hub tells, once one of them has answered.

        Return the new access, or None if nothing changes for this agent. Raises WrongHub for facts
        of another hub, TransportError if none of the new addresses answers, and ConfigurationError
        for an address or a CA that is none.
        """
        access = self._access
        if access is None:
            return None
        if facts.uid != access.facts.uid:
            raise WrongHub(_wrong(access.connection.server, access.facts.uid, facts.uid))
        if (facts.servers, facts.ca) == (access.facts.servers, access.facts.ca):
            self._access = replace(access, facts=facts)
            return None
        _check_servers(facts.servers, f"ConfigMap {access.namespace}/{HUB_CONFIG} of the hub")
        stored = await self._read()
        former = [each for each in stored.servers if each not in facts.servers]
        told = {SERVERS: "\n".join(facts.servers), CA: facts.ca}
        renewed = await self._reach(msgspec.structs.replace(stored, data={**stored.data, **told}))
        await self._store(stored, {**told, SERVERS: "\n".join([*facts.servers, *former[:1]])})
        return renewed

    async def _claim(self, stored: _Stored) -> HubAccess:
        """Claim the member with the invitation, and store the token that is sealed for the key."""
        if not stored[KEY]:
            stored = await self._store(stored, {KEY: sealed_tokens.new_key()})
        claim = sealed_tokens.claim_of(stored[KEY])
        namespace = stored[NAMESPACE]
        fault: TransportError = NotFound(code=404, reason="NotFound", message="no server is named")
        for connection in self._connections(stored, token=stored[INVITATION]):
            async with self._client(connection) as hub:
                try:
                    await hub.merge_patch(
                        MEMBER_REPORTS,
                        MEMBER_REPORT,
                        {"status": {"claim": claim}},
                        namespace=namespace,
                        subresource="status",
                    )
                    sealed = await self._sealed(hub, namespace, claim)
                except Invalid as e:
                    raise InviteUsed(_USED) from e
                except Unauthorized as e:
                    told = f"the hub refuses the invitation, which was used or has ended: {_ADVICE}"
                    raise NotInvited(told) from e
                except TransportError as e:
                    fault = e
                    continue
            token = _believed(sealed_tokens.opened(sealed, stored[KEY]))
            stored = await self._store(stored, {TOKEN: token, INVITATION: ""})
            self._use(token)
            access = await self._reach(stored)
            await self._tell(access)
            return access
        raise fault

    async def _tell(self, access: HubAccess) -> None:
        """Note on the Lease when the token ends. It shows the hub that the token is in use."""
        ends = timestamp(self._life.expires) if self._life is not None else ""
        note = {"metadata": {"annotations": {ANNOTATION_TOKEN_ENDS: ends}}}
        async with self._client(access.connection) as hub:
            await hub.merge_patch(LEASES, AGENT_LEASE, note, namespace=access.namespace)

    async def _sealed(self, hub: ApiClient, namespace: str, claim: str) -> str:
        """Wait for the token that is sealed for the claim."""
        until = self._clock.monotonic() + SEALED_SECONDS
        while True:
            try:
                found = await hub.get(SECRETS, AGENT_TOKEN_SECRET, namespace=namespace)
                data = _decoded(found)
                if data.get("claim") == claim:
                    return data.get("sealed", "")
            except (NotFound, Forbidden):
                pass  # it is not there yet
            if self._clock.monotonic() >= until:
                raise TransportError(
                    f"the hub has sealed no token within {SEALED_SECONDS:.0f} s: does its "
                    "propagator run?"
                )
            await self._clock.sleep(_POLL_SECONDS)

    async def _reach(self, stored: _Stored) -> HubAccess:
        """Return the access by the first server that is the hub and takes the token."""
        fault: StowageError = ConfigurationError(f"Secret {self._home}/{AGENT} names no servers")
        for connection in self._connections(stored):
            try:
                facts = await self._ask(connection, stored)
            except (TransportError, WrongHub) as e:
                fault = e
                continue
            self._access = HubAccess(connection, stored[NAMESPACE], facts)
            return self._access
        raise fault

    async def _ask(self, connection: Connection, stored: _Stored) -> HubFacts:
        """Return what the server tells of itself. Raises WrongHub if it is another hub."""
        async with self._client(connection) as hub:
            found = await hub.get(CONFIG_MAPS, HUB_CONFIG, namespace=stored[NAMESPACE])
        try:
            facts = HubFacts.of(found.get("data") or {})
        except ValueError as e:
            raise WrongHub(f"{connection.server}: {e}") from e
        if facts.uid != stored[UID]:
            raise WrongHub(_wrong(connection.server, stored[UID], facts.uid))
        return facts

    def _connections(self, stored: _Stored, token: str = "") -> list[Connection]:
        source = HeldToken(token) if token else self._held
        return [
            Connection(
                server=each,
                token_source=source,
                ca=stored[CA].encode() or None,
                proxy_url=stored[PROXY] or None,
                namespace=stored[NAMESPACE],
            )
            for each in stored.servers
        ]

    def _client(self, connection: Connection) -> ApiClient:
        """Raises ConfigurationError for a CA that is none."""
        try:
            return ApiClient(
                connection,
                clock=self._clock,
                name="hub",
                timeout=self._timeout,
                user_agent=user_agent(AGENT),
            )
        except KubeconfigError as e:
            told = f"the CA of {connection.server} cannot be used: {e}; write PEM certificates"
            raise ConfigurationError(told) from e

    def _use(self, token: str) -> None:
        life = life_of(token)
        self._held.change(token)
        self._life = life
        spent = 0.0
        if life is not None:  # by this clock, which may be wrong: of a new token nothing is spent
            whole = (life.expires - life.issued).total_seconds()
            spent = min(max((self._clock.now() - life.issued).total_seconds(), 0.0), whole)
        self._since = self._clock.monotonic() - spent

    async def _read(self) -> _Stored:
        try:
            found = await self._member.get(SECRETS, AGENT, namespace=self._home)
        except NotFound as e:
            raise ConfigurationError(
                f"the member has no Secret {self._home}/{AGENT}: {_ADVICE}"
            ) from e
        stored = _Stored(found["metadata"]["resourceVersion"], _decoded(found))
        _check_servers(stored.servers, f"Secret {self._home}/{AGENT}")
        lacking = [key for key in (UID, SERVERS, NAMESPACE) if not stored[key]]
        if lacking:
            told = f"Secret {self._home}/{AGENT} lacks {', '.join(lacking)}: {_ADVICE}"
            raise ConfigurationError(told)
        return stored

    async def _store(self, stored: _Stored, changes: Mapping[str, str]) -> _Stored:
        """Store on the version that was read. Raises Conflict if it was changed since."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in changes.items()}
        patch = {"metadata": {"resourceVersion": stored.version}, "data": data}
        found = await self._member.merge_patch(SECRETS, AGENT, patch, namespace=self._home)
        return _Stored(found["metadata"]["resourceVersion"], _decoded(found))


class MemberToken:
    """The token by which an agent writes its member: that of the account that `join` makes.

    So its rights, and what the member's admission says of them, are those of the propagator in mode
    Push. `client` may make tokens of that account. It is a `TokenSource`.
    """

    def __init__(self, client: Verbs, *, clock: Clock, home: str = SYSTEM_NAMESPACE) -> None:
        self._client = client
        self._clock = clock
        self._account = (home, MEMBER_ACCOUNT)
        self._token = ""
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def __call__(self, *, rejected: str | None = None) -> str:
        """Return a token that is not old. Raises TransportError while there is none."""
        async with self._turn:
            old = self._clock.monotonic() >= self._until
            if not self._token or old or rejected == self._token:
                asked = self._clock.monotonic()
                try:
                    token = await request_token(
                        self._client, self._account, seconds=_MEMBER_SECONDS
                    )
                except TransportError:
                    if not self._token or rejected == self._token:
                        raise
                    return self._token  # it may be good for a third of its life
                life = life_of(token)
                whole = (life.expires - life.issued).total_seconds() if life else SHORTEST_SECONDS
                self._token, self._until = token, asked + whole * 2 / 3
            return self._token


def member_credentials(
    data: Mapping[str, str], connection: Connection, *, home: str = SYSTEM_NAMESPACE
) -> Credentials:
    """Return the credentials by which the agent writes its member, as `join` has noted the rights.

    `data` are the decoded data of the Secret, `connection` one with a `MemberToken`. Raises
    ConfigurationError for rights that are none.
    """
    try:
        rights = Rights(data.get(RIGHTS) or Rights.NARROW)
        security = PodSecurity(data.get(POD_SECURITY) or PodSecurity.BASELINE)
    except ValueError as e:
        raise ConfigurationError(f"Secret {home}/{AGENT}: {e}") from e
    return Credentials(connection, rights, (home, MEMBER_ACCOUNT), security)


async def stored_data(member: Verbs, *, home: str = SYSTEM_NAMESPACE) -> Mapping[str, str]:
    """Return the decoded data of the Secret. Raises TransportError, such as NotFound."""
    return _decoded(await member.get(SECRETS, AGENT, namespace=home))


_ADVICE = "apply what `stowage invite` prints on the hub"
_USED = (
    "another agent came with this invitation first: it may be stolen. Run `stowage invite --renew`"
    " on the hub, which ends what the other one got"
)


def _wrong(server: str, wanted: str, found: str) -> str:
    return (
        f"{server} is another hub: the UID of its kube-system is {found}, not {wanted}. Nothing is "
        "written for it"
    )


def _check_servers(servers: Sequence[str], where: str) -> None:
    """Raises ConfigurationError."""
    for each in servers:
        try:
            check_server(each)
        except ValueError as e:
            raise ConfigurationError(f"{where}: servers: one {e}; write https://HOST:PORT") from e


class _Subject(msgspec.Struct):
    sub: str = ""


def _account_of(token: str) -> tuple[str, str] | None:
    """Return (namespace, name) of a token's account; None for another token."""
    try:
        payload = token.split(".")[1]
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        parts = msgspec.json.decode(decoded, type=_Subject).sub.split(":")
    except (ValueError, IndexError):
        return None
    return (parts[2], parts[3]) if parts[:2] == ["system", "serviceaccount"] else None


def _believed(token: str) -> str:
    """Raises ValueError, which never shows the token."""
    fits = len(token) <= TOKEN_LIMIT and token.isascii() and token.isprintable()
    if not fits or life_of(token) is None:
        raise ValueError("the hub answered with something that is no token")
    return token


def _decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    given = secret.get("data") or {}
    return {k: base64.b64decode(v).decode("utf-8", "replace") for k, v in given.items()}
