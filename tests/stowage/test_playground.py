"""`stowage playground`: up, up again, back after a crash, down without a trace."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import SystemClock
from machinery.errors import Unreachable
from stowage.playground import ground, kind, local, roles
from stowage.playground.processes import Process, wait_until
from stowage.toolchain import binaries
from tests.memoryhub import MemoryHub
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def up(stowage, tmp_path_factory):
    """The folder of a playground with a member, whose processes run: who made it has ended.

    More members, side by side, are what the end-to-end tests have.
    """
    directory = tmp_path_factory.mktemp("playground") / "here"
    try:
        arguments = ("up", "--members=1", "--provider=local", f"--dir={directory}")
        made = stowage.process("playground", *arguments)
        assert made.code == 0, made.err
        yield directory
    finally:
        stowage.succeed("playground", "down", f"--dir={directory}")


def _kubectl(directory, cluster, *args):
    return subprocess.run(
        [binaries.path("kubectl"), f"--kubeconfig={directory / cluster}.kubeconfig", *args],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def _status(stowage, directory):
    return json.loads(stowage.succeed("playground", "status", f"--dir={directory}", "-o", "json"))


def _until_ready(stowage, directory, wanted):
    """The status as soon as these answer: it gives each cluster two seconds for that."""
    found = {}

    def holds():
        found.update(_status(stowage, directory))
        return [cluster["ready"] for cluster in found["clusters"]] == wanted

    assert wait_until(holds, seconds=PATIENCE * 30, every=0.5), found
    return found


def _roles(directory):
    state = json.loads((directory / ground.STATE).read_text())["processes"]
    return {role: Process.from_json(entry["process"]) for role, entry in state.items()}


@pytest.mark.long
def test_kubeconfigs_are_for_their_owner_alone(up):
    for name in ("hub", "member-1"):
        assert (up / f"{name}.kubeconfig").stat().st_mode & 0o777 == 0o600
    assert (up / "control-planes").stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_status_says_what_runs(up, stowage):
    found = _until_ready(stowage, up, [True, True])
    assert found["provider"] == "local"
    assert [(c["name"], c["role"]) for c in found["clusters"]] == [
        ("hub", "hub"),
        ("member-1", "member"),
    ]
    assert [(p["name"], p["running"]) for p in found["processes"]] == [
        ("controller", True),
        ("propagator", True),
    ]
    table = stowage.succeed("playground", "status", f"--dir={up}")
    first, *_, last = table.splitlines()
    assert first.split() == ["NAME", "ROLE", "READY", "KUBECONFIG"]
    assert last == ground.exported(up)
    files = f"KUBECONFIG={up}/hub.kubeconfig:{up}/member-1.kubeconfig; "
    assert last.startswith(f"export {files}PATH=")


@pytest.mark.long
def test_up_again_starts_nothing_anew(up, stowage):
    before = {role: process.pid() for role, process in _roles(up).items()}
    planes = local.load_planes(up)
    servers = {n: c.processes["kube-apiserver"].pid() for n, c in planes.clusters.items()}
    assert all(before.values())
    assert all(servers.values())
    stowage.succeed("playground", "up", "--members=1", f"--dir={up}")
    assert {role: process.pid() for role, process in _roles(up).items()} == before
    assert {n: c.processes["kube-apiserver"].pid() for n, c in planes.clusters.items()} == servers


@pytest.mark.proves("Q22")
@pytest.mark.long
def test_a_namespace_is_a_tenant_and_may_be_added_as_on_any_hub(up, stowage):
    hub = f"--kubeconfig={up / 'hub.kubeconfig'}"
    assert "namespace default is a tenant" in stowage.succeed("tenant", "add", "default", hub)
    assert stowage.succeed("tenant", "list", hub).startswith("Every namespace is a tenant.")
    assert "namespace/default" in stowage.succeed("tenant", "list", hub, "-o", "name")
    stowage.succeed("tenant", "remove", "default", hub)


@pytest.mark.proves("Q22")
@pytest.mark.long
def test_up_again_after_a_member_was_renamed(up, stowage):
    hub = f"--kubeconfig={up / 'hub.kubeconfig'}"
    stowage.succeed("rename", "member-1", "oslo", hub)
    try:
        again = stowage("playground", "up", "--members=1", f"--dir={up}")
        assert again.code == 0, again.err
        assert "member-1 is oslo on the hub, as it was renamed" in again.out + again.err
        assert _kubectl(up, "hub", "get", "mc", "-o", "name").split() == [
            "membercluster.stowage.dev/oslo"
        ]
    finally:
        stowage.succeed("rename", "oslo", "member-1", hub)
    stowage.succeed("playground", "up", "--members=1", f"--dir={up}")
    assert _kubectl(up, "hub", "get", "mc", "-o", "name").split() == [
        "membercluster.stowage.dev/member-1"
    ]


@pytest.mark.proves("Q22")
async def test_a_member_has_the_name_that_it_was_given_last():
    hub = MemoryHub(clock=SystemClock(), admission=False)
    for name, former in (("oslo", ["bergen", "member-1"]), ("member-2", ["x", "member-2"])):
        hub.put(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": {"formerNames": former}})
    assert await ground.names_on_hub(hub, ["member-1", "member-2", "member-3"]) == {
        "member-1": "oslo",
        "member-2": "member-2",
        "member-3": "member-3",
    }


@pytest.mark.long
def test_another_provider_is_refused_where_one_stands(up, stowage):
    outcome = stowage("playground", "up", "--provider=kind", f"--dir={up}")
    assert outcome.code == 1
    assert "a local playground stands here" in outcome.err


@pytest.mark.long
def test_up_brings_back_what_died(up, stowage):
    planes = local.load_planes(up)
    _kubectl(up, "member-1", "create", "namespace", "kept")
    planes.clusters["member-1"].processes["kwok"].end(signal.SIGKILL)
    planes.clusters["member-1"].kill()
    _roles(up)["controller"].end(signal.SIGKILL)
    broken = _until_ready(stowage, up, [True, False])
    assert [p["running"] for p in broken["processes"]] == [False, True]
    stowage.succeed("playground", "up", "--members=1", f"--dir={up}")
    mended = _until_ready(stowage, up, [True, True])
    assert all(p["running"] for p in mended["processes"])
    assert local.load_planes(up).clusters["member-1"].processes["kwok"].alive()
    assert "kept" in _kubectl(up, "member-1", "get", "namespaces", "-o", "name")


@pytest.mark.long
def test_down_leaves_nothing(up, stowage):
    """The last of this module."""
    planes = local.load_planes(up)
    processes = [p for c in planes.clusters.values() for p in c.processes.values()]
    processes += [planes.etcd, *_roles(up).values()]
    pids = [process.pid() for process in processes]
    assert all(pids)
    stowage.succeed("playground", "down", f"--dir={up}")
    assert not up.exists()
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", ",".join(map(str, pids))],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    # A zombie has ended; collecting it is the business of whoever adopted it.
    assert [state for state in listed.split() if not state.startswith("Z")] == []
    outcome = stowage("playground", "status", f"--dir={up}")
    assert outcome.code == 1
    assert f"stowage playground up --dir {up}" in outcome.err


def test_down_where_nothing_is_does_nothing(stowage, tmp_path):
    stowage.succeed("playground", "down", f"--dir={tmp_path}")
    assert list(tmp_path.iterdir()) == []


class _Said:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    def step(self, what, done, total=0):
        pass


class _BusyHub:
    """Answers every other question about a Lease in time."""

    def __init__(self):
        self.asked = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def get(self, kind, name, **_):
        if kind is MEMBER_CLUSTERS:
            return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.asked += 1
        if self.asked % 2:
            raise Unreachable("no answer in time")
        return {"spec": {"holderIdentity": name}}


def test_up_waits_for_a_hub_that_is_busy(monkeypatch):
    monkeypatch.setattr(roles, "ROLES", ("controller",))
    hub = _BusyHub()
    roles.wait_ready(hub, ["member-1"], {}, _Said())
    assert hub.asked == 2


def test_shards_have_a_propagator_more_than_there_are(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(roles.sys, "executable", str(program))
    known, pids = {}, {}
    try:
        for shards, more in ((3, (2, 3, 4)), (1, (2,)), (None, ())):
            before = {name: Process.from_json(entry["process"]) for name, entry in known.items()}
            known = roles.start(tmp_path, known, tmp_path / "hub", _Said(), shards=shards)
            names = ["controller", "propagator", *(f"propagator-{number}" for number in more)]
            assert list(known) == names
            assert all(entry["running"] for entry in roles.status(known))
            assert not any(process.alive() for name, process in before.items() if name not in known)
            now = {name: Process.from_json(each["process"]).pid() for name, each in known.items()}
            assert all(pids.get(name, pid) == pid for name, pid in now.items())
            pids = now
    finally:
        roles.end(known)


def test_auto_says_why_it_is_not_kind(monkeypatch):
    monkeypatch.setattr(kind, "unusable", lambda *_: "no Docker engine answers")
    said = _Said()
    assert ground._provider("auto", {}, 4, kind.NODE_IMAGE, said) == "local"
    assert said.lines == [
        "Not using kind: no Docker engine answers. Using control planes built from Go modules."
    ]


def test_kind_where_it_cannot_be_is_a_fault(tmp_path, stowage):
    outcome = stowage(
        "playground", "up", "--provider=kind", f"--dir={tmp_path}", env={"PATH": str(tmp_path)}
    )
    assert outcome.code == 1
    assert "kind cannot be used: there is no docker command" in outcome.err


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A docker and a kind that write down what they were asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    calls = tmp_path / "calls"
    calls.touch()
    script = f'#!/bin/sh\necho "$(basename $0) $@" >> {calls}\n'
    (tools / "docker").write_text(script + '[ "$1" = inspect ] && echo 172.18.0.5; exit 0\n')
    (tools / "kind").write_text(
        script
        + 'case "$*" in *--internal*) echo "server: https://$5-control-plane:6443";;'
        + ' "get kubeconfig"*) echo "server: https://127.0.0.1:1234";; esac\n'
    )  # fmt: skip
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(kind.binaries, "path", lambda name: tools / name)
    monkeypatch.setattr(kind.build, "ensure", lambda *_, **__: None)
    monkeypatch.setattr(kind, "KERNEL", tmp_path / "another machine")
    return calls


def test_kind_is_used_where_an_engine_answers(docker):
    assert kind.unusable(2, kind.NODE_IMAGE, _Said()) == ""
    assert f"docker image inspect {kind.NODE_IMAGE}" in docker.read_text()


def test_kind_never_touches_the_users_kubeconfig(docker, tmp_path):
    kind.up(tmp_path, "hub", ["member-1"], image=kind.NODE_IMAGE, progress=_Said())
    kind.down(tmp_path, ["hub", "member-1"])
    writing = [c for c in docker.read_text().splitlines() if " create " in c or " delete " in c]
    assert len(writing) == 4
    assert all(f"--kubeconfig={tmp_path}/" in call for call in writing)
    assert (tmp_path / "hub.kubeconfig").read_text() == "server: https://127.0.0.1:1234\n"


@pytest.mark.usefixtures("docker")
def test_members_are_registered_by_their_address_among_the_containers(tmp_path, monkeypatch):
    monkeypatch.setattr(kind.sys, "platform", "linux")
    assert kind.internal(tmp_path, "member-1") == "server: https://172.18.0.5:6443\n"


def test_two_playgrounds_have_different_clusters(tmp_path):
    assert kind._name(tmp_path / "a", "hub") != kind._name(tmp_path / "b", "hub")
