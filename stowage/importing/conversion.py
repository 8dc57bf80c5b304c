"""What a system's module works on, and the line by which a system is known.

A `System` names the API groups that are its own, how its kinds become templates, and the function
that makes our objects of its own. `stowage.importing.command` has the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stowage.importing.notes import Notes
from stowage.importing.reading import Bundle, Source
from stowage.importing.workloads import BUILT_IN, Form, Workloads


@dataclass(eq=False, slots=True)
class Conversion:
    """One run: the input, what is made of it, and what is said of that."""

    bundle: Bundle
    notes: Notes
    workloads: Workloads
    others: list[tuple[Source, dict[str, Any]]] = field(default_factory=list)
    """Our objects besides the Workloads, each with what it was made of."""

    def add(self, source: Source, body: dict[str, Any]) -> dict[str, Any]:
        """Take an object into the output."""
        self.others.append((source, body))
        return body


@dataclass(frozen=True, slots=True)
class System:
    """A system whose objects can be imported."""

    name: str
    groups: tuple[str, ...]
    """The API groups that are its own."""
    versions: tuple[str, ...]
    """The versions of its kinds that the module knows."""
    convert: Callable[[Conversion], None]
    """Makes our objects of its own, and marks these as taken."""
    forms: Mapping[tuple[str, str], Form] = field(default_factory=dict)
    """What its kinds that run pods become inside of a Workload, by group and kind."""


def conversion(bundle: Bundle, systems: tuple[System, ...]) -> Conversion:
    """An empty one, that knows the kinds of all systems. Raises for a version that none knows."""
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
