"""Notes on the fields of an input.

A note is about one field of one object. A *loss* is a note that without this field, or with the
field in another place, the units would not do what they did before. A loss forbids the output,
unless the user accepts losses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from machinery.types.bounds import clean
from stowage.fleet.manifests import Document


def one_line(text: str) -> str:
    """Return the whole text in one line, so that no quoted line of a file looks like a note."""
    return clean(text, max(len(text), 1))


@dataclass(frozen=True, slots=True)
class ImportNote:
    """One sentence about one field; an empty field stands for the whole object."""

    document: Document
    field: str
    text: str
    loss: bool = False

    def __str__(self) -> str:
        """Return `lost: web.yaml: CloneSet web: spec.lifecycle: why`."""
        what = " ".join(filter(None, (self.document.kind, self.document.name)))
        place = self.document.source if self.document.name else self.document.place
        said = ": ".join(filter(None, (place, what, self.field, self.text)))
        return one_line(f"{'lost' if self.loss else 'note'}: {said}")


@dataclass(slots=True)
class Notes:
    """All notes of one import, each once."""

    each: list[ImportNote] = field(default_factory=list)
    _said: set[tuple[int, str, str, bool]] = field(default_factory=set)

    def note(self, document: Document, where: str, text: str) -> None:
        """Note what became of a field that lost nothing."""
        self._add(ImportNote(document, where, text))

    def lost(self, document: Document, where: str, text: str) -> None:
        """Note that a field cannot be kept true."""
        self._add(ImportNote(document, where, text, loss=True))

    def _add(self, note: ImportNote) -> None:
        words = (id(note.document), note.field, note.text, note.loss)
        if words not in self._said:  # an object may be converted for several others
            self._said.add(words)
            self.each.append(note)

    def in_order(self) -> list[ImportNote]:
        """Return losses last, the notes on one object together, in the order of the files."""
        first = {note.document.place: at for at, note in reversed([*enumerate(self.each)])}
        return sorted(self.each, key=lambda note: (note.loss, first[note.document.place]))

    @property
    def losses(self) -> int:
        return sum(note.loss for note in self.each)
