"""WorkloadQuotas from plain dicts, and an index that counts for them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import WorkloadQuota, compile_quota
from controller.features.workloadquota.usage import Usage


def quota(
    name: str = "team", *, created: str = "2026-01-01T00:00:00Z", **hard: Any
) -> WorkloadQuota:
    """One of the namespace shop; `units=3, cpu="2"`: a resource is one that is requested."""
    own = {"units", "reservations"}
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "creationTimestamp": created}
    amounts = {r if r in own else f"requests.{r}": str(n) for r, n in hard.items()}
    return msgspec.convert({"metadata": meta, "spec": {"hard": amounts}}, WorkloadQuota)


def body(name: str = "team", **hard: Any) -> dict[str, Any]:
    """The same as a document, for a hub."""
    found: dict[str, Any] = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadQuota",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": quota(name, **hard).spec,
    }
    return found


def holding(*quotas: WorkloadQuota) -> PlacementIndex:
    """An index that counts for these."""
    made = PlacementIndex([ReservationLedger(), Usage()])
    for each in quotas:
        made.ledger(Usage).put_quota(compile_quota(each))
    return made


def used(index: PlacementIndex, namespace: str = "shop") -> dict[str, int]:
    """The amounts that a namespace takes."""
    found = index.ledger(Usage).used(namespace, index.ledger(ReservationLedger)).amounts
    return {name: n for name, n in found.items() if n}
