"""The waves of a Workload's rollout: which clusters each has, and what an edit would go through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.model.objects import MemberCluster
from crds.fields.rollout import BACK, REST
from machinery.kinds.revisions import digest_of, revision_data
from machinery.types.budget import amount
from machinery.types.selectors import ClusterSelector, LabelSelector, label_selector
from stowage.console import output, words

Json = Mapping[str, Any]
COLUMNS = ("wave", "clusters", "at once", "then")


@dataclass(frozen=True, slots=True)
class ForeseenWave:
    """A wave of spec.rollout with the shares of its clusters."""

    spec: Json
    shares: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.spec["name"],
            "clusters": words.listed(self.shares),
            "maxConcurrent": at_once(self.spec, len(self.shares)),
            "soakSeconds": soak(self.spec),
            "approval": needs_approval(self.spec),
        }

    def row(self, *, last: bool) -> dict[str, Any]:
        number = at_once(self.spec, len(self.shares)) if self.shares else 0
        return {
            "wave": self.spec["name"],
            "clusters": words.shares(self.shares),
            "at once": number,
            "then": "-" if last else then(self.spec, clusters=len(self.shares)),
        }


@dataclass(frozen=True, slots=True)
class ForeseenRollout:
    """What the revision of a spec goes through; without waves `said` tells the reason."""

    revision: str
    stable: str
    waves: Sequence[ForeseenWave]
    said: str
    last: int = 0
    """The index of the last wave with a share, or with a cluster that may get one."""

    def to_dict(self) -> dict[str, Any]:
        waves = [each.to_dict() for each in self.waves]
        stable = self.stable or None
        return {"revision": self.revision, "stable": stable, "waves": waves, "message": self.said}

    def lines(self) -> list[str]:
        """Return what stands below the row of its Workload."""
        head = f"rollout {words.transition(self.stable, self.revision)}: {self.said}"
        if not self.waves:
            return [head]
        rows = [each.row(last=at >= self.last) for at, each in enumerate(self.waves)]
        return [head, *output.table(rows, COLUMNS, indent=2).splitlines()]


def foreseen(
    body: Json, shares: Mapping[str, int], clusters: Sequence[MemberCluster]
) -> ForeseenRollout | None:
    """Return what would become of a Workload's revision; None if nothing would be rolled out.

    `body` is the Workload as it would be, with its status; `shares` are the units on each cluster.
    """
    spec, status = body.get("spec") or {}, (body.get("status") or {}).get("rollout") or {}
    if not spec.get("rollout"):
        return None
    revision, stable = digest_of(revision_data(spec)), status.get("stable") or ""
    present = status.get("revision") or ""
    placed = (body.get("status") or {}).get("placements")
    said = "from wave to wave, in this order"
    if not stable and placed and revision != present and _runs(body):
        stable = present  # what runs is what each cluster keeps until its turn
        if not present:
            said = "from wave to wave where it changes what runs, in this order"
            return _staged(body, revision, stable, said, shares, clusters)
    if not (stable and (placed or revision in (present, stable))):
        said = "the first placement, so no waves: all clusters at once"
        if placed or (present and not stable):
            said = "no revision was on all clusters yet, so no waves: all clusters at once"
        return ForeseenRollout(revision, "", (), said)
    if revision == stable:
        if present == stable:
            return None
        said = "back to the stable revision, so no waves: all clusters that left it at once"
        return ForeseenRollout(revision, stable, (), said)
    if revision == present and status.get("phase") in BACK:
        said = f"given up ({status['phase']}), so no waves: an edit of the template begins anew"
        return ForeseenRollout(revision, stable, (), said)
    if revision == present:
        said = f"goes on as it stands ({status.get('phase')}), in this order"
    return _staged(body, revision, stable, said, shares, clusters)


def _staged(
    body: Json,
    revision: str,
    stable: str,
    said: str,
    shares: Mapping[str, int],
    clusters: Sequence[MemberCluster],
) -> ForeseenRollout:
    spec = body["spec"]
    waves = list(_waves(spec["rollout"], shares, clusters))
    selector = _selector(spec.get("clusterSelector") or {})
    fleet = {c.metadata.name: 0 for c in clusters if selector.matches(c.labels)}
    reached = [waves, list(_waves(spec["rollout"], fleet, clusters))]
    last = max((at for some in reached for at, w in enumerate(some) if w.shares), default=0)
    return ForeseenRollout(revision, stable, waves, said, last)


def _selector(given: Json) -> LabelSelector:
    return label_selector(msgspec.convert(given, ClusterSelector))


def _runs(body: Json) -> bool:
    return any(each.get("ready") for each in (body.get("status") or {}).get("clusters") or ())


def _waves(
    rollout: Json, shares: Mapping[str, int], clusters: Sequence[MemberCluster]
) -> Iterator[ForeseenWave]:
    """Yield each wave with its clusters, by name; the last one has what no wave takes."""
    labels = {each.metadata.name: each.labels for each in clusters}
    left = {name: shares[name] for name in sorted(shares)}
    for wave in rollout["waves"]:
        selector = _selector(wave["clusterSelector"])
        taken = {c: n for c, n in left.items() if selector.matches(labels.get(c, {}))}
        left = {c: n for c, n in left.items() if c not in taken}
        yield ForeseenWave(wave, taken)
    if left:
        yield ForeseenWave({"name": REST}, left)


def at_once(wave: Json, clusters: int) -> int:
    """Return how many of a wave's clusters may be updated at once."""
    return max(amount(wave.get("maxConcurrent", 1), clusters, up=True), 1)


def soak(wave: Json) -> int:
    return int(wave.get("soakSeconds") or 0)


def needs_approval(wave: Json) -> bool:
    return bool(wave.get("approval"))


def then(wave: Json, clusters: int = 1) -> str:
    """Return what follows a wave of so many clusters: `soaks 10m, waits for an approval`."""
    found = [f"soaks {words.seconds(soak(wave))}"] if soak(wave) else []
    if found and not clusters:
        found = ["waits until it has a cluster that soaks"]
    found += ["waits for an approval"] if needs_approval(wave) else []
    told = ", ".join(found) or "the next wave"
    return told if clusters else f"no cluster: {told}"
