"""The binding of a workload to an object of another system: a label, and a scheduler's name.

Other systems read both from the pods. Here both are the Workload's: pods get their node from the
member's own scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from crds.names import DEFAULT_SCHEDULER
from stowage.importing.notes import Notes
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Made

POD_SCHEDULER = "spec.template.spec.schedulerName"


def labels_of(source: Source, *path: str) -> dict[str, Any]:
    """Return the labels of an object of the input, or of the object at a path in it."""
    labels = dig(source.document.body, *path, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def named(source: Source, keys: Sequence[str], what: str) -> str:
    """Return the value of one of these labels, of the pods or the object; empty for none.

    Raises ConfigurationError where there are several values; `what` names them in the message.
    """
    places = (labels_of(source, "spec", "template"), labels_of(source))
    found = {str(each[key]) for each in places for key in keys if each.get(key) not in (None, "")}
    if len(found) > 1:
        raise source.document.error(f"labels: name several {what}: {', '.join(sorted(found))}")
    return next(iter(found), "")


def bind(
    notes: Notes, made: Made, label: str, value: str, aliases: Sequence[str], selectors: Any
) -> None:
    """Give the Workload the label; remove the aliases unless a selector uses them."""
    made.body["metadata"].setdefault("labels", {})[label] = value
    document, moved = made.source.document, f"is the label {label} of the Workload now"
    own = dig(made.template, "metadata", "labels")
    places = (
        ("spec.template.metadata.labels", made.labels),
        ("metadata.labels", own if isinstance(own, dict) else {}),
    )
    for path, labels in places:
        for key in [key for key in aliases if key in labels]:
            if any(key in str(each) for each in selectors):
                text = f"{key} {moved}; it stays, as pods are selected by it"
                notes.note(document, path, text)
            else:
                del labels[key]
                notes.note(document, path, f"{key} {moved}")


def take_scheduler(notes: Notes, made: Made, names: Collection[str]) -> str:
    """Name our scheduler in the Workload, and none of `names` in its pods.

    Return the name that the pods had; empty for none.
    """
    made.spec["schedulerName"] = DEFAULT_SCHEDULER
    pod = made.pod.get("spec")
    name = pod.get("schedulerName") if isinstance(pod, dict) else None
    if isinstance(pod, dict) and name in names:
        del pod["schedulerName"]
        text = f"{name} is spec.schedulerName: {DEFAULT_SCHEDULER} of the Workload now; pods"
        text += " get their node from the member's own scheduler"
        notes.note(made.source.document, POD_SCHEDULER, text)
    return str(name or "")
