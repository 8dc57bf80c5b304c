"""Systems of which no kind has a counterpart: each object is lost in one line."""

from __future__ import annotations

from stowage.importing.workloads import Conversion, System

_INSTEAD = "render what it places, and `stowage wrap` that"


def _nothing(into: Conversion) -> None:
    del into


RANCHER = System("Rancher Fleet", ("fleet.cattle.io",), (), _nothing, instead=_INSTEAD)
SVELTOS = System(
    "Sveltos",
    (
        "config.projectsveltos.io",
        "lib.projectsveltos.io",
        "debug.projectsveltos.io",
        "extension.projectsveltos.io",
    ),
    (),
    _nothing,
    instead=_INSTEAD,
)
