"""A namespace that its member does not let us make; in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.workload import PropagatedReason
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.api.status_errors import refusal
from machinery.config.kubeconfig import Connection
from propagator.access.namespaces import Namespaces
from propagator.errors import Refused
from tests.fakeclock import FakeClock
from tests.propagator.memory import World
from tests.propagator.test_in_memory import made, on, said, serving
from tests.propagator.test_one_shard import propagated

Json = dict[str, Any]
WORDS = 'admission webhook "policy.invalid" denied the request: each namespace needs a team'


def fault(code: int, reason: str, message: str, **details: str) -> Exception:
    said = {"code": code, "reason": reason, "message": message}
    status = {"kind": "Status", **said, "details": details}
    return refusal(code, {}, msgspec.json.encode(status))


REFUSALS = (
    fault(400, "BadRequest", WORDS),
    fault(403, "Forbidden", WORDS),
    fault(422, "Invalid", WORDS),
    fault(500, "InternalError", WORDS),
)
NAMES = ("bad", "forbidden", "invalid", "broken")


def denying(world: World, answer: Exception) -> None:
    """Let the member have no namespace, and refuse each new one."""
    member = world.members["m1"]
    apply = member.apply

    def guarded(plural: str, key: tuple[str, str], body: Json, *, dry_run: bool = False) -> Any:
        if plural == "namespaces" and world.denied:  # type: ignore[attr-defined] # of this test
            raise answer
        if key[0] and ("", key[0]) not in member.objects["namespaces"]:
            words = f'namespaces "{key[0]}" not found'
            raise fault(404, "NotFound", words, kind="namespaces", name=key[0])
        return apply(plural, key, body, dry_run=dry_run)

    member.apply = guarded  # type: ignore[method-assign] # a member with a rule more
    world.denied = True  # type: ignore[attr-defined] # as above


@pytest.mark.proves("B17")
@pytest.mark.parametrize("answer", REFUSALS, ids=NAMES)
async def test_a_namespace_that_may_not_be_made_is_refused_in_the_words_of_its_member(
    answer: Exception,
) -> None:
    async with serving("m1") as world:
        denying(world, answer)
        world.put(WORKLOADS, made("web"))
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "Rejected")
        words = f"m1: namespace shop is missing there, and cannot be made: {WORDS}"
        assert words in said(world)["message"]
        world.denied = False  # type: ignore[attr-defined] # as above
        await world.until(lambda: on(world, "m1"))
        await world.until(lambda: propagated(world, "web") == "Propagated")


class Denying(ApiClient):
    """A member without the namespace, which refuses a new one."""

    def __init__(self, answer: Exception) -> None:
        super().__init__(Connection(server="https://m1.invalid"), clock=FakeClock())
        self._answer = answer

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        raise self._answer if method == "POST" else fault(404, "NotFound", "not found")


@pytest.mark.proves("B17")
@pytest.mark.parametrize("answer", REFUSALS, ids=NAMES)
async def test_a_narrow_member_that_refuses_the_namespace_is_told_in_its_words(
    answer: Exception,
) -> None:
    link = SimpleNamespace(client=Denying(answer), home="h", tenants=set(), pod_security="")
    session, of = SimpleNamespace(name="m1", link=link), SimpleNamespace(namespaces=lambda: {"s"})
    with pytest.raises(Refused, match="each namespace needs a team") as told:
        await Namespaces(clock=FakeClock()).admit(cast("Any", session), cast("Any", of))
    assert told.value.reason is PropagatedReason.NAMESPACE_NOT_ALLOWED
