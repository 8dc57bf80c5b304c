"""The hub asked over one kept connection: a kubectl for each case costs more than its answer.

It asks as kubectl does (strict about fields, the same field manager), and the administrator may ask
as another user. What kubectl itself makes of an answer is looked at with kubectl.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from machinery.api import resources
from machinery.api.resources import Resource
from machinery.api.verbs import APPLY_PATCH, JSON, MERGE_PATCH
from stowage.playground.cluster import Cluster
from tests.inforce import review_of
from tests.patience import hold_on

_RBAC = "rbac.authorization.k8s.io"
_RESOURCES = [
    *(each for each in vars(resources).values() if isinstance(each, Resource)),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
]
KINDS = {each.kind: each for each in _RESOURCES}
_SECONDS = 120
_STRICT = {"fieldValidation": "Strict", "fieldManager": "kubectl"}


class Refused(Exception):
    """The server said no; the text is the message of its Status."""


def refusal(verb: Callable[..., object], *args: Any, **more: Any) -> str:
    """The server's refusal; empty where it takes the object."""
    try:
        verb(*args, **more)
    except Refused as no:
        return str(no) or repr(no)
    return ""


class Asking:
    """The verbs. Each answers with what the server stored, or would, and raises Refused.

    `user` asks as somebody else than the administrator.
    """

    def __init__(self, cluster: Cluster) -> None:
        keys = cluster.directory / "pki"
        context = ssl.create_default_context(cadata=cluster.ca.decode())
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", cluster.port, timeout=_SECONDS, context=context
        )

    def close(self) -> None:
        self._connection.close()

    def create(
        self, obj: Mapping[str, Any], *, dry_run: bool = False, user: str = ""
    ) -> dict[str, Any]:
        path = _path(obj["kind"], obj["metadata"].get("namespace"))
        dry = {"dryRun": "All"} if dry_run else {}
        return self.request("POST", path, obj, user=user, query=_STRICT | dry)

    def apply(self, obj: Mapping[str, Any], *, user: str = "") -> dict[str, Any]:
        """Server-side, without force."""
        metadata = obj["metadata"]
        path = _path(obj["kind"], metadata.get("namespace"), metadata["name"])
        return self.request("PATCH", path, obj, user=user, query=_STRICT, content=APPLY_PATCH)

    def patch(
        self,
        name: str,
        patch: Mapping[str, Any],
        *,
        kind: str = "Workload",
        namespace: str | None = None,
        subresource: str | None = None,
        user: str = "",
    ) -> dict[str, Any]:
        """A merge patch."""
        path = _path(kind, namespace, name, subresource)
        return self.request("PATCH", path, patch, user=user, content=MERGE_PATCH)

    def get(
        self, name: str, kind: str = "Workload", *, namespace: str | None = None
    ) -> dict[str, Any]:
        return self.request("GET", _path(kind, namespace, name))

    def list(self, kind: str, *, namespace: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.request("GET", _path(kind, namespace))["items"]
        return found

    def delete(self, name: str | None, kind: str, *, namespace: str | None = None) -> None:
        """One object; without a name all of the namespace."""
        self.request("DELETE", _path(kind, namespace, name))

    def until_may(self, user: str, what: str) -> None:
        """As `tests.inforce.until_may`."""
        review = review_of(user, what) | {"metadata": {}}
        hold_on(lambda: self.create(review)["status"]["allowed"])

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        user: str = "",
        query: Mapping[str, str] | None = None,
        content: str = JSON,
    ) -> dict[str, Any]:
        headers = {"Accept": JSON, "Content-Type": content}
        if user:
            headers["Impersonate-User"] = user
        address = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body)
        self._connection.request(method, address, data, headers)
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status >= 300:
            raise Refused(answer["message"])
        return answer


def _path(
    kind: str, namespace: str | None, name: str | None = None, subresource: str | None = None
) -> str:
    resource = KINDS[kind]
    return resource.path(namespace if resource.namespaced else None, name, subresource)
