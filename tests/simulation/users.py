"""The users of a simulation: they make, edit, scale and delete Workloads of one namespace."""

from __future__ import annotations

import base64
import random
from typing import Any

from crds.names import FINALIZER
from e2e.chaos import wishes
from e2e.chaos.wishes import Wish
from machinery.api.resources import NAMESPACES, SECRETS, WORKLOADS
from machinery.types.metadata import Key

from .world import Json, SimWorld

SPACE = wishes.NAMESPACES[0]
_KINDS = ("Deployment", "Deployment", "StatefulSet", "StatefulSet", "Job")
_MODES = ("Single", "Divided", "Duplicated")
_MOST_REPLICAS = 4


class Users:
    """`wanted` are the Workloads that must exist. `most` is the highest number that each asked for.

    Each Workload has a life with a number, which its objects carry: one that was deleted and made
    again has two.
    """

    def __init__(self, world: SimWorld, *, seed: int, most: int) -> None:
        self.wanted: dict[Key, Wish] = {}
        self.lives: dict[Key, int] = {}
        self.most: dict[str, int] = {}
        """By the UID of the Workload."""
        self._world = world
        self._chance = random.Random(f"users {seed}")
        self._most = most
        self._numbers = self._last_life = 0
        world.put(NAMESPACES, {"apiVersion": "v1", "metadata": {"name": SPACE}})
        secret = {"apiVersion": "v1", "kind": "Secret", "data": {"v": _encoded("1")}}
        world.put(SECRETS, secret | {"metadata": {"name": wishes.SECRET, "namespace": SPACE}})

    def listed(self) -> dict[Key, Json]:
        """Return the Workloads of the hub; to be read only."""
        return {_key(each): each for each in self._world.hub.stored(WORKLOADS)}

    def edit(self) -> str:
        """Do one thing; return what it was."""
        what, there = self._chance.random(), sorted(self.wanted)
        if (what < 0.35 and len(there) < self._most) or not there:
            self._numbers += 1
            return self._make((SPACE, f"w{self._numbers}"))
        if what < 0.75:
            key = self._chance.choice(there)
            wish = wishes.changed(self.wanted[key], self._chance)
            return f"edit {key[1]}: {wish}" if self.apply(key, wish) else ""
        if what < 0.9:
            key = self._chance.choice(there)
            self.delete(key)
            return f"delete {key[1]}"
        key = (SPACE, f"w{self._chance.randint(1, self._numbers)}")
        return "" if key in self.wanted else self._make(key)

    def insist(self) -> None:
        """Ask for everything again; what is still being deleted is not wanted any more."""
        for key, wish in list(self.wanted.items()):
            if not self.apply(key, wish):
                del self.wanted[key]

    def apply(self, key: Key, wish: Wish) -> bool:
        """Return whether the hub took it: one of that name may still be being deleted."""
        hub, found = self._world.hub, self.listed().get(key)
        if found is not None and found["metadata"].get("deletionTimestamp"):
            return False
        if found is None:
            self._last_life += 1
            self.lives[key] = self._last_life
        body = wishes.manifest(*key, wish, self.lives[key])
        body["spec"]["schedulerName"] = "stowage"
        if found is None:
            body["metadata"]["finalizers"] = [FINALIZER]
            hub.put(WORKLOADS, body)
        else:
            meta = {**found["metadata"], **body["metadata"]}
            del meta["resourceVersion"]
            hub._replace(WORKLOADS.path(*key), {**body, "metadata": meta}, status=False)
        uid = self.listed()[key]["metadata"]["uid"]
        self.most[uid] = max(self.most.get(uid, 1), wish.replicas)
        self.wanted[key] = wish
        return True

    def delete(self, key: Key) -> None:
        found, hub = self.listed().get(key), self._world.hub
        self.wanted.pop(key, None)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        if found["metadata"].get("finalizers"):
            now = {"metadata": {"deletionTimestamp": self._world.stamp()}}
            hub.edit(WORKLOADS, key[1], now, namespace=key[0])
        else:
            hub.remove(WORKLOADS, key[1], key[0])

    def _make(self, key: Key) -> str:
        wish = self._wish()
        return f"make {key[1]}: {wish}" if self.apply(key, wish) else ""

    def _wish(self) -> Wish:
        chance = self._chance
        mode, kind = chance.choice(_MODES), chance.choice(_KINDS)
        return Wish(
            mode=mode,
            kind=kind,
            replicas=chance.randint(1, _MOST_REPLICAS),
            tag=f"3.{chance.randint(1, 9)}",
            config=chance.choice((None, chance.randint(0, 9))),
            secret=chance.random() < 0.2,
            claim=chance.random() < 0.3,
            volumes=kind == "StatefulSet" and chance.random() < 0.7,
        )


def _key(body: Any) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
