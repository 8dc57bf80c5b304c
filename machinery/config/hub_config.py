"""The connection to the hub, from the user's kubeconfig or the pod's service account.

A fault is a ConfigurationError with the file and the cure, never the file's content.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from machinery.clock import Clock, SystemClock
from machinery.config.address import check_hub
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FRESH_SECONDS = 30.0
"""Seconds for which a token is used before its source is read again."""

_USERS_OWN = "~/.kube/config"
_CURE = "give --kubeconfig and --context, or set KUBECONFIG"
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a temporary directory is made in it

_UNCHECKED = (ValueError, TypeError, LookupError, AttributeError)


def hub_connection(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock | None = None,
) -> Connection:
    """Return the hub's connection: of the named file, KUBECONFIG, ~/.kube/config, or in-cluster.

    Files of KUBECONFIG are merged as in kubectl: the first current context and the first entry of a
    name count. Raises ConfigurationError with the files tried and the cure.
    """
    clock = clock or SystemClock()
    files = _files(kubeconfig or os.environ.get("KUBECONFIG") or "") or _files(_USERS_OWN)
    missing = [file for file in files if not Path(file).exists()]
    if len(missing) < len(files) and not (kubeconfig and missing):
        return _of_kubeconfig(os.pathsep.join(files), context, clock)
    in_pod = os.environ.get("KUBERNETES_SERVICE_HOST") or (service_account / "token").exists()
    if in_pod and not (kubeconfig or context):
        return _in_cluster(service_account, clock)
    listed = ", ".join(missing)
    raise ConfigurationError(f"no hub to talk to: there is no file {listed}; {_CURE}")


def _files(listed: str) -> list[str]:
    return [str(Path(each).expanduser()) for each in listed.split(os.pathsep) if each]


def _in_cluster(account: Path, clock: Clock) -> Connection:
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigurationError(
            f"no hub to talk to: {account} is there, but KUBERNETES_SERVICE_HOST and "
            f"KUBERNETES_SERVICE_PORT are not both set; {_CURE}"
        )

    def token(_rejected: str | None) -> str:
        return _mounted(account / "token")

    token(None)  # report a missing token before the first request
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=_mounted(account / "ca.crt").encode(),
        namespace=_mounted(account / "namespace"),
        token_source=_Refreshing(token, clock),
    )


def _mounted(file: Path) -> str:
    """Raises ConfigurationError without the file."""
    try:
        text = file.read_text().strip()
    except OSError as e:
        raise ConfigurationError(
            f"no hub to talk to: this is a pod, but {file} cannot be read ({e.strerror}); let its "
            f"service account be mounted (automountServiceAccountToken), or {_CURE}"
        ) from e
    if not text:
        raise ConfigurationError(f"no hub to talk to: {file} is empty; {_CURE}")
    return text


@dataclass(frozen=True, slots=True)
class _Login:
    settings: Any
    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any] = field(repr=False)
    ca: bytes | None
    client_cert: bytes | None
    client_key: bytes | None = field(repr=False)

    @property
    def token(self) -> str:
        keys = self.settings.api_key
        value = str(keys.get("authorization") or keys.get("BearerToken") or "")
        return value.removeprefix("Bearer ").strip() if value.startswith("Bearer ") else ""


def _of_kubeconfig(files: str, context: str | None, clock: Clock) -> Connection:
    login = _log_in(files, context)

    def token(rejected: str | None) -> str:
        nonlocal login
        silent = {"tokenFile", "auth-provider"} & login.user.keys()  # their expiry is not known
        if rejected or silent or not login.token:
            login = _log_in(files, context)
        elif "exec" in login.user:
            login.settings.refresh_api_key_hook(login.settings)
        if not login.token:
            raise ConfigurationError(f"the kubeconfig {files} gives no token now: log in again")
        return login.token

    basic = {} if login.token else login.user
    return Connection(
        server=login.settings.host,
        ca=login.ca,
        client_cert=login.client_cert,
        client_key=login.client_key,
        username=basic.get("username"),
        password=basic.get("password"),
        tls_server_name=login.cluster.get("tls-server-name"),
        proxy_url=_proxy(login),
        context=login.context,
        namespace=login.namespace,
        impersonate=login.user.get("as"),
        impersonate_groups=tuple(login.user.get("as-groups") or ()),
        token_source=_Refreshing(token, clock) if login.token else None,
    )


def _log_in(files: str, context: str | None) -> _Login:
    from kubernetes import config  # noqa: PLC0415 - slow, and not every command needs it
    from kubernetes.config import kube_config  # noqa: PLC0415 - as above

    try:
        merge: Any = kube_config.KubeConfigMerger  # the library has no types
        filled = [file for file in files.split(os.pathsep) if not _empty(Path(file))]
        merged = merge(os.pathsep.join(filled))
        return _checked(merged, context)
    except ConfigurationError as e:
        raise ConfigurationError(f"the kubeconfig {files} {e}") from e.__cause__
    except (config.ConfigException, yaml.YAMLError, OSError, *_UNCHECKED) as e:
        # The library's message may quote a whole entry of the file, secrets included, from the
        # first brace on. So may its exception, which therefore is not chained.
        said = str(e).partition("{")[0].strip()
        message = f"the kubeconfig {files} cannot be used: {said or type(e).__name__}"
        raise ConfigurationError(f"{message}; mend it, or {_CURE}") from None


def _empty(file: Path) -> bool:
    return file.is_file() and yaml.safe_load(file.read_bytes()) is None


def _checked(merged: Any, context: str | None) -> _Login:
    config = merged.config
    if config is None:
        raise ConfigurationError("does not say which context is meant: it is empty")
    # The library takes the current context of the last file, and each entry of the first.
    named = (each.get("current-context") for each in merged.config_files.values())
    name = context or next(filter(None, named), "")
    for file, each in merged.config_files.items():
        _refuse_equal_names(file, each)
    chosen = _entry(config, "context", name)
    cluster = _entry(config, "cluster", chosen.get("cluster") or "")
    user = _entry(config, "user", chosen["user"]) if chosen.get("user") else {}
    if not cluster.get("server"):
        raise ConfigurationError(f"gives no server for context {name!r}")
    try:
        check_hub(str(cluster["server"]))
    except ValueError as e:
        raise ConfigurationError(f"gives a server for context {name!r} that {e}") from e
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigurationError(
            f"skips TLS verification in context {name!r}: give certificate-authority-data instead"
        )
    login = _loaded(
        config, merged.save_changes, name, chosen.get("namespace") or "default", cluster, user
    )
    plugin = user.get("exec") or user.get("auth-provider")
    if plugin and not (login.token or login.client_cert):
        program = plugin.get("command") or plugin.get("name")
        raise ConfigurationError(
            f"has the credential plugin {program!r} for user {chosen['user']!r}, which gave no "
            "credential: run it by hand, its error is in the log"
        )
    return login


def _refuse_equal_names(file: str, config: Mapping[str, Any]) -> None:
    for kind in ("cluster", "user", "context"):
        names = [entry["name"] for entry in config.get(f"{kind}s") or ()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"has two {kind}s with the name {twice!r}, in {file}")


def _entry(config: Any, kind: str, name: str) -> Mapping[str, Any]:
    entries = {each.value["name"]: each.value.get(kind) or {} for each in config.value[f"{kind}s"]}
    if name in entries:
        found: Mapping[str, Any] = entries[name]
        return found
    has = f"has no {kind} {name!r}" if name else f"does not say which {kind} is meant"
    if kind == "context":
        raise ConfigurationError(f"{has}: give --context, one of {', '.join(entries) or 'none'}")
    raise ConfigurationError(f"{has}, though its context needs it")


def _loaded(
    config: Any,
    save: Callable[[], None],
    context: str,
    namespace: str,
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
) -> _Login:
    from kubernetes import client  # noqa: PLC0415 - see _log_in
    from kubernetes.config import kube_config  # noqa: PLC0415 - see _log_in

    settings: Any = client.Configuration()
    # The library writes keys to files: in memory, if there is such a directory, and only until they
    # are read.
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as passing:
        load: Any = kube_config.KubeConfigLoader  # the library has no types
        loader = load(
            config,
            active_context=context,
            config_base_path=None,  # each path is relative to the file that names it
            config_persister=save,
            temp_file_path=passing,
        )
        loader.load_and_set(settings)
        return _Login(
            settings=settings,
            context=context,
            namespace=namespace,
            cluster=cluster,
            user=user,
            ca=_read(settings.ssl_ca_cert),
            client_cert=_read(settings.cert_file),
            client_key=_read(settings.key_file),
        )


def _read(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None


def _proxy(login: _Login) -> str | None:
    """Return the kubeconfig's proxy, else the environment's, unless NO_PROXY excepts the hub."""
    from kubernetes.client import rest  # noqa: PLC0415 - see _log_in

    settings = login.settings
    named: str | None = login.cluster.get("proxy-url")
    if named or not settings.proxy:
        return named
    if rest.should_bypass_proxies(settings.host, settings.no_proxy or ""):
        return None
    return str(settings.proxy)


class _Refreshing:
    """A token that is read again after FRESH_SECONDS, and when the server refused it.

    `read` takes the refused token.
    """

    def __init__(self, read: Callable[[str | None], str], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def __call__(self, *, rejected: str | None = None) -> str:
        async with self._turn:
            refused = rejected if rejected == self._token else None
            if refused or not self._token or self._clock.monotonic() >= self._until:
                self._token = await asyncio.to_thread(self._read, refused)
                self._until = self._clock.monotonic() + FRESH_SECONDS
            return self._token
