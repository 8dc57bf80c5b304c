"""Which WorkloadGroups a Workload names: one rule for the controller, the propagator and imports.

A label may stand on the Workload, on its template or on its pods, by its own key or by an alias.
Several names are several answers: nobody guesses which of them was meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds.names import GROUP_LABELS


def groups_named(*labels: Mapping[str, str]) -> tuple[str, ...]:
    """The groups that these labels name, each once, by name; empty values name none.

    Given are the labels of a Workload, of its template and of its pods; the groups are of the
    Workload's own namespace.
    """
    return tuple(sorted({each[key] for each in labels for key in GROUP_LABELS if each.get(key)}))
