"""How a share came to its end, by what its member shows or has shown.

An object that ended may go at once, by its own TTL, by a drain or by a hand. What was seen of it
stands in the Workload's status, and until that is stored, here.
"""

from __future__ import annotations

from machinery.kinds.readiness import Judged
from propagator.members.inventory import main_object, owned
from propagator.members.pods import main_of
from propagator.members.session import MemberSession
from propagator.types.workload import Workload


def seen_end(session: MemberSession, workload: Workload) -> Judged | None:
    """Return what is kept of the object that runs the replicas, once it has ended."""
    if workload.profile.ended is None:
        return None
    main = main_of(workload)
    found = main_object(main, owned(session, workload.uid), ending=True)
    if found is not None:
        return found.judged if found.judged.result is not None else None
    last = last_seen(session, workload)
    return last if last is not None and last.result is not None else None


def last_seen(session: MemberSession, workload: Workload) -> Judged | None:
    """Return what was kept of the object that ran the replicas, did some of its work, and went."""
    main = main_of(workload)
    if workload.profile.ended is None or session.link is None:
        return None
    return session.link.watches.ended(workload.uid, main.kind, (main.namespace, main.name))


def has_ended(session: MemberSession, workload: Workload) -> bool:
    """Whether the share there has ended: nothing of it is made again."""
    return session.name in workload.ends or seen_end(session, workload) is not None
