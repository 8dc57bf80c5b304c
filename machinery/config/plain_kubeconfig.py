"""A user's kubeconfig of the plain form, read without the kubernetes library.

The library takes most of a second to import, and most kubeconfigs need none of it: they hold an
address, a CA, a client certificate or a fixed token. So the reading commands try this first.
Anything that is not wholly plain (credential plugins, token files, several files, proxies of the
environment, any fault) is left to the library, which reads it and reports its faults.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from machinery.config.address import check_hub
from machinery.config.member_kubeconfig import Connection

_CLUSTER = {"server", "certificate-authority-data", "certificate-authority", "tls-server-name"}
_USER = {"client-certificate-data", "client-key-data", "client-certificate", "client-key", "token"}
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")
_USERS_OWN = "~/.kube/config"


def plain_connection(*, kubeconfig: str | None, context: str | None) -> Connection | None:
    """Return the connection of the one file, found as `hub_connection` does; None if not plain.

    A token is not renewed when the server refuses it, so this is for short commands.
    """
    listed = kubeconfig or os.environ.get("KUBECONFIG") or _USERS_OWN
    if os.pathsep in listed or any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        return _connection(Path(listed).expanduser(), context)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return None


def _connection(file: Path, context: str | None) -> Connection | None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(file.read_bytes(), Loader=loader)  # noqa: S506 - both are safe loaders
    chosen = _named(document, "context", context or document["current-context"])
    cluster = _named(document, "cluster", chosen["cluster"])
    user = _named(document, "user", chosen["user"])
    if not (cluster.keys() <= _CLUSTER and user.keys() <= _USER and cluster["server"]):
        return None
    check_hub(str(cluster["server"]))
    token = user.get("token")
    if not isinstance(token, str | None):
        return None
    return Connection(
        server=str(cluster["server"]).rstrip("/"),
        ca=_pem(cluster, "certificate-authority", file),
        token=token,
        client_cert=_pem(user, "client-certificate", file),
        client_key=_pem(user, "client-key", file),
        tls_server_name=cluster.get("tls-server-name"),
        namespace=chosen.get("namespace") or "default",
    )


def _named(document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    (found,) = [each for each in document[f"{kind}s"] if each["name"] == name]
    entry: Mapping[str, Any] = found[kind]
    return entry


def _pem(entry: Mapping[str, Any], name: str, file: Path) -> bytes | None:
    """Return what the entry holds or names; a path is relative to the file that names it."""
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"], validate=True)
    return (file.parent / entry[name]).read_bytes() if entry.get(name) else None
