"""Objects of the hub that travel with Workloads. Bytes stay in base64."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.metadata import Object


class HubObject(Object, frozen=True, rename="camel"):
    """The repr contains no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metadata.namespace}/{self.metadata.name})"


class HubSecret(HubObject, frozen=True, rename="camel"):
    type: str = "Opaque"
    data: dict[str, str] = msgspec.field(default_factory=dict)
    immutable: bool = False


class HubConfigMap(HubObject, frozen=True, rename="camel"):
    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)
    immutable: bool = False


class HubServiceAccount(HubObject, frozen=True, rename="camel"):
    """Without `secrets`: they are tokens of the hub."""

    automount_service_account_token: bool | None = None
    image_pull_secrets: list[dict[str, Any]] = msgspec.field(default_factory=list)


class HubService(HubObject, frozen=True, rename="camel"):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
