"""How many requests a look at the Leases of others takes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from machinery.api.lanes import PriorityLevel, RequestClass
from machinery.api.verbs import Verbs
from machinery.errors import Forbidden, NotFound
from machinery.runtime.lease_reader import LeaseReader
from machinery.types.shards import MOST_SHARDS, lease_name
from tests.fakeclock import FakeClock

Json = dict[str, Any]


class Leases:
    """The Leases of so many shards, and how they were asked for."""

    def __init__(self, shards: int, *, lists: bool = True) -> None:
        self.asked: list[str] = []
        self.lanes: set[PriorityLevel] = set()
        self.renewed = 0
        self._lists = lists
        self._names = [lease_name(each) for each in range(shards)]

    def _of(self, name: str) -> Json:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 10, "leaseTransitions": 1}
        at = f"2026-01-01T00:00:{self.renewed:02}.000000Z"
        meta = {"name": name, "annotations": {}, "resourceVersion": "1"}
        return {"metadata": meta, "spec": {**spec, "renewTime": at}}

    async def get(self, _resource: Any, name: str, *, errand: RequestClass, **_how: Any) -> Json:
        self.asked.append("GET")
        self.lanes.add(errand.lane)
        if name not in self._names:
            raise NotFound(code=404, reason="NotFound", message=name)
        return self._of(name)

    async def list(self, _resource: Any, *, errand: RequestClass, **_how: Any) -> Json:
        self.asked.append("LIST")
        self.lanes.add(errand.lane)
        if not self._lists:
            raise Forbidden(code=403, reason="Forbidden", message="leases")
        return {"items": [self._of(name) for name in [*self._names, "stowage-controller"]]}

    def reader(self) -> LeaseReader:
        times: Any = {"lease_seconds": 10.0, "blind_seconds": 4.0}
        return LeaseReader(cast("Verbs", self), namespace="s", clock=FakeClock(), **times)


@pytest.mark.proves("SC33")
@pytest.mark.parametrize(("shards", "requests"), [(4, ["GET"] * 3), (64, ["LIST"])])
async def test_a_look_at_many_takes_one_request(shards: int, requests: list[str]) -> None:
    leases = Leases(shards)
    reader, others = leases.reader(), [lease_name(each) for each in range(1, shards)]
    await reader.look(others)
    assert leases.asked == requests
    assert leases.lanes == {PriorityLevel.PROBE}  # no list of the hub holds it up
    seen = [reader.get(name) for name in others]
    assert all(each is not None and each.held and each.record.holder for each in seen)
    assert reader.get("stowage-controller") is None


async def test_what_a_list_lacks_is_gone_and_each_is_asked_for_where_nobody_may_list() -> None:
    leases = Leases(3)
    reader, others = leases.reader(), [lease_name(each) for each in range(1, MOST_SHARDS)]
    await reader.look(others)
    assert [name for name in others if reader.get(name)] == others[:2]
    leases = Leases(MOST_SHARDS, lists=False)
    reader = leases.reader()
    for _ in range(2):
        await reader.look(others)
    assert leases.asked == ["LIST", *["GET"] * 63, *["GET"] * 63]
    assert all(reader.get(name) is not None for name in others)
