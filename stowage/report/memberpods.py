"""`stowage pods` and `stowage logs`: the pods of a Workload, read from its members.

The hub keeps no pods. So each member is asked with the reader's own credentials: a file that is
named for it, or else the kubeconfig's context of its name. What a member refuses it refuses to
that person. A member that cannot be asked is told, and keeps no other back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import PODS, WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, StowageError
from stowage.console import output
from stowage.console.terminal import say
from stowage.console.words import age
from stowage.hub import connection, reader
from stowage.kinds import Reference
from stowage.report.history import stored

Json = Mapping[str, Any]
COLUMNS = ("name", "cluster", "ready", "status", "restarts", "age", "node")
WIDE = (*COLUMNS, "ip")
AT_ONCE = 16
"""Members that are asked at the same time."""
MEMBER_SECONDS = 10.0
"""How long a member may take for one answer."""
MOST_FOLLOWED = 50
"""Pods whose logs are followed at once: each takes a connection and a thread."""
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True)
class Members:
    """How the members are reached: `files` by their names, and the kubeconfig with contexts."""

    kubeconfig: str | None
    files: Mapping[str, str]

    def connection(self, name: str) -> Connection:
        """Return the reader's own connection to a member. Raises ConfigurationError."""
        if name in self.files:
            return connection(self.files[name], None)
        try:
            return connection(self.kubeconfig, name)
        except ConfigurationError as e:
            raise ConfigurationError(
                "your credentials of a member are the context of its name, or "
                f"--member-kubeconfig {name}=FILE: {e}"
            ) from e


@dataclass(frozen=True, slots=True)
class MemberPods:
    """The pods that one member has of a Workload, or why it could not be asked."""

    cluster: str
    at: Connection | None = None
    pods: list[Json] = field(default_factory=list)
    why: str = ""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines are asked for: of the default container, of all clusters, and all of them."""

    container: str = ""
    follow: bool = False
    tail: int | None = None

    def params(self, pod: Json) -> dict[str, str]:
        asked = {"container": self.container or _container(pod)}
        asked |= {"follow": "true"} if self.follow else {}
        return asked | ({} if self.tail is None else {"tailLines": str(self.tail)})


# --- pods -----------------------------------------------------------------------------------------


def show(
    hub: Connection, about: tuple[str, str], members: Members, cluster: str, form: str
) -> bool:
    """Print the pods; return whether all members were asked.

    Raises ConfigurationError for no such Workload, and for a cluster that has nothing of it.
    """
    found = read(hub, about, members, cluster)
    now = datetime.now(UTC)
    rows = rows_of(found, now)
    if form == "name":
        output.named_objects("pod", [row["name"] for row in rows])
    elif rows or form in ("json", "yaml"):
        silent = {each.cluster: each.why for each in found if each.why}
        text = output.table(rows, WIDE if form == "wide" else COLUMNS)
        output.show({"pods": rows, "notAsked": silent}, form, text=text)
    return _told(about, found, bool(rows))


def read(
    hub: Connection, about: tuple[str, str], members: Members, cluster: str
) -> list[MemberPods]:
    """Return what each member has. Raises as `show` does."""
    with reader(hub) as api:
        workload = stored(api, about[0], Reference(WORKLOADS, about[1]))
    names = clusters(workload)
    if cluster and cluster not in names:
        there = f"it is on {', '.join(names)}" if names else "it has no place yet"
        raise ConfigurationError(f"{'/'.join(about)} is not on {cluster}: {there}")
    return ask(workload, members, [cluster] if cluster else names)


def ask(workload: Json, members: Members, names: Iterable[str]) -> list[MemberPods]:
    """Return what each of these members has of a Workload."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda name: _asked(name, members, workload), names))


def _told(about: tuple[str, str], found: Iterable[MemberPods], any_pods: bool) -> bool:
    """Say which members were not asked; return whether there is none."""
    silent = [each for each in found if each.why]
    if not (any_pods or silent):
        say(f"{'/'.join(about)} has no pods", err=True)
    for each in silent:
        say(f"{each.cluster} is not shown: {each.why}", err=True)
    return not silent


def clusters(workload: Json) -> list[str]:
    """Return the clusters where a Workload is placed, or has anything left."""
    status = workload.get("status") or {}
    placed = [each["cluster"] for each in status.get("placements") or ()]
    return sorted({*placed, *(each["name"] for each in status.get("clusters") or ())})


def _asked(name: str, members: Members, workload: Json) -> MemberPods:
    try:
        at = members.connection(name)
        return MemberPods(name, at, sorted(_pods(at, workload), key=_name))
    except (StowageError, OSError) as e:
        return MemberPods(name, why=str(e))


def _pods(at: Connection, workload: Json) -> list[Json]:
    meta, spec = workload["metadata"], workload["spec"]
    namespace = spec.get("targetNamespace") or meta["namespace"]
    # Pods of a kind that Stowage does not know, or of an object that it took over, lack its label.
    selector = ((spec.get("targetDeployment") or spec.get("template") or {}).get("spec") or {}).get(
        "selector"
    )
    labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    asked = [{LABEL_WORKLOAD_UID: meta["uid"]}, *([labels] if isinstance(labels, dict) else [])]
    with reader(at, timeout=MEMBER_SECONDS) as api:
        for each in filter(None, asked):
            text = ",".join(f"{key}={value}" for key, value in each.items())
            if found := list(api.each(PODS, dict[str, Any], namespace, selector=text)):
                return found
    return []


def rows_of(found: Iterable[MemberPods], now: datetime) -> list[dict[str, Any]]:
    """Return a row for each pod, by cluster and name."""
    return [_row(each.cluster, pod, now) for each in found for pod in each.pods]


def _row(cluster: str, pod: Json, now: datetime) -> dict[str, Any]:
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(bool(each.get("ready")) for each in containers)
    return {
        "name": meta["name"],
        "cluster": cluster,
        "ready": f"{ready}/{len(spec.get('containers') or ())}",
        "status": state(pod),
        "restarts": sum(each.get("restartCount", 0) for each in containers),
        "age": age(meta.get("creationTimestamp") or "", now),
        "node": spec.get("nodeName") or "<none>",
        "ip": status.get("podIP") or "<none>",
    }


def state(pod: Json) -> str:
    """Return the state of a pod in one word, as kubectl shows it: a reason, else the phase."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    inits = status.get("initContainerStatuses") or []
    for at, each in enumerate(inits):
        ended = (each.get("state") or {}).get("terminated")
        if each.get("started") or (ended and not ended.get("exitCode")):
            continue  # it is done, or runs beside the others
        why = _reason(each, "terminated", "waiting")
        return f"Init:{why}" if why not in ("", "PodInitializing") else f"Init:{at}/{len(inits)}"
    containers = status.get("containerStatuses") or []
    runs = any("running" in (each.get("state") or {}) for each in containers)
    for sort in ("waiting",) if runs else ("waiting", "terminated"):
        for each in containers:
            if why := _reason(each, sort):
                return why
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _reason(container: Json, *sorts: str) -> str:
    told = container.get("state") or {}
    return next((str(told[each].get("reason") or "") for each in sorts if told.get(each)), "")


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


# --- logs -----------------------------------------------------------------------------------------


def logs(
    hub: Connection, about: tuple[str, str], members: Members, cluster: str, asked: LogRequest
) -> bool:
    """Print the logs of all pods, each line after `cluster/pod`; return whether all were read.

    Raises as `show` does, and ConfigurationError for more pods than can be followed.
    """
    found = read(hub, about, members, cluster)
    pods = [(each, pod) for each in found for pod in each.pods]
    if asked.follow and len(pods) > MOST_FOLLOWED:
        raise ConfigurationError(
            f"{'/'.join(about)} has {len(pods)} pods, and {MOST_FOLLOWED} are followed at the "
            "most: choose a cluster by --cluster"
        )
    whole = _told(about, found, bool(pods))
    streams = [_lines(member, pod, asked) for member, pod in pods]
    for line, failed in _together(streams) if asked.follow else _in_turn(streams):
        say(line, err=failed)
        whole = whole and not failed
    return whole


Lines = Iterator[tuple[str, bool]]
"""What is printed, and whether it says that a log could not be read."""


def _lines(member: MemberPods, pod: Json, asked: LogRequest) -> Lines:
    assert member.at is not None  # noqa: S101 - it has pods, so it was asked
    name, namespace = _name(pod), pod["metadata"]["namespace"]
    head = f"{member.cluster}/{name}"
    try:
        with reader(member.at, timeout=MEMBER_SECONDS) as api:
            for line in api.lines(PODS.path(namespace, name, "log"), asked.params(pod)):
                yield f"{head} {line}", False
    except (StowageError, OSError) as e:
        yield f"{head} is not shown: {e}", True


def _in_turn(streams: Iterable[Lines]) -> Lines:
    for each in streams:
        yield from each


def _together(streams: list[Lines]) -> Lines:
    """Yield lines as they come. The threads end with the process, so that Ctrl-C ends them all."""
    came: queue.Queue[tuple[str, bool] | None] = queue.Queue(maxsize=1000)

    def follow(stream: Lines) -> None:
        for each in stream:
            came.put(each)
        came.put(None)

    for each in streams:
        threading.Thread(target=follow, args=(each,), daemon=True).start()
    left = len(streams)
    with suppress(KeyboardInterrupt):
        while left:
            line = came.get()
            if line is None:
                left -= 1
            else:
                yield line


def _container(pod: Json) -> str:
    """Return the container whose log is meant when none is named, as kubectl chooses it."""
    chosen = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return str(chosen or pod["spec"]["containers"][0]["name"])
