"""The kind provider against recorded programs: what is run, in which order, and how faults are told.

What only a Docker engine can show (that containers start, that pods reach the members) is left to
`make e2e PROVIDER=kind`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import harness
from machinery.errors import StowageError
from machinery.kubeconfig import parse_kubeconfig
from stowage.playground import binaries, build, ground, kind, local, roles
from stowage.playground.processes import Process, wait_until
from tests.stowage.engine import NO_ENGINE, NODE_IMAGE, Engine, Hub

IMAGE = "stowage:test"


class _Said:
    def __init__(self):
        self.lines = []
        self.steps = []

    def say(self, text):
        self.lines.append(text)

    def step(self, what, done, total=0):
        self.steps.append((what, done, total))


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """All first on the PATH, kind and kubectl also where built programs lie; an image of ours."""
    tools = tmp_path / "tools"
    tools.mkdir()
    made = Engine(tmp_path / "engine", tools)
    made.add_image(IMAGE)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binaries.path("kind").parent.mkdir(parents=True)
    for built in ("kind", "kubectl"):
        shutil.copy(tools / built, binaries.path(built))
    return made


@pytest.fixture
def hub(engine):
    made = Hub(engine.folder)
    yield made
    made.stop()


@pytest.fixture
def here(tmp_path):
    return tmp_path / "here"


def _up(here, *, members=2, provider="kind", run=True, image=IMAGE):
    said = _Said()
    ground.up(here, members=members, provider=provider, run=run, progress=said, image=image)
    return said


def _down(here):
    ground.down(here, progress=_Said())


def _named(here, *names):
    """The names that kind knows the clusters of this playground by."""
    return [kind.container(here, name).removesuffix("-control-plane") for name in names]


def _state(here):
    return json.loads((here / ground.STATE).read_text())


def _kind(*arguments):
    return f"{binaries.path('kind')} {' '.join(arguments)}"


@pytest.mark.usefixtures("hub")
def test_up_creates_the_hub_first_and_each_cluster_once(engine, here):
    said = _up(here)
    made = engine.calls("kind", "create", "cluster")
    hub_name, *member_names = _named(here, "hub", "member-1", "member-2")
    assert made[0] == [
        "kind", "create", "cluster", "--name", hub_name, f"--image={NODE_IMAGE}", "--wait=180s",
        f"--kubeconfig={here}/hub.kubeconfig",
    ]  # fmt: skip
    assert sorted(call[4] for call in made[1:]) == member_names
    assert engine.clusters == sorted([hub_name, *member_names])
    assert said.steps[0] == ("Clusters ready", 0, 3)
    assert ("Clusters ready", 3, 3) in said.steps
    for name in ("hub", "member-1", "member-2"):
        assert (here / f"{name}.kubeconfig").stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("C1")
def test_both_processes_run_on_the_hub_from_the_image(engine, hub, here):
    _up(here)
    (hub_name,) = _named(here, "hub")
    loads = engine.calls("kind", "load")
    assert loads == [["kind", "load", "docker-image", IMAGE, "--name", hub_name]]
    installed = {}
    for each in hub.objects("Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        installed[container["args"][0]] = container["image"]
        # Asked of no registry, not even as `latest`.
        assert container["imagePullPolicy"] == "IfNotPresent"
    assert installed == {"controller": IMAGE, "propagator": IMAGE}
    assert "processes" not in _state(here)


def test_up_waits_for_the_leases_of_both_where_they_run_on_the_hub(hub, here):
    _up(here)
    leases = {path.rpartition("/")[2]: n for path, n in hub.asked.items() if "/leases/" in path}
    assert leases == {"stowage-controller": 3, "stowage-propagator": 3}


@pytest.mark.proves("D1")
def test_members_are_registered_by_what_the_hubs_pods_reach(engine, hub, here):
    _up(here)
    secrets = hub.objects("Secret")
    assert [each["metadata"]["name"] for each in secrets] == ["member-1", "member-2"]
    for number, each in enumerate(secrets, start=1):
        (name,) = _named(here, f"member-{number}")
        labels = each["metadata"]["labels"]
        assert labels["stowage.dev/register"] == "true"
        assert labels["topology.kubernetes.io/zone"] == f"zone-{number}"
        registered = parse_kubeconfig(each["stringData"]["kubeconfig"].encode())
        own = parse_kubeconfig((here / f"member-{number}.kubeconfig").read_bytes())
        last = (engine.folder / "clusters" / name).read_text()
        assert registered.server == f"https://172.18.0.{last}:6443"
        assert own.server.startswith("https://127.0.0.1:")
        assert registered.ca == own.ca
        assert registered.client_key == own.client_key
    asked = {call[-1]: call[3] for call in engine.calls("docker", "inspect", "--format")}
    assert set(asked) == {kind.container(here, n) for n in ("member-1", "member-2")}
    # That of kind's network alone, whatever else the container is connected to.
    template = '{{with index .NetworkSettings.Networks "kind"}}{{.IPAddress}}{{end}}'
    assert set(asked.values()) == {template}


@pytest.mark.usefixtures("hub")
def test_a_container_without_an_address_is_a_fault(engine, here):
    engine.fail({"docker inspect": (0, "")})
    with pytest.raises(StowageError, match="member-1-control-plane has no address in the network"):
        _up(here)


@pytest.mark.parametrize(
    ("on_hub", "server"),
    [(True, "https://{node}:6443"), (False, "https://127.0.0.1:{port}")],
)
@pytest.mark.usefixtures("hub")
def test_where_containers_have_no_address_of_this_machine(
    engine, here, monkeypatch, on_hub, server
):
    """A process on this machine then reaches a member only through the port that it publishes."""
    _up(here, members=1)
    monkeypatch.setattr(kind.sys, "platform", "darwin")
    text = ground._registration(here, "member-1", "kind", on_hub=on_hub)
    port = (engine.folder / "port").read_text()
    wanted = server.format(node=kind.container(here, "member-1"), port=port)
    assert parse_kubeconfig(text.encode()).server == wanted


def test_a_second_up_creates_nothing(engine, hub, here, monkeypatch):
    _up(here)
    before = engine.clusters
    engine.forget()
    monkeypatch.setattr(roles, "start", lambda *_: pytest.fail("started beside the hub's own"))
    _up(here, image=None)
    assert engine.calls("kind", "create") == engine.calls("kind", "delete") == []
    assert engine.calls("kind", "load") == []
    assert engine.clusters == before
    assert len(hub.objects("Secret")) == 2


@pytest.mark.usefixtures("hub")
def test_up_starts_the_containers_that_were_stopped(engine, here):
    _up(here)
    assert engine.calls("docker", "start") == []
    _up(here)
    started = [call[2] for call in engine.calls("docker", "start")]
    assert sorted(started) == [kind.container(here, n) for n in ("hub", "member-1", "member-2")]


@pytest.mark.usefixtures("hub")
def test_up_waits_until_each_cluster_answers(engine, here, monkeypatch):
    _up(here, members=1)
    asked = [call[1] for call in engine.calls("kubectl")]
    assert asked == [f"--kubeconfig={here}/{name}.kubeconfig" for name in ("hub", "member-1")]
    engine.fail({"member-1.kubeconfig --request-timeout=2s get": (1, "connection refused")})
    monkeypatch.setattr(ground, "_ANSWER_SECONDS", 0.7)
    engine.forget()
    node = kind.container(here, "member-1")
    told = f"member-1 does not answer after 0.7 s: look with `docker logs {node}`"
    with pytest.raises(StowageError, match=told):
        _up(here, members=1)
    assert len(engine.calls("kubectl", f"--kubeconfig={here}/member-1.kubeconfig")) > 1


@pytest.mark.usefixtures("hub")
def test_up_with_more_members_creates_those(engine, here):
    _up(here, members=1)
    engine.forget()
    _up(here, members=2)
    assert [call[4] for call in engine.calls("kind", "create")] == _named(here, "member-2")


@pytest.mark.usefixtures("hub")
def test_processes_of_this_machine_give_way_to_the_hubs(here):
    _up(here, run=False, image=None)
    process = Process("controller", ["sleep", "600"], here / "logs" / "controller.log")
    process.start(detached=False)
    entry = {"process": process.to_json(), "port": 1}
    state = {**_state(here), "processes": {"controller": entry}}
    (here / ground.STATE).write_text(json.dumps(state))
    _up(here)
    assert not process.alive()
    assert "processes" not in _state(here)


@pytest.mark.usefixtures("hub")
def test_one_that_fails_is_named_and_alone_made_again(engine, here):
    (failing,) = _named(here, "member-1")
    text = "Creating cluster ...\nERROR: failed to create cluster: no room\n"
    engine.fail({f"create cluster --name {failing}": (1, text)})
    with pytest.raises(StowageError) as caught:
        _up(here)
    assert str(caught.value) == (
        f"`{_kind('create', 'cluster', '--name', failing, f'--image={NODE_IMAGE}')} --wait=180s "
        f"--kubeconfig={here}/member-1.kubeconfig` ended with exit code 1: "
        "Creating cluster ... / ERROR: failed to create cluster: no room"
    )
    assert engine.clusters == sorted(_named(here, "hub", "member-2"))
    engine.fail({})
    engine.forget()
    _up(here)
    assert [call[4] for call in engine.calls("kind", "create")] == [failing]
    assert engine.calls("kind", "delete") == []


def _interrupted(engine, here):
    """An `up` that was ended while kind was creating the hub."""
    (engine.folder / "slow").touch()
    arguments = ["playground", "up", "--provider=kind", "--members=1", f"--dir={here}"]
    running = subprocess.Popen(
        [sys.executable, "-m", "stowage", *arguments], stderr=subprocess.PIPE, text=True
    )
    with running:
        pids = engine.folder / "pids"
        assert wait_until(pids.exists, seconds=60)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "Traceback" not in said
    (engine.folder / "slow").unlink()
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()
    assert engine.clusters == _named(here, "hub")


@pytest.mark.usefixtures("hub")
def test_a_cluster_whose_creation_was_interrupted_is_made_anew(engine, here):
    _interrupted(engine, here)
    engine.forget()
    _up(here, members=1)
    wanted = _named(here, "hub")
    assert [call[4] for call in engine.calls("kind", "delete")] == wanted
    assert [call[4] for call in engine.calls("kind", "create")] == _named(here, "hub", "member-1")
    assert not list(here.glob("*.unfinished"))


@pytest.mark.usefixtures("hub")
def test_down_after_an_interrupted_up_leaves_nothing(engine, here):
    _interrupted(engine, here)
    _down(here)
    assert engine.clusters == []
    assert not here.exists()


@pytest.mark.usefixtures("hub")
def test_down_deletes_what_was_made_here_and_nothing_else(engine, here, tmp_path):
    foreign = ["kind", *_named(tmp_path / "elsewhere", "hub", "member-1")]
    for name in foreign:
        engine.add_cluster(name)
    _up(here)
    engine.forget()
    _down(here)
    assert engine.clusters == sorted(foreign)
    names = ("hub", "member-1", "member-2")
    assert engine.calls("kind") == [
        ["kind", "delete", "cluster", "--name", known, f"--kubeconfig={here}/{name}.kubeconfig"]
        for name, known in zip(names, _named(here, *names), strict=True)
    ]
    assert engine.calls("docker") == []
    assert not here.exists()


@pytest.mark.usefixtures("hub")
def test_down_after_an_up_that_failed_half_way(engine, here):
    engine.fail({f"create cluster --name {_named(here, 'member-2')[0]}": (1, "ERROR: no room")})
    with pytest.raises(StowageError):
        _up(here)
    assert engine.clusters == _named(here, "hub", "member-1")
    _down(here)
    assert engine.clusters == []
    assert not here.exists()


@pytest.mark.usefixtures("hub")
def test_down_without_the_engine_can_be_said_again(engine, here):
    _up(here)
    engine.fail({"kind delete": (1, f"ERROR: failed to delete cluster: {NO_ENGINE}")})
    with pytest.raises(StowageError, match=r"ended with exit code 1: ERROR.*daemon running\?$"):
        _down(here)
    engine.fail({})
    _down(here)
    assert engine.clusters == []
    assert not here.exists()


@pytest.mark.parametrize(
    ("line", "command", "first"),
    [
        ("kind get clusters", "get clusters", True),
        ("docker start", "docker start {node}", False),
        ("kind get kubeconfig --name", "get kubeconfig --name {name}", True),
        ("kind load", f"load docker-image {IMAGE} --name {{name}}", True),
        ("kubeconfig --internal", "get kubeconfig --internal --name {member}", True),
        ("docker inspect", "docker inspect --format", True),
    ],
)
@pytest.mark.usefixtures("hub")
def test_a_command_that_fails_is_told_in_one_sentence(engine, here, line, command, first):
    if not first:
        _up(here)
    name, member = _named(here, "hub", "member-1")
    output = "\n".join(["first words", *(f"line {number}" for number in range(1, 9))])
    engine.fail({line: (7, output)})
    with pytest.raises(StowageError) as caught:
        _up(here)
    message = str(caught.value)
    assert message.startswith(("`docker ", f"`{binaries.path('kind')} "))
    assert command.format(name=name, member=member, node=f"{name}-control-plane") in message
    end = " / ".join(f"line {number}" for number in range(1, 9))
    assert message.endswith(f"` ended with exit code 7: {end}")
    assert "\n" not in message


def test_a_command_that_says_nothing(engine, here):
    engine.fail({"kind get clusters": (3, "")})
    with pytest.raises(StowageError, match=r"get clusters` ended with exit code 3: no output$"):
        _up(here)


def test_an_image_that_the_engine_does_not_have_is_told_before_anything_is_made(engine, here):
    with pytest.raises(StowageError, match=r"exit code 1: Error .* No such image: other:1$"):
        _up(here, image="other:1")
    assert engine.calls("kind") == []
    assert not (here / ground.STATE).exists()


def _local_instead(monkeypatch, engine):
    """Local control planes that are there at once, with the hub's API server."""

    def up(directory, hub, zones, *, progress):
        server = f"https://127.0.0.1:{(engine.folder / 'port').read_text()}"
        text = (engine.folder / "kubeconfig").read_text().replace("SERVER", server)
        for name in (hub, *zones):
            (directory / f"{name}.kubeconfig").write_text(text)

    monkeypatch.setattr(local, "up", up)


VERSION = "`docker version --format '{{.Server.Version}}'`"
PULL = f"`docker pull --quiet {NODE_IMAGE}`"
NO_REGISTRY = "Error response from daemon: no such host"


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (
            {"docker version": (1, NO_ENGINE)},
            f"no Docker engine answers ({VERSION} ended with exit code 1: {NO_ENGINE})",
        ),
        (
            {"docker image inspect": (1, "No such image"), "docker pull": (1, NO_REGISTRY)},
            f"the image of its nodes cannot be had ({PULL} ended with exit code 1: {NO_REGISTRY})",
        ),
    ],
)
def test_auto_falls_back_to_local_control_planes(engine, hub, here, monkeypatch, faults, reason):
    _local_instead(monkeypatch, engine)
    engine.fail(faults)
    said = _up(here, provider="auto", run=False, image=None)
    told = f"Not using kind: {reason}. Using control planes built from Go modules."
    assert said.lines[-1] == told
    assert _state(here)["provider"] == "local"
    assert engine.calls("kind") == []
    assert len(hub.objects("Secret")) == 2


@pytest.mark.usefixtures("hub")
def test_auto_falls_back_where_kind_cannot_be_built(engine, here, monkeypatch):
    def ensure(names=binaries.LOCAL, *, progress=None):
        if "kind" in names:
            raise build.BuildFailed("go build failed:\nno such host")

    _local_instead(monkeypatch, engine)
    monkeypatch.setattr(build, "ensure", ensure)
    said = _up(here, provider="auto", run=False, image=None)
    reason = "kind could not be built (go build failed: / no such host)"
    told = f"Not using kind: {reason}. Using control planes built from Go modules."
    assert said.lines == [told]


def test_an_engine_that_hangs_is_none(engine, monkeypatch):
    monkeypatch.setattr(kind, "_ENGINE_SECONDS", 0.001)
    assert kind.unusable(_Said()) == (
        f"no Docker engine answers ({VERSION} did not end within 0.001 s)"
    )
    assert engine.calls("kind") == []


@pytest.mark.usefixtures("hub")
def test_auto_is_kind_where_the_image_can_be_fetched(engine, here):
    (engine.folder / "images").write_text(f"{IMAGE}\n")
    said = _up(here, provider="auto")
    assert said.lines == [f"Fetching {NODE_IMAGE}"]
    assert _state(here)["provider"] == "kind"
    assert engine.calls("docker", "pull") == [["docker", "pull", "--quiet", NODE_IMAGE]]


def test_a_playground_that_stands_is_not_given_up_for_another(engine, hub, here):
    """With the engine gone, `auto` must not build a second playground beside the first."""
    _up(here)
    engine.fail({"docker": (1, NO_ENGINE), "kind": (1, f"ERROR: {NO_ENGINE}")})
    with pytest.raises(StowageError, match="get clusters` ended with exit code 1: ERROR: Cannot"):
        _up(here, provider="auto", image=None)
    assert _state(here)["provider"] == "kind"
    assert len(hub.objects("Deployment")) == 2


def test_an_image_needs_processes_and_kind(engine, here, stowage):
    engine.fail({"docker version": (1, NO_ENGINE)})
    for more, told in (
        (["--no-run", "--provider=kind"], "--image runs both on the hub: leave out --no-run"),
        (["--provider=local"], "--image needs kind: local control planes run no containers"),
        (["--provider=kind"], f"kind cannot be used: no Docker engine answers ({VERSION}"),
    ):
        outcome = stowage("playground", "up", f"--image={IMAGE}", f"--dir={here}", *more)
        assert outcome.code == 1
        assert outcome.err.startswith(f"error: {told}")
        assert outcome.err.count("\n") == 1
    assert engine.clusters == []


def test_the_image_of_the_end_to_end_tests(engine, tmp_path):
    assert harness.image_of(tmp_path) == "stowage:e2e"
    wanted = ["docker", "build", "--quiet", "--tag", "stowage:e2e", str(tmp_path)]
    assert engine.calls() == [wanted]


def test_an_image_that_cannot_be_built(engine, tmp_path, monkeypatch):
    engine.fail({"docker build": (1, "ERROR: failed to solve\npip said no")})
    command = f"`docker build --quiet --tag stowage:e2e {tmp_path}`"
    with pytest.raises(harness.Failed) as caught:
        harness.image_of(tmp_path)
    told = f"{command} ended with exit code 1: ERROR: failed to solve / pip said no"
    assert str(caught.value) == told
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(harness.Failed, match="No such file or directory: 'docker'"):
        harness.image_of(tmp_path)
