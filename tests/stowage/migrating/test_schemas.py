"""The fields that a migration reads and writes are those of the peers' own definitions.

The small peers of the tests write what the true ones would, so their objects are held to these too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.stowage.migrating.test_migrate_works import KubeFleetFleet, OcmFleet
from tests.stowage.migrating.world import Fleet
from tests.stowage.peermodules import fetched
from website.peers import MODULES, definitions

pytestmark = pytest.mark.long
_TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}


def karmada() -> Fleet:
    fleet = Fleet()
    fleet.follow("web", "conf", m1=4, m2=2)
    fleet.sync()
    return fleet


PEERS: Mapping[str, Callable[[], Fleet]] = {
    "karmada": karmada,
    "kubefleet": KubeFleetFleet,
    "ocm": OcmFleet,
}


def faults(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    """What a server would refuse or drop; a condition of a status may lack what nobody reads."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or path.endswith("/.metadata"):
        return
    if not isinstance(value, _TYPES.get(schema.get("type", ""), object)):
        yield f"{path} is no {schema['type']}: {value}"
    elif value not in schema.get("enum", [value]):
        yield f"{path} is none of {schema['enum']}: {value}"
    elif isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        if ".status" not in path:
            needed = [key for key in schema.get("required", []) if "default" not in known[key]]
            yield from (f"{path} lacks {key}" for key in needed if key not in value)
        for key, inner in value.items():
            if key in known or isinstance(more, dict):
                yield from faults(known.get(key, more), inner, f"{path}.{key}")
            else:
                yield f"{path} has no field {key}"
    elif isinstance(value, list):
        for each in value:
            yield from faults(schema["items"], each, f"{path}[]")


def refused(fleet: Fleet, known: Mapping[str, list[Any]]) -> list[str]:
    """What of the objects on the peer's hub no version of their kinds takes."""
    found, seen = [], set()
    for at, body in fleet.theirs.state().items():
        kind = f"{at.split('/')[2]}/{body['kind']}"
        if kind in known:
            seen.add(kind)
            found.append(min(([*faults(s, body, f"{at}/")] for s in known[kind]), key=len))
    assert len(seen) > 1, seen
    return [each for listed in found for each in listed]


@pytest.mark.proves("IM26")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_takes_what_each_step_writes(tmp_path: Path, name: str) -> None:
    module, version, patterns = MODULES[name]
    root = fetched(f"{module}@{version}", tmp_path)
    known: dict[str, list[Any]] = {}
    for pattern in patterns:
        for kind, schema in definitions(root, pattern):
            known.setdefault(kind, []).append(schema)
    fleet = PEERS[name]()
    assert refused(fleet, known) == []
    for step in ("adopt", "release", "undo"):
        assert not fleet.step(step)["web"].fault
        assert refused(fleet, known) == [], step
