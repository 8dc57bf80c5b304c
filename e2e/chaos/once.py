"""What runs once: the Jobs and the pods of members, as watches show them.

`JobBook` and `crowds` are pure; `OnceWatch` feeds them from the members, and asks the members
themselves before it says that pods ran at one moment: a watch may lag behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from crds.names import LABEL_MANAGED, LABEL_WORKLOAD_UID
from e2e.chaos import judgement, wishes
from e2e.chaos.judgement import Body, Whole
from e2e.chaos.promises import Broken
from e2e.chaos.stage import ChaosStage
from machinery.api.resources import PODS, Resource
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

JOBS = Resource("batch", "v1", "jobs", "Job")
_AWAY_SECONDS = 120.0
"""The time in which units may be there twice because a person gave up a cluster that ran them."""
OUT_SECONDS = 20.0
"""Longer than a member that was given up is out of the fleet."""
Run = tuple[str, str]
"""(UID of the Workload, name of the Job): one run that a user has asked for, over all members."""


@dataclass
class _Made:
    """A Job object on a member, how it has ended, and the completions that it has done."""

    member: str
    end: str = ""
    done: int = 0
    copy: bool = False
    """Whether it is one of a duplicated Workload."""
    noted: bool = False
    """Whether the hub has said that its share has ended."""

    @property
    def settled(self) -> bool:
        """Whether its end counts wherever its cluster goes."""
        return self.noted and not self.copy


@dataclass
class _Known:
    since: float
    jobs: dict[str, _Made] = field(default_factory=dict)
    """By the UID of the Job."""
    excused: bool = False

    @property
    def done(self) -> int:
        return sum(each.done for each in self.jobs.values())


class JobBook:
    """All Jobs that members ever had, by the run that they belong to."""

    def __init__(self) -> None:
        self._runs: dict[Run, _Known] = {}
        self.ended = 0

    def seen(self, run: Run, member: str, job: Body, *, now: float, forgot: float) -> Iterator[str]:
        """Note a state of a Job; yield what shows that it runs a second time.

        A hub that was set back until `forgot` does not know the ends of runs from before. A member
        whose part of divided work is done, and has left it, may get another part: what is done
        twice shows in the completions.
        """
        labels, uid = job["metadata"]["labels"], job["metadata"]["uid"]
        known = self._runs.setdefault(run, _Known(now))
        excused = known.since < forgot
        mode = labels.get(wishes.LABEL_MODE)
        made = known.jobs.get(uid)
        if made is None:
            for before in known.jobs.values():
                if excused or not before.end or (mode == "Divided" and before.end == "Complete"):
                    continue
                if known.excused and not before.settled:
                    continue
                if before.member == member or (mode == "Single" and not known.excused):
                    yield f"{member}: Job {run[1]} is made again; it has ended on {before.member}"
            made = known.jobs[uid] = _Made(member, copy=mode == "Duplicated")
        if made.end:
            return
        made.end, before = _end(job), made.done
        if mode == "Divided":
            made.done = max(before, job["status"].get("succeeded", 0))
        elif made.end == "Complete":  # a whole Job that moves begins anew
            made.done = job["spec"]["completions"]
        self.ended += bool(made.end)
        total, excused = wishes.COMPLETIONS, excused or known.excused or made.done == before
        if known.done > total and mode != "Duplicated" and not excused:
            yield f"Job {run[1]} has done {known.done} completions over all members, of {total}"

    def lacking(self, run: Run, *, forgot: float) -> int:
        """Return the completions that nobody has done of a run that is Complete."""
        known = self._runs.get(run)
        if known is None or known.excused or known.since < forgot:
            return 0
        return max(wishes.COMPLETIONS - known.done, 0)

    def noted(self, workload: Body) -> None:
        """Note the ends of which the status of a Workload tells."""
        if not (ended := set(judgement.ended(workload))):
            return
        for (uid, _), known in self._runs.items():
            for each in known.jobs.values() if uid == workload["metadata"]["uid"] else ():
                each.noted |= bool(each.end) and each.member in ended

    def given_up(self, members: Iterable[str]) -> None:
        """Excuse the runs on these members of whose end the hub has not heard, and copies.

        A person has given them up there, and the hub learns no more of that cluster. It may come
        back by another name, and is a cluster that has had no copy of a duplicated Job then.
        """
        away = {*members}
        for known in self._runs.values():
            if any(each.member in away and not each.settled for each in known.jobs.values()):
                known.excused = True


def _end(job: Body) -> str:
    for condition in job["status"].get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def alive(pod: Body) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


Running = tuple[str, Body]
"""(member, pod)."""


def crowds(one: Running, others: Iterable[Running], most: int) -> Iterator[list[Running]]:
    """Yield each set of pods of its Workload that must not be there at one moment with that pod.

    Two members never have the same ordinal of a StatefulSet. A whole Workload that runs at most
    once has no more than `most` pods over all members: it moves replica by replica.
    """
    (member, pod), alike = one, []
    labels = pod["metadata"]["labels"]
    for where, other in others:
        theirs = other["metadata"]["labels"]
        if theirs[LABEL_WORKLOAD_UID] != labels[LABEL_WORKLOAD_UID] or not alive(other):
            continue
        if where != member and other["metadata"]["name"] == pod["metadata"]["name"]:
            yield [(where, other)]
        elif wishes.ONCE in (labels[wishes.LABEL_RUNS], theirs[wishes.LABEL_RUNS]):
            alike.append((where, other))
    if len(alike) >= most and any(where != member for where, _ in alike):
        yield alike


def given_up(faults: Any, since: float) -> set[str]:
    """Return the members that a person gave up within so many seconds."""
    now = asyncio.get_running_loop().time()
    return {member for member, when in faults.given_up.items() if now <= when + since}


class OnceWatch:
    """Judges a run by the Jobs and pods of its members; `find` is told each breach.

    `ask` gets what has to be asked of members; `read` returns an object of one, None for none.
    """

    def __init__(
        self,
        stage: ChaosStage,
        faults: Any,
        *,
        find: Callable[[str], None],
        ask: Callable[[Any], None],
        read: Callable[[Any, Resource, Key], Awaitable[dict[str, Any] | None]],
    ) -> None:
        self.book = JobBook()
        self.pods = 0
        self._most: dict[str, int] = {}
        self._stage = stage
        self._faults = faults
        self._find = find
        self._ask = ask
        self._read = read
        pods = f"{LABEL_WORKLOAD_UID},{wishes.LABEL_RUNS}"
        self._pods = {
            member: Informer(client, PODS, Whole, label_selector=pods)
            for member, client in stage.members.items()
        }
        for each in self._pods.values():
            each.add_index("uid", lambda pod: (pod.metadata.labels[LABEL_WORKLOAD_UID],))
        self._jobs = {
            member: Informer(client, JOBS, Whole, label_selector=f"{LABEL_MANAGED}=true")
            for member, client in stage.members.items()
        }

    def informers(self) -> Iterator[Informer[Whole]]:
        """Yield all watches, each with its handler."""
        for member, pods in self._pods.items():
            pods.add_handler(self.pod_handler(member))
            yield pods
        for member, jobs in self._jobs.items():
            jobs.add_handler(self.job_handler(member))
            yield jobs

    def look(self) -> None:
        """Note what runs on members that are given up just now."""
        self.book.given_up(given_up(self._faults, OUT_SECONDS))

    async def whole(self) -> None:
        """Raise Broken for a divided Job that is Complete though work of it was never done."""
        for each in await self._stage.lists("hub", "wl"):
            template = each["spec"].get("template") or {}
            labels = template.get("metadata", {}).get("labels", {})
            if template.get("kind") != "Job" or labels.get(wishes.LABEL_MODE) != "Divided":
                continue
            run = (each["metadata"]["uid"], template["metadata"]["name"])
            complete = each.get("status", {}).get("state") == "Complete"
            if complete and (less := self.book.lacking(run, forgot=self._faults.forgot)):
                raise Broken(f"Job {run[1]} is Complete, and {less} completions are nobody's")

    def job_handler(self, member: str) -> Any:
        def changed(_old: Whole | None, new: Whole | None) -> None:
            if new is None:
                return
            now, forgot = asyncio.get_running_loop().time(), self._faults.forgot
            for uid in judgement.owners(new.metadata.annotations):
                run = (uid, new.metadata.name)
                for said in self.book.seen(run, member, new.body(), now=now, forgot=forgot):
                    self._find(said)

        return changed

    def wanted(self, workload: Body) -> None:
        """Note the most replicas that a StatefulSet was to have; any other kind runs as one."""
        if (workload["spec"].get("template") or {}).get("kind") == "StatefulSet":
            uid, replicas = workload["metadata"]["uid"], workload["spec"].get("replicas", 1)
            self._most[uid] = max(self._most.get(uid, 1), replicas)

    def pod_handler(self, member: str) -> Any:
        def changed(old: Whole | None, new: Whole | None) -> None:
            if new is None or old is not None or not alive(new.body()):
                return
            self.pods += 1
            uid, mine = new.metadata.labels[LABEL_WORKLOAD_UID], new.metadata.uid
            there = (
                (other, each.body())
                for other, pods in self._pods.items()
                for each in pods.by_index("uid", uid)
                if each.metadata.uid != mine
            )
            one = (member, new.body())
            for found in crowds(one, there, self._most.get(uid, 1)):
                self._ask(self._judge(one, found))

        return changed

    async def _judge(self, one: Running, others: list[Running]) -> None:
        """Report pods that are all there: each was when the last was seen, and is after that."""
        if given_up(self._faults, _AWAY_SECONDS) & {one[0], *(member for member, _ in others)}:
            return
        for member, pod in (*others, one):
            meta = pod["metadata"]
            client: Any = self._stage.members[member]
            found = await self._read(client, PODS, (meta["namespace"], meta["name"]))
            if found is None or found["metadata"]["uid"] != meta["uid"] or not alive(found):
                return
        theirs = ", ".join(f"{pod['metadata']['name']} on {member}" for member, pod in others)
        meta = one[1]["metadata"]
        self._find(
            f"{meta['namespace']}: the pod {meta['name']} runs on {one[0]}, and at that moment "
            f"{theirs}, of the same Workload"
        )
