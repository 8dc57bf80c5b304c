"""The objects that a rendered template names, and those that remaining pods name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import PODS
from machinery.api.responses import decode
from machinery.kinds.paths import value_at
from machinery.kinds.table import profile_in
from machinery.kinds.templates import pods_in
from machinery.types.pod_references import (
    SERVICE,
    SERVICE_ACCOUNT,
    Reference,
    governing_service,
    once,
    references,
)
from propagator.apply.render import Piece
from propagator.members.session import MemberSession
from propagator.types.workload import Workload

_ENDED = ("Succeeded", "Failed")
_PAGE = 200
"""Pods of one page: some MiB at most."""


class _Phase(msgspec.Struct, frozen=True):
    phase: str = ""


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: dict[str, Any] = {}
    status: _Phase = _Phase()


class _Pods(msgspec.Struct, frozen=True):
    items: list[_Pod] = []


_pods = msgspec.json.Decoder(_Pods)


def named_by(main: Mapping[str, Any]) -> list[Reference]:
    """Return what the pods of an object need, in template order; nothing for an unknown kind."""
    profile = profile_in(main)
    pods = (each.template.get("spec") for each in pods_in(profile, main))
    found = [each for spec in pods for each in references(spec)]
    found = once([*governing_service(value_at(main, profile.service)), *found])
    return [each for each in found if each[:2] != (SERVICE_ACCOUNT, "default")]


def named_in(workload: Workload, rendered: Sequence[Piece]) -> list[Reference]:
    """Return what the pods of rendered objects need, but for the objects themselves.

    Those of the main object; of manifests alone, those of all objects beside the copies.
    """
    here = [each for each in rendered if each.namespace == workload.namespace]
    own = {(each.kind, each.name) for each in here if each.api_version == "v1"}
    run = here if workload.alone else rendered[-1:]
    return [each for each in _named_by_all(p.body for p in run) if each[:2] not in own]


def _named_by_all(bodies: Iterable[Mapping[str, Any]]) -> list[Reference]:
    return once([each for body in bodies for each in named_by(body)])


async def named_by_pods(
    session: MemberSession, workload: Workload, *, unmarked: bool
) -> set[tuple[str, str]]:
    """Return (kind, name) of what the running pods of a Workload name on a member.

    Raises TransportError.
    """
    found: set[tuple[str, str]] = set()
    ours = f"{LABEL_WORKLOAD_UID}={workload.uid}"
    pages = session.client_for("").pages(
        PODS,
        namespace=workload.namespace,
        label_selector=None if unmarked else ours,
        limit=_PAGE,
    )
    async for page in pages:
        for pod in decode(page, _pods).items:
            mark = (pod.metadata.labels or {}).get(LABEL_WORKLOAD_UID, workload.uid)
            if mark == workload.uid and pod.status.phase not in _ENDED:
                found |= {each[:2] for each in references(pod.spec)}
                found.add((SERVICE, str(pod.spec.get("subdomain"))))
    return found
