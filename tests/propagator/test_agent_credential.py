"""The agent's way to its hub, where the hub has several addresses."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from machinery.config.kubeconfig import Connection
from machinery.errors import Unauthorized, Unreachable
from machinery.types.pull import HubFacts
from propagator.credentials.agent_credential import AgentCredential
from propagator.credentials.agent_secret import AgentData
from tests.fakeclock import FakeClock

SERVERS = ("https://new.example.com:6443", "https://former.example.com:6443")
FACTS = HubFacts("hub-1", SERVERS)


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _token(name: str) -> str:
    subject = {"sub": "system:serviceaccount:stowage-member-paris-x:agent", "jti": name}
    return f"e.{base64.urlsafe_b64encode(json.dumps(subject).encode()).decode()}.s"


class Member:
    """The member's API server, which has the Secret of its agent."""

    def __init__(self) -> None:
        said = {
            "uid": "hub-1",
            "servers": "\n".join(SERVERS),
            "namespace": "stowage-member-paris-x",
        }
        self.data = said | {"token": _token("old"), "invitation": "i"}

    async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        data = {key: _text(value) for key, value in self.data.items()}
        return {"metadata": {"resourceVersion": "1"}, "data": data}


class Credential(AgentCredential):
    """Only the first address answers, and the old token is refused there."""

    async def _ask(self, connection: Connection, stored: AgentData) -> HubFacts:
        if connection.server != SERVERS[0]:
            raise Unreachable(f"{connection.server}: no route")
        if stored["token"] == _token("old"):
            raise Unauthorized(code=401, reason="Unauthorized", message="no such account")
        return FACTS

    async def _claim(self, stored: AgentData) -> AgentData:
        return AgentData("2", {**stored.data, "token": _token("new"), "invitation": ""})

    async def _tell(self, access: Any) -> None:
        pass


@pytest.mark.proves("PL6", "PL9")
async def test_an_address_that_does_not_answer_hides_no_token_that_is_refused() -> None:
    access = await Credential(cast("Any", Member()), clock=FakeClock()).obtain()
    assert access.connection.server == SERVERS[0]
    assert access.facts == FACTS
