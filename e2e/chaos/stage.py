"""A playground of which every part may break: clusters, roads between them, processes, clocks.

Each process reaches the hub by a relay of its own, and the members are registered by the addresses
of relays too. The test itself talks to every API server directly.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crds.names import (
    AGENT,
    ANNOTATION_DELETION,
    ANNOTATION_SWEEP,
    ANNOTATION_UNJOIN,
    CONFIRMED,
    GIVEN_UP,
    LABEL_REGISTER,
    RENAMED,
    SYSTEM_NAMESPACE,
)
from e2e.chaos import judgement, wishes
from e2e.chaos.hub_etcd import HubEtcd
from e2e.chaos.writers import WriteLog
from e2e.harness import Kubectl, stowage
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    PODS,
    SECRETS,
    WORKLOADS,
    Resource,
)
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import AlreadyExists, ConfigurationError, NotFound, TransportError
from machinery.types.metadata import Key
from stowage.playground.cluster import Cluster
from stowage.playground.controlplanes import ControlPlanes
from stowage.playground.local import load_planes
from stowage.playground.processes import Process
from stowage.setup.holders import standing
from stowage.toolchain import binaries
from tests.relay import Relay

MEMBERS = ("member-1", "member-2", "member-3")
ZONE = "topology.kubernetes.io/zone"
_CONFIGURATION = """\
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
movement: {notReadyTolerationSeconds: 10, dwellSeconds: 2, maxMoving: 50%}
profiles:
- pluginConfig:
  - {name: Coscheduling, args: {patienceSeconds: 0}}
"""
"""Members that do not answer are left within the time that faults stand. No gang has a turn: on a
slow machine one would wait long enough, and keep room that another one is judged by."""
_tokens = itertools.count(1)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)


class ChaosStage:
    """Made by `at_work`. `hub` and `members` are the test's own clients, past the relays.

    `directory` is where its processes log, of which `instances` are the names. With several
    `shards` there is a propagator more than these. `pulled` is the member in mode Pull, "" for
    none: two agents work there, and the road to it is their road to the hub.
    """

    def __init__(
        self, directory: Path, planes: ControlPlanes, *, shards: int = 1, pulled: str = ""
    ) -> None:
        self.directory = directory
        self.planes = planes
        self.shards, self.pulled = shards, pulled
        letters = {"controller": "ab", "propagator": "abcdefgh"[: shards + 1]}
        letters |= {"agent": "ab"} if pulled else {}
        self.instances = tuple(f"{role}-{each}" for role in letters for each in letters[role])
        self.pushed = tuple(each for each in MEMBERS if each != pulled)
        self.log_of_writes = WriteLog(directory)
        self.hub_etcd = HubEtcd(planes)
        kubectl = binaries.path("kubectl")
        self._readers = {
            name: Kubectl(kubectl, self.cluster(name).kubeconfig) for name in ("hub", *MEMBERS)
        }
        self.hub = self._client("hub")
        self.members = {name: self._client(name) for name in MEMBERS}
        self.roads = {
            **{each: Relay(planes.clusters[self._home(each)].port) for each in self.instances},
            **{name: Relay(planes.clusters[name].port) for name in self.pushed},
        }
        if pulled:
            self.roads[pulled] = Relay(planes.clusters["hub"].port)
        self.processes: dict[str, Process] = {}
        self._accounts: dict[str, str] = {}
        self._secrets: dict[str, dict[str, str]] = {}

    def cluster(self, name: str) -> Cluster:
        return self.planes.clusters[name]

    def _home(self, instance: str) -> str:
        return self.pulled if instance.startswith("agent") else "hub"

    # --- processes --------------------------------------------------------------------------------

    def run(self, instance: str) -> None:
        """Start a process, or start it again."""
        self.processes[instance] = self._process(instance)
        self.processes[instance].start(detached=False)

    def kill(self, instance: str) -> None:
        self.processes[instance].end(signal.SIGKILL)

    def ended(self) -> list[str]:
        """Return the processes that should run and do not, each with the end of its log."""
        gone = [process for process in self.processes.values() if not process.alive()]
        return [f"{process.name} ended by itself: {process.tail(5)}" for process in gone]

    def skew(self, instance: str, seconds: float) -> None:
        """Set the wall clock of a process wrong by that much."""
        self._skew_file(instance).write_text(str(seconds))

    def log(self, instance: str) -> str:
        """Return the log of all processes of that instance."""
        path = self.processes[instance].log
        return path.read_text(errors="replace") if path.exists() else ""

    def member_writes(self) -> list[str]:
        """Return the writes that members accepted from all processes since these started.

        Those of Leases are none of them.
        """
        pids = {each.pid() for each in self.processes.values()}
        return [each.what for each in self.log_of_writes.read() if each.pid in pids]

    def _process(self, instance: str) -> Process:
        role = instance.partition("-")[0]
        kubeconfig = self.directory / f"{instance}.kubeconfig"
        home = self.cluster(self._home(instance))
        own = f"127.0.0.1:{home.port}"
        road = f"127.0.0.1:{self.roads[instance].port}"
        kubeconfig.write_text(home.admin_kubeconfig.replace(own, road))
        arguments = [
            sys.executable, "-m", "e2e.chaos.skewed", str(self._skew_file(instance)), instance,
            role, "--http-port=0", f"--kubeconfig={kubeconfig}",
        ]  # fmt: skip
        if role == "controller":
            configuration = self.directory / "scheduler.yaml"
            configuration.write_text(_CONFIGURATION)
            arguments.append(f"--config={configuration}")
        return Process(instance, arguments, self.directory / f"{instance}.log")

    def _skew_file(self, instance: str) -> Path:
        return self.directory / f"{instance}.skew"

    # --- members ----------------------------------------------------------------------------------

    async def share_out(self, shards: int) -> bool:
        """Set the number of shards, as `stowage shards` does."""
        name = "stowage-propagator"
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
            "data": {"shards": str(shards)},
        }
        where: dict[str, Any] = {"name": name, "namespace": SYSTEM_NAMESPACE}
        await self.hub.apply(CONFIG_MAPS, body, **where, field_manager="chaos")
        self.log_of_writes.shared_out()
        return True

    def log_writes(self) -> None:
        """Have members log each write from now on; their API servers start anew."""
        for member in MEMBERS:
            cluster = self.cluster(member)
            flags = self.log_of_writes.flags(member)
            cluster.parts = replace(cluster.parts, server_flags=flags)
            cluster.restart()

    def join(self, *, pull: bool) -> bool:
        """Join the member with agents in mode Pull, or in Push; return once it is served so."""
        hub = self.cluster("hub").kubeconfig
        own = self.cluster(self.pulled).kubeconfig
        road = f"https://127.0.0.1:{self.roads[self.pulled].port}"
        how = ["--pull", f"--hub-server={road}"] if pull else []
        allowed = [f"--allow={each.group}/{each.plural}" for each in wishes.CUSTOM.values()]
        labels = [f"--label={key}={value}" for key, value in _zone(self.pulled).items()]
        stowage(
            "join", self.pulled, *how, f"--member-kubeconfig={own}", f"--kubeconfig={hub}",
            "--rights=cluster", *allowed, *labels,
        )  # fmt: skip
        return True

    async def invitation(self) -> str:
        """Return what tells the invitations of the member's agents apart; "" without agents."""
        found = await self.members[self.pulled].find(DEPLOYMENTS, AGENT, namespace=SYSTEM_NAMESPACE)
        return "" if found is None else str(found["spec"]["template"]["metadata"]["annotations"])

    async def register(self, member: str) -> None:
        """Register a member with the token of a new account; the old account is deleted."""
        before = self._accounts.get(member)
        account = self._accounts[member] = f"chaos-{next(_tokens)}"
        token = await asyncio.to_thread(self._token, member, account)
        cluster = self.cluster(member)
        data = {
            "endpoint": f"https://127.0.0.1:{self.roads[member].port}",
            "clusterCA": cluster.ca.decode(),
            "token": token,
        }
        self._secrets[member] = {
            key: base64.b64encode(text.encode()).decode() for key, text in data.items()
        }
        await self.put_secret(member)
        unmarked = {"metadata": {"annotations": {ANNOTATION_UNJOIN: None}}}
        with suppress(NotFound):  # a hub that was set back may hold it half given up
            await self.hub.merge_patch(MEMBER_CLUSTERS, member, unmarked)
        if before is not None:
            await asyncio.to_thread(
                cluster.kubectl, "delete", "serviceaccount", before, check=False
            )

    async def put_secret(self, member: str, name: str = "", *, data_of: str = "") -> bool:
        """Apply the Secret that registers a member, under its own name or `name`.

        The data is the member's own, or that of `data_of`.
        """
        name = name or member
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": SYSTEM_NAMESPACE,
                "labels": {LABEL_REGISTER: "true", **_zone(member)},
            },
            "data": self._secrets[data_of or member],
        }
        await self.hub.apply(
            SECRETS, body, name=name, namespace=SYSTEM_NAMESPACE, field_manager="chaos"
        )
        return True

    async def make_cluster(self, member: str, **meta: Any) -> bool:
        """Create the MemberCluster by hand, as from a file."""
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": member, "labels": _zone(judgement.member_of(member)), **meta},
            "spec": {"secretRef": {"namespace": SYSTEM_NAMESPACE, "name": member}},
        }
        with suppress(AlreadyExists):
            await self.hub.create(MEMBER_CLUSTERS, body)
        return True

    async def delete_cluster(self, name: str) -> bool:
        """Delete the MemberCluster, not its Secret; its cluster is away then, and not given up."""
        await self._let_go(name, RENAMED)
        return True

    async def _let_go(self, name: str, how: str) -> None:
        mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: how}}}
        with suppress(NotFound):
            await self.hub.merge_patch(MEMBER_CLUSTERS, name, mark)
            await self.hub.delete(MEMBER_CLUSTERS, name)

    async def taint(self, member: str, *keys: str) -> bool:
        """Give a member these taints of effect NoExecute, and no others, if it is registered."""
        taints = [{"key": key, "effect": "NoExecute"} for key in keys]
        with suppress(NotFound):
            await self.hub.merge_patch(MEMBER_CLUSTERS, member, {"spec": {"taints": taints}})
        return True

    async def held(self, member: str) -> set[str]:
        """Return the UIDs of the Workloads whose removal from the member is held."""
        found = await self.hub.get(MEMBER_CLUSTERS, member)
        held = found.get("status", {}).get("sweepHeld", {}).get("workloads", [])
        return {each["uid"] for each in held}

    async def sweep(self, member: str, held: Collection[str]) -> None:
        """Confirm these held removals, as `stowage sweep --confirm` does of what it shows.

        The command reads what is held itself, which is more by then than who calls this has noted.
        """
        named = {"annotations": {ANNOTATION_SWEEP: ",".join(sorted(held))}}
        await self.hub.merge_patch(MEMBER_CLUSTERS, member, {"metadata": named})

    async def confirm_deletion(self, key: Key) -> None:
        """Let a deleted Workload go that waits for a person, as `stowage sweep --confirm` does."""
        confirmed = {"metadata": {"annotations": {ANNOTATION_DELETION: CONFIRMED}}}
        with suppress(NotFound):
            await self.hub.merge_patch(WORKLOADS, key[1], confirmed, namespace=key[0])

    async def served(self, name: str, *, seconds: float) -> None:
        """Return when that MemberCluster is Ready, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await not_ready(self.hub, (name,)):  # noqa: ASYNC110 - a server's state
                    await asyncio.sleep(0.3)

    async def noted(self, name: str) -> bool:
        """Return whether the hub has noted which cluster that MemberCluster is."""
        with suppress(NotFound):
            found = await self.hub.get(MEMBER_CLUSTERS, name)
            return bool(found.get("status", {}).get("clusterID"))
        return False

    async def give_up(self, name: str) -> bool:
        """Give a member up as `stowage unjoin --force` does; its objects are not touched.

        Returns whether it is done: while shares name the cluster it only has the mark. Also where
        it has no MemberCluster any more, as of a hub that was set back.
        """
        named = await self._named(name)
        mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        try:
            await self.hub.merge_patch(MEMBER_CLUSTERS, name, mark)
        except NotFound:
            if not named:
                with suppress(NotFound):  # a Secret that is there registers it again
                    await self.hub.delete(SECRETS, name, namespace=SYSTEM_NAMESPACE)
                    return False
                return True
            await self.make_cluster(name, **mark["metadata"])
        with suppress(NotFound):
            await self.hub.delete(SECRETS, name, namespace=SYSTEM_NAMESPACE)
        if not await self._named(name):
            await self._let_go(name, GIVEN_UP)
            return True
        return False

    async def _named(self, cluster: str) -> bool:
        """Return whether a share that our controller gave runs on that cluster, or leaves it."""
        return any(
            standing(each, cluster).runs
            for each in (await self.hub.list(WORKLOADS))["items"]
            if each["spec"].get("schedulerName") != wishes.SCHEDULER
        )

    async def _deregister(self, member: str) -> None:
        """Let go of a member that nothing is on."""
        with suppress(NotFound):
            await self.hub.delete(SECRETS, member, namespace=SYSTEM_NAMESPACE)
        await self._let_go(member, GIVEN_UP)

    def _token(self, member: str, account: str) -> str:
        kubectl = self.cluster(member).kubectl
        kubectl("create", "serviceaccount", account)
        kubectl(
            "create", "clusterrolebinding", account,
            "--clusterrole=cluster-admin", f"--serviceaccount=default:{account}",
        )  # fmt: skip
        return kubectl("create", "token", account, "--duration=24h").strip()

    def _client(self, name: str) -> ApiClient:
        connection = parse_kubeconfig(self.cluster(name).kubeconfig.read_bytes())
        return ApiClient(connection, name=f"test {name}", timeout=5)

    # --- pods -------------------------------------------------------------------------------------

    async def play_kubelets(self) -> None:
        """Until cancelled, mark pods with ready containers as ready, and restart ended programs.

        Beside that, make volumes for the claims of StatefulSets, and say that Widgets are ready.

        A member that is away for long loses its nodes, and their pods are unready from then on. A
        kubelet that is back marks them ready again; kwok does not. A scheduler or a
        controller-manager ends when its API server was away, and kubelets would start it again.
        """
        while True:
            for name in ("hub", *MEMBERS):
                await asyncio.to_thread(self.cluster(name).revive)
            for client in self.members.values():
                with suppress(TransportError):
                    for pod in (await client.list(PODS))["items"]:
                        if conditions := judgement.made_ready(pod):
                            meta, patch = pod["metadata"], {"status": {"conditions": conditions}}
                            where = {"namespace": meta["namespace"], "subresource": "status"}
                            with suppress(NotFound):
                                await client.merge_patch(PODS, meta["name"], patch, **where)
                    await _make_volumes(client)
                    await _operate(client)
            await asyncio.sleep(3)

    def end_controller_managers(self) -> None:
        """End the kube-controller-manager of each member; `play_kubelets` starts it again.

        Its garbage collector knows owners by what its watches told it. One that was deleted and
        made again under its name while a watch was cut is only ever updated for it, and what the
        first one owned stays until the collector reads everything again.
        """
        for member in MEMBERS:
            self.cluster(member).processes["kube-controller-manager"].end(signal.SIGTERM)

    # --- reading ----------------------------------------------------------------------------------

    async def lists(
        self, where: str, *kinds: str, namespace: str | None = None, labels: str = ""
    ) -> list[dict[str, Any]]:
        """Return all objects of these kinds by pykube, which shares no code with ours."""

        def read() -> list[dict[str, Any]]:
            reader = self._readers[where]
            return [each for kind in kinds for each in reader.items(kind, namespace, labels=labels)]

        return await asyncio.to_thread(read)

    async def record(self) -> None:
        """Write the objects of all clusters beside the logs, to look into a finding."""
        kinds = (
            "deployments,statefulsets,replicasets,jobs,widgets,gadgets,pods,configmaps,"
            "persistentvolumeclaims,nodes"
        )
        for name in ("hub", *MEMBERS):
            what = (
                "workloads,memberclusters,workloadpolicies,workloadspreads,reservations,workloadgroups,"
                "assignments,memberreports,leases"
                if name == "hub"
                else kinds
            )
            text = await asyncio.to_thread(
                self.cluster(name).kubectl, "get", what, "-A", "-o=json", check=False
            )
            (self.directory / f"{name}.json").write_text(text)
            for process in self.cluster(name).processes.values():
                tail = process.tail(2000)
                (self.directory / f"{process.name.replace(' ', '-')}.tail").write_text(tail)


@contextmanager
def chaos_clusters(directory: Path) -> Iterator[Path]:
    """Yield hub and members in that folder, for one run after the other; remove all at the end."""
    try:
        stowage(
            "playground", "up", "--members=3", "--provider=local", f"--dir={directory}", "--no-run"
        )
        yield directory
    finally:
        with suppress(ConfigurationError):  # it did not come up
            HubEtcd(load_planes(directory)).end()
        stowage("playground", "down", f"--dir={directory}")


@asynccontextmanager
async def at_work(
    clusters: Path, logs: Path, *, shards: int = 1, pulled: str = ""
) -> AsyncIterator[ChaosStage]:
    """Run both processes twice on those clusters, with all members Ready; the clusters stay.

    See `ChaosStage` for several shards, and a member in mode Pull.
    """
    stage = ChaosStage(logs, load_planes(clusters), shards=shards, pulled=pulled)
    stage.planes.hold_ports()
    try:
        yield await _at_work(stage)
    finally:
        for process in stage.processes.values():
            process.end(signal.SIGTERM)  # the next run need not wait for the leases
        if stage.shards > 1:
            with suppress(TransportError):
                await stage.share_out(1)
        for member in MEMBERS:  # the next run must not find a stale Ready
            with suppress(TransportError):
                await stage._deregister(member)
                await stage._deregister(second_name(member))
        for road in stage.roads.values():
            await road.stop()
        for client in (stage.hub, *stage.members.values()):
            await client.close()
        for name in ("hub", *MEMBERS):
            stage.cluster(name).thaw()
        stage.planes.release_ports()


async def _at_work(stage: ChaosStage) -> ChaosStage:
    for road in stage.roads.values():
        await road.start()
    for member in MEMBERS:
        # As `stowage join` makes it: the Lease of the hub that serves the member lies there.
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
        with suppress(AlreadyExists):
            await stage.members[member].create(NAMESPACES, space)
        for each in wishes.definitions():
            with suppress(AlreadyExists):
                await stage.members[member].create(wishes.DEFINITIONS, each)
        await (stage.register if member in stage.pushed else stage._deregister)(member)
    await asyncio.to_thread(stage.log_writes)
    if stage.shards > 1 or stage.pulled:
        await stage.share_out(stage.shards)
    for instance in stage.instances:
        stage.run(instance)
    if stage.pulled:
        await asyncio.to_thread(stage.join, pull=True)
    async with asyncio.timeout(300):
        while not await all_ready(stage.hub):  # noqa: ASYNC110 - a server's state, not ours
            await asyncio.sleep(0.5)
    return stage


async def all_ready(hub: ApiClient) -> bool:
    return not await not_ready(hub)


async def not_ready(hub: ApiClient, members: Sequence[str] = MEMBERS) -> list[str]:
    """Return the members that are not registered or not Ready, each with its condition."""
    try:
        listed = (await hub.list(MEMBER_CLUSTERS))["items"]
    except TransportError as e:
        return [f"the hub: {e}"]
    said = {c["metadata"]["name"]: _ready(c) for c in listed}
    words = {name: said.get(name, "not registered") for name in members}
    return [f"{name}: {text}" for name, text in words.items() if text]


async def _make_volumes(client: ApiClient) -> None:
    """Give each claim of a StatefulSet a volume; delete the volumes whose claims are gone."""
    data = f"{wishes.LABEL_DATA}=true"
    volumes = (await client.list(_VOLUMES, label_selector=data))["items"]
    for each in volumes:
        if each["status"].get("phase") == "Released":
            with suppress(NotFound):
                await client.delete(_VOLUMES, each["metadata"]["name"])
    there = {each["metadata"]["name"] for each in volumes}
    for claim in (await client.list(CLAIMS, label_selector=data))["items"]:
        if (name := f"data-{claim['metadata']['uid']}") not in there:
            with suppress(AlreadyExists):
                await client.create(_VOLUMES, _volume(name, claim))


def _volume(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {wishes.LABEL_DATA: "true"}},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": "1Mi"},
            "claimRef": {each: meta[each] for each in ("namespace", "name", "uid")},
            "hostPath": {"path": f"/nowhere/{name}"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }


async def _operate(client: ApiClient) -> None:
    """Say of each Widget that its present generation is ready."""
    for each in (await client.list(wishes.WIDGETS))["items"]:
        meta = each["metadata"]
        if each.get("status", {}).get("observedGeneration") == meta["generation"]:
            continue
        ready = {"type": "Ready", "status": "True", "reason": "Works", "message": ""}
        status = {"observedGeneration": meta["generation"], "conditions": [ready]}
        where = {"namespace": meta["namespace"], "subresource": "status"}
        with suppress(NotFound):
            await client.merge_patch(wishes.WIDGETS, meta["name"], {"status": status}, **where)


def second_name(member: str) -> str:
    """Return the second name of a member."""
    return f"{member}{judgement.AGAIN}"


def _zone(member: str) -> dict[str, str]:
    return {ZONE: f"zone-{member[-1]}"}


def _ready(cluster: Mapping[str, Any]) -> str:
    conditions = cluster.get("status", {}).get("conditions", [])
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    if ready is None:
        return "nothing is said of it"
    return "" if ready["status"] == "True" else f"{ready['reason']}: {ready['message']}"
