"""`stowage install` waits for what it has installed, and fails with the pods' own reasons."""

from __future__ import annotations

import json

import pytest
import yaml

from machinery.api.client import ApiClient
from machinery.errors import StowageError
from stowage.console.progress import Progress
from stowage.setup import install, rollout
from tests.patience import hold_on

from .conftest import FLEET

pytestmark = [pytest.mark.proves("Y7"), FLEET]


@pytest.fixture(scope="module")
def hub(full_cluster):
    return full_cluster


@pytest.fixture
def full(hub):
    """The same while its nodes take no pods."""
    hub.kubectl("cordon", "node-0", "node-1")
    yield hub
    hub.kubectl("uncordon", "node-0", "node-1")


def _install(hub, namespace, *more):
    return ["install", f"--kubeconfig={hub.kubeconfig}", f"--system-namespace={namespace}", *more]


def _deployment(hub, namespace, name="stowage-controller"):
    found = json.loads(hub.kubectl("-n", namespace, "get", "deployment", name, "-o", "json"))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return found, container


@pytest.mark.long
def test_it_returns_when_both_run_and_another_image_really_comes(hub, stowage):
    hub.kubectl("create", "namespace", "again")
    hub.kubectl("create", "-f", "-", input=json.dumps(_as_it_was("again")))
    assert _deployment(hub, "again")[1]["imagePullPolicy"] == "Always"
    for image in ("mirror.example/stowage:1", "mirror.example/stowage:2"):
        outcome = stowage(*_install(hub, "again", f"--image={image}"))
        assert outcome.code == 0, outcome.err
        assert "Pods available: 4 of 4" in outcome.err
        found, container = _deployment(hub, "again")
        assert (container["image"], container["imagePullPolicy"]) == (image, "IfNotPresent")
        assert found["status"]["updatedReplicas"] == found["status"]["replicas"] == 2


def _as_it_was(namespace):
    """A Deployment of an earlier install: its image was `latest`, its policy left to the default."""
    manifests = install.manifests(namespace=namespace, image="stowage:latest")
    (found,) = [each for each in manifests if each["metadata"]["name"] == "stowage-controller"
                and each["kind"] == "Deployment"]  # fmt: skip
    found["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy")
    return found


@pytest.mark.long
def test_the_reason_of_pods_without_a_node(full, stowage):
    stowage.succeed(*_install(full, "crowded", "--wait=false"))
    for role in ("controller", "propagator"):
        for pod in _pods(full, "crowded", f"stowage-{role}"):
            full.kubectl(
                "-n", "crowded", "wait", "--for=condition=PodScheduled=false", f"pod/{pod}",
                "--timeout=240s",
            )  # fmt: skip
    outcome = stowage(*_install(full, "crowded", "--timeout=2"))
    assert outcome.code == 1
    both = "error: Deployments stowage-controller and stowage-propagator do not run after"
    assert both in outcome.err
    assert outcome.err.count("Unschedulable") == 1
    assert "(and 3 more pods)" in outcome.err
    assert "Unschedulable: 0/2 nodes are available: 2 node(s) were unschedulable" in outcome.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("state", "told"),
    [
        (
            {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling "stowage:0"'}},
            'ImagePullBackOff: Back-off pulling "stowage:0"',
        ),
        (
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}},
            "CrashLoopBackOff: back-off 10s restarting (it ended with exit code 3)",
        ),
    ],
)
async def test_what_does_not_mend_itself_is_told_before_the_time_is_over(
    full, stowage, state, told
):
    namespace = state["waiting"]["reason"].lower()
    image = "stowage:0"
    stowage.succeed(*_install(full, namespace, f"--image={image}", "--wait=false"))
    pods = _pods(full, namespace)
    container = {
        "name": "controller", "image": image, "imageID": "", "ready": False, "restartCount": 1,
        "state": state, "lastState": {"terminated": {"exitCode": 3}},
    }  # fmt: skip
    status = {"status": {"containerStatuses": [container]}}
    full.kubectl(
        "-n", namespace, "patch", "pod", pods[0], "--subresource=status", "-p", json.dumps(status)
    )
    objects = install.manifests(namespace=namespace, image=image)
    async with ApiClient(full.connection()) as client:
        with pytest.raises(StowageError) as caught:
            await rollout.wait(
                client,
                ["stowage-controller"],
                namespace=namespace,
                progress=Progress(),
                patience=0.2,
            )
        assert f"pod {pods[0]}: {told}" in str(caught.value)
        with pytest.raises(StowageError) as caught:
            await install.until_running(client, objects, progress=Progress(), seconds=0)
        assert ("docs/install.md" in str(caught.value)) == ("Image" in told)


class _Lacking:
    """A hub whose pods all lack their image, and say so in different words."""

    WORDS = ("ErrImagePull", "ImagePullBackOff")

    async def get(self, resource, name, *, namespace):
        template = {"spec": {"containers": [{"image": "stowage:9"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
        return {"metadata": {"generation": 1}, "spec": spec, "status": {"observedGeneration": 1}}

    async def list(self, resource, *, namespace, label_selector):
        app = label_selector.partition("=")[2]
        return {"items": [self._pod(f"{app}-{at}", reason) for at, reason in enumerate(self.WORDS)]}

    def _pod(self, name, reason):
        waiting = {"reason": reason, "message": f"{reason} of {name}"}
        status = {"image": "stowage:9", "state": {"waiting": waiting}}
        return {
            "metadata": {"name": name},
            "spec": {"containers": [{"image": "stowage:9"}]},
            "status": {"containerStatuses": [status]},
        }


@pytest.mark.proves("Z3")
async def test_an_image_that_all_pods_lack_is_told_once():
    objects = install.manifests(namespace="x", image="stowage:9")
    with pytest.raises(StowageError) as caught:
        await install.until_running(_Lacking(), objects, progress=Progress(), seconds=0)
    told, hint = str(caught.value).splitlines()
    assert told.endswith(
        "pod stowage-controller-0: ErrImagePull: ErrImagePull of stowage-controller-0 (and 3 more pods)"
    )
    assert told.startswith("Deployments stowage-controller and stowage-propagator do not run")
    assert "docs/install.md" in hint


def _pods(hub, namespace, app="stowage-controller"):
    hub.kubectl(
        "-n", namespace, "wait", "--for=create", "pod", "-l", f"app={app}", "--timeout=240s"
    )
    listed = hub.kubectl("-n", namespace, "get", "pods", "-l", f"app={app}", "-o", "name")
    return [name.removeprefix("pod/") for name in listed.split()]


@pytest.mark.long
async def test_a_hub_whose_pods_may_not_be_made(hub, stowage):
    """The Deployment says so; there is no pod that could."""
    hub.kubectl("create", "namespace", "guarded")
    hub.kubectl("-n", "guarded", "create", "quota", "none", "--hard=pods=0")
    # Until it is counted, pods are made, or refused with a reason that stays on the Deployment.
    pod = ("-n", "guarded", "run", "tried", "--image=i", "--dry-run=server")
    hold_on(lambda: "exceeded quota: none" in hub.kubectl(*pod, check=False))
    hub.kubectl("label", "namespace", "guarded", "pod-security.kubernetes.io/enforce=restricted")
    stowage.succeed(*_install(hub, "guarded", "--wait=false"))
    for role in ("controller", "propagator"):
        hub.kubectl(
            "-n", "guarded", "wait", "--for=condition=ReplicaFailure",
            f"deployment/stowage-{role}", "--timeout=240s",
        )  # fmt: skip
    outcome = stowage(*_install(hub, "guarded", "--timeout=2"))
    assert outcome.code == 1
    assert "exceeded quota: none" in outcome.err


@pytest.mark.long
async def test_a_hub_that_runs_no_deployments_says_so(propagated_hub, stowage):
    outcome = stowage(*_install(propagated_hub, "idle", "--timeout=1"))
    assert outcome.code == 1
    assert "the hub's Deployment controller has not looked at it yet" in outcome.err


@pytest.mark.long
def test_what_is_printed_is_what_is_applied(hub, stowage):
    printed = stowage.succeed(*_install(hub, "printed", "--dry-run"))
    applied = install.manifests(namespace="printed", image=install.default_image())
    assert list(yaml.safe_load_all(printed)) == applied
    assert f"image: {install.default_image()}" in printed
    assert ":latest" not in printed
