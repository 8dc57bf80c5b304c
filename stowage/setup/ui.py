"""The web page's part of an installation: its manifests, and the key that seals its cookies.

The key is made once and never printed. A second run leaves it, so that open sessions go on; to
rotate it, a person moves `current` to `previous` in the Secret.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS
from machinery.errors import AlreadyExists
from stowage.setup import install

SESSION_SECRET = "stowage-ui-session"  # noqa: S105 - a name
KEY_BYTES = 48


def manifests(*, namespace: str, image: str) -> list[dict[str, Any]]:
    """Return what is applied beside the manifests of `install`."""
    return install.load("ui.yaml", namespace=namespace, image=image)


async def ensure_session_key(
    client: ApiClient, namespace: str, *, say: Callable[[str], object]
) -> None:
    """Make the Secret with a new key where there is none."""
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SESSION_SECRET, "labels": {"app": "stowage-ui"}},
        "type": "Opaque",
        "data": {"current": key},
    }
    with suppress(AlreadyExists):
        await client.create(SECRETS, body, namespace=namespace)
        say(f"Secret {SESSION_SECRET} created")
