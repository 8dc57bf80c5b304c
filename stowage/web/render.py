"""Pages from templates, and their files: everything is escaped, a misspelt name is a fault.

Text comes from tenants and members, so control characters are shown, never sent. A file's address
holds the hash of its content, so that a browser may keep it for ever.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.runtime import Undefined

from machinery.http_messages import Request, Response
from machinery.types.api import PlacementReasons, PlacementRule
from stowage.console import words
from stowage.console.words import count
from stowage.web.fleetview import tone, wave_tone
from stowage.web.pictures import timeline

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def page(template: str, now: datetime, values: Mapping[str, Any]) -> bytes:
    text = _environment().get_template(template).render(**values, now=now)
    return text.encode("utf-8", "replace")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("stowage.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "age": words.age,
        "moment": words.moment,
        "count": count,
        "tone": tone,
        "part": _part,
        "steps": _steps,
        "rules": _rules,
        "cause": words.cause,
        "departure": words.departure,
        "later": _later,
        "yaml": _yaml,
        "amount": _amount,
        "timeline": timeline,
        "transition": _transition,
        "verdict": verdict,
        "wavetone": wave_tone,
    }
    made.globals |= {"asset": addresses().__getitem__, "link": link}
    return made


def link(*parts: str, **query: Any) -> str:
    """Return the address of a page: `link("workloads", namespace, name)`; empty values go."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {key: value for key, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def _shown(value: Any) -> Any:
    """Return a text with its control characters written out; another value as it is."""
    if isinstance(value, Undefined) or not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), value)


def _part(percent: float, whole: float = 100.0) -> str:
    return f"{min(max(percent, 0), whole):g}" if math.isfinite(percent) else "0"


def _steps(steps: Sequence[Mapping[str, Any]], now: datetime) -> list[str]:
    """Return how a share came about; nothing for a form that is not known."""
    try:
        return words.steps(msgspec.convert({"cluster": "", "steps": steps}, PlacementReasons), now)
    except msgspec.ValidationError:
        return []


def _later(shares: Sequence[Mapping[str, Any]], now: datetime) -> list[str]:
    """Return when shares leave; nothing of those on hidden clusters."""
    return words.leave_later([each for each in shares if "time" in each], now)


def _rules(because: Sequence[Mapping[str, Any]]) -> str:
    try:
        return words.rules(msgspec.convert(because, list[PlacementRule]))
    except msgspec.ValidationError:
        return ""


def _yaml(body: Any) -> str:
    import yaml  # noqa: PLC0415 - slow, and few pages show any

    found: str = yaml.safe_dump(body, sort_keys=False, default_flow_style=False, width=100)
    return found


def _transition(stable: str | None, revision: str) -> str:
    return words.transition(stable or "", revision)


def verdict(row: Mapping[str, Any]) -> str:
    """Return why a cluster has its number, and what refuses it, as far as the reader may know."""
    said = [each["text"] for each in row["reasons"]]
    if not row["fits"]:
        refused = f"{row['reason']} ({row['plugin']})" if row["reason"] else row["plugin"]
        said.append(f"no more: {refused}" if row["replicas"] else refused)
    return "; ".join(filter(None, said))


def _amount(value: Any) -> str:
    """Return a number or a small mapping in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


HTML = "text/html; charset=utf-8"
TITLES: Mapping[int, str] = {
    400: "That cannot be answered",
    401: "Log in first",
    403: "Not allowed",
    404: "There is no such page",
    429: "Try again in a few seconds",
    503: "Not computed in time",
}


def wants_json(request: Request) -> bool:
    """Whether the data is asked for: by `?format=json`, or by Accept without HTML."""
    accept = request.header("Accept")
    return request.query.get("format") == "json" or (
        "application/json" in accept and "text/html" not in accept
    )


def fault(
    request: Request,
    status: int,
    message: str,
    *,
    heading: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer with that code; `heading` stands in place of the usual one."""
    if wants_json(request):
        return Response(status, msgspec.json.encode({"message": message}), headers=headers or {})
    values = {"heading": heading or TITLES[status], "message": message}
    body = page("fault.html", datetime.now(UTC), values)
    return Response(status, body, HTML, headers or {})


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
