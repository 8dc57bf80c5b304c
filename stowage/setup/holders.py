"""What Workloads have on a cluster, as `unjoin` and `rename` count it before they let it go.

Beside placements these are units that leave, objects that are not seen to be gone, and objects that
are kept with their data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.names import ANNOTATION_CLUSTERS
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.errors import NotFound
from machinery.types.written_clusters import MemberRecord

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """What an object with placements has on one cluster."""

    replicas: int = 0
    leaving: int = 0
    sent: bool = False
    """Whether it was sent something that is not seen to be gone."""
    kept: int = 0
    """Objects that stay there without a share."""
    ended: int = 0
    """Replicas that have ended there: their share stays, so that they are made nowhere again."""

    def __bool__(self) -> bool:
        return bool(self.replicas or self.leaving or self.sent or self.kept or self.ended)

    @property
    def shared(self) -> bool:
        """Whether the status names the cluster as one where replicas are, leave or have ended."""
        return bool(self.replicas or self.leaving or self.ended)

    @property
    def runs(self) -> bool:
        """Whether replicas are there that have not ended: they leave a cluster that is given up."""
        return bool(self.replicas or self.leaving)

    @property
    def words(self) -> str:
        """What is there, beyond what is placed there; empty for nothing."""
        kept = f"{self.kept} kept object{'' if self.kept == 1 else 's'}" if self.kept else ""
        leaving = f"{self.leaving} leaving" if self.leaving else ""
        ended = f"{self.ended} ended" if self.ended else ""
        more = self.replicas or leaving or kept or ended
        sent = "not seen to be gone" if self.sent and not more else ""
        return ", ".join(filter(None, (leaving, kept, ended, sent)))


def standing(found: Json, cluster: str) -> Standing:
    """Return what a Workload, or an object of another placed kind, has on a cluster.

    The placements of one that is deleted are those of before: its footprint says what is left.
    """
    status, records = found.get("status") or {}, _records(found)
    sent = any(cluster in record for record in records)
    if found["metadata"].get("deletionTimestamp") and not sent:
        return Standing()
    placed = _replicas(status.get("placements"), cluster)
    over = any(each["name"] == cluster and each.get("ended") for each in status.get("clusters", ()))
    return Standing(
        replicas=0 if over else placed,
        ended=placed if over else 0,
        leaving=_replicas(status.get("leaving"), cluster),
        sent=sent,
        kept=sum(each["cluster"] == cluster for each in status.get("kept") or ()),
    )


def named(found: Json, members: Callable[[], Iterable[str]]) -> set[str]:
    """Return the clusters on which a Workload may have something; `members` are all names."""
    status = found.get("status") or {}
    lists = (status.get(each) or () for each in ("placements", "leaving", "kept"))
    shares = {share["cluster"] for listed in lists for share in listed}
    return shares.union(*(each.names(members) for each in _records(found)))


def _records(found: Json) -> list[MemberRecord]:
    notes = found["metadata"].get("annotations") or {}
    footprint = ((found.get("status") or {}).get("footprint") or {}).get("clusters") or ""
    return [MemberRecord.read(str(t)) for t in (footprint, notes.get(ANNOTATION_CLUSTERS, ""))]


def _replicas(shares: Sequence[Json] | None, cluster: str) -> int:
    return sum(each["replicas"] for each in shares or () if each["cluster"] == cluster)


async def holders(hub: ApiClient, cluster: str) -> dict[str, Standing]:
    """Return the Workloads that have anything on a cluster, as `namespace/name`."""
    try:
        listed = (await hub.list(WORKLOADS))["items"]
    except NotFound:
        return {}
    found = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": standing(each, cluster)
        for each in listed
    }
    return {name: each for name, each in found.items() if each}
