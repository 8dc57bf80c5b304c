"""What moves, as a test sees it by watches of its own: pods on members, and statuses on the hub.

A `Timeline` keeps each state of a Workload's status, and the ready pods and the pods of each member
after each event, so that a test can say what never happened. `MovingStage` is the stage whose
processes run with a short toleration and a short dwell.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import pykube
import pytest

from e2e.harness import KINDS, NOT_YET, Failed, Kubectl, deployment, wait, workload
from e2e.room import Room
from e2e.stage import MEMBERS, Stage

CONFIGURATION = """\
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
movement:
  notReadyTolerationSeconds: 5
  dwellSeconds: 5
  maxMoving: 100%
"""
TOLERATION_SECONDS = 5
SHORTEST = 0.2
"""What lasts for less is no state of the fleet: one watch may be so far behind another one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All members after an event. `ready` are the ready pods of those that are reachable."""

    at: float
    ready: int
    pods: int


class Timeline:
    """The pods of one namespace on all members, and the statuses of its Workloads."""

    def __init__(self, stage: Stage, space: str) -> None:
        self._lock = threading.Lock()
        self._space = space
        self._pods: dict[str, dict[str, dict[str, Any]]] = {member: {} for member in MEMBERS}
        self._away: set[str] = set()
        self._moments: dict[str, list[Moment]] = {}
        self._statuses: dict[str, list[dict[str, Any]]] = {}
        self._watches = [
            Watching(stage.members[member], "pods", space, self._seeing(member))
            for member in MEMBERS
        ]
        self._watches.append(Watching(stage.hub, "wl", space, self._status))

    def start(self) -> None:
        for each in self._watches:
            each.start()

    def stop(self) -> None:
        for each in self._watches:
            each.end()

    def _seeing(self, member: str) -> Callable[[str, dict[str, Any]], None]:
        def see(what: str, pod: dict[str, Any]) -> None:
            with self._lock:
                uid = pod["metadata"]["uid"]
                if what == "DELETED" or pod["metadata"].get("deletionTimestamp"):
                    self._pods[member].pop(uid, None)
                else:
                    self._pods[member][uid] = pod
                self._note(app_of(pod))

        return see

    def _status(self, what: str, stored: dict[str, Any]) -> None:
        if what != "DELETED" and (status := stored.get("status")):
            with self._lock:
                self._statuses.setdefault(stored["metadata"]["name"], []).append(status)

    def _note(self, name: str) -> None:
        ready = pods = 0
        for member, all_ in self._pods.items():
            mine = [pod for pod in all_.values() if app_of(pod) == name]
            pods += len(mine)
            ready += 0 if member in self._away else sum(map(is_ready, mine))
        self._moments.setdefault(name, []).append(Moment(time.monotonic(), ready, pods))

    def away(self, *members: str) -> None:
        """Count no ready pod of these members: they are not reachable."""
        with self._lock:
            self._away |= set(members)
            for name in list(self._moments):
                self._note(name)

    def back(self, *members: str) -> None:
        with self._lock:
            self._away -= set(members)
            for name in list(self._moments):
                self._note(name)

    def begin(self, name: str) -> None:
        """Judge a Workload from the present state on."""
        with self._lock:
            self._moments[name] = []
            self._note(name)
            self._statuses[name] = self._statuses.get(name, [])[-1:]

    def pods(self, member: str, name: str) -> dict[str, dict[str, Any]]:
        """Return the pods of a Workload there now, by UID."""
        with self._lock:
            return {u: pod for u, pod in self._pods[member].items() if app_of(pod) == name}

    def now(self, name: str) -> Moment:
        with self._lock:
            return self._moments.get(name, [Moment(0.0, 0, 0)])[-1]

    def least_ready(self, name: str) -> int:
        """Return the fewest pods that were ready at once since `begin`, for a while."""
        return min(max(m.ready for m in window) for window in self._windows(name))

    def most_pods(self, name: str) -> int:
        return max(min(m.pods for m in window) for window in self._windows(name))

    def _windows(self, name: str) -> Iterator[list[Moment]]:
        with self._lock:
            moments = [*self._moments[name]]
        moments.append(replace(moments[-1], at=time.monotonic()))
        for first, moment in enumerate(moments):
            window = [m for m in moments[first:] if m.at - moment.at < SHORTEST]
            if moments[-1].at - moment.at >= SHORTEST or not first:
                yield window

    def __str__(self) -> str:
        """Return the ready pods and the pods at each moment, in seconds since the first one."""
        with self._lock:
            return "\n".join(
                f"{name}: " + " ".join(f"{m.at - all_[0].at:.2f}={m.ready}/{m.pods}" for m in all_)
                for name, all_ in self._moments.items()
                if all_
            )

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """Return each state of the status since `begin`, that of then first."""
        with self._lock:
            return [*self._statuses.get(name, [])]

    def placed(self, name: str) -> list[dict[str, int]]:
        """Return the placements of each state of the status, those that follow others alone."""
        found: list[dict[str, int]] = []
        for status in self.statuses(name):
            placed = placed_of(status)
            if not found or found[-1] != placed:
                found.append(placed)
        return found

    def check_sums(self) -> None:
        """Assert that all wanted units had a place or were pending, in every state of a status."""
        for name in list(self._statuses):
            for status in self.statuses(name):
                placed = sum(placed_of(status).values())
                assert placed + status.get("pending", 0) == status.get("desired", 0), (name, status)


class Watching(threading.Thread):
    """Follows the objects of one kind in a namespace; goes on after each fault of the server."""

    def __init__(
        self, kubectl: Kubectl, kind: str, space: str, tell: Callable[[str, dict[str, Any]], None]
    ) -> None:
        super().__init__(daemon=True)
        config = pykube.KubeConfig.from_file(str(kubectl.kubeconfig))
        self._api = pykube.HTTPClient(config, timeout=None)
        version, plural = KINDS[kind]
        self._at = {"version": version, "namespace": space, "url": plural}
        self._tell = tell
        self._known: dict[str, dict[str, Any]] = {}
        self._ended = threading.Event()

    def end(self) -> None:
        """Take no further event; the thread ends with its connection or the process."""
        self._ended.set()

    def run(self) -> None:
        version = ""
        while not self._ended.wait(0.05):
            with suppress(*NOT_YET):
                version = version or self._list()
                version = self._follow(version)

    def _list(self) -> str:
        answer = self._api.get(**self._at)
        answer.raise_for_status()
        listed = answer.json()
        found = {each["metadata"]["uid"]: each for each in listed["items"]}
        for uid in self._known.keys() - found.keys():
            self._event("DELETED", self._known[uid])
        for each in found.values():
            self._event("ADDED", each)
        return str(listed["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        """Return the version to go on from; empty where all has to be listed again."""
        query = {"watch": "true", "resourceVersion": version}
        answer = self._api.get(**self._at, params=query, stream=True)
        if answer.status_code == HTTPStatus.GONE:
            return ""
        answer.raise_for_status()
        try:
            for line in answer.iter_lines(chunk_size=None):
                event = json.loads(line)
                if self._ended.is_set() or event["type"] == "ERROR":
                    return ""
                self._event(event["type"], event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
        except (OSError, ValueError):
            pass  # cut off in the middle
        return version

    def _event(self, what: str, stored: dict[str, Any]) -> None:
        uid = stored["metadata"]["uid"]
        if what == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = stored
        self._tell(what, stored)


def app_of(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get("app", ""))


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def placed_of(status: Mapping[str, Any]) -> dict[str, int]:
    return {share["cluster"]: share["replicas"] for share in status.get("placements", [])}


# --- members ------------------------------------------------------------------------------------


class MovingStage:
    """The stage, one namespace on it, and what moves there."""

    def __init__(self, stage: Stage, space: str) -> None:
        self.stage = stage
        self.hub = stage.hub
        self.space = space
        self.timeline = Timeline(stage, space)
        self.configuration = stage.directory / "movement.yaml"
        self.configuration.write_text(CONFIGURATION)
        self._room = Room(stage.members)

    # --- room -------------------------------------------------------------------------------------

    def offer(self, **units: int) -> None:
        """Have room for so many units on members, `member_1=4`; return once the controller knows.

        Each unit of a Workload of `template` takes one.
        """
        for cluster, amount in units.items():
            member = cluster.replace("_", "-")
            more = len(self._room.nodes(member)) - 1
            self._room.offer(member, [amount, *[0] * more])
            wait(f"room on {member}", lambda m=member, n=amount: self._known(m) == n)

    def _known(self, member: str) -> int:
        told = self.stage.ask(f"/apis/v1/clusters/{member}")["allocatable"]
        return int(told.get(self._room.resource, -1))

    def template(self, name: str = "web", **spec: Any) -> dict[str, Any]:
        """Return a Deployment whose units take room."""
        made = deployment(name)
        made["spec"] |= spec
        self._room.takes(made["spec"]["template"], 1)
        return made

    # --- processes --------------------------------------------------------------------------------

    def run(self, *roles: str) -> None:
        """Start the processes that do not run."""
        for role in roles or ("controller", "propagator"):
            process = self.stage.processes.get(role)
            if process is None or process.running is None:
                more = [f"--config={self.configuration}"] if role == "controller" else []
                self.stage.process(role, "", None, *more)

    def kill(self, *roles: str) -> None:
        for role in roles:
            self.stage.processes[role].kill()

    # --- members ----------------------------------------------------------------------------------

    def taint(self, member: str, *keys: str) -> None:
        """Give a member these taints of effect NoExecute, and no others."""
        taints = [{"key": key, "effect": "NoExecute"} for key in keys]
        self._patch(member, {"taints": taints})

    def _patch(self, member: str, spec: dict[str, Any]) -> None:
        self.hub("patch", "mc", member, "--type=merge", "-p", json.dumps({"spec": spec}))

    def lose(self, *members: str) -> None:
        """Freeze the API servers of members."""
        self.timeline.away(*members)
        for member in members:
            self.stage.signal(member, "freeze")

    def thaw(self, *members: str) -> None:
        for member in members:
            self.stage.signal(member, "thaw")
        self.timeline.back(*members)

    def evacuating(self, member: str) -> tuple[str, str]:
        """Return status and reason of the condition Evacuating of a member."""
        status = self.hub.get("mc", member).get("status", {})
        for each in status.get("conditions", []):
            if each["type"] == "Evacuating":
                return each["status"], each["reason"]
        return "", ""

    def until_evacuating(self, member: str, reason: str, *, timeout: float = 30) -> None:
        wait(
            f"{member} to be {reason}",
            lambda: self._is(self.evacuating(member), lambda said: said[1] == reason),
            timeout=timeout,
        )

    def _is(self, seen: Any, right: Callable[[Any], bool]) -> bool:
        if right(seen):
            return True
        raise Failed(str(seen))

    # --- Workloads --------------------------------------------------------------------------------

    def web(self, units: int = 6, **spec: Any) -> None:
        """Apply `web`, divided; return when all of it is ready, and judge it from then on."""
        self.run_workload("web", units, **spec)

    def web_at_home(self, units: int, **spec: Any) -> None:
        """As `web`, all of it on member-1; then there is room for it on member-2 as well."""
        self.offer(member_1=units, member_2=0, member_3=0)
        self.web(units, template=self.template(), **spec)
        assert self.placed("web") == {"member-1": units}
        self.offer(member_2=units)

    def run_workload(self, name: str, units: int, **spec: Any) -> None:
        body = workload(name, self.space, replicas=units, **{"distribution": "Divided", **spec})
        self.hub.apply(body)
        self.stage.until_running(self.space, name)
        self.until_ready(name, units)
        self.timeline.begin(name)

    def status(self, name: str) -> dict[str, Any]:
        return self.stage.status(self.space, name)

    def placed(self, name: str) -> dict[str, int]:
        return self.stage.placements(self.space, name)

    def leaving(self, name: str) -> dict[str, tuple[int, str]]:
        """{cluster: (replicas, cause)} of status.leaving."""
        shares = self.status(name).get("leaving", [])
        return {each["cluster"]: (each["replicas"], each.get("cause", "")) for each in shares}

    def causes(self, name: str) -> list[str]:
        return [change["cause"] for change in self.status(name).get("history", [])]

    def moving(self, name: str) -> dict[str, Any]:
        return self.stage.condition(self.space, name, "Moving")

    def until_moving(self, name: str, reason: str, *, timeout: float = 60) -> str:
        """Return the message of the condition Moving once it has that reason."""
        found = self.stage.until_condition(
            self.space, name, "Moving", reason=reason, timeout=timeout
        )
        return str(found["message"])

    def until_placed(self, name: str, *, timeout: float = 60, **shares: int) -> None:
        """Wait for placements that the timeline shows too; `member_1=2`: two units of member-1."""
        wanted = {cluster.replace("_", "-"): units for cluster, units in shares.items()}
        wait(
            f"{name} on {wanted}",
            lambda: (
                self._is(self.placed(name), lambda placed: placed == wanted)
                and self.timeline.placed(name)[-1:] == [wanted]
            ),
            timeout=timeout,
        )

    def until_ready(self, name: str, units: int) -> None:
        """Wait until that many pods of a Workload are ready on reachable members, and no others."""
        wait(
            f"{units} ready pods of {name}",
            lambda: self._is(
                self.timeline.now(name), lambda now: (now.ready, now.pods) == (units, units)
            ),
        )

    def until_gone(self, name: str, *members: str) -> None:
        for member in members:
            wait(
                f"{name} to be gone from {member}",
                lambda m=member: (
                    self._gone(m, name) or self._is(self.status(name), lambda _: False)
                ),
            )

    def _gone(self, member: str, name: str) -> bool:
        left = self.timeline.pods(member, name)
        return not left and self.stage.seen(member, self.space, name) is None

    # --- the end ----------------------------------------------------------------------------------

    def put_right(self) -> None:
        """Leave the stage as the next test expects it, whatever this one has done."""
        self.thaw(*MEMBERS)
        self.run()
        for member in MEMBERS:
            wait(f"{member} back", lambda m=member: self.stage.ready(m)["status"] == "True")
            self._patch(member, {"taints": None, "unschedulable": None})
        self.hub("delete", "wl", "-A", "--all", timeout=180)
        self._room.close()
        for member in MEMBERS:
            self.until_evacuating_nothing(member)

    def until_evacuating_nothing(self, member: str) -> None:
        wait(
            f"{member} to be of use again",
            lambda: self._is(self.evacuating(member), lambda said: said[1] in ("", "None")),
        )


@pytest.fixture(scope="module")
def own_processes(stage: Stage) -> Iterator[None]:
    """End the processes before and after the module: those of others run with other settings."""
    for process in stage.processes.values():
        process.kill()
    yield
    for process in stage.processes.values():
        process.kill()


@pytest.fixture
def fleet(stage: Stage, space: str, own_processes: None) -> Iterator[MovingStage]:
    """Yield the stage with both processes and all members ready, watched by a timeline."""
    moving = MovingStage(stage, space)
    moving.run()
    for role in ("controller", "propagator"):
        wait(f"the {role} to listen", lambda r=role: stage.metric(r, "process_") > 0)
    for member in MEMBERS:
        wait(f"{member} ready", lambda m=member: stage.ready(m)["status"] == "True")
    moving.timeline.start()
    try:
        yield moving
        moving.timeline.check_sums()
    finally:
        moving.timeline.stop()
        print(moving.timeline)  # shown where a test fails
        moving.put_right()
