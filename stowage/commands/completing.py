"""What a shell completes: names on the hub, as far as it tells them at once.

A shell waits for each key. So the hub has a moment to answer, whatever its kubeconfig makes a
client do before; then there are no names, and no word of why.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from machinery.api.resources import Resource
    from machinery.config.kubeconfig import Connection

Found = TypeVar("Found")
SECONDS = 0.4
"""For how long a shell waits for the names on a hub."""
CONNECTION_SECONDS = 2.0
"""For how long it waits for a kubeconfig to be read, which may run a program for a credential."""


class ObjectName(click.ParamType[str]):
    """An object that people name as `kind/NAME` or `kind NAME`, a Workload unless they say so."""

    name = "text"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from stowage.kinds import KINDS

        given: Sequence[str] = ctx.params.get(param.name or "") or ()
        kind, slash, _ = incomplete.partition("/")
        alone = given[-1] if given and "/" not in given[-1] else ""
        for each in KINDS:
            words = (each.short, each.resource.plural, each.resource.kind.lower())
            if not each.named:
                continue
            if alone in words:
                return _items("", names(ctx, each.resource), incomplete)
            if kind in words and slash:
                return _items(f"{kind}/", names(ctx, each.resource), incomplete)
        first = KINDS[0]
        return [] if slash else _items(f"{first.short}/", names(ctx, first.resource), incomplete)


def clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the MemberClusters of the hub that are not named yet."""
    from machinery.api.resources import MEMBER_CLUSTERS

    given = ctx.params.get(param.name or "")
    named = given if isinstance(given, tuple) else ()
    found = [each for each in names(ctx, MEMBER_CLUSTERS) if each not in named]
    return _items("", found, incomplete)


def namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the hub."""
    from machinery.api.resources import NAMESPACES

    return _items("", names(ctx, NAMESPACES), incomplete)


def contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig."""
    return _items(
        "", _within(SECONDS, lambda: _contexts(ctx.params.get("kubeconfig"))) or (), incomplete
    )


def names(ctx: click.Context, resource: Resource) -> list[str]:
    """Return the names of the hub that the options so far lead to; none if it is slow or away."""
    at = _within(CONNECTION_SECONDS, lambda: _connection(ctx.params))
    return (_within(SECONDS, lambda: _listed(at, ctx.params, resource)) if at else None) or []


def _items(before: str, found: Sequence[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    whole = (f"{before}{each}" for each in sorted(found))
    return [CompletionItem(each) for each in whole if each.startswith(incomplete)]


def _connection(params: Mapping[str, Any]) -> Connection:
    from stowage.hub import connection

    return connection(params.get("kubeconfig"), params.get("context"))


def _listed(at: Connection, params: Mapping[str, Any], resource: Resource) -> list[str]:
    from stowage.hub import reader

    namespace = (params.get("namespace") or at.namespace) if resource.namespaced else None
    with reader(at, timeout=SECONDS) as api:
        return api.names(resource, namespace)


def _contexts(kubeconfig: str | None) -> list[str]:
    import os
    from pathlib import Path

    import yaml

    from crds import LOADER

    listed = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    found: list[str] = []
    for file in filter(None, listed.split(os.pathsep)):
        body = yaml.load(Path(file).expanduser().read_bytes(), Loader=LOADER)  # noqa: S506 - safe
        found += [str(each["name"]) for each in body.get("contexts") or ()]
    return found


def _within(seconds: float, ask: Callable[[], Found]) -> Found | None:
    """Return what it finds within the time; None for a fault, of which a shell says nothing."""
    found: list[Found] = []

    def asked() -> None:
        with suppress(Exception), redirect_stderr(io.StringIO()):
            found.append(ask())

    thread = threading.Thread(target=asked, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None
