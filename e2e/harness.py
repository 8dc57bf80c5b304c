"""The end-to-end tests' access to a running playground: kubectl on each cluster, and pykube.

The tests type what a user types. The objects on a member are read by pykube, a client that shares
no code with ours, so that a fault of our transport cannot hide itself.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pykube
import yaml

from stowage.playground import ground, roles
from tests.patience import PATIENCE

T = TypeVar("T")
MARKERS = "markers"
"""The namespace of the Workloads of `Playground.handled`."""
_NUMBERS = itertools.count(1)
PACES = {"local": PATIENCE, "kind": 2 * PATIENCE}
"""The factor of each wait's time-out: for a busy machine; kind pulls images as well."""
ROOT = Path(__file__).resolve().parent.parent


class Failed(AssertionError):
    """A command failed; the message is its output."""


NOT_YET = (
    Failed,
    OSError,
    LookupError,
    ValueError,
    subprocess.TimeoutExpired,
    pykube.exceptions.PyKubeError,
)
"""Faults of a read that comes too early, or meets a server that is busy."""


KINDS = {
    "cd": ("stowage.dev/v1alpha1", "clusterdecisions"),
    "configmaps": ("v1", "configmaps"),
    "controllerrevisions": ("apps/v1", "controllerrevisions"),
    "deploy": ("apps/v1", "deployments"),
    "events": ("v1", "events"),
    "gadgets": ("chaos.example/v1", "gadgets"),
    "jobs": ("batch/v1", "jobs"),
    "lease": ("coordination.k8s.io/v1", "leases"),
    "mc": ("stowage.dev/v1alpha1", "memberclusters"),
    "nodes": ("v1", "nodes"),
    "pods": ("v1", "pods"),
    "pvc": ("v1", "persistentvolumeclaims"),
    "quota": ("v1", "resourcequotas"),
    "replicasets": ("apps/v1", "replicasets"),
    "rsv": ("stowage.dev/v1alpha1", "reservations"),
    "secret": ("v1", "secrets"),
    "services": ("v1", "services"),
    "statefulsets": ("apps/v1", "statefulsets"),
    "wg": ("stowage.dev/v1alpha1", "workloadgroups"),
    "widgets": ("chaos.example/v1", "widgets"),
    "wl": ("stowage.dev/v1alpha1", "workloads"),
    "wlp": ("stowage.dev/v1alpha1", "workloadpolicies"),
    "ws": ("stowage.dev/v1alpha1", "workloadspreads"),
}
"""(version, plural) of the kinds that `Kubectl` reads, by the name that kubectl has for each."""


@dataclass
class Kubectl:
    """kubectl on one cluster, and reads without a process for each.

    Waits read five times a second; pykube does so by one connection that it keeps.
    """

    binary: Path
    kubeconfig: Path

    def __call__(self, *args: str, stdin: str | None = None, timeout: float = 60) -> str:
        done = subprocess.run(
            [str(self.binary), f"--kubeconfig={self.kubeconfig}", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout * PACE.factor,
            check=False,
        )
        if done.returncode:
            raise Failed(f"kubectl {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "-o", "json"))

    def apply(self, *objects: Mapping[str, Any] | str, server_side: bool = False) -> str:
        text = "\n---\n".join(o if isinstance(o, str) else json.dumps(o) for o in objects)
        return self("apply", *(["--server-side"] if server_side else []), "-f", "-", stdin=text)

    def refused(self, *objects: Mapping[str, Any] | str) -> str:
        """Apply objects that must be refused; return the message."""
        try:
            self.apply(*objects)
        except Failed as refusal:
            return str(refusal)
        raise AssertionError("the object was accepted")

    def exists(self, *args: str) -> bool:
        return bool(self("get", *args, "--ignore-not-found", "-o", "name").strip())

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Return an object. Raises Failed where there is none."""
        found: dict[str, Any] = self._read(kind, namespace, f"/{name}")
        return found

    def items(
        self, kind: str, namespace: str | None = None, *, labels: str = ""
    ) -> list[dict[str, Any]]:
        """Return all objects of a kind with those labels, of all namespaces without one.

        Each has its kind and apiVersion, as in kubectl's output.
        """
        listed = self._read(kind, namespace, "", labelSelector=labels)
        said = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        return [said | each for each in listed["items"]]

    def _read(self, kind: str, namespace: str | None, name: str, **query: str) -> Any:
        version, plural = KINDS[kind]
        answer = self.api.get(version=version, namespace=namespace, url=plural + name, params=query)
        if not answer.ok:
            raise Failed(f"{kind}{name} of {namespace}: {answer.status_code} {answer.text}")
        return answer.json()

    @cached_property
    def api(self) -> pykube.HTTPClient:
        config = pykube.KubeConfig.from_file(str(self.kubeconfig))
        return pykube.HTTPClient(config, timeout=10 * PACE.factor)


@dataclass
class Process:
    """A background process of the test's own, started and ended by its id."""

    args: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.running = subprocess.Popen(
                self.args, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **self.env}
            )

    def kill(self, sig: int = signal.SIGKILL) -> None:
        if self.running and self.running.poll() is None:
            self.running.send_signal(sig)
            self.running.wait(60 * PACE.factor)
        self.running = None


@dataclass
class Pace:
    """The factor of this run's time-outs."""

    factor: float = PATIENCE


PACE = Pace()


def wait(what: str, check: Callable[[], T], *, timeout: float = 60, every: float = 0.2) -> T:
    """Return the first true answer of `check`; a failed command counts as not yet."""
    timeout *= PACE.factor
    deadline = time.monotonic() + timeout
    while True:
        # Read before the check, so that one last check begins after the deadline.
        late = time.monotonic() > deadline
        last: object
        try:
            last = check()
            if last:
                return last
        except NOT_YET as error:
            last = error
        if late:
            raise AssertionError(f"after {timeout:.0f} s still waiting for {what}; last: {last}")
        time.sleep(every)


def steady(playground: Playground, what: str, check: Callable[[], bool]) -> None:
    """Assert that `check` holds, also once both processes have handled all that was done before."""
    assert check(), f"not true: {what}"
    playground.handled()
    assert check(), f"no longer true: {what}"


def stowage(*args: str, env: Mapping[str, str] | None = None, timeout: float = 900) -> str:
    """Run the command line as users do; return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "stowage", *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        raise Failed(f"stowage {' '.join(args)} ({done.returncode}): {done.stderr}{done.stdout}")
    return done.stdout


def image_of(tree: Path, *, base: str | None = None) -> str:
    """Build the image of both processes from this tree, on `base` if given; return its tag."""
    tag = "stowage:e2e"
    other = [f"--build-arg=BASE={base}"] if base else []
    command = ["docker", "build", "--quiet", "--tag", tag, *other, str(tree)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"`{' '.join(command)}` did not end: {error}") from error
    if done.returncode:
        end = " / ".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Failed(f"`{' '.join(command)}` ended with exit code {done.returncode}: {end}")
    return tag


def deployment(
    name: str, *, replicas: int = 1, cpu: str = "10m", image: str = "registry.k8s.io/pause:3.10"
) -> dict[str, Any]:
    """Return a Deployment template with one small container."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(name, cpu=cpu, image=image),
        },
    }


def pod_template(
    name: str, *, cpu: str = "10m", image: str = "registry.k8s.io/pause:3.10", **spec: Any
) -> dict[str, Any]:
    """Return a pod template with one small container."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}


def workload(
    name: str, namespace: str, *, template: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a Workload around a Deployment, or around `template`."""
    body = {"template": template} if template else {"targetDeployment": deployment(name)}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {**body, **spec},
    }


@dataclass
class Playground:
    """A hub and its members, started by `stowage playground up`."""

    directory: Path
    provider: str
    hub: Kubectl
    members: dict[str, Kubectl]

    def logs(self) -> Iterator[tuple[str, Path]]:
        """Yield name and log of each process on this machine."""
        for role in ("controller", "propagator"):
            yield role, self.directory / "logs" / f"{role}.log"

    def status(self, namespace: str, name: str) -> dict[str, Any]:
        return dict(self.hub.get("wl", name, namespace).get("status", {}))

    def placements(self, namespace: str, name: str) -> dict[str, int]:
        placed = self.status(namespace, name).get("placements", [])
        return {share["cluster"]: share["replicas"] for share in placed}

    def condition(self, namespace: str, name: str, kind: str) -> dict[str, Any]:
        conditions = self.status(namespace, name).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def until_state(
        self, namespace: str, name: str, state: str, *, timeout: float = 60
    ) -> dict[str, Any]:
        def check() -> dict[str, Any] | None:
            status = self.status(namespace, name)
            if status.get("state") == state:
                return status
            raise Failed(json.dumps(status))

        return wait(f"Workload {namespace}/{name} to be {state}", check, timeout=timeout) or {}

    def until_running(self, namespace: str, name: str, *, timeout: float = 60) -> dict[str, Any]:
        return self.until_state(namespace, name, "Running", timeout=timeout)

    def until_condition(
        self, namespace: str, name: str, kind: str, *, reason: str, timeout: float = 60
    ) -> dict[str, Any]:
        def check() -> dict[str, Any] | None:
            found = self.condition(namespace, name, kind)
            if found.get("reason") == reason:
                return found
            raise Failed(json.dumps(self.status(namespace, name)))

        return wait(f"{kind} of {namespace}/{name}: {reason}", check, timeout=timeout) or {}

    def handled(self) -> None:
        """Return once controller and propagator have handled what was written before: a barrier.

        A Workload of its own passes both. What was done before has had its effect then, or has
        none; after some seconds, a busy machine may not have looked yet.
        """
        name = f"marker-{next(_NUMBERS)}"
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MARKERS}}
        self.hub.apply(space, workload(name, MARKERS))
        wait(name, lambda: self.condition(MARKERS, name, "Propagated").get("status") == "True")
        self.hub("-n", MARKERS, "delete", "wl", name, "--wait=false")

    def ready(self, member: str) -> dict[str, Any]:
        conditions = self.hub.get("mc", member).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "Ready"), {})

    def seen(
        self,
        member: str,
        namespace: str,
        name: str,
        *,
        version: str = "apps/v1",
        kind: str = "Deployment",
    ) -> dict[str, Any] | None:
        """Return the object on a member, as pykube reads it; None where there is none."""
        api = self.members[member].api
        factory = pykube.object_factory(api, version, kind)
        found = factory.objects(api, namespace=namespace).get_or_none(name=name)
        return None if found is None else dict(found.obj)


@contextmanager
def at_rest(playground: Playground) -> Iterator[None]:
    """End both processes of the playground, so that a test may run, kill and freeze its own."""
    if playground.provider == "kind":
        with _scaled_to_zero(playground):
            yield
        return
    state = json.loads((playground.directory / ground.STATE).read_text())
    roles.end(state["processes"])
    try:
        yield
    finally:
        stowage("playground", "up", f"--dir={playground.directory}", timeout=300)


@contextmanager
def _scaled_to_zero(playground: Playground) -> Iterator[None]:
    system = ("-n", "stowage-system")
    deployments = ("deployment/stowage-controller", "deployment/stowage-propagator")
    playground.hub(*system, "scale", *deployments, "--replicas=0")
    pods = ("pods", "-l", "app in (stowage-controller, stowage-propagator)", "-o", "name")
    wait("both to end", lambda: not playground.hub(*system, "get", *pods).strip(), timeout=120)
    try:
        yield
    finally:
        playground.hub(*system, "scale", *deployments, "--replicas=2")
        for each in deployments:
            playground.hub(*system, "rollout", "status", each, "--timeout=300s", timeout=330)


def load(path: Path) -> list[dict[str, Any]]:
    return [o for o in yaml.safe_load_all(path.read_text()) if o]
