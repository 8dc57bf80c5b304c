"""The state of one import, and the description of a system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stowage.importing.fields import Notes
from stowage.importing.reading import Bundle, Source
from stowage.importing.workloads import BUILT_IN, Form, Workloads


@dataclass(eq=False, slots=True)
class Conversion:
    """One import: the input, our objects, and the notes."""

    bundle: Bundle
    notes: Notes
    workloads: Workloads
    others: list[tuple[Source, dict[str, Any]]] = field(default_factory=list)
    """Our objects besides the Workloads, each with its source."""

    def add(self, source: Source, body: dict[str, Any]) -> dict[str, Any]:
        self.others.append((source, body))
        return body


@dataclass(frozen=True, slots=True)
class System:
    """A system whose objects can be imported."""

    name: str
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    """The versions of its kinds that the module knows."""
    convert: Callable[[Conversion], None]
    """Makes our objects of the system's own, and marks these as taken."""
    forms: Mapping[tuple[str, str], Form] = field(default_factory=dict)
    """The forms in a Workload of its kinds that run pods, by group and kind."""


def conversion(bundle: Bundle, systems: tuple[System, ...]) -> Conversion:
    """Return an empty conversion that knows the kinds of all systems.

    Raises ConfigurationError for a version that none knows.
    """
    for system in systems:
        for source in bundle.sources:
            version = str(source.document.body["apiVersion"]).rpartition("/")[2]
            if source.group in system.groups and version not in system.versions:
                known = ", ".join(system.versions)
                raise source.document.error(f"apiVersion: of {system.name}, {known} are known")
    notes, forms = Notes(), dict(BUILT_IN)
    for system in systems:
        forms |= system.forms
    return Conversion(bundle, notes, Workloads(bundle, notes, forms))
