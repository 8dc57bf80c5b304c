"""The feature: what the process watches, and whom it wakes. Its plugins are enabled by the file."""

from __future__ import annotations

from collections.abc import Mapping

from controller.framework.events import Action
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import Workload
from machinery.api.resources import WORKLOADS
from stowage_ocm.ledger import Decided
from stowage_ocm.objects import PLACEMENT_DECISIONS, SCORES, PlacementDecision, PlacementScores
from stowage_ocm.plugins import AddOnPlacementScore, OcmPlacement


class OpenClusterManagement:
    """One for each process. It writes nothing."""

    defaults: tuple[Enabled, ...] = ()

    def __init__(self) -> None:
        self.decided = Decided()
        self.ledgers = (self.decided,)
        self.plugins: Mapping[str, Factory] = {
            OcmPlacement.name: OcmPlacement,
            AddOnPlacementScore.name: AddOnPlacementScore,
        }
        self.watches = (
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(PLACEMENT_DECISIONS, PlacementDecision, self.decision_changed),
            Watch(SCORES, PlacementScores, self.scores_changed),
        )
        self._handle: Handle | None = None

    def attach(self, handle: Handle) -> None:
        """Remember whom to tell."""
        self._handle = handle

    def lead(self, _term: Term) -> None:
        """Nothing is written."""

    def stop_leading(self) -> None:
        """Nothing was written."""

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Have a Workload decided again that asks for another Placement than before."""
        if new is not None:
            if self.decided.ask(new) and old is not None and self._handle is not None:
                self._handle.look([new.metadata.key])
        elif old is not None:
            self.decided.forget(old.metadata.key)

    def decision_changed(
        self, old: PlacementDecision | None, new: PlacementDecision | None
    ) -> None:
        """Wake those that wait for the Placement."""
        if old is not None:
            self.decided.withdraw(old)
        if new is None:
            return
        self.decided.decide(new)
        if self._handle is not None:
            action = Action.ADDED if old is None else Action.SPEC
            self._handle.announce(PLACEMENT_DECISIONS.kind, new.placement, action, old, new)

    def scores_changed(self, old: PlacementScores | None, new: PlacementScores | None) -> None:
        """Take it in: a score refuses nobody, so nobody is woken."""
        if new is not None:
            self.decided.score(new)
        elif old is not None:
            self.decided.unscore(old)
