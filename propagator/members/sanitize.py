"""Brings a member's data into a form that the hub can store: bounded, plain, well typed. Pure.

A member that lies affects only its own status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from crds.base import NAME as DNS_LABEL
from crds.base import QUALIFIED
from machinery.types.bounds import ADDRESSES, NAME, RESOURCES, WORD, TooMuch, clean
from machinery.types.metadata import Meta

_LABEL_KEY = re.compile(rf"(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{QUALIFIED}")
_LABEL_VALUE = re.compile(rf"(?:{QUALIFIED})?")
_PROVIDER = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_METADATA_CHARACTERS = 512 * 1024
"""The limit for labels and annotations together; Kubernetes takes 256 KiB of annotations."""
_FIRST_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")


def is_label_key(key: str) -> bool:
    """As Kubernetes accepts it in labels and taints."""
    return len(key) <= 317 and _LABEL_KEY.fullmatch(key) is not None


def is_label_value(value: str) -> bool:
    return len(value) <= 63 and _LABEL_VALUE.fullmatch(value) is not None


def provider(text: str) -> str:
    """Return a valid label value, or ""."""
    name = text[:WORD].lower()
    return name if _PROVIDER.fullmatch(name) else ""


def resources(names: Iterable[str]) -> list[str]:
    """At most RESOURCES valid names, the usual ones first."""
    valid = sorted(name for name in names if is_label_key(name))
    first = [name for name in _FIRST_RESOURCES if name in valid]
    return sorted([*first, *(name for name in valid if name not in _FIRST_RESOURCES)][:RESOURCES])


def check_texts(*texts: str) -> None:
    if any(len(text) > NAME for text in texts):
        raise TooMuch(f"a name is longer than {NAME} characters")


def check_metadata(meta: Meta) -> None:
    """Raises TooMuch for more than Kubernetes accepts."""
    pairs = (*meta.labels.items(), *meta.annotations.items())
    if sum(len(key) + len(value) for key, value in pairs) > _METADATA_CHARACTERS:
        raise TooMuch(f"labels and annotations of more than {_METADATA_CHARACTERS} characters")


def load_balancer(said: Any) -> dict[str, Any] | None:
    """None without an address."""
    if not isinstance(said, dict):
        return None
    ingress = [_address(each) for each in _mappings(said.get("ingress"), ADDRESSES)]
    return {"ingress": [each for each in ingress if each]} if any(ingress) else None


def _address(said: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        key: _text(said[key], NAME) for key in ("ip", "hostname", "ipMode") if said.get(key)
    }
    ports = [_port(each) for each in _mappings(said.get("ports"), ADDRESSES)]
    return kept | ({"ports": ports} if ports else {})


def _port(said: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"port": _whole(said.get("port"), 65535)}
    return kept | {key: _text(said[key], WORD) for key in ("protocol", "error") if key in said}


def _mappings(said: Any, most: int) -> list[Mapping[str, Any]]:
    listed = said if isinstance(said, list) else []
    return [each for each in listed[:most] if isinstance(each, dict)]


def _text(said: Any, most: int) -> str:
    return clean(said, most) if isinstance(said, str) else ""


def _whole(said: Any, most: int) -> int:
    """0 if it is no integer."""
    if isinstance(said, bool) or not isinstance(said, int):
        return 0
    return min(max(said, 0), most)
