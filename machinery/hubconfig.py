"""The hub, as the user's own configuration names it: a kubeconfig or the pod's service account.

The only user of the kubernetes library. A user's kubeconfig is trusted (it is theirs): it may
name files and run credential plugins, which the library handles. Credentials that change are
asked for again through a `TokenSource`. The library is slow to import, so it is imported when used.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from machinery.errors import ConfigurationError
from machinery.kubeconfig import Connection

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FRESH_SECONDS = 30.0


def hub_connection(*, kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """How to reach the hub: the file named, else KUBECONFIG or ~/.kube/config, else in-cluster.

    Raises ConfigurationError that says what was looked for.
    """
    from kubernetes import client, config  # noqa: PLC0415 - slow, and not every command needs it

    settings: Any = client.Configuration()
    try:
        load: Any = config.load_kube_config  # the library has no types
        load(config_file=kubeconfig, context=context, client_configuration=settings)
    except (config.ConfigException, OSError) as e:
        if kubeconfig or context or not (_SERVICE_ACCOUNT / "token").exists():
            raise ConfigurationError(
                f"no hub to talk to: {e}; give --kubeconfig and --context, or set KUBECONFIG"
            ) from e
        return _in_cluster()
    return _connection(settings, _namespace(kubeconfig, context))


def _in_cluster() -> Connection:
    from kubernetes import client, config  # noqa: PLC0415 - see hub_connection

    settings: Any = client.Configuration()
    load: Any = config.load_incluster_config  # the library has no types
    load(client_configuration=settings)
    return Connection(
        server=settings.host,
        ca=_read(settings.ssl_ca_cert),
        namespace=(_SERVICE_ACCOUNT / "namespace").read_text().strip(),
        token_source=_Refreshing(lambda: (_SERVICE_ACCOUNT / "token").read_text().strip()),
    )


def _connection(settings: Any, namespace: str) -> Connection:
    if not settings.verify_ssl:
        raise ConfigurationError(
            "the hub's kubeconfig skips TLS verification: give certificate-authority-data instead"
        )
    refresh = settings.refresh_api_key_hook
    bearer = settings.api_key.get("authorization") or settings.api_key.get("BearerToken")

    def token() -> str:
        if refresh:
            refresh(settings)
        value = settings.api_key.get("authorization") or settings.api_key.get("BearerToken") or ""
        return str(value).removeprefix("Bearer ").strip()

    return Connection(
        server=settings.host,
        ca=_read(settings.ssl_ca_cert),
        client_cert=_read(settings.cert_file),
        client_key=_read(settings.key_file),
        username=settings.username or None,
        password=settings.password or None,
        tls_server_name=getattr(settings, "tls_server_name", None) or None,
        proxy_url=settings.proxy or None,
        namespace=namespace,
        token_source=_Refreshing(token) if bearer else None,
    )


def _namespace(kubeconfig: str | None, context: str | None) -> str:
    from kubernetes import config  # noqa: PLC0415 - see hub_connection

    listed: Any = config.list_kube_config_contexts  # the library has no types
    contexts, active = listed(config_file=kubeconfig)
    chosen = next((c for c in contexts if c["name"] == context), active)
    return str(chosen.get("context", {}).get("namespace") or "default")


def _read(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None


class _Refreshing:
    """A token that is read again after a while, and at once when the server refused it."""

    def __init__(self, read: Any) -> None:
        self._read = read
        self._token = ""
        self._until = 0.0

    async def __call__(self, *, rejected: str | None = None) -> str:
        now = asyncio.get_running_loop().time()
        if not self._token or now >= self._until or rejected == self._token:
            # A credential plugin is a program that may take seconds: not in the event loop.
            self._token = await asyncio.to_thread(self._read)
            self._until = now + _FRESH_SECONDS
        if not self._token:
            raise ConfigurationError("the hub's kubeconfig gives no token: log in again")
        return self._token
