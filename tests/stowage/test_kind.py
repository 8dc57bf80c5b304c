"""The kind provider against recorded programs: what is run, in which order, and how faults are told.

What only a Docker engine can show (that containers start, that pods reach the members) is left to
`make e2e PROVIDER=kind`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from e2e import harness
from machinery.errors import StowageError
from stowage.playground import commands, ground, kind, local
from stowage.playground.processes import wait_until
from stowage.toolchain import binaries, build
from tests.patience import PATIENCE
from tests.stowage.engine import NO_ENGINE, NODE_IMAGE, Engine

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
    limits(tmp_path, monkeypatch, instances=8192, watches=524288)
    for module in (kind, commands):
        monkeypatch.setattr(module, "wait_until", _looking_often)
    return made


def _looking_often(check, *, seconds, every):
    """What takes minutes for a person ends at once here."""
    return wait_until(check, seconds=seconds, every=every / 10)


def limits(folder, monkeypatch, *, instances, watches):
    """What the kernel allows one user to watch."""
    kernel = folder / "inotify"
    kernel.mkdir(exist_ok=True)
    (kernel / "max_user_instances").write_text(f"{instances}\n")
    (kernel / "max_user_watches").write_text(f"{watches}\n")
    monkeypatch.setattr(kind, "KERNEL", kernel)
    monkeypatch.delenv("DOCKER_HOST", raising=False)


@pytest.fixture
def here(tmp_path):
    return tmp_path / "here"


def _up(here, *, members=2, image=IMAGE, **more):
    how = {"provider": "kind", "run": True, "image": image, **more}
    ground.up(here, members=members, progress=_Said(), **how)


def _down(here):
    ground.down(here, progress=_Said())


def _named(here, *names):
    """The names that kind knows the clusters of this playground by."""
    return [kind.container(here, name).removesuffix("-control-plane") for name in names]


def _interrupted(engine, here, how):
    """An `up` that was ended while kind was creating the hub."""
    (engine.folder / "slow").touch()
    arguments = ["playground", "up", "--provider=kind", "--members=1", f"--dir={here}"]
    running = subprocess.Popen(
        [sys.executable, "-m", "stowage", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has them ignore what a terminal interrupts with.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads
    )
    with running:
        pids = engine.folder / "pids"
        assert wait_until(lambda: pids.exists() and pids.read_text(), seconds=PATIENCE * 60)
        running.send_signal(how)
        _, said = running.communicate(timeout=PATIENCE * 60)
    assert running.returncode != 0
    assert "Traceback" not in said
    (engine.folder / "slow").unlink()
    kind_ran = Path(f"/proc/{pids.read_text().strip()}")
    assert wait_until(lambda: not kind_ran.exists(), seconds=PATIENCE * 10)
    return said


@pytest.mark.long
@pytest.mark.proves("Y3")
def test_an_up_that_is_interrupted_leaves_no_half_made_cluster(engine, here):
    said = _interrupted(engine, here, signal.SIGINT)
    assert engine.clusters == []
    assert not list(here.glob("*.unfinished"))
    assert f"`stowage playground down --dir {here}` removes it" in said


def _made(engine, here, **how):
    """An `up` that has made its clusters, and gets no further."""
    engine.fail({"get kubeconfig": (1, "no room")})
    with pytest.raises(StowageError, match="no room"):
        _up(here, **how)
    engine.fail({})


def test_down_deletes_what_was_made_here_and_nothing_else(engine, here, tmp_path):
    foreign = ["kind", *_named(tmp_path / "elsewhere", "hub", "member-1")]
    for name in foreign:
        engine.add_cluster(name)
    _made(engine, here)
    assert len(engine.clusters) == len(foreign) + 3
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


def test_an_image_that_the_engine_does_not_have_is_told_before_anything_is_made(engine, here):
    with pytest.raises(StowageError, match=r"exit code 1: Error .* No such image: other:1$"):
        _up(here, image="other:1")
    assert engine.calls("kind", "create") == []
    assert not (here / ground.STATE).exists()


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
            (
                f"the image {NODE_IMAGE} of its nodes cannot be had ({PULL} ended with exit code 1: {NO_REGISTRY} "
                "(all its words: {cache}/kind-pull.log)); --node-image names another"
            ),
        ),
    ],
)
def test_auto_falls_back_to_local_control_planes(engine, here, monkeypatch, faults, reason):
    def local_up(*_, **__):
        raise StowageError("local ones come up")

    monkeypatch.setattr(local, "up", local_up)
    engine.fail(faults)
    said = _Said()
    with pytest.raises(StowageError, match="local ones come up"):
        ground.up(here, members=2, provider="auto", run=False, progress=said, image=None)
    reason = reason.replace("{cache}", str(binaries.cache_root()))
    told = f"Not using kind: {reason}. Using control planes built from Go modules."
    assert said.lines[0] == told
    assert engine.calls("kind", "create") == []


def test_an_image_needs_processes_and_kind(engine, here, stowage):
    engine.fail({"docker version": (1, NO_ENGINE)})
    for more, told in (
        (["--no-run", "--provider=kind"], "--image runs both on the hub: leave out --no-run"),
        (["--provider=local"], "--image needs kind: local clusters run no containers"),
        (["--provider=kind"], f"kind cannot be used: no Docker engine answers ({VERSION}"),
    ):
        outcome = stowage("playground", "up", f"--image={IMAGE}", f"--dir={here}", *more)
        assert outcome.code == 1
        assert outcome.err.startswith(f"error: {told}")
        assert outcome.err.count("\n") == 1
    assert engine.clusters == []


@pytest.mark.proves("Z3")
def test_the_image_of_the_end_to_end_tests(engine, tmp_path):
    assert harness.image_of(tmp_path) == "stowage:e2e"
    wanted = ["docker", "build", "--quiet", "--tag", "stowage:e2e", str(tmp_path)]
    assert engine.calls() == [wanted]
    harness.image_of(tmp_path, base="mirror.example/python:3.13")
    called = engine.calls()[1]
    assert called[-2:] == ["--build-arg=BASE=mirror.example/python:3.13", str(tmp_path)]
    recipe = (harness.ROOT / "Dockerfile").read_text()
    assert "ARG BASE=" in recipe
    assert "FROM ${BASE}" in recipe


@pytest.mark.proves("Y3")
def test_limits_of_the_kernel_are_looked_at_before_anything_is_made(
    engine, here, tmp_path, monkeypatch
):
    engine.add_cluster("somebody-elses")
    limits(tmp_path, monkeypatch, instances=128, watches=524288)
    told = (
        "kind cannot be used: fs.inotify.max_user_instances is 128, and 5 nodes of kind on this "
        "host need 160: `sudo sysctl -w fs.inotify.max_user_instances=512`"
    )
    with pytest.raises(StowageError) as caught:
        _up(here, members=3)
    assert str(caught.value) == told
    limits(tmp_path, monkeypatch, instances=512, watches=8192)
    with pytest.raises(StowageError, match=r"sysctl -w fs\.inotify\.max_user_watches=524288"):
        _up(here, members=3)
    assert engine.calls("kind", "create") == []
    # The limits of another machine are not ours to see.
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2376")
    _made(engine, here, members=3)


KUBEADM = """Creating cluster "x" ...
 \u2713 Preparing nodes
 \u2717 Starting control-plane
ERROR: failed to create cluster: failed to init node with kubeadm: exit status 1

Command Output: I0102 03:04:05.678901 145 initconfiguration.go:255] loading configuration
[kubelet-check] The kubelet is not healthy after 4m0.001s

error: error execution phase wait-control-plane: failed while waiting for the kubelet to start
could not initialize a Kubernetes cluster
k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/init.runWaitControlPlanePhase
\tk8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/init/waitcontrolplane.go:110
k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow.(*Runner).Run.func1
\tk8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow/runner.go:262
runtime.main
\truntime/proc.go:283
runtime.goexit
\truntime/asm_amd64.s:1700
"""


@pytest.mark.proves("Y3", "Y10")
def test_the_cause_is_told_and_not_the_end_of_a_stack(engine, here):
    engine.fail({"create cluster": (1, KUBEADM)})
    with pytest.raises(StowageError) as caught:
        _up(here)
    message = str(caught.value)
    assert (
        "exit code 1: ERROR: failed to create cluster: failed to init node with kubeadm: exit "
        "status 1 / error: error execution phase wait-control-plane: failed while waiting"
    ) in message
    assert "goexit" not in message
    assert (here / "logs" / "kind-hub.log").read_text() == f"{KUBEADM}\n"
    assert "runtime" not in commands.cause(KUBEADM.partition("could not")[2])


@pytest.mark.proves("Y10")
def test_another_image_of_the_nodes(engine, here, stowage):
    mirrored = "mirror.example/kindest/node:v1.36.4"
    _made(engine, here, node_image=mirrored)
    assert engine.calls("docker", "pull") == [["docker", "pull", "--quiet", mirrored]]
    assert {call[5] for call in engine.calls("kind", "create")} == {f"--image={mirrored}"}
    outcome = stowage(
        "playground", "up", f"--node-image={mirrored}", "--provider=local", f"--dir={here}/2"
    )
    assert outcome.err == "error: --node-image needs kind: local clusters run no containers\n"


@pytest.mark.proves("Z3")
def test_a_bad_image_of_the_nodes_is_told_once_and_nothing_else_is_begun(engine, here, stowage):
    """Control planes built from Go modules are no answer to who named an image of kind's nodes."""
    engine.fail({"docker image inspect": (1, "No such image"), "docker pull": (1, NO_REGISTRY)})
    outcome = stowage("playground", "up", "--node-image=kindest/node:none", f"--dir={here}")
    assert outcome.code == 1
    assert outcome.err.count("kindest/node:none of its nodes cannot be had") == 1
    assert "error: kind cannot be used: the image kindest/node:none" in outcome.err
    assert "is that what it is called?" in outcome.err
    assert "--node-image" not in outcome.err
    assert "Go modules" not in outcome.err
    assert not (here / "state.json").exists()


@pytest.mark.proves("Y2")
def test_the_image_of_the_nodes_is_of_the_release_of_kind_that_is_built():
    pinned = (binaries.GO_MODULE / "go.mod").read_text()
    assert f"sigs.k8s.io/kind {kind.RELEASE} " in pinned
    assert kind.NODE_IMAGE.startswith("kindest/node:v1.36.")
    kubernetes = build.kubernetes_version().rpartition(".")[0]
    assert f":{kubernetes}." in kind.NODE_IMAGE


@pytest.mark.proves("Y3")
def test_the_end_to_end_tests_make_one_set_of_clusters(tmp_path):
    """Those that end processes run their own on the clusters that are there, and give them back."""
    asked = []

    def hub(*arguments, timeout=60):
        asked.append(" ".join(arguments).removeprefix("-n stowage-system "))
        return ""

    ground_of_all = harness.Playground(tmp_path, "kind", hub, {})
    both = "deployment/stowage-controller deployment/stowage-propagator"
    with suppress(KeyError), harness.at_rest(ground_of_all):
        assert asked[0] == f"scale {both} --replicas=0"
        raise KeyError
    assert f"scale {both} --replicas=2" in asked
    assert len([line for line in asked if line.startswith("rollout status")]) == 2
