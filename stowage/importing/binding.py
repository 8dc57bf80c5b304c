"""What binds a workload to an object of another system: a label, and the name of a scheduler.

Other systems read both from the pods. Here the label is the Workload's, and so is the scheduler's
name: pods get their node from the member's own scheduler.
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
    """The labels of an object of the input, or of what stands at a path of it."""
    labels = dig(source.document.body, *path, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def named(source: Source, keys: Sequence[str], what: str) -> str:
    """What the pods, or the object, name by one of these labels. Raises where they name several."""
    places = (labels_of(source, "spec", "template"), labels_of(source))
    found = {str(each[key]) for each in places for key in keys if each.get(key) not in (None, "")}
    if len(found) > 1:
        raise source.document.error(f"labels: name several {what}: {', '.join(sorted(found))}")
    return next(iter(found), "")


def bind(
    notes: Notes, made: Made, label: str, value: str, aliases: Sequence[str], selectors: Any
) -> None:
    """The Workload has the label; its aliases stay where something selects pods by them."""
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
    """Our scheduler places the Workload, and its pods name none of these; what they named."""
    made.spec["schedulerName"] = DEFAULT_SCHEDULER
    pod = made.pod.get("spec")
    name = pod.get("schedulerName") if isinstance(pod, dict) else None
    if isinstance(pod, dict) and name in names:
        del pod["schedulerName"]
        text = f"{name} is spec.schedulerName: {DEFAULT_SCHEDULER} of the Workload now; pods"
        text += " get their node from the member's own scheduler"
        notes.note(made.source.document, POD_SCHEDULER, text)
    return str(name or "")
