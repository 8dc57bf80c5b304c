"""The watchman of rollouts: what each member runs was given to it, wave after wave.

The hub's statuses say which cluster gets which revision; the members' own objects say what runs
there. Both are watched, and each watch is a stream of its own: what one shows may have happened
some seconds before the other tells of its cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from e2e.chaos.engine import copies_on
from e2e.chaos.judgement import Whole, owners
from e2e.chaos.judging import Judging
from e2e.chaos.rollouts.users import FIRST_WAVE, NAMESPACE, VARIABLE, container_of, placed_on
from e2e.chaos.stage import ChaosStage
from machinery.api.resources import WORKLOADS
from machinery.kinds.revisions import digest_of, revision_data
from machinery.runtime.informer import Informer

_LAG_SECONDS = 6.0
"""One watch may be so far behind another on a busy machine."""
FIRST_MEMBER = "member-1"
"""The only member of the first wave."""


class RolloutWatchman(Judging):
    def __init__(self, stage: ChaosStage) -> None:
        super().__init__()
        self.versions = self.turns = self.rolled_back = 0
        self._images: dict[tuple[str, str], str] = {}  # by UID and revision
        self._given: set[tuple[str, str, str]] = set()  # UID, member, revision
        self._healthy: set[tuple[str, str, str]] = set()  # UID, member, image
        self._approved: set[tuple[str, str]] = set()  # UID, revision
        self._running: dict[str, str] = {}  # image by UID and member
        self._workloads = Informer(stage.hub, WORKLOADS, Whole)
        self._copies = copies_on(stage)

    async def run(self) -> None:
        self._workloads.add_handler(self._workload_changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._workloads.run())
            for member, informer in self._copies.items():
                informer.add_handler(self._handler(member))
                tasks.create_task(informer.run())

    # --- the hub ----------------------------------------------------------------------------------

    def _workload_changed(self, _old: Whole | None, new: Whole | None) -> None:
        if new is None or new.metadata.namespace != NAMESPACE:
            return
        self.versions += 1
        uid, body = new.metadata.uid, new.body()
        own = digest_of(revision_data(new.spec))
        self._images[uid, own] = container_of(new.spec["targetDeployment"])["image"]
        for each in new.spec["rollout"].get("approvals", []):
            if each["wave"] == FIRST_WAVE:
                self._approved.add((uid, each["revision"]))
        rollout = new.status.get("rollout")
        if not rollout:
            return
        self.rolled_back += rollout["phase"] == "RolledBack"
        for member, revision in _gives(body, rollout["revision"], placed_on(body)):
            if (uid, member, revision) in self._given:
                continue
            self._given.add((uid, member, revision))
            stable = rollout.get("stable")
            if stable and revision != stable and new.spec["rollout"]["waves"]:
                self._judge_turn(new, member, revision)

    def _judge_turn(self, new: Whole, member: str, revision: str) -> None:
        """Ask whether a member that is given a new revision has its turn."""
        self.turns += 1
        uid, name = new.metadata.uid, new.metadata.name
        if member == FIRST_MEMBER:
            return
        image = self._images.get((uid, revision), "")
        told = f"{name}: {member} was given {revision} ({image})"
        if FIRST_MEMBER in placed_on(new.body()):
            self._expect(
                lambda: (uid, FIRST_MEMBER, image) in self._healthy,
                f"{told}, and {FIRST_MEMBER} of the wave before was never seen healthy with it",
                within=_LAG_SECONDS,
            )
        # A wave that has lost its cluster owes its approval all the same.
        self._expect(
            lambda: (uid, revision) in self._approved,
            f"{told}, which nobody had approved",
            within=_LAG_SECONDS,
        )

    # --- the members ------------------------------------------------------------------------------

    def _handler(self, member: str) -> Callable[[Whole | None, Whole | None], None]:
        def changed(_old: Whole | None, new: Whole | None) -> None:
            if new is None or new.metadata.namespace != NAMESPACE or new.metadata.deleting:
                return
            for uid in owners(new.metadata.annotations):
                self._judge_copy(member, uid, new)

        return changed

    def _judge_copy(self, member: str, uid: str, copy: Whole) -> None:
        container, name = container_of(copy.body()), copy.metadata.name
        image = container["image"]
        said = {each["name"]: each.get("value") for each in container.get("env", [])}
        if said.get(VARIABLE) != member:
            self.findings.append(f"{member}: {name} has not its override: {said}")
        if self._running.get(uid + member) != image:
            self._running[uid + member] = image
            self._expect(
                lambda: image in self._images_given(uid, member),
                f"{member}: {name} runs {image}, which no wave gave it",
                within=_LAG_SECONDS,
            )
        if _whole(copy):
            self._healthy.add((uid, member, image))

    def _images_given(self, uid: str, member: str) -> set[str]:
        return {
            self._images.get((uid, revision), "")
            for of, where, revision in self._given
            if (of, where) == (uid, member)
        }


def _gives(
    workload: Mapping[str, Any], revision: str, members: Iterable[str]
) -> list[tuple[str, str]]:
    """Return which revision the status gives each of these members."""
    others = {
        name: each["revision"]
        for each in workload["status"].get("revisions", [])
        for name in each["clusters"]
    }
    return [(name, others.get(name, revision)) for name in members]


def _whole(copy: Whole) -> bool:
    """Whether all replicas of a Deployment are of its present template, and ready."""
    status, wanted = copy.status, copy.spec.get("replicas", 1)
    return bool(
        status.get("observedGeneration", 0) >= copy.metadata.generation
        and status.get("updatedReplicas", 0) == wanted
        and status.get("readyReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
    )
