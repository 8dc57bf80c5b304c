"""`stowage rollout`: look at a rollout, wait for its end, and make an edit about it.

The rollout goes on without the command: an end of the command, or a hub that does not answer for a
while, changes nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import click

from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.clock import Clock, SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ConfigurationError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from machinery.types.metadata import Key
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub.connection import reader
from stowage.hub.writer import edit
from stowage.kinds import Reference
from stowage.report.rollout import RolloutProgress
from stowage.report.rollout_edits import MakeEdit

LOOK_SECONDS = 1.0
_PASSING = (Unreachable, ServerError, TooManyRequests)
"""Faults of a hub that may answer at the next look."""


@dataclass(frozen=True, slots=True)
class WrittenEdit:
    """An edit that was made, and status.rollout from before it.

    A status that is still the same tells nothing of the edit, until its condition names the
    generation.
    """

    generation: int
    before: Mapping[str, Any]

    def unanswered(self, at: RolloutProgress) -> bool:
        return at.told == self.before and at.observed < self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutWait:
    """A wait for the end of a rollout.

    Args:
        seconds: for how long.
        wanted: a phase in which it is over as well, and well, beside Complete; empty for none.
        edit: the edit that the wait is for.
    """

    seconds: float
    wanted: str = ""
    edit: WrittenEdit | None = None

    def well(self, at: RolloutProgress) -> bool:
        return at.complete or (bool(self.wanted) and at.phase == self.wanted)

    def over(self, at: RolloutProgress) -> bool:
        old = self.edit is not None and self.edit.unanswered(at)
        return at.complete or (not old and at.stopped)


def show(hub: Connection, key: Key, form: str) -> bool:
    """Print how far it has come; return whether it is complete, or on its way there.

    Raises ConfigurationError for no such Workload and without spec.rollout, TransportError.
    """
    with reader(hub) as api:
        try:
            body = api.read(WORKLOADS, key[1], key[0], dict[str, Any])
        except NotFound as e:
            raise _missing(key) from e
    at = RolloutProgress.of(body, SystemClock().now())
    output.show(at.to_dict(), form, text=at.table())
    return at.well


async def wait(
    hub: ApiClient, key: Key, form: str, asked: RolloutWait, *, clock: Clock | None = None
) -> bool:
    """Show how it goes until it is over; return whether it ended well, and in time.

    A hub that does not answer is asked again until the time is over. Raises as `show` does.
    """
    clock = clock or SystemClock()
    end, shown = clock.monotonic() + asked.seconds, ""
    while True:
        late = clock.monotonic() >= end
        try:
            body = await hub.get(WORKLOADS, key[1], namespace=key[0])
        except NotFound as e:
            raise _missing(key) from e
        except _PASSING:
            if late:
                raise
        else:
            at = RolloutProgress.of(body, clock.now())
            if late or asked.over(at):
                output.show(at.to_dict(), form, text=_last(at, asked))
                return asked.over(at) and asked.well(at)
            if form == "table" and at.headline != shown:
                shown = at.headline
                _show(at)
        await clock.sleep(LOOK_SECONDS)


def _show(at: RolloutProgress) -> None:
    """Print it anew on a terminal, elsewhere one line: a log has each step once."""
    if sys.stdout.isatty():
        click.clear()
        say(f"{at.table()}\nCtrl-C leaves the rollout going on")
    else:
        say(at.about(at.headline))


def _last(at: RolloutProgress, asked: RolloutWait) -> str:
    if asked.over(at):
        return at.table()
    return f"{at.table()}\nnot complete within {asked.seconds:g} s; it goes on"


async def write(
    hub: ApiClient, key: Key, make: MakeEdit, *, clock: Clock | None = None
) -> WrittenEdit:
    """Make an edit of the Workload as stored, and say what it did.

    Raises ConfigurationError for no such Workload, without spec.rollout, and where the edit is
    refused; TransportError.
    """
    clock = clock or SystemClock()
    said = ""
    before: Mapping[str, Any] = {}

    def patch_of(stored: dict[str, Any]) -> dict[str, Any]:
        nonlocal said, before
        # The controller compares times of an edit with its own, so the hub's clock counts.
        now = clock.now() - timedelta(seconds=hub.server_time.ahead())
        at = RolloutProgress.of(stored, now)
        made = make(at)
        said, before = made.said, at.told
        return {"spec": {"rollout": made.changes}} if made.changes else {}

    try:
        found = await edit(hub, WORKLOADS, key[1], patch_of, namespace=key[0])
    except NotFound as e:
        raise _missing(key) from e
    say(said)
    return WrittenEdit(int(found["metadata"].get("generation", 0)), before)


def _missing(key: Key) -> ConfigurationError:
    return ConfigurationError(Reference(WORKLOADS, key[1]).missing(key[0]))
