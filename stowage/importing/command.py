"""`stowage import`: read the input, convert it by each system in turn, check and print it.

A further system is a module with a `System`, and a line in `SYSTEMS`. The output is YAML of our
kinds, as admission accepts it; the same input gives the same output. Notes go to standard error. A
field that cannot be kept true forbids the output, unless the user accepts losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from crds.admission.validation import object_violations
from crds.definition import KINDS
from machinery.errors import ConfigurationError
from stowage.console.terminal import say
from stowage.console.yamltext import dump
from stowage.importing import companions
from stowage.importing.fields import one_line
from stowage.importing.reading import Source, read
from stowage.importing.systems import koordinator, kosmos, openkruise, schedulerplugins
from stowage.importing.workloads import Conversion, conversion

SYSTEMS = (openkruise.SYSTEM, kosmos.SYSTEM, koordinator.SYSTEM, schedulerplugins.SYSTEM)
_ORDER = {kind.__name__: place for place, kind in enumerate(KINDS)}


def run(files: Sequence[str], namespace: str, *, lossy: bool) -> None:
    """Print the objects that the files become.

    Raises ConfigurationError where they cannot be imported.
    """
    try:
        _run(files, namespace, lossy=lossy)
    except ConfigurationError as fault:
        raise ConfigurationError(one_line(str(fault))) from fault


def _run(files: Sequence[str], namespace: str, *, lossy: bool) -> None:
    made = converted(files, namespace)
    for note in made.notes.in_order():
        say(str(note), err=True)
    made_of = objects(made)
    if made.notes.losses and not lossy:
        raise ConfigurationError(_refusal(made.notes.losses))
    names: dict[tuple[str, ...], Source] = {}
    for source, body in made_of:
        _check(source, body)
        _only_one(names, source, body)
    if not made_of:
        raise ConfigurationError("none of these objects is one that can be imported")
    click.echo(dump(body for _, body in made_of), nl=False)


def converted(files: Sequence[str], namespace: str) -> Conversion:
    """Return all objects that the files become, and all notes."""
    into = conversion(read(files, namespace), SYSTEMS)
    for system in SYSTEMS:
        system.convert(into)
    companions.take_along(into, SYSTEMS)
    return into


def objects(made: Conversion) -> list[tuple[Source, dict[str, Any]]]:
    """Return the output in its order, each object with its source."""
    workloads = [(each.source, each.finished()) for each in made.workloads.made.values()]
    return sorted([*made.others, *workloads], key=lambda each: _ORDER[each[1]["kind"]])


def _refusal(losses: int) -> str:
    fields = "1 field" if losses == 1 else f"{losses} fields"
    return (
        f"{fields} cannot be kept true (`lost` above), so nothing is printed; with --lossy the"
        " rest is"
    )


def _check(source: Source, body: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an object that admission would refuse, in its own words."""
    wrong = object_violations(str(body["kind"]), {"metadata": {}, **body})
    if wrong:
        name = body.get("metadata", {}).get("name")
        raise source.document.error(f"as {body['kind']} {name} it is refused: {'; '.join(wrong)}")


def _only_one(
    names: dict[tuple[str, ...], Source], source: Source, body: Mapping[str, Any]
) -> None:
    """Raise ConfigurationError for a second object of a kind and name."""
    name = body["metadata"]["name"]
    before = names.setdefault((body["kind"], source.namespace, name), source)
    # objects of two kinds may have one name in the input, but not the Workloads made of them
    if before is not source:
        taken = f"the name is that of the {before.kind} in {before.document.place} too"
        raise source.document.error(f"as {body['kind']} {name} it is refused: {taken}; change one")
