"""One object off a member: asked to go once, looked at ever more rarely, believed without a watch."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    LABEL_MANAGED,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from machinery.api.resources import Resource
from machinery.errors import ApiError, Conflict, NotFound
from machinery.runtime.store import Cache
from propagator.apply.apply_records import ObjectPlace
from propagator.apply.ownership import parting
from propagator.apply.render import ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH
from propagator.errors import Refused
from propagator.members.objects import ManagedObject, Mark, managed
from propagator.members.session import MemberSession
from propagator.removal.remover import Remover
from propagator.removal.rule import Grant, granted
from tests.fakeclock import FakeClock

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
PLACE = ObjectPlace.at("m1", CONFIGMAPS, ("shop", "conf"))
MARK = Mark("r1", "c1")
ENDING = "2026-01-01T00:00:00Z"


def conf(*uids: str, version: str = "1", **meta: Any) -> dict[str, Any]:
    annotations = {OWNER_PREFIX + uid: "shop/demo" for uid in uids}
    named = {"namespace": "shop", "name": "conf", "uid": "o-1", "resourceVersion": version}
    labels = {LABEL_MANAGED: "true"}
    return {"metadata": {**named, "annotations": annotations, "labels": labels, **meta}}


class Member(Cache[ManagedObject]):
    """A session, its link, its only informer, and its client, all in one; no watch at all."""

    name = "m1"
    allowed_kinds: frozenset[str] = frozenset()

    def __init__(self, lies: dict[str, Any]) -> None:
        super().__init__()
        self.link = self.watches = self
        self.lies: dict[str, Any] | None = lies
        self.fault: ApiError | None = None
        self.sent: list[str] = []
        self.observe(managed(CONFIGMAPS, lies))

    def track(self, *_: object) -> Member:
        return self

    def client_for(self, _: str) -> Member:
        return self

    def upsert(self, found: ManagedObject) -> None:
        self.observe(found)

    async def delete(self, *_: object, **how: Any) -> dict[str, Any]:
        self.sent.append(f"DELETE {how['uid']}")
        version = self.lies["metadata"]["resourceVersion"] if self.lies is not None else None
        if how["resource_version"] not in (None, version):
            raise Conflict(code=409, reason="Conflict", message="the precondition failed")
        if self.fault is not None:
            raise self.fault
        if self.lies is None:
            raise NotFound(code=404, reason="NotFound", message="not found")
        if self.lies["metadata"].get("finalizers"):
            self.lies["metadata"] |= {"deletionTimestamp": ENDING, "resourceVersion": "2"}
            return self.lies
        self.lies = None
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    async def read(self, *_: object, **__: object) -> dict[str, Any]:
        self.sent.append("GET")
        if self.lies is None:
            raise NotFound(code=404, reason="NotFound", message="not found")
        return self.lies

    def get(self, *key: Any, **how: Any) -> Any:
        """Two in one: of a cache, and of a client."""
        return self.read() if how else super().get(*key)


async def ask(remover: Remover, member: Member, found: dict[str, Any]) -> str:
    session = cast("MemberSession", member)
    lying = managed(CONFIGMAPS, found)
    grant = granted(lying, "u", mark=MARK, ended=True, decided=math.inf, registered=lambda _: True)
    assert isinstance(grant, Grant)
    return await remover.remove(session, PLACE, lying, grant)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def remover(clock: FakeClock) -> Remover:
    return Remover(clock=clock)


@pytest.mark.proves("R4")
async def test_an_answer_is_believed_without_a_watch(remover: Remover):
    member = Member(conf("u"))
    assert await ask(remover, member, conf("u")) == ""
    assert len(member) == 0
    assert member.sent == ["DELETE o-1"]


@pytest.mark.proves("R4", "R15")
async def test_what_waits_for_a_finalizer_is_asked_once_and_looked_at_ever_more_rarely(
    remover: Remover, clock: FakeClock
):
    member = Member(conf("u", finalizers=["example.com/hold"]))
    for _ in range(2000):  # as often as somebody touches it
        assert "example.com/hold" in await ask(remover, member, conf("u"))
        await clock.advance(0.01)
    assert member.sent == ["DELETE o-1", *["GET"] * 5], "at 0.5, 1.5, 3.5, 7.5 and 15.5 s"
    member.lies = None
    await clock.advance(60)
    assert await ask(remover, member, conf("u")) == ""
    assert len(member) == 0


@pytest.mark.proves("KD19")
async def test_what_has_done_more_since_it_was_granted_stays(remover: Remover):
    member = Member(conf("u"))
    assert member.lies is not None
    member.lies = conf("u", version="2")
    session, lying = cast("MemberSession", member), managed(CONFIGMAPS, conf("u"))
    early, late = (Grant("o-1", "u", let_go=False, version=each) for each in "12")
    assert "has changed meanwhile" in await remover.remove(session, PLACE, lying, early)
    assert await remover.remove(session, PLACE, lying, late) == ""
    assert member.sent == ["DELETE o-1", "GET", "DELETE o-1"]


@pytest.mark.proves("R4")
async def test_what_the_member_refuses_is_refused_again_without_a_request(
    remover: Remover, clock: FakeClock
):
    member = Member(conf("u"))
    member.fault = ApiError.of(code=403, reason="Forbidden", message="may not")
    for _ in range(2000):
        with pytest.raises(Refused, match="ConfigMap shop/conf cannot be removed: may not"):
            await ask(remover, member, conf("u"))
        await clock.advance(0.01)
    assert len(member.sent) == 6
    member.fault = None
    await clock.advance(60)
    assert await ask(remover, member, conf("u")) == ""


@pytest.mark.proves("R2")
async def test_what_another_has_taken_over_meanwhile_stays(remover: Remover):
    member = Member(conf("another", version="2"))
    assert await ask(remover, member, conf("u")) == ""
    assert member.sent == []
    assert len(member) == 1


async def test_what_was_put_into_its_place_stays(remover: Remover):
    member = Member(conf("u"))
    member.fault = ApiError.of(code=409, reason="Conflict", message="the UID is another")
    assert member.lies is not None
    member.lies = conf("u", version="5", uid="o-2")
    assert await ask(remover, member, conf("u")) == ""
    assert member.sent == ["DELETE o-1", "GET"]


@pytest.mark.proves("X8", "X11")
@pytest.mark.parametrize("orphan", [True, False])
@pytest.mark.parametrize("uids", [("u",), ("u", "other")])
def test_the_last_owner_takes_every_mark_off_and_only_as_the_object_is(
    uids: tuple[str, ...], orphan: bool
):
    marks = dict.fromkeys((ANNOTATION_HUB, ANNOTATION_MEMBER, ANNOTATION_HUB_VERSION), "x")
    marks |= dict.fromkeys((ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH), "x")
    whole = conf(*uids)
    whole["metadata"]["annotations"] |= marks | {ORPHAN_PREFIX + uid: "true" for uid in uids}
    whole["metadata"]["annotations"][ORPHAN_PREFIX + "former"] = "true"
    last = len(uids) == 1
    patch = parting(managed(CONFIGMAPS, whole), "u", last=last, orphan=orphan)["metadata"]
    off = {key for key, value in patch["annotations"].items() if value is None}
    left = whole["metadata"]["annotations"].keys() - off
    if last:
        assert not left
        assert patch["labels"] == {LABEL_MANAGED: None}
        assert (patch["uid"], patch["resourceVersion"]) == ("o-1", "1")
    else:
        others = {OWNER_PREFIX + "other", ORPHAN_PREFIX + "other", ORPHAN_PREFIX + "former"}
        assert left == {*others, *marks, *([ORPHAN_PREFIX + "u"] if orphan else [])}
        assert "labels" not in patch
