"""The files that pages load: each under a name that holds the hash of its content.

So a browser may keep one for ever, and a changed file has another name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
KEPT = "public, max-age=31536000, immutable"
"""Cache-Control of all of them."""


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    content_type: str


@cache
def addresses() -> Mapping[str, str]:
    """Return the address of each file by its own name: `stowage.css` is `/static/stowage.….css`."""
    return {path.name: f"/static/{_named(path)}" for path in _files()}


@cache
def named() -> Mapping[str, Asset]:
    """Return the files by the last part of their addresses."""
    return {_named(path): Asset(path.read_bytes(), _TYPES[path.suffix]) for path in _files()}


def _files() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.suffix in _TYPES)


def _named(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return f"{path.stem}.{digest}{path.suffix}"
