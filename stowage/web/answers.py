"""Answers that say no, as a page or as JSON, and which of the two is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from machinery.http_messages import Request, Response
from stowage.web import render

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
    body = render.page("fault.html", datetime.now(UTC), values)
    return Response(status, body, HTML, headers or {})
