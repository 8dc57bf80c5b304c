"""Finding cached objects by something other than their key."""

from __future__ import annotations

import pytest

from machinery.runtime.store import Cache
from machinery.types.metadata import Meta, Object


def obj(name: str, version: int, *labels: str) -> Object:
    meta = Meta(name=name, resource_version=str(version), labels=dict.fromkeys(labels, ""))
    return Object(metadata=meta)


def labels(each: Object) -> list[str]:
    return list(each.metadata.labels)


def found(cache: Cache[Object], value: str) -> list[str]:
    return [each.metadata.name for each in cache.by_index("labels", value)]


@pytest.fixture
def cache() -> Cache[Object]:
    cache: Cache[Object] = Cache()
    cache.add_index("labels", labels)
    return cache


def test_found_under_each_of_its_values(cache):
    cache.observe(obj("a", 1, "x", "y"))
    cache.observe(obj("b", 2, "y"))
    assert found(cache, "x") == ["a"]
    assert found(cache, "y") == ["a", "b"]
    assert found(cache, "z") == []


def test_moves_with_the_object_and_goes_with_it(cache):
    cache.observe(obj("a", 1, "x", "y"))
    cache.observe(obj("a", 2, "y", "z"))
    assert [found(cache, value) for value in "xyz"] == [[], ["a"], ["a"]]
    assert cache.by_index("labels", "y")[0].metadata.resource_version == "2"
    cache.lose(obj("a", 3))
    assert [found(cache, value) for value in "xyz"] == [[], [], []]
    assert cache._indexes["labels"].keys == {}


def test_an_index_made_late_knows_everything():
    cache: Cache[Object] = Cache()
    cache.observe(obj("a", 1, "x"))
    cache.add_index("labels", labels)
    assert found(cache, "x") == ["a"]


def test_a_handler_finds_the_new_state_in_the_index(cache):
    seen = []
    cache.add_handler(lambda old, new: seen.append(found(cache, "x")))
    cache.observe(obj("a", 1, "x"))
    cache.observe(obj("a", 2))
    assert seen == [["a"], []]


def test_an_index_that_fails_hides_the_object_from_itself_alone(cache, caplog):
    def broken(each: Object) -> list[str]:
        raise RuntimeError("broken index")

    cache.add_index("broken", broken)
    cache.observe(obj("a", 1, "x"))
    cache.lose(obj("a", 2))
    assert found(cache, "x") == []
    assert "broken index" in caplog.text


def test_misuse_fails_loudly(cache):
    with pytest.raises(ValueError, match="labels"):
        cache.add_index("labels", labels)
    with pytest.raises(KeyError):
        cache.by_index("unknown", "x")


def test_what_is_walked_may_change_meanwhile(cache):
    for number in range(10):
        cache.observe(obj(str(number), number + 1, "x"))
    for each in cache.values():
        cache.lose(each)
    for each in cache.by_index("labels", "x"):
        cache.lose(each)
    assert len(cache) == 0
