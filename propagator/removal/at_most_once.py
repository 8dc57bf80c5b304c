"""Replicas that run at most once: each is made on its new cluster when it is gone from the old one.

Shares that grow while others leave get no more than is seen to be gone there: terminating pods
count, and pods that an object there still asks for. A member that does not answer may run all that
leaves it, and so may one whose MemberCluster is gone, until an operator gives it up (`stowage
unjoin`) or sets the taint `stowage.dev/out-of-service`: nothing runs there.

A hub that was set back may have forgotten another Workload of that name, which still runs. Its
objects tell that on a member of this process, and elsewhere the held sweep, or the agent; nothing
is made before all of them have looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crds.workload import PropagatedReason
from machinery.kinds.ordinals import overlapping
from machinery.types.metadata import Key
from propagator.errors import Refused
from propagator.hub.workload_metadata import record_of
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import (
    OwnedObjects,
    former_units,
    main_object,
    owned,
    pods_left,
)
from propagator.members.objects import ManagedObject, owners
from propagator.members.pods import Main, main_of
from propagator.members.session import MemberSession
from propagator.members.views import UNKNOWN, Live, Told
from propagator.types.workload import Workload


@dataclass(frozen=True, slots=True)
class Waiting:
    """The replicas that a share gets now, and the clusters from which the others must go."""

    replicas: int
    clusters: tuple[str, ...]
    why: str = ""
    """What is to be known of the first of these clusters."""

    def sentence(self, member: str, target: int) -> str:
        first, more = self.clusters[0], len(self.clusters) - 1
        where = f"{first} and {more} more" if more else first
        waits = f"{target - self.replicas} replicas wait until they are gone from {where}"
        return f"{member}: {waits}{self.why}"


class AtMostOnce:
    def __init__(
        self, context: ControllerContext, *, workloads: HubWorkloads, inventory: OwnedObjects
    ) -> None:
        self._inventory = inventory
        self._registry = context.registry
        self._views = context.views
        self._clusters = context.clusters
        self._workloads = workloads

    def waiting(self, workload: Workload, member: str) -> Waiting | None:
        """Return the replicas that the share on that member gets now; None if it gets all."""
        if not workload.at_most_once or member in workload.ends:
            return None
        main, target = main_of(workload), workload.shares[member]
        present = self._present(workload, main, member, target)
        others = self._others(workload, main, member) if present < target else ()
        if not others:
            return None
        by_cluster = {name: self._excess(workload, main, name) for name in others}
        excess = sum(by_cluster.values())
        back = held_back(excess, self._growing_later(workload, main, member) if excess else ())
        replicas = grown(target=target, present=present, back=back)
        if replicas >= target:
            return None
        if not main.profile.scales:
            replicas = 0
        clusters = tuple(name for name in others if by_cluster[name])
        return Waiting(replicas, clusters, self._why(workload, clusters[0]))

    def _why(self, workload: Workload, name: str) -> str:
        if self._views.unseen(name):
            return f": what {name} runs that the hub does not know is not told yet"
        if not self._views.forgotten(workload, name):
            return ""
        another = f"another Workload {'/'.join(workload.metadata.key)}"
        return f": {name} runs {another} that the hub does not know, see `stowage sweep {name}`"

    def _others(self, workload: Workload, main: Main, member: str) -> list[str]:
        """Return the other clusters where more may run than the Workload has there now.

        A decision that was made of an older report has less in `leaving` than leaves.
        """
        away = self._elsewhere(workload, main, member)
        if workload.duplicated or not main.profile.scales:
            return away
        placed = workload.placements.keys() - {member, *away}
        # What it ran there under another name goes when the share itself comes.
        lowered = (n for n in placed if self._excess(workload, main, n, formers=False))
        return sorted({*away, *lowered})

    def _elsewhere(self, workload: Workload, main: Main, member: str) -> list[str]:
        """Return the other clusters that replicas leave, or where some that left may still run.

        A cluster stays in the footprint until its pods are gone. What a hub that was set back has
        forgotten of the footprint shows there, or is told by the shard that sees it.
        """
        record, placed = record_of(workload), workload.placements
        told = workload.clusters - placed.keys()
        held = self._registry.holders(workload.uid) - placed.keys()
        others = (n for n in self._views.names() if n not in placed and n != member)
        forgotten = {name for name in others if self._may_be_forgotten(workload, main, name)}
        if record.entries <= placed.keys() and not (held or told):  # as mostly, also of a wide one
            return sorted(forgotten | workload.leaving.keys() - {member})
        sent = record.names(self._views.names) - placed.keys() | held | told
        sent -= workload.leaving.keys()
        standing = (name for name in sent if self._may_stand(workload, main, name))
        return sorted({*forgotten, *workload.leaving, *standing} - {member})

    def _may_stand(self, workload: Workload, main: Main, name: str) -> bool:
        """Whether something may run on a cluster that a Workload was sent to, and is not placed on.

        `leaving` does not list what a gang, or another scheduler, takes from there.
        """
        session = self._registry.get(name)
        serves = session is not None and _serves(session)
        if serves and pods_left(session, workload):
            return True
        if workload.duplicated:
            return False
        if self._inventory.may_hold(workload, name):
            return True
        if session is None or not serves:
            return False  # another registration of its cluster tells
        ending = not main.profile.scales
        found = main_object(main, owned(session, main.uid), ending=ending)
        return found is not None or session.pod_counts(main) is None

    def _may_be_forgotten(self, workload: Workload, main: Main, name: str) -> bool:
        """Whether what runs at most once may run there for another Workload of that name."""
        if self._shows(name):
            return self._forgotten(workload, main, name) is not None
        return self._views.unseen(name) or self._views.forgotten(workload, name)

    def _shows(self, name: str) -> bool:
        """Whether this process sees the objects there."""
        session = self._registry.get(name)
        return session is not None and session.link is not None and _serves(session)

    def _forgotten(self, workload: Workload, main: Main, name: str) -> ManagedObject | None:
        """Return the object of a Workload of that name that the hub does not know, or None."""
        session = self._registry.get(name)
        if session is None or session.link is None or not _serves(session):
            return None
        found = main_object(main, session.link.watches.named(workload.metadata.key), ending=True)
        known = found is None or workload.uid in owners(found.metadata)
        return None if known else found

    def first_ordinal(self, session: MemberSession, workload: Workload) -> int | None:
        """Return the first ordinal of the share there; None for the template's own.

        An existing object keeps its own. Raises Refused while no range is known for one that is to
        be made, and for one to be taken over whose ordinals another cluster has.
        """
        main, start = main_of(workload), workload.ranges.get(session.name)
        if not workload.profile.ordered:
            return start
        live = _in_place(session, workload, main)
        taken_over = live is not None and workload.uid not in owners(live.metadata)
        if live is not None:
            if not taken_over or live.start is None:
                return live.start
            start = live.start
        if (told := self._views.start_told(workload, session.name)) is not None:
            return told
        if start is None:
            sentence = f"{session.name}: waits for a range of ordinals of its own"
            raise Refused(PropagatedReason.PROPAGATING, sentence)
        other = self._unseen(session.name)
        if other := other or self._not_heard(workload, session.name, taken_over=taken_over):
            sentence = f"{session.name}: waits until {other} has told which ordinals it has"
            raise Refused(PropagatedReason.PROPAGATING, sentence)
        starts = self._starts(workload, main, session.name, taken_over=taken_over)
        if other := overlapping(start, starts):
            if taken_over:
                named = f"{main.kind} {main.namespace}/{main.name}"
                sentence = f"{session.name}: {named} has the ordinals that {other} runs: delete it"
                raise Refused(PropagatedReason.ALREADY_EXISTS, sentence)
            sentence = f"{session.name}: waits for another range of ordinals, as {other} has its"
            raise Refused(PropagatedReason.PROPAGATING, sentence)
        return start

    def _unseen(self, member: str) -> str:
        """Return a cluster that may run what a hub that was set back has forgotten, or empty.

        It may have no share. An object keeps the ordinals with which it is made, be it without
        replicas at first.
        """
        others = (name for name in self._views.names() if name != member)
        return next((n for n in others if not self._shows(n) and self._views.unseen(n)), "")

    def _not_heard(self, workload: Workload, member: str, *, taken_over: bool) -> str:
        """Return a cluster with a share that may hold an object not seen yet, or empty.

        One that is told to hold that of a forgotten Workload takes it over first; of several such,
        the first by name does.
        """
        if self._views.pulled(member) is not None:
            taken_over = self._views.forgotten(workload, member)
        known = {e["name"] for e in workload.status.clusters if e.get("start") is not None}
        for name in workload.placements.keys() - {member}:
            session, first = self._registry.get(name), not taken_over or name < member
            waits = first and name not in known and self._views.told(name)
            if waits and self._views.forgotten(workload, name):
                return name
            if session is None and self._views.elsewhere(name):
                if self._views.answers(name) and not self._views.looked(workload, name):
                    return name
                continue
            if (pulled := self._views.pulled(name)) is not None:
                if pulled.contact is not Contact.AWAY and not pulled.tells(workload):
                    return name
                continue
            if session is None or session.contact is Contact.AWAY:
                continue
            # Nobody asks a member for the other kinds before the share has its ordinals.
            if not self._inventory.asked(session, workload, main_of(workload).kind):
                return name
        return ""

    def _starts(
        self, workload: Workload, main: Main, member: str, *, taken_over: bool
    ) -> dict[str, int]:
        told = (each for each in workload.status.clusters if each.get("start") is not None)
        others = (each for each in told if each["name"] != member)
        found = {e["name"]: e["start"] for e in others if self._views.told(e["name"])}
        for name in self._registry.names():
            session = self._registry.get(name) if name != member else None
            live = _in_place(session, workload, main) if session is not None else None
            if live is None or live.start is None:
                continue
            if taken_over and name > member and workload.uid not in owners(live.metadata):
                continue
            found[name] = live.start
        return found

    def left(self, workload: Workload, member: str) -> int | None:
        """Return the replicas that a member out of service may still run, and those elsewhere.

        None if the taint or at-most-once does not apply.
        """
        cluster = self._clusters.get(("", member))
        if cluster is None or not cluster.out_of_service or not workload.at_most_once:
            return None
        if member in workload.placements or not workload.placements:
            return None
        main = main_of(workload)
        made = sum(self._made(workload, main, name) for name in workload.placements)
        return max(sum(workload.placements.values()) - made, 0)

    def overdue(self, member: str) -> Key | None:
        """Return a Workload whose objects must leave that member before others are written."""
        cluster, session = self._clusters.get(("", member)), self._registry.get(member)
        if cluster is None or session is None or not cluster.out_of_service:
            return None
        for uid in list(session.owners):
            workload = self._workloads.by_uid(uid)
            left = self.left(workload, member) if workload is not None else None
            if workload is None or left is None:
                continue
            found = main_object(main_of(workload), owned(session, uid))
            if found is not None and (not left or (found.replicas or 0) > left):
                return workload.metadata.key
        return None

    def _excess(self, workload: Workload, main: Main, name: str, *, formers: bool = True) -> int:
        placed = workload.placements.get(name, 0)
        # Where no `leaving` tells how many leave, it may be all of them.
        untold = 0 if placed else sum(workload.placements.values())
        cluster, leaves = self._clusters.get(("", name)), workload.leaving.get(name, untold)
        if self._registry.gave_up(name) or (cluster is not None and cluster.given_up):
            return 0
        if cluster is None:
            return leaves  # it is named no more, and may run them
        if not (placed or self._shows(name)) and self._may_be_forgotten(workload, main, name):
            return 0 if cluster.out_of_service else sum(workload.placements.values())
        view = self._views.of(workload, name)
        if isinstance(view, Told):
            return max(view.current, view.asked, placed) - placed
        session = view.session if isinstance(view, Live) else None
        seen = session is not None and _serves(session) and self._all_shown(session, workload)
        counts = session.pod_counts(main) if session is not None and seen else None
        if session is None or counts is None:
            return 0 if cluster.out_of_service else leaves
        # Of a kind without a number the object itself has to go: it may still start pods.
        ending = not main.profile.scales
        found = main_object(main, owned(session, main.uid), ending=ending)
        # What it ran there under another name or of another kind counts as well.
        before = former_units(session, workload) if formers else 0
        if not placed and (old := self._forgotten(workload, main, name)) is not None:
            before += 1 if old.replicas is None else old.replicas
        asked = found.replicas if found is not None else 0
        if asked is None:
            asked = 0 if placed else 1
        return max(max(counts.current, asked) - placed, 0) + before

    def _all_shown(self, session: MemberSession, workload: Workload) -> bool:
        if session.name not in record_of(workload).names(self._views.names):
            return True  # it has confirmed that it has none, and may be asked no more
        return self._inventory.knows(session, workload)

    def _growing_later(self, workload: Workload, main: Main, member: str) -> Iterator[int]:
        """Yield by how much each share grows that is held back before that member's: by name."""
        for name, target in workload.shares.items():
            view = self._views.of(workload, name) if name > member else UNKNOWN
            # Of a member that does not answer it is not known whether its share has grown already.
            if isinstance(view, Told) or (isinstance(view, Live) and view.serves):
                yield max(target - self._present(workload, main, name, target), 0)

    def _present(self, workload: Workload, main: Main, member: str, target: int) -> int:
        view = self._views.own(workload, member)
        if isinstance(view, Told):
            return view.asked
        session = view.session if isinstance(view, Live) else None
        found = main_object(main, owned(session, main.uid)) if session is not None else None
        if found is None:
            return 0
        return target if found.replicas is None else found.replicas

    def _made(self, workload: Workload, main: Main, name: str) -> int:
        target, view = workload.placements[name], self._views.of(workload, name)
        if isinstance(view, Told) and name not in workload.ends:
            return min(view.asked, target)
        session = view.session if isinstance(view, Live) else None
        if name in workload.ends or session is None or not _serves(session):
            return target
        found = main_object(main, owned(session, main.uid))
        if found is None:
            return 0
        return target if found.replicas is None else min(found.replicas, target)


def held_back(excess: int, later: Iterable[int]) -> int:
    """Return the replicas that a growing share does not get, while `excess` exist elsewhere."""
    return max(excess - sum(later), 0)


def grown(*, target: int, present: int, back: int) -> int:
    """Return the replicas that a growing share gets: present ones stay."""
    return max(target - back, min(present, target))


def _serves(session: MemberSession) -> bool:
    return session.contact is Contact.SERVING


def _in_place(session: MemberSession, workload: Workload, main: Main) -> ManagedObject | None:
    """Return the main object on a member, also one that a share there takes over.

    That one is of a forgotten Workload of its name; its ordinals stay.
    """
    found = main_object(main, owned(session, main.uid), ending=True)
    if found is None and session.link is not None and session.name in workload.placements:
        named = session.link.watches.named(workload.metadata.key)
        found = main_object(main, named, ending=True)
    return found
