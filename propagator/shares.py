"""One share: everything of one Workload written to one member, or all of it taken away there.

Told what is wanted (`placements` decides that), it renders, applies, and then removes what is no
longer rendered, in that order, so that the predecessor of a workload goes only when its successor
is there. What came of it is noted for the report of the Workload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from crds.workload import PropagatedReason
from machinery import logs
from machinery.errors import Conflict, TransportError
from machinery.objects import Key
from propagator.apply import apply
from propagator.holdings import Holdings
from propagator.hubsecrets import HubSecrets
from propagator.hubworkloads import HubWorkloads
from propagator.member import MemberSession
from propagator.model import HubSecret, Workload
from propagator.prune import AGAIN_SECONDS, Pruner
from propagator.refusals import Refused, outcome_of
from propagator.render import Piece, render
from propagator.report import Outcome
from propagator.term import Ground
from propagator.write import PieceWriter

LOG = logs.get(__name__)
REFUSED_SECONDS = 5.0
"""A member that refused an object is asked again: its quota or its admission may have changed."""

Note: TypeAlias = Callable[[Key, str, Outcome | None], None]
"""(Workload's key, member's name, what came of it; None: nothing of it is wanted there)."""


class Shares:
    """Called by the members' own workers, for one Workload on one ready member at a time."""

    def __init__(
        self,
        ground: Ground,
        *,
        workloads: HubWorkloads,
        secrets: HubSecrets,
        holdings: Holdings,
        writer: PieceWriter,
        pruner: Pruner,
        note: Note,
    ) -> None:
        self._check = ground.check
        self._workloads = workloads
        self._secrets = secrets
        self._holdings = holdings
        self._writer = writer
        self._pruner = pruner
        self._note = note

    async def push(self, session: MemberSession, workload: Workload) -> float | None:
        """Write everything, then remove what is no longer rendered; note what came of it.

        Seconds until the next look, or None. Raises TransportError when it is to be tried again.
        """
        key = workload.metadata.key
        try:
            self._check()
            again = await self._apply(session, workload)
            outcome = Outcome()
        except Refused as refusal:
            again, outcome = REFUSED_SECONDS, Outcome(refusal.reason, str(refusal))
        except Conflict:
            raise  # the hub's Workload was changed while it was prepared: nothing is wrong there
        except TransportError as fault:
            LOG.info("%s: %s", session.name, fault, extra={"object": workload.owner})
            self._note(key, session.name, outcome_of(session.name, fault))
            raise
        self._note(key, session.name, outcome)
        return again

    async def leave(self, session: MemberSession, workload: Workload) -> float | None:
        """Remove everything of a Workload from one member; as `push` otherwise."""
        key = workload.metadata.key
        try:
            await self._holdings.look_for(session, workload)
        except TransportError as fault:
            self._note(key, session.name, outcome_of(session.name, fault))
            raise
        if not self._holdings.knows(session, workload):
            return AGAIN_SECONDS
        self._check()
        left = await self._pruner.prune(session, workload.uid)
        self._note(key, session.name, None)
        return AGAIN_SECONDS if left else None

    async def _apply(self, session: MemberSession, workload: Workload) -> float | None:
        _admit(session, workload)
        secrets = await self._needed_secrets(workload)
        workload = await self._workloads.prepare(workload)
        pieces = render(
            workload,
            units=workload.placements[session.name],
            first_ordinal=workload.ordinals().get(session.name, 0),
            secrets=secrets,
        )
        applied = await apply(self._writer, session, workload, pieces)
        if applied.whole:
            await self._prune(session, workload, pieces)
        if applied.refusals:
            raise Refused.of(applied.refusals)
        return applied.again

    async def _prune(self, session: MemberSession, workload: Workload, pieces: list[Piece]) -> None:
        """Remove what is no longer rendered, once it is known what there is."""
        await self._holdings.look_for(session, workload)
        if self._holdings.knows(session, workload):
            await self._pruner.prune(session, workload.uid, pieces)

    async def _needed_secrets(self, workload: Workload) -> list[HubSecret]:
        """Those that travel along. Raises Refused while one of them is missing."""
        found = []
        for name in workload.secrets:
            secret = await self._secrets.get((workload.metadata.namespace, name))
            if secret is None:
                raise Refused(
                    PropagatedReason.SECRET_NOT_FOUND,
                    f"Secret {workload.metadata.namespace}/{name} does not exist on the hub",
                )
            found.append(secret)
        return found


def _admit(session: MemberSession, workload: Workload) -> None:
    """Raises Refused when the member does not take one of the target namespaces."""
    manifests = (body.get("metadata") or {} for body in workload.spec.manifests)
    wanted = {workload.namespace, *(m["namespace"] for m in manifests if m.get("namespace"))}
    for namespace in wanted:
        if not session.allows(namespace):
            raise Refused(
                PropagatedReason.NAMESPACE_NOT_ALLOWED,
                f"{session.name} does not take namespace {namespace}",
            )
