"""A hub in memory: as much of an API server as the processes use, with faults on demand.

For races that a real server shows once in a thousand runs. Objects, versions, generations, the
status subresource, merge patches with their compare-and-swap, lists, watches and deletion are here;
validation and server-side apply are not. `faults` are asked before each request and may wait,
raise, or let it pass; `after` runs between the write and its answer.
"""

from __future__ import annotations

import asyncio
import pickle
import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

import crds
from machinery.api.resources import Resource
from machinery.api.verbs import BeforeWrite, Verbs
from machinery.clock import Clock
from machinery.errors import AlreadyExists, Conflict, Invalid, NotFound, TransportError
from machinery.pace import ServerBudget
from machinery.types.memory_budget import BudgetShare

Body = dict[str, Any]
Fault = Callable[[str, str, Any], Awaitable[None]]
BOOKMARK_SECONDS = 3.0
"""Seconds of the clock between two bookmarks; each wakes every watch of the hub."""
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


class _News(NamedTuple):
    """An event of a watch, as it was when it happened: `line` is what is sent of it."""

    version: int
    name: str
    """That of the object; empty of a bookmark, which every watch is told."""
    namespace: str
    """Also empty of an object that has none."""
    line: bytes

    @staticmethod
    def of(kind: str, body: Body) -> _News:
        meta = body["metadata"]
        line = msgspec.json.encode({"type": kind, "object": body})
        name, namespace = meta.get("name", ""), meta.get("namespace", "")
        return _News(int(meta["resourceVersion"]), name, namespace, line)


class MemoryHub(Verbs):
    """The store and its client in one; `requests` are (method, path, body) of all that came.

    `fenced` are method and path of the writes that end with a term.
    """

    def __init__(self, *, clock: Clock, admission: bool = True) -> None:
        super().__init__(clock, ServerBudget(clock), BudgetShare())
        self.requests: list[tuple[str, str, Any]] = []
        self.fenced: list[tuple[str, str]] = []
        self.enforces = True
        """Whether it does what the admission policies say that are there."""
        self.faults: list[Fault] = []
        self.after: list[Fault] = []
        self._version = 100
        self._objects: dict[str, Body] = {}
        self._kinds: dict[str, str] = {}
        self._log: dict[str, list[_News]] = defaultdict(list)
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._held: set[str] = set()
        self._marked = -BOOKMARK_SECONDS
        for at, manifest in _admission() if admission else ():
            self._store(at, _copied(manifest))

    # What a test does and asks.

    def put(self, res: Resource, body: Mapping[str, Any]) -> Body:
        """Create an object, as anybody would."""
        meta = body["metadata"]
        namespace = meta.get("namespace", "shop") if res.namespaced else None
        return self._create(res.path(namespace), _copied(dict(body)), res.kind)

    def read(self, res: Resource, name: str, namespace: str = "shop") -> Body:
        """The object as stored. Raises KeyError."""
        return _copied(self._objects[res.path(namespace if res.namespaced else None, name)])

    def all(self, res: Resource) -> list[Body]:
        """Every object of that resource."""
        return _copied(self.stored(res))

    def stored(self, res: Resource) -> list[Body]:
        """Every object of that resource, to be read only: the hub's own, not copies."""
        items: list[Body] = self._list(res.path(None), {})["items"]
        return items

    def edit(
        self,
        res: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        status: bool = False,
        namespace: str = "shop",
    ) -> Body:
        """A merge patch of somebody else's in that namespace, or of a cluster-scoped object."""
        path = res.path(namespace if res.namespaced else None, name)
        return self._patch(path, dict(patch), status=status)

    def remove(self, res: Resource, name: str, namespace: str = "shop") -> None:
        """Delete an object, at once."""
        self._delete(res.path(namespace if res.namespaced else None, name))

    def snapshot(self) -> bytes:
        """All that is stored, for `set_back`."""
        return pickle.dumps((self._objects, self._version))

    def set_back(self, snapshot: bytes, bump: int = 0) -> None:
        """Be as then, at a version that is higher by `bump`; every watch ends."""
        self._objects, version = pickle.loads(snapshot)
        self._version = version + bump
        ended, self._log = self._log, defaultdict(list)
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "set back"}
        for collection, log in ended.items():
            line = msgspec.json.encode({"type": "ERROR", "object": status})
            log.append(_News(self._version, "", "", line))
            self._news[collection].set()

    def hold(self, res: Resource) -> Callable[[], None]:
        """Keep watches of that resource silent until the answer is called."""
        collection = res.path(None)
        self._held.add(collection)

        def release() -> None:
            self._held.discard(collection)
            self._news[collection].set()

        return release

    def bookmark(self) -> None:
        """Let every watch know that it is up to date, unless it was told within BOOKMARK_SECONDS."""
        if self.clock.monotonic() < self._marked + BOOKMARK_SECONDS:
            return
        self._marked = self.clock.monotonic()
        for collection, log in list(self._log.items()):
            self._version += 1
            at = {"metadata": {"resourceVersion": str(self._version)}}
            log.append(_News.of("BOOKMARK", at))
            if collection not in self._held:
                self._news[collection].set()

    def writes(self, text: str = "/status") -> list[tuple[str, str, Any]]:
        """The requests but GET whose path holds the text."""
        return [each for each in self.requests if each[0] != "GET" and text in each[1]]

    def events(self, reason: str = "") -> list[Body]:
        """The Events of that reason."""
        found = [o for path, o in self._objects.items() if "/events/" in path]
        return [o for o in found if not reason or o.get("reason") == reason]

    # What a client asks.

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | None = None,
        before_write: BeforeWrite | None = None,
        **_how: Any,
    ) -> bytes:
        """As an API server answers."""
        if method != "GET" and before_write is not None:
            before_write()
            self.fenced.append((method, path))
        given = msgspec.json.decode(body) if isinstance(body, bytes) else _copied(body)
        if (params or {}).get("dryRun"):  # tried and not stored, so neither counted nor faulted
            return msgspec.json.encode(self._tried(given))
        self.requests.append((method, path, given))
        for fault in self.faults:
            await fault(method, path, given)
        await asyncio.sleep(0)
        answer = self._answer(method, path, params or {}, given)
        encoded = msgspec.json.encode(answer)
        for fault in self.after:
            await fault(method, path, given)
        return encoded

    @asynccontextmanager
    async def watch(
        self, res: Resource, *, resource_version: str, **how: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events after that version, for ever."""
        collection = self._known(res.path(None))
        yield self._events(collection, int(resource_version), how)

    def refuse(self, what: str) -> None:
        """Refuse nothing, count nothing."""

    async def _events(
        self, collection: str, version: int, how: Mapping[str, Any]
    ) -> AsyncIterator[bytes]:
        log = self._log[collection]
        named = (how.get("field_selector") or "").removeprefix("metadata.name=")
        inside = how.get("namespace") or ""
        at = bisect_right(log, version, key=lambda news: news.version)
        while True:
            while collection not in self._held and at < len(log):
                news = log[at]
                at += 1
                theirs = not inside or news.namespace in ("", inside)
                if theirs and (not named or news.name in ("", named)):
                    yield news.line
            self._news[collection].clear()
            await self._news[collection].wait()

    def _answer(self, method: str, path: str, params: Mapping[str, str], body: Any) -> Body:
        main = path.removesuffix("/status")
        match method:
            case "GET" if path in self._objects:
                return self._objects[path]
            case "GET":
                return self._list(path, params)
            case "POST":
                return self._create(path, body, "")
            case "PATCH":
                return self._patch(main, body, status=main != path)
            case "PUT":
                return self._replace(main, body, status=main != path)
            case "DELETE":
                self._delete(path)
                return {"kind": "Status"}
        raise AssertionError(method)

    def _tried(self, body: Body) -> Body:
        """The Workload after our admission policies."""
        if self.enforces and body["spec"]["targetDeployment"]["spec"]["replicas"] < 0:
            raise _no(Invalid, 422, "Invalid", "ValidatingAdmissionPolicy denied request")
        if self.enforces:
            body["spec"]["schedulerName"] = "stowage"
        return body

    def _list(self, path: str, params: Mapping[str, str]) -> Body:
        collection = self._known(path)
        items = [
            o
            for at, o in self._objects.items()
            if _collection(at) == collection and (path == collection or at.startswith(path + "/"))
        ]
        named = params.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [o for o in items if not named or o["metadata"]["name"] == named]
        key, _, value = params.get("labelSelector", "").partition("=")
        labels = [(o, o["metadata"].get("labels", {})) for o in items]
        items = [o for o, has in labels if not key or has.get(key) == (value or has.get(key, "-"))]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _known(self, path: str) -> str:
        """The collection of a path; NotFound where an object is missing, or a kind."""
        last = path.rpartition("/")[2]
        if not last.isalpha() or not last.endswith("s"):
            raise _missing(path)
        return _collection(path + "/x")

    def _create(self, path: str, body: Body, kind: str) -> Body:
        meta = body.setdefault("metadata", {})
        if "/namespaces/" in path:
            meta.setdefault("namespace", path.partition("/namespaces/")[2].partition("/")[0])
        at = f"{path}/{meta['name']}"
        if at in self._objects:
            raise _no(AlreadyExists, 409, "AlreadyExists", f"{at} exists")
        return self._store(at, {"kind": kind, **body} if kind else body)

    def _store(self, at: str, body: Body) -> Body:
        meta = body["metadata"]
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._keep(at, body, "ADDED")
        return body

    def _patch(self, at: str, patch: Any, *, status: bool) -> Body:
        old = self._present(at, patch)
        if status:
            asked = {"status": patch.get("status")}
        else:
            asked = {k: v for k, v in patch.items() if k != "status"}
        new = _merged(_copied(old), asked)
        return self._put(at, old, new)

    def _replace(self, at: str, body: Body, *, status: bool) -> Body:
        old = self._present(at, body)
        if status:
            return self._put(at, old, {**_copied(old), "status": body["status"]})
        return self._put(at, old, {**body, "status": old.get("status", {})})

    def _present(self, at: str, body: Mapping[str, Any]) -> Body:
        old = self._objects.get(at)
        if old is None:
            raise _missing(at)
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise _no(Conflict, 409, "Conflict", f"{at} is another one by now")
        return old

    def _put(self, at: str, old: Body, new: Body) -> Body:
        new["metadata"] = {**old["metadata"], **new.get("metadata", {})}
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if new != old:
            self._keep(at, new, "MODIFIED")
        return new

    def _delete(self, at: str) -> None:
        if at not in self._objects:
            raise _missing(at)
        body = _copied(self._objects.pop(at))
        self._publish(at, body, "DELETED")

    def _keep(self, at: str, body: Body, kind: str) -> None:
        self._objects[at] = body
        self._publish(at, body, kind)

    def _publish(self, at: str, body: Body, kind: str) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        collection = _collection(at)
        self._log[collection].append(_News.of(kind, body))
        if collection not in self._held:
            self._news[collection].set()


@cache
def _admission() -> list[tuple[str, Body]]:
    """Our admission policies by path, read once: that takes longer than most tests."""
    return [
        (f"/apis/{each['apiVersion']}/{plural}/{each['metadata']['name']}", each)
        for each in crds.manifests()
        if (plural := _PLURALS.get(each["kind"]))
    ]


@cache
def _collection(at: str) -> str:
    """The collection over all namespaces that an object's path belongs to."""
    path = at.rpartition("/")[0]
    head, found, rest = path.partition("/namespaces/")
    return f"{head}/{rest.split('/', 1)[1]}" if found and "/" in rest else path


T = TypeVar("T")


def _copied(body: T) -> T:
    """As copy.deepcopy, of which the tests would take half their time."""
    copied: T = pickle.loads(pickle.dumps(body, pickle.HIGHEST_PROTOCOL))
    return copied


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = _merged(target.get(key), value)
    return target


def _missing(at: str) -> TransportError:
    message, details = f"{at} not found", {"name": at.rpartition("/")[2]}
    return NotFound(code=404, reason="NotFound", message=message, details=details)


def _no(kind: Any, code: int, reason: str, message: str) -> TransportError:
    error: TransportError = kind(code=code, reason=reason, message=message)
    return error
