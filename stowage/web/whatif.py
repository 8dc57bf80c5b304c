"""The form of a what-if: its fields, and the rights it takes.

Nothing is written on the hub. The page keeps the input behind the `#` of its address, so that no
log has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qs, urlsplit

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import BadRequest, Forbidden, StowageError
from machinery.http_messages import Request
from stowage.web.narrowing import Authorizer
from stowage.web.worker import WhatIf
from stowage.web.workers import NotDecided

LISTS = ("scale", "cordon", "drain", "lose", "label")
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1000


def same_origin(request: Request) -> bool:
    """Whether a form of this page sent it, or a program that is no browser."""
    site, origin = request.header("Sec-Fetch-Site"), request.header("Origin")
    if origin not in ("", "null"):  # a page that sends no referrer has the origin null
        return urlsplit(origin).netloc == request.header("Host")
    return site == "same-origin" or (site == "" and origin == "")


def scenario_of(request: Request) -> WhatIf:
    """Return the input. Raises BadRequest for a body that is no form."""
    if request.header("Content-Type").partition(";")[0].strip() != FORM:
        raise _no_form(f"send a form as {FORM}")
    try:
        found = parse_qs(request.body.decode("utf-8"), max_num_fields=MOST_FIELDS)
    except ValueError as e:
        raise _no_form("the form cannot be read") from e
    return _filled(found)


def asked(query: Mapping[str, str]) -> WhatIf:
    """Return what a link to the empty form has filled in, such as `?drain=m1`."""
    return _filled({key: [value] for key, value in query.items()})


def _filled(fields: Mapping[str, list[str]]) -> WhatIf:
    lists = {name: _words(fields.get(name, ())) for name in LISTS}
    chosen, number = ((fields.get(name) or [""])[0].strip() for name in ("of", "to"))
    if chosen or number:  # chosen from the list of the form
        lists["scale"].insert(0, f"{chosen}={number}")
    each = (fields.get("each") or [""])[0].strip()
    yaml = "\n---\n".join(fields.get("yaml", ())).replace("\r\n", "\n")
    return WhatIf(yaml=yaml, each=each, **lists)


def _words(values: list[str] | tuple[()]) -> list[str]:
    """Return the entries of a field: one may hold several, between blanks or commas."""
    return [word for value in values for word in value.replace(",", " ").split()]


def _no_form(message: str) -> BadRequest:
    return BadRequest(code=400, reason="BadRequest", message=message)


def status_of(fault: StowageError) -> int:
    """Return the code of an answer: 400 for a wrong input, 503 for what takes too long."""
    return 400 if isinstance(fault, NotDecided) else 503


async def check_rights(asked: WhatIf, namespaces: Iterable[str], authorizer: Authorizer) -> None:
    """Raise Forbidden unless the caller may do what the input supposes; TransportError.

    `namespaces` are those of the objects in it.
    """
    if asked.touches_clusters and not await authorizer.allows("update", MEMBER_CLUSTERS):
        raise _refused("clusters are drained and lost by who may update memberclusters")
    for each in namespaces:
        if not await authorizer.allows("create", WORKLOADS, each):
            raise _refused("a namespace of the input is one in which you may not create workloads")


def _refused(message: str) -> Forbidden:
    return Forbidden(code=403, reason="Forbidden", message=message)
