"""The content of a registration Secret: how to reach a member, and the rights of its credential.

In addition to the kubeconfig, the Secret may have these keys in its data:

    rights        narrow: write as the account of the target namespace (see `accounts`).
                  cluster, or none: write as oneself, everywhere.
    account       NAMESPACE/NAME of the token's service account. It may request its own
                  tokens, and the propagator renews them. None: no renewal.
    podSecurity   the pod security standard of created namespaces (narrow only)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from cryptography import x509

from crds.names import SYSTEM_NAMESPACE
from machinery.config.kubeconfig import Connection, connection_from_secret
from machinery.errors import KubeconfigError
from machinery.types.metadata import Key
from propagator.credentials.accounts import MEMBER_ACCOUNT
from propagator.credentials.tokens import Life, life_of

E = TypeVar("E", bound=StrEnum)

RIGHTS, ACCOUNT, POD_SECURITY = "rights", "account", "podSecurity"


class Rights(StrEnum):
    """The identity under which the propagator writes on a member."""

    NARROW = "narrow"
    """As the account of each target namespace."""
    CLUSTER = "cluster"


class PodSecurity(StrEnum):
    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Credentials:
    """`account` owns a token that the propagator renews."""

    connection: Connection
    rights: Rights = Rights.CLUSTER
    account: Key | None = None
    pod_security: PodSecurity = field(default=PodSecurity.BASELINE)
    life: Life | None = field(default=None, compare=False)
    """That of the token or client certificate; None without a known end."""

    @property
    def home(self) -> str:
        return self.account[0] if self.account else SYSTEM_NAMESPACE

    def differs_only_in_token(self, other: Credentials) -> bool:
        if not self.connection.token or not other.connection.token:
            return False
        same = replace(self.connection, token=other.connection.token)
        return self != other and replace(self, connection=same) == other


def credentials_of(data: Mapping[str, bytes]) -> Credentials:
    """Raises KubeconfigError."""
    connection = connection_from_secret(data)
    return Credentials(
        connection=connection,
        rights=_one_of(Rights, data, RIGHTS) or Rights.CLUSTER,
        account=_account(data),
        pod_security=_one_of(PodSecurity, data, POD_SECURITY) or PodSecurity.BASELINE,
        life=_life(connection),
    )


def _life(connection: Connection) -> Life | None:
    if connection.token or connection.client_cert is None:
        return life_of(connection.token or "")
    try:
        certificate = x509.load_pem_x509_certificate(connection.client_cert)
    except ValueError:
        return None  # the connection refuses it
    return Life(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _one_of(choices: type[E], data: Mapping[str, bytes], key: str) -> E | None:
    value = _text(data, key)
    if not value:
        return None
    try:
        return choices(value)
    except ValueError as e:
        raise KubeconfigError(key, f"is none of {', '.join(choices)}") from e


def _account(data: Mapping[str, bytes]) -> Key | None:
    value = _text(data, ACCOUNT)
    if not value:
        return None
    namespace, slash, name = value.partition("/")
    if not (namespace and slash and name) or "/" in name:
        example = f"{SYSTEM_NAMESPACE}/{MEMBER_ACCOUNT}"
        raise KubeconfigError(ACCOUNT, f"is not NAMESPACE/NAME, such as {example}")
    return namespace, name


def _text(data: Mapping[str, bytes], key: str) -> str:
    try:
        return data.get(key, b"").decode().strip()
    except UnicodeDecodeError as e:
        raise KubeconfigError(key, "is not text") from e


class HeldToken:
    """May change while the connection is in use."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def __call__(self, *, rejected: str | None = None) -> str:
        """Return the same token if it was rejected: only the Secret brings another."""
        return self._token

    def change(self, token: str) -> None:
        self._token = token
