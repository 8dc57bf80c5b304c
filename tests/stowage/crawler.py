"""Tries everything that an API server offers with one token, and knows nothing of Stowage.

It has an address, a CA and a token, asks the server itself what there is (discovery), and tries
each verb on each resource in each place: in the namespaces that it is given, in all of them, and on
objects of names that it is given. Nothing is changed: what would be is a dry run.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

ANYWHERE = ""
"""The namespace of requests over all of them, and of what has none."""
PATHS = (
    *("/", "/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/version/"),
    *("/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration", "/openid/v1/jwks"),
    *("/metrics", "/metrics/slis", "/logs", "/configz", "/flagz", "/statusz"),
    *("/debug/pprof/", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_requests"),
)
_MERGE = "application/merge-patch+json"
_DRY = {"dryRun": "All"}
_WATCH = {"watch": "true", "timeoutSeconds": "1"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request: `resource` is `group/plural[/subresource]`, of a path alone the path."""

    verb: str
    resource: str
    namespace: str
    name: str = ""


@dataclass
class Crawler:
    """`allowed` has what was not refused; `seen` all bytes that came back."""

    server: str
    ca: str
    token: str
    seen: bytearray = field(default_factory=bytearray)
    tried: int = 0

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        context = ssl.create_default_context(cadata=self.ca)
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=60, context=context
        )

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, method: str, path: str, body: object = None, content: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        self.tried += 1
        self.seen += text
        return answer.status, text

    def crawl(self, places: Mapping[str, Sequence[str]]) -> set[Attempt]:
        """Return what the server let through: all but 401, 403, 404 of a path, and 405.

        `places` are namespaces, ANYWHERE among them, with the names that are tried there.
        """
        found = set()
        for path in PATHS:
            status, _ = self.ask("GET", path)
            if status not in (401, 403, 404):
                found.add(Attempt("get", path, ANYWHERE))
        for version, resource in self._resources():
            for namespace, names in places.items():
                if namespace and not resource["namespaced"]:
                    continue
                for attempt, request in _requests(version, resource, namespace, names):
                    status, _ = self.ask(*request)
                    if status not in (401, 403, 405):
                        found.add(attempt)
        return found

    def _resources(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield each resource and subresource with its `/api/v1` or `/apis/GROUP/VERSION`."""
        _, text = self.ask("GET", "/apis")
        groups = [each["preferredVersion"]["groupVersion"] for each in json.loads(text)["groups"]]
        for version in ("/api/v1", *(f"/apis/{each}" for each in groups)):
            _, text = self.ask("GET", version)
            for resource in json.loads(text)["resources"]:
                yield version, resource


def _requests(
    version: str, resource: dict[str, object], namespace: str, names: Sequence[str]
) -> Iterator[tuple[Attempt, tuple[object, ...]]]:
    """Yield each attempt in that namespace with the arguments of `ask`."""
    plural, _, sub = str(resource["name"]).partition("/")
    verbs = set(resource["verbs"])  # type: ignore[call-overload]  # JSON
    inside = f"/namespaces/{namespace}" if namespace else ""
    base = f"{version}{inside}/{plural}"
    group = "" if version == "/api/v1" else version.split("/")[2]
    title = f"{group}/{resource['name']}"

    def attempt(verb: str, name: str = "") -> Attempt:
        return Attempt(verb, title, namespace, name)

    def query(**given: str) -> str:
        return f"?{urlencode(given)}"

    whole = namespace or not resource["namespaced"]
    if not sub:
        if "list" in verbs:
            yield attempt("list"), ("GET", base)
        if "watch" in verbs:
            yield attempt("watch"), ("GET", base + query(**_WATCH))
        if "deletecollection" in verbs and whole:
            yield attempt("deletecollection"), ("DELETE", base + query(**_DRY))
        if "create" in verbs and whole:
            body = {"metadata": {"name": "crawled"}}
            yield attempt("create"), ("POST", base + query(**_DRY), body)
        for name in names:
            chosen = {"fieldSelector": f"metadata.name={name}"}
            if "list" in verbs:
                yield attempt("list", name), ("GET", base + query(**chosen))
            if "watch" in verbs:
                yield attempt("watch", name), ("GET", base + query(**chosen, **_WATCH))
    if not whole:
        return
    for name in names:
        path = f"{base}/{name}" + (f"/{sub}" if sub else "")
        if "get" in verbs:
            yield attempt("get", name), ("GET", path)
        if "create" in verbs and sub:
            yield attempt("create", name), ("POST", path + query(**_DRY), {})
        if "update" in verbs:
            yield attempt("update", name), ("PUT", path + query(**_DRY), {})
        if "patch" in verbs:
            yield attempt("patch", name), ("PATCH", path + query(**_DRY), {}, _MERGE)
        if "delete" in verbs:
            yield attempt("delete", name), ("DELETE", path + query(**_DRY))
