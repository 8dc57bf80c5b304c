"""Decisions for the page, made in a process of their own: `python -m stowage.web.worker`.

A pass over a large fleet takes seconds of a processor. The process reads requests from standard
input and answers on standard output, each a length of four bytes and JSON. It keeps the snapshot
that it was sent last, touches no hub, and may be killed at any moment.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from machinery import garbage
from machinery.clock import SystemClock
from machinery.errors import ConfigurationError, StowageError
from machinery.types.metadata import Key
from stowage.fleet.inventory import PlanInputs, of_hub, use_kinds
from stowage.kinds import reference
from stowage.simulation.plan import Where
from stowage.web.snapshot import unpacked

LENGTH = 4
PASTED = "pasted.yaml"
"""The name of what was pasted, in messages about it."""
MOST_MEMORY = 256 * 2**20
"""Bytes that one request may take beside the snapshot: the page and its workers share 1 GiB."""
MOST_ROWS = 5000
"""Rows of one list of an answer."""


class WhatIf(msgspec.Struct):
    """The input of a what-if: each field as the form has it."""

    yaml: str = ""
    scale: list[str] = []
    cordon: list[str] = []
    drain: list[str] = []
    lose: list[str] = []
    label: list[str] = []
    each: str = ""

    @property
    def only_applies(self) -> bool:
        """Whether nothing but the pasted objects is another than now."""
        return not (self.scale or self.touches_clusters)

    @property
    def touches_clusters(self) -> bool:
        """Whether a cluster is supposed to be another than now."""
        return bool(self.cordon or self.drain or self.lose or self.label or self.each)


class DecisionRequest(msgspec.Struct):
    """What to compute: the explanation of an object, a what-if, or the namespaces of its input.

    `snapshot` is what `HubSnapshot.packed` gave, empty where the last one still holds.
    """

    namespace: str
    config_file: str = ""
    plugins: list[str] = []
    explain: str = ""
    scenario: WhatIf | None = None
    namespaces_only: bool = False
    snapshot: msgspec.Raw = msgspec.Raw(b"null")


class DecisionAnswer(msgspec.Struct):
    """The result as the command's `-o json`, or in words why there is none."""

    result: dict[str, Any] = {}
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Snapshotted(Where):
    """The profiles of a plan, over the objects of a snapshot in place of a hub."""

    read: PlanInputs = field(default_factory=PlanInputs)

    def present(self) -> PlanInputs:
        """Return the objects, in new collections: a plan lays its own over them."""
        read = self.read
        return PlanInputs(
            [*read.clusters], {**read.workloads}, {**read.objects}, {**read.stored}, [*read.notes]
        )


def decided(request: DecisionRequest, present: PlanInputs) -> dict[str, Any]:
    """Return the result of a request. Raises StowageError."""
    use_kinds(present)  # an earlier request may have brought kinds of its own
    where = _Snapshotted(
        request.namespace,
        config_file=Path(request.config_file) if request.config_file else None,
        plugins=tuple(request.plugins),
        read=present,
    )
    if request.scenario is not None and request.namespaces_only:
        return {"namespaces": namespaces(request.scenario, request.namespace)}
    if request.scenario is not None:
        return what_if(request.scenario, where)
    return explained(request.explain, where)


def explained(text: str, where: Where) -> dict[str, Any]:
    """Return what would be decided now of `wl/NAME`, as `stowage explain -o json` prints it."""
    from stowage.simulation import explain  # noqa: PLC0415 - slow: it decides

    return explain.explained(reference((text,)), where, None).to_dict()


def namespaces(asked: WhatIf, default: str) -> list[str]:
    """Return the namespaces of the objects that are pasted or scaled.

    Raises ConfigurationError for what is wrong in the input by itself, whatever the fleet is.
    """
    from stowage.fleet import admission, inventory, manifests  # noqa: PLC0415 - slow: they decide

    found = {key[0] for key in _scales(asked.scale, default)}
    pasted = [*manifests.parse(PASTED, asked.yaml)]
    now = SystemClock().now()
    inventory.to_apply(pasted, PlanInputs(), namespace=default, now=now)
    return sorted(found | {admission.key_of(each, default)[0] for each in pasted})


def what_if(asked: WhatIf, where: Where) -> dict[str, Any]:
    """Return what `stowage plan` or `stowage simulate` print as JSON, cut to MOST_ROWS rows."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that messages name the file as people know it
        if asked.yaml.strip():
            Path(PASTED).write_text(asked.yaml, encoding="utf-8")
        files = [PASTED] if asked.yaml.strip() else []
        try:
            found = (
                _planned(files, where) if asked.only_applies else _simulated(asked, files, where)
            )
        finally:
            os.chdir("/")
    return bounded(found)


def _planned(files: Sequence[str], where: Where) -> dict[str, Any]:
    from stowage.simulation import plan  # noqa: PLC0415 - slow: it decides

    if not files:
        raise ConfigurationError("nothing is another than now: paste a Workload, or name a change")
    made = plan.make(files, where, clock=SystemClock())
    return {**made.to_dict(), "notes": list(made.notes)}


def _simulated(asked: WhatIf, files: Sequence[str], where: Where) -> dict[str, Any]:
    from stowage.simulation import simulate  # noqa: PLC0415 - slow: it decides

    scenario = simulate.Scenario(
        lose=(*asked.lose, *asked.label),
        cordon=asked.cordon,
        drain=asked.drain,
        scale=_scales(asked.scale, where.namespace),
        files=files,
        each=asked.each,
    )
    configuration, note = simulate.assumed(where)
    present = where.present()
    runs = simulate.results(scenario, where, present, configuration, clock=SystemClock())
    notes = [*present.notes, *([note] if note and (scenario.lose or scenario.each) else [])]
    if asked.each:
        return {"key": asked.each, "runs": [each.to_dict() for each in runs], "notes": notes}
    return {**runs[0].to_dict(), "notes": notes}


def _scales(texts: Sequence[str], namespace: str) -> dict[Key, int]:
    from stowage.simulation.simulate import scales  # noqa: PLC0415 - slow: it decides

    try:
        return scales(texts, namespace)
    except ValueError as e:
        raise ConfigurationError(f"scale: {e}") from e


def bounded(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lists cut to MOST_ROWS, and below `more` how many rows each lacks."""
    cut = {k: v[:MOST_ROWS] if isinstance(v, list) else v for k, v in found.items()}
    more = {k: len(v) - MOST_ROWS for k, v in found.items() if isinstance(v, list)}
    left = {key: number for key, number in more.items() if number > 0}
    return {**cut, "more": left} if left else cut


def _serve(source: IO[bytes], sink: IO[bytes]) -> None:
    present, decoder = PlanInputs(), msgspec.json.Decoder(DecisionRequest)
    while head := source.read(LENGTH):
        request = decoder.decode(source.read(int.from_bytes(head, "big")))
        if request.snapshot != msgspec.Raw(b"null"):
            present = of_hub(unpacked(bytes(request.snapshot)))  # seconds, for a large fleet
        data = _answered(request, present)
        sink.write(len(data).to_bytes(LENGTH, "big") + data)
        sink.flush()


def _answered(request: DecisionRequest, present: PlanInputs) -> bytes:
    """Return the encoded answer, computed within MOST_MEMORY beside what is there already."""
    try:
        with _limited(MOST_MEMORY):
            return msgspec.json.encode(DecisionAnswer(decided(request, present)))
    except (StowageError, ValueError) as e:
        fault = str(e)
    except MemoryError:
        fault = f"it takes more than {MOST_MEMORY // 2**20} MiB of memory"
    return msgspec.json.encode(DecisionAnswer(fault=fault))


@contextmanager
def _limited(more: int) -> Iterator[None]:
    """Let the process take so many bytes more, where the system counts them.

    Past that an allocation raises MemoryError; without it the page's container would be ended.
    """
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[5])
    except OSError:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    soft = pages * resource.getpagesize() + more
    if before[1] != resource.RLIM_INFINITY:
        soft = min(soft, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def main() -> None:
    """Load what decides, and serve; whatever is printed meanwhile goes to standard error."""
    garbage.loading()
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from stowage.simulation import simulate  # noqa: PLC0415, F401 - loaded before the first request

    with garbage.tended():
        _serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
