"""`stowage import`: read the input, convert it by each system in turn, check and print it.

A further system is a module with a `System`, and a line in `SYSTEMS`. The output is YAML of our
kinds, as admission accepts it; the same input gives the same output. Notes go to standard error. A
field that cannot be kept true forbids the output, unless the user accepts losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from crds.admission.validation import object_violations
from crds.definition import KINDS
from machinery.errors import ConfigurationError
from stowage.console.terminal import say
from stowage.console.yamltext import dump
from stowage.fleet import manifests
from stowage.fleet.manifests import STANDARD_INPUT, Document
from stowage.importing import companions
from stowage.importing.fates import Subject, Table, account, entries, written
from stowage.importing.fields import one_line
from stowage.importing.reading import Source, bundled, dig, text_selector
from stowage.importing.shapes import check
from stowage.importing.systems import (
    argocd,
    foreign,
    karmada,
    koordinator,
    kosmos,
    kubefed,
    kubefleet,
    ocm,
    openkruise,
    schedulerplugins,
)
from stowage.importing.workloads import Conversion, System, conversion

SYSTEMS = (
    openkruise.SYSTEM,
    kosmos.SYSTEM,
    koordinator.SYSTEM,
    schedulerplugins.SYSTEM,
    karmada.SYSTEM,
    ocm.SYSTEM,
    kubefleet.SYSTEM,
    kubefed.SYSTEM,
    argocd.SYSTEM,
    foreign.RANCHER,
    foreign.SVELTOS,
)
_ORDER = {kind.__name__: place for place, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be imported: files, or the objects of a hub that were read already."""

    files: Sequence[str] = ()
    documents: Sequence[Document] | None = None
    namespace: str = ""
    selector: str = ""
    lossy: bool = False
    report: str = ""
    """The file that gets the report; empty for none, `-` for standard error."""


def run(asked: Asked) -> None:
    """Print the objects that the input becomes. Raises ConfigurationError."""
    try:
        _run(asked)
    except ConfigurationError as fault:
        raise ConfigurationError(one_line(str(fault))) from fault


def _run(asked: Asked) -> None:
    made = converted(asked)
    for note in made.notes.in_order():
        say(str(note), err=True)
    if asked.report:
        _write(asked.report, written(report(made)))
    made_of = objects(made)
    if made.notes.losses and not asked.lossy:
        raise ConfigurationError(_refusal(made.notes.losses))
    names: dict[tuple[str, ...], Source] = {}
    for source, body in made_of:
        _check(source, body)
        _only_one(names, source, body)
    if not made_of:
        raise ConfigurationError("none of these objects is one that can be imported")
    click.echo(dump(body for _, body in made_of), nl=False)


def converted(asked: Asked) -> Conversion:
    """Return all objects that the input becomes, and all notes."""
    found = manifests.read(asked.files) if asked.documents is None else asked.documents
    into = conversion(bundled(_selected(found, asked.selector), asked.namespace), SYSTEMS)
    tables = list(_tables(into))
    for source, system, _ in tables:
        if (shape := system.shape(source)) is not None:
            check(source.document, shape)
    for each in SYSTEMS:
        each.convert(into)
    for source, _, table in tables:
        source.taken = True
        account(into.notes, source.document, table)
    companions.take_along(into, SYSTEMS)
    return into


def _tables(into: Conversion) -> Iterator[tuple[Source, System, Table]]:
    for source in into.bundle.sources:
        for system in SYSTEMS:
            if (table := system.table(source)) is not None:
                yield source, system, table
                break


def _selected(documents: Sequence[Document], selector: str) -> list[Document]:
    """Return the objects that a label selector takes, and all that are rules or clusters."""
    if not selector:
        return list(documents)
    try:
        wanted = text_selector(selector)
    except ValueError as e:
        raise ConfigurationError(f"--selector: {e}") from e
    return [each for each in documents if _is_rule(each) or wanted.matches(_labels(each))]


def _is_rule(document: Document) -> bool:
    group, slash, _ = str(document.body.get("apiVersion") or "").partition("/")
    key = (group if slash else "", document.kind)
    return any(key in each.tables or key[0] in each.groups for each in SYSTEMS)


def _labels(document: Document) -> dict[str, Any]:
    found = dig(document.body, "metadata", "labels")
    return found if isinstance(found, dict) else {}


def report(made: Conversion) -> list[dict[str, Any]]:
    """Return what became of each leaf of the input."""
    tables = {id(source): table for source, _, table in _tables(made)}
    return entries(
        made.notes,
        (
            Subject(source.document, source.namespace, tables.get(id(source)))
            for source in made.bundle.sources
        ),
    )


def _write(file: str, text: str) -> None:
    if file == STANDARD_INPUT:
        click.echo(text, err=True, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as e:
        raise ConfigurationError(f"--report {file}: {e.strerror}") from e


def objects(made: Conversion) -> list[tuple[Source, dict[str, Any]]]:
    """Return the output in its order, each object with its source."""
    workloads = [(each.source, each.finished()) for each in made.workloads.made.values()]
    return sorted([*made.others, *workloads], key=lambda each: _place(each[1]))


def _place(body: Mapping[str, Any]) -> tuple[int, str, str]:
    metadata = body["metadata"]
    kind = _ORDER.get(body["kind"], len(_ORDER))
    return kind, str(metadata.get("namespace") or ""), str(metadata["name"])


def _refusal(losses: int) -> str:
    fields = "1 field" if losses == 1 else f"{losses} fields"
    return (
        f"{fields} cannot be kept true (`lost` above), so nothing is printed; with --lossy the"
        " rest is"
    )


def _check(source: Source, body: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an object that admission would refuse, in its own words."""
    if body["kind"] not in _ORDER:
        return
    wrong = object_violations(str(body["kind"]), {"metadata": {}, **body})
    if wrong:
        name = body.get("metadata", {}).get("name")
        raise source.document.error(f"as {body['kind']} {name} it is refused: {'; '.join(wrong)}")


def _only_one(
    names: dict[tuple[str, ...], Source], source: Source, body: Mapping[str, Any]
) -> None:
    """Raise ConfigurationError for a second object of a kind and name."""
    metadata = body["metadata"]
    name = metadata["name"]
    before = names.setdefault((body["kind"], str(metadata.get("namespace") or ""), name), source)
    # objects of two kinds may have one name in the input, but not the Workloads made of them
    if before is not source:
        taken = f"the name is that of the {before.kind} in {before.document.place} too"
        raise source.document.error(f"as {body['kind']} {name} it is refused: {taken}; change one")
