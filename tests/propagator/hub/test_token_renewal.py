"""Tokens of members are renewed on real API servers, without a moment in which nobody is connected."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import NotFound, TransportError
from propagator.app import Propagator
from propagator.credentials.tokens import Life, kubeconfig, life_of
from propagator.hub import token_renewal
from propagator.hub.token_renewal import _believe
from propagator.settings import PropagatorSettings, RenewalSettings
from stowage.playground.controlplanes import Cluster
from tests.letting_go import let_go
from tests.propagator.conftest import CALM, clean, secret, token_for
from tests.propagator.waits import handled, until

ALWAYS = RenewalSettings(renew_after=0.0, seconds=700, pause=1.0)


@pytest.fixture
def renewable(hub: Cluster, m1: Cluster, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A registration Secret with a short token of an account that may ask for its own tokens."""
    monkeypatch.setattr(token_renewal, "_FIRST_RETRY", 0.5)
    clean(hub)
    token = token_for(m1, "renewed", seconds=600)
    connection = m1.connection()
    text = kubeconfig(_with(connection, token), user="renewed")
    yield secret("m1", {"kubeconfig": text, "account": "default/renewed"})
    clean(hub)


def _with(connection: Any, token: str) -> Any:
    return replace(connection, token=token, client_cert=None, client_key=None)


@asynccontextmanager
async def propagating(hub: ApiClient, settings: RenewalSettings) -> AsyncIterator[Propagator]:
    process = Propagator(
        hub,
        settings=PropagatorSettings(
            http_port=0,
            sessions=CALM,
            lease_seconds=60.0,  # a busy machine ends no term in the middle of a test
            renew_deadline=50.0,
            lease_retry=0.3,
            renewal=settings,
        ),
    )
    task = asyncio.create_task(process.run())
    try:
        yield process
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


async def token_of(hub: ApiClient) -> str:
    found = await hub.get(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
    return parse_kubeconfig(base64.b64decode(found["data"]["kubeconfig"])).token or ""


async def done(hub: ApiClient, process: Propagator) -> None:
    """Wait until the process has heard of all Secrets and MemberClusters, and did what is due."""
    term = process.term
    assert term is not None
    queues = (term._registrar._queue, term._renewer._queue)
    await handled(lambda: [(hub, term._informers)], lambda: queues)


def session_of(process: Propagator) -> Any:
    return process.term.registry.get("m1") if process.term else None


@pytest.mark.long
@pytest.mark.proves("S8")
async def test_a_token_is_renewed_and_nothing_is_interrupted(hub: Cluster, renewable: Any):
    async with ApiClient(hub.connection()) as client, propagating(client, ALWAYS) as process:
        await client.create(SECRETS, renewable)
        first = await token_of(client)
        await until(lambda: (s := session_of(process)) is not None and s.ready)
        link = session_of(process).link
        seen = {first}

        async def three() -> bool:
            assert session_of(process).ready
            seen.add(await token_of(client))
            return len(seen) >= 3

        await until(three, seconds=60)
        assert session_of(process).link is link
        lives = [life_of(token) for token in seen]
        assert all(life is not None for life in lives)
        # The last one is what is sent now, and the member takes it.
        now = await token_of(client)

        async def sent() -> bool:
            return await link._token() in (now, await token_of(client))

        await until(sent)
        await link.client.version()
        # Its MemberCluster is registered with the renewed data: deleted, it stays so.
        await until(lambda: session_of(process) is not None)
        await let_go(client, "m1")
        await until(lambda: session_of(process) is None)
        await done(client, process)
        with pytest.raises(NotFound):
            await client.get(MEMBER_CLUSTERS, "m1")


@pytest.mark.long
@pytest.mark.proves("S8")
async def test_who_changes_the_secret_meanwhile_wins(
    hub: Cluster, renewable: Any, monkeypatch: pytest.MonkeyPatch
):
    """Between the two steps of a renewal somebody else writes: theirs stands, ours is lost."""
    asked = []
    real = token_renewal.request_token

    async def slowly(member: ApiClient, account: Any, **how: Any) -> str:
        token = await real(member, account, **how)
        asked.append(token)
        if len(asked) == 1:
            note = {"metadata": {"annotations": {"somebody": "was here"}}}
            await client.merge_patch(SECRETS, "m1", note, namespace=SYSTEM_NAMESPACE)
        return token

    monkeypatch.setattr(token_renewal, "request_token", slowly)
    async with ApiClient(hub.connection()) as client, propagating(client, ALWAYS):
        await client.create(SECRETS, renewable)
        first = await token_of(client)

        async def renewed() -> bool:
            return await token_of(client) != first

        await until(renewed, seconds=60)
        assert asked[0] != await token_of(client)
        found = await client.get(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
        assert found["metadata"]["annotations"]["somebody"] == "was here"


@pytest.mark.long
async def test_only_what_is_said_to_be_ours_is_renewed(hub: Cluster, renewable: Any):
    del renewable["data"]["account"]
    async with ApiClient(hub.connection()) as client, propagating(client, ALWAYS) as process:
        await client.create(SECRETS, renewable)
        await until(lambda: (s := session_of(process)) is not None and s.ready)
        first = await token_of(client)
        await done(client, process)
        assert await token_of(client) == first


def _token(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.x"


def test_a_life_is_read_from_the_token():
    life = life_of(_token(iat=0, exp=300))
    assert life == Life(datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(300, UTC))
    assert life.spent(datetime.fromtimestamp(200, UTC)) == pytest.approx(2 / 3)
    for odd in ("", "a.b", "a.b.c", "a.*.c", _token(sub="x"), _token(iat=1, exp=10**30)):
        assert life_of(odd) is None, odd
    backwards = life_of(_token(iat=300, exp=0))
    assert backwards is not None
    assert backwards.spent(datetime.fromtimestamp(0, UTC)) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "not a token",
        _token(iat=0, exp=300) + "\r\nX: y",
        _token(iat=0, exp=299),
        _token(iat=0, exp=1000) + "x" * 20_000,
    ],
)
def test_a_member_cannot_have_nonsense_written_to_the_hub(answer: str):
    before = Life(datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(300, UTC))
    with pytest.raises(TransportError):
        _believe(answer, before)
    _believe(_token(iat=200, exp=500), before)
    assert timedelta(seconds=300) == before.expires - before.issued
