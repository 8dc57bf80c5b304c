"""Objects of the hub that go along with Workloads, as far as they are copied; never shown.

Values of ConfigMaps and Secrets are as they came: texts, and bytes in base64.
"""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.metadata import Object


class HubObject(Object, frozen=True, rename="camel"):
    """The base of all: a representation names the object, and no value."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metadata.namespace}/{self.metadata.name})"


class HubSecret(HubObject, frozen=True, rename="camel"):
    """A Secret."""

    type: str = "Opaque"
    data: dict[str, str] = msgspec.field(default_factory=dict)
    immutable: bool = False


class HubConfigMap(HubObject, frozen=True, rename="camel"):
    """A ConfigMap."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)
    immutable: bool = False


class HubServiceAccount(HubObject, frozen=True, rename="camel"):
    """A ServiceAccount, without its `secrets`: they are tokens of the hub."""

    automount_service_account_token: bool | None = None
    image_pull_secrets: list[dict[str, Any]] = msgspec.field(default_factory=list)


class HubService(HubObject, frozen=True, rename="camel"):
    """A Service."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
