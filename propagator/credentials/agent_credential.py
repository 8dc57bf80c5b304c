"""The credential by which the agent of a member in mode Pull talks to its hub.

`AgentCredential.obtain` makes a key, writes its public half into the claim of the MemberReport, and
opens the token that the hub seals for it. Key and tokens are stored in the Secret `stowage-agent`
before their use, on the version that was read.

No token is sent to a server that the hub's CA does not verify. A server that has not told the hub's
UID gets nothing but the claim.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass, replace

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
from propagator.credentials.agent_secret import (
    ADVICE,
    CA,
    INVITATION,
    KEY,
    NAMESPACE,
    PROXY,
    SERVERS,
    TOKEN,
    UID,
    AgentData,
    AgentSecret,
    check_servers,
    decoded,
)
from propagator.credentials.credentials import HeldToken
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


class InviteUsed(StowageError):
    """Another agent came with the invitation first."""


class NotInvited(StowageError):
    """Neither token nor invitation is good any more."""


class WrongHub(StowageError):
    """The server is that of another hub: nothing may be written for it."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How an agent reaches its hub. `connection` stays good while the token is renewed.

    `namespace` is the member's on the hub, and `facts` what the hub's ConfigMap said of itself.
    """

    connection: Connection
    namespace: str
    facts: HubFacts


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
        self._secret = AgentSecret(member, home=home)
        self._clock = clock
        self._seconds = max(seconds, SHORTEST_SECONDS)
        self._renew_after = renew_after
        self._timeout = timeout
        self._held = HeldToken("")
        self._due = 0.0
        self._life: Life | None = None
        self._access: HubAccess | None = None

    async def obtain(self) -> HubAccess:
        """Return a way to the hub that was tried: one attempt.

        Raises ConfigurationError for a Secret that is missing or malformed, InviteUsed, NotInvited,
        WrongHub, and TransportError.
        """
        stored = await self._secret.read()
        if _account_of(stored[TOKEN]) != (stored[NAMESPACE], AGENT_ACCOUNT):
            stored = await self._claim(stored)
        self._use(stored[TOKEN])
        try:
            access = await self._reach(stored)
        except Unauthorized:
            stored = await self._claim(stored)
            self._use(stored[TOKEN])
            access = await self._reach(stored)
        await self._tell(access)
        return access

    async def keep(self) -> None:
        """Renew the token before it ends, for ever.

        A fault is logged, and tried again, ever slower.
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
        return max(self._due - self._clock.monotonic(), 0.0)

    async def renew(self) -> None:
        """Take the stored token if another agent has renewed it, else ask for one and store it.

        Raises Conflict if the Secret was changed, ValueError for an answer that is no token,
        ConfigurationError and TransportError.
        """
        access = self._access
        assert access is not None  # noqa: S101 - the caller has obtained it
        stored = await self._secret.read()
        life = life_of(stored[TOKEN])
        if life is not None and self._life is not None and life.expires > self._life.expires:
            self._use(stored[TOKEN])
            return
        async with self._client(access.connection) as hub:
            account = (access.namespace, AGENT_ACCOUNT)
            token = _believed(await request_token(hub, account, seconds=self._seconds))
        await self._secret.store(stored, {TOKEN: token})
        self._use(token)
        await self._tell(access)
        LOG.info("its token was renewed")

    async def learn(self, facts: HubFacts) -> HubAccess | None:
        """Take the addresses and the CA that the hub tells, once one of them has answered.

        Return the new access, or None without a change. Raises WrongHub, ConfigurationError for a
        malformed address or CA, and TransportError if none of the new addresses answers.
        """
        access = self._access
        if access is None:
            return None
        if facts.uid != access.facts.uid:
            raise WrongHub(_wrong(access.connection.server, access.facts.uid, facts.uid))
        if (facts.servers, facts.ca) == (access.facts.servers, access.facts.ca):
            self._access = replace(access, facts=facts)
            return None
        check_servers(facts.servers, f"ConfigMap {access.namespace}/{HUB_CONFIG} of the hub")
        stored = await self._secret.read()
        former = [each for each in stored.servers if each not in facts.servers]
        told = {SERVERS: "\n".join(facts.servers), CA: facts.ca}
        renewed = await self._reach(msgspec.structs.replace(stored, data={**stored.data, **told}))
        await self._secret.store(
            stored, {**told, SERVERS: "\n".join([*facts.servers, *former[:1]])}
        )
        return renewed

    async def _claim(self, stored: AgentData) -> AgentData:
        """Store the token that is sealed for a key of this claim alone."""
        if not stored[INVITATION]:
            raise NotInvited(f"{self._secret} holds no token that is good, and no {_INVITATION}")
        if not stored[KEY]:
            stored = await self._secret.store(stored, {KEY: sealed_tokens.new_key()})
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
                    told = f"the hub refuses the invitation, which was used or has ended: {ADVICE}"
                    raise NotInvited(told) from e
                except TransportError as e:
                    fault = e
                    continue
            token = _believed(sealed_tokens.opened(sealed, stored[KEY]))
            return await self._secret.store(stored, {TOKEN: token, INVITATION: "", KEY: ""})
        raise fault

    async def _tell(self, access: HubAccess) -> None:
        """It shows the hub that the token is in use."""
        ends = timestamp(self._life.expires) if self._life is not None else ""
        note = {"metadata": {"annotations": {ANNOTATION_TOKEN_ENDS: ends}}}
        async with self._client(access.connection) as hub:
            with suppress(NotFound):  # the hub says that there is no agent
                await hub.merge_patch(LEASES, AGENT_LEASE, note, namespace=access.namespace)

    async def _sealed(self, hub: ApiClient, namespace: str, claim: str) -> str:
        until = self._clock.monotonic() + SEALED_SECONDS
        while True:
            try:
                found = await hub.get(SECRETS, AGENT_TOKEN_SECRET, namespace=namespace)
                data = decoded(found)
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

    async def _reach(self, stored: AgentData) -> HubAccess:
        fault: StowageError = ConfigurationError(f"{self._secret} names no servers")
        for connection in self._connections(stored):
            try:
                facts = await self._ask(connection, stored)
            except (TransportError, WrongHub) as e:
                # A refused token needs another one, whichever other addresses do not answer.
                fault = fault if isinstance(fault, Unauthorized) else e
                continue
            self._access = HubAccess(connection, stored[NAMESPACE], facts)
            return self._access
        raise fault

    async def _ask(self, connection: Connection, stored: AgentData) -> HubFacts:
        """Raises WrongHub if it is another hub."""
        async with self._client(connection) as hub:
            found = await hub.get(CONFIG_MAPS, HUB_CONFIG, namespace=stored[NAMESPACE])
        try:
            facts = HubFacts.of(found.get("data") or {})
        except ValueError as e:
            raise WrongHub(f"{connection.server}: {e}") from e
        if facts.uid != stored[UID]:
            raise WrongHub(_wrong(connection.server, stored[UID], facts.uid))
        return facts

    def _connections(self, stored: AgentData, token: str = "") -> list[Connection]:
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
        self._held.change(token)
        self._life, self._due = life_of(token), self._clock.monotonic()
        if (
            self._life is not None
        ):  # by this clock, which may be wrong: nothing of a new one is spent
            whole = (self._life.expires - self._life.issued).total_seconds()
            spent = (self._clock.now() - self._life.issued).total_seconds()
            self._due += self._renew_after * whole - min(max(spent, 0.0), whole)


_INVITATION = "invitation: run `stowage invite --renew` on the hub, and apply what it prints"
_USED = (
    "another agent came with this invitation first: it may be stolen. Run `stowage invite --renew`"
    " on the hub, which ends what the other one got"
)


def _wrong(server: str, wanted: str, found: str) -> str:
    return (
        f"{server} is another hub: the UID of its kube-system is {found}, not {wanted}. Nothing is "
        "written for it"
    )


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
