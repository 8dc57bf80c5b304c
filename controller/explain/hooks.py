"""The changes of hooks in a pass as text, by comparing the views before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np

from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask
from controller.framework.explains import Explainer, PassView, either, method_of
from controller.model.objects import WorkloadSpec
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision, HookChange
from controller.snapshot.columns import Column, Ints, Mask
from controller.snapshot.saturating import sums, times
from controller.snapshot.snapshot import Snapshot
from machinery.types import quantities

MOST_TEXTS = 20
"""Sentences about one hook."""
MOST_FACTS = 6
"""Facts of a cluster in one sentence."""
MOST_COMPARED = 200
_WORD_LIMIT = 60
_UNTOLD = frozenset(
    {
        *("constraints", "demand", "shape", "decided", "version", "uid", "created", "pod"),
        *("bindings", "shown", "limits", "pod_selector"),
    }
)
"""Fields of a WorkloadInfo that follow from others."""
_PLAIN = ("ready", "cordoned", "deleting", "virtual", "cost", "latency", "reliability")
_REQUEST = "request"
_AMOUNTS = (_REQUEST, "free ", "set aside ", "allocatable ", "requested ")
"""Prefixes of amounts. A missing amount is 0."""
_TEXTS = ("rules", "kinds", "given", "withheld", "provider", "version", "secret_namespace")


def told(decision: Decision) -> list[dict[str, str]]:
    """Return the changes as JSON values: plugin, phase and text."""
    return [
        {"plugin": change.plugin, "phase": change.phase, "text": text}
        for change in decision.changes
        for text in _texts(change, decision.plugins.get(change.plugin))
    ]


def _texts(change: HookChange, hook: Any) -> Sequence[str]:
    said: Sequence[str] = ()
    if changes := method_of(hook, Explainer.changes):
        try:
            said = ask(hook, "Changes", answers.texts, changes, change.before, change.after)
        except PluginError as e:
            said = (str(e),)
    found = list(said) or [*compared(change.before, change.after)]
    rest = len(found) - MOST_TEXTS
    return found if rest <= 0 else [*found[:MOST_TEXTS], f"changed {rest} things more"]


def compared(before: PassView, after: PassView) -> Iterator[str]:
    """Yield sentences without a subject on the Workload, the clusters and their list."""
    if after.workload is not before.workload:
        yield from _info(before.workload, after.workload)
    if after.snapshot is not before.snapshot:
        yield from _clusters(before.snapshot, after.snapshot)
    if before.feasible is not None and after.feasible is not None:
        gone = np.flatnonzero(before.feasible & ~after.feasible).tolist()
        if gone:
            yield f"took {_named(after.snapshot.names[row] for row in gone)} out of the list"


def _info(before: WorkloadInfo, after: WorkloadInfo) -> Iterator[str]:
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name in _UNTOLD or old == new:
            continue
        name = _written(field.name)
        if _nothing(new):
            yield f"took {name} away"
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield f"changed {_changes(_entries(name, old), _entries(name, new))}"
        elif isinstance(old, str | int) and isinstance(new, str | int):
            yield f"changed {name} {_word(old)} → {_word(new)}"
        else:
            yield f"set {name}" if _nothing(old) else f"changed {name}"


def _written(name: str) -> str:
    written = {f.name: f.encode_name for f in msgspec.structs.fields(WorkloadSpec)}
    found = [
        encoded
        for spec, encoded in written.items()
        if spec in (name, f"workload_{name}") or spec.startswith(f"{name}_")
    ]
    found += [encoded for spec, encoded in written.items() if spec.endswith(f"_{name}")]
    first, *rest = name.split("_")
    return found[0] if found else "".join((first, *(part.title() for part in rest)))


def _nothing(value: Any) -> bool:
    if isinstance(value, msgspec.Struct):
        return all(_nothing(getattr(value, name)) for name in value.__struct_fields__)
    return value is None or (not isinstance(value, int) and len(value) == 0)


def _clusters(before: Snapshot, after: Snapshot) -> Iterator[str]:
    gone = [name for name in before.names if name not in after.row]
    if gone:
        yield f"left out {_named(gone)}"
    if new := [name for name in after.names if name not in before.row]:
        yield f"brought in {_named(new)}"
    names = [name for name in before.names if name in after.row]
    old, now = _Rows(before, names), _Rows(after, names)
    found: dict[str, list[str]] = {}
    rows = np.flatnonzero(_different(old, now)).tolist()
    for place in rows[:MOST_COMPARED]:
        text = _changes(old.facts(place), now.facts(place)) or "its nodes"
        found.setdefault(text, []).append(names[place])
    for text, those in found.items():
        yield f"changed {_named(those)}: {text}"
    if len(rows) > MOST_COMPARED:
        yield f"changed {len(rows) - MOST_COMPARED} clusters more"


class _Rows:
    """Columns of some clusters, in the same order in all processes."""

    def __init__(self, snapshot: Snapshot, names: Sequence[str]) -> None:
        self.objects = [snapshot.clusters[snapshot.row[name]] for name in names]
        self.columns: dict[str, Any] = {
            **{name: getattr(snapshot, name) for name in _PLAIN},
            **{_spaced(name): getattr(snapshot, name) for name in _TEXTS},
            **{f"label {key}": column for key, column in sorted(snapshot.labels.items())},
            **{
                f"taint {t.text}": snapshot.taints[t]
                for t in sorted(snapshot.taints, key=lambda t: t.text)
            },
        }
        self.amounts: dict[str, tuple[str, Ints]] = {}
        groups = snapshot.groups
        for resource, free in sorted(groups.free.items()):
            room = sums(groups.cluster, times(free, groups.count), len(snapshot))
            self.amounts[f"free {resource}"] = (resource, room)
            self.amounts[f"set aside {resource}"] = (resource, snapshot.coming(resource))
        for name in ("allocatable", "requested"):
            for resource, column in sorted(getattr(snapshot, name).items()):
                self.amounts[f"{name} {resource}"] = (resource, column)
        self._rows = np.array([snapshot.row[name] for name in names], dtype=np.int64)

    def values(self, name: str) -> Any:
        if name in self.amounts:
            return self.amounts[name][1][self._rows]
        column = self.columns.get(name)
        if not isinstance(column, Column):
            return None if column is None else column[self._rows]
        values = np.array(column.vocabulary.values, dtype=object)
        return values[column.codes[self._rows]]

    def facts(self, place: int) -> dict[str, str]:
        row = int(self._rows[place])
        found: dict[str, str] = {}
        for name, column in self.columns.items():
            if isinstance(column, Column):
                value: Any = column.vocabulary.values[int(column.codes[row])]
            else:
                value = column[row].item()
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                found[name] = _word(value)
        for name, (resource, amounts) in self.amounts.items():
            found[name] = quantities.render(resource, int(amounts[row]))
        return found


def _different(old: _Rows, now: _Rows) -> Mask:
    mask = np.array(
        [a is not b for a, b in zip(old.objects, now.objects, strict=True)], dtype=np.bool_
    )
    for name in {*old.columns, *now.columns, *old.amounts, *now.amounts}:
        a, b = old.values(name), now.values(name)
        if a is None or b is None:
            there = a if b is None else b
            mask |= np.array([value not in (None, False, 0) for value in there], dtype=np.bool_)
        elif a.dtype.kind == "f":
            mask |= (a != b) & ~(np.isnan(a) & np.isnan(b))
        else:
            mask |= a != b
    return mask


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return `free cpu 2 → 4, label tier gold → none`."""
    found = []
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, ""), new.get(name, "")
        was, now = was or _absent(name, now), now or _absent(name, was)
        if was != now:
            found.append(f"{name} {was} → {now}")
    rest = len(found) - MOST_FACTS
    return ", ".join(found if rest <= 0 else [*found[:MOST_FACTS], f"{rest} facts more"])


def _entries(name: str, found: Mapping[str, Any]) -> dict[str, str]:
    if name == _REQUEST:
        return {f"{name} {key}": quantities.render(key, n) for key, n in sorted(found.items())}
    return {f"{name} {key}": _word(value) for key, value in sorted(found.items())}


def _absent(name: str, other: str) -> str:
    if other in ("yes", "no"):
        return "no"
    return "0" if name.startswith(_AMOUNTS) else "none"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value).replace("\n", " ") or '""'
    return text if len(text) <= _WORD_LIMIT else f"{text[: _WORD_LIMIT - 1]}…"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _named(names: Iterator[str] | Sequence[str]) -> str:
    return either(sorted(names), "and")
