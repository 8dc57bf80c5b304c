"""Who wrote on members: their audit logs, and the rule that no two write on one at a time.

A member may change its shard, a shard its process, and a member's agent the one that works. Each
is a hand-over: who wrote before writes no more, until a later one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_AGENT = re.compile(r"stowage-(?:propagator|agent)/\S+ (?P<name>\S+)/(?P<pid>\d+)(?P<more>.*)")
_TERM = re.compile(r"shard/\d+ term/\d+")
_NO_WRITES = ("coordination.k8s.io", "authorization.k8s.io")
"""Leases say who may write; reviews write nothing, and neither does the request of a token."""
_HAND_OVER_SECONDS = 5.0
"""Less than two hand-overs take where nobody ends in order: a Lease has to run out for each."""
_LATE_SECONDS = 60.0
"""The longest time from a new number of shards until a holder that stood still hears of it."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write that a member accepted: when it came in and when it was answered, in epoch seconds.

    `term` is the shard with its term, empty for an agent and for the only shard.
    """

    member: str
    name: str
    pid: int
    term: str
    began: float
    ended: float
    what: str

    @property
    def writer(self) -> tuple[str, int, str]:
        return self.name, self.pid, self.term


class WriteLog:
    """The audit logs of the members, in that folder; none before their `flags` were asked for.

    `changes` is when the shards were changed, or the mode of a member.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, Path] = {}
        self.changes: list[float] = []

    def flags(self, member: str) -> tuple[str, ...]:
        """Return the flags by which that member's API server logs each write."""
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [
                {"level": "None", "verbs": ["get", "list", "watch"]},
                {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
                {"level": "Metadata"},
            ],
        }
        rules = self._folder / "audit.json"
        rules.write_text(json.dumps(policy))
        self._logs[member] = self._folder / f"{member}.audit"
        return f"--audit-policy-file={rules}", f"--audit-log-path={self._logs[member]}"

    def shared_out(self) -> None:
        """Note that members may have other writers: by the number of shards, or by their mode."""
        self.changes.append(time.time())

    def read(self) -> list[Write]:
        """Return the writes of all members but those of Leases, each member's as they came in."""
        return [write for member, log in self._logs.items() for write in _read(member, log)]


def _read(member: str, log: Path) -> list[Write]:
    lines = log.read_text().splitlines() if log.exists() else []
    found = [write for line in lines if (write := _write(member, json.loads(line)))]
    return sorted(found, key=lambda each: each.began)


def _write(member: str, event: dict[str, Any]) -> Write | None:
    agent, path = _AGENT.match(event.get("userAgent", "")), event["requestURI"]
    if agent is None or event["responseStatus"]["code"] >= 300 or "dryRun" in path:
        return None
    of = event.get("objectRef", {})
    if of.get("apiGroup") in _NO_WRITES or of.get("subresource") == "token":
        return None
    term = _TERM.search(agent["more"])
    return Write(
        member=member,
        name=agent["name"],
        pid=int(agent["pid"]),
        term=term[0] if term else "",
        began=_seconds(event["requestReceivedTimestamp"]),
        ended=_seconds(event["stageTimestamp"]),
        what=f"{event['verb']} {path.partition('?')[0]}",
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp()


def interleaved(writes: Iterable[Write], changes: Sequence[float]) -> Iterator[str]:
    """Yield each write of a process that came in after a successor's was answered.

    A shard has a member back within one term only if the number of shards was changed twice. What
    has no term in its User-Agent has it back after two hand-overs.
    """
    by_member: dict[str, list[Write]] = {}
    for write in writes:
        by_member.setdefault(write.member, []).append(write)
    for member, made in by_member.items():
        last: dict[tuple[str, int, str], Write] = {}
        """The last write of each, by when it was answered."""
        for write in made:
            before = last.get(write.writer)
            between = [
                other
                for writer, other in last.items()
                if writer != write.writer
                and not _only(write.writer, writer)
                and before is not None
                and before.ended < other.began
                and other.ended < write.began
            ]
            if before is not None and between and not _returns(before, write, changes):
                yield (
                    f"{member}: {' '.join(map(str, write.writer))} made {write.what} at "
                    f"{write.began:.3f}, after {between[0]}; before that {before}"
                )
            if before is None or before.ended < write.ended:
                last[write.writer] = write


def _only(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    """Whether both are one process, which names no term while it is the only shard."""
    return one[:2] == other[:2] and not (one[2] and other[2])


def _returns(before: Write, write: Write, changes: Sequence[float]) -> bool:
    if not write.term:
        return write.began - before.ended > _HAND_OVER_SECONDS
    since = before.ended - _LATE_SECONDS
    return sum(since < each < write.began for each in changes) > 1
