"""What an object of the hub says of the restore that made it. Pure.

`stowage restore` makes an object, then writes its status, and says only then that it is whole:
until that neither process acts on it. The mark of a whole Workload has the generation that it was
restored with. While that lasts, and nobody accepts the hub's version, what members have of it may
be younger than the hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crds.names import ANNOTATION_RESTORED

_RESTORING, _ACCEPTED = "restoring", "accepted"


class RestoredMark(NamedTuple):
    """The value of the annotation: `<restore>/<state>`."""

    restore: str
    """Which one: `Restore` of the ConfigMap, or a set-back that the propagator has found."""
    state: str
    """`restoring`, `accepted`, or the generation of a whole object."""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> RestoredMark:
        """Both are empty without a mark."""
        restore, _, state = annotations.get(ANNOTATION_RESTORED, "").partition("/")
        return cls(restore, state)

    @classmethod
    def restoring(cls, restore: str) -> RestoredMark:
        return cls(restore, _RESTORING)

    @classmethod
    def accepted(cls, restore: str) -> RestoredMark:
        return cls(restore, _ACCEPTED)

    @classmethod
    def whole(cls, restore: str, generation: int) -> RestoredMark:
        return cls(restore, str(generation))

    @property
    def incomplete(self) -> bool:
        """Whether its status is not restored yet: neither process acts on the object."""
        return self.state == _RESTORING

    def __str__(self) -> str:
        return f"{self.restore}/{self.state}"


def incomplete(annotations: Mapping[str, str]) -> bool:
    """Whether the object's status is not restored yet: neither process acts on it."""
    return RestoredMark.of(annotations).incomplete
