"""Waits until Deployments run their newest template, or fails with the reasons of their pods.

A Deployment is through when all its pods are of its newest template and available. A lasting fault
(an image that cannot be pulled, a process that ends again and again) fails the wait after some
seconds; any other fault fails it at the end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, PODS
from machinery.errors import StowageError
from stowage.console.progress import Progress

SECONDS = 300.0
PATIENCE_SECONDS = 20.0
"""A lasting fault fails the wait after so long, as one pull may fail and the next succeed."""
_LOOK_SECONDS = 0.5
NO_IMAGE = frozenset({"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
_LASTING = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)


@dataclass(frozen=True, kw_only=True)
class PodReason:
    """The reason why a pod, or all of a Deployment, does not run."""

    told: str
    pod: str = ""
    image: str = ""
    """The image that cannot be pulled: pods without it share one cause, in whatever words."""
    lasting: bool = False

    @property
    def cause(self) -> str:
        return f"image {self.image}" if self.image else self.told


@dataclass(frozen=True, kw_only=True)
class DeploymentRollout:
    """The progress of one Deployment."""

    name: str
    done: int
    wanted: int
    reasons: tuple[PodReason, ...]
    """The faults of its pods and of itself; empty once it is through."""

    @property
    def lasting(self) -> bool:
        return any(each.lasting for each in self.reasons)

    @property
    def through(self) -> bool:
        return self.done == self.wanted and not self.reasons


async def wait(
    client: ApiClient,
    names: Sequence[str],
    *,
    namespace: str,
    progress: Progress,
    seconds: float = SECONDS,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Return when all run. Raises StowageError with each that does not, and why."""
    loop = asyncio.get_running_loop()
    started = fine = loop.time()
    while True:
        found = [await look(client, name, namespace=namespace) for name in names]
        done, wanted = (sum(getattr(each, of) for each in found) for of in ("done", "wanted"))
        progress.step("Pods available", done, wanted)
        waiting = [each for each in found if not each.through]
        if not waiting:
            return
        now = loop.time()
        if not any(each.lasting for each in waiting):
            fine = now
        if now - fine > patience or now - started > seconds:
            raise StowageError("\n".join(_told(waiting, now - started)))
        await asyncio.sleep(_LOOK_SECONDS)


async def look(client: ApiClient, name: str, *, namespace: str) -> DeploymentRollout:
    deployment = await client.get(DEPLOYMENTS, name, namespace=namespace)
    spec, status = deployment["spec"], deployment.get("status", {})
    wanted = int(spec.get("replicas", 1))
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        unseen = "the hub's Deployment controller has not looked at it yet"
        return DeploymentRollout(
            name=name, done=0, wanted=wanted, reasons=(PodReason(told=unseen),)
        )
    updated = int(status.get("updatedReplicas", 0))
    older = int(status.get("replicas", 0)) - updated
    done = min(updated, int(status.get("availableReplicas", 0)) - max(older, 0), wanted)
    if done == wanted and older <= 0:
        return DeploymentRollout(name=name, done=done, wanted=wanted, reasons=())
    labels = spec["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listed = await client.list(PODS, namespace=namespace, label_selector=selector)
    reasons = [
        *_faults(_of_template(listed["items"], spec["template"])),
        *_conditions(status.get("conditions", ())),
    ]
    short = PodReason(told=f"{max(done, 0)} of {wanted} pods are available")
    return DeploymentRollout(
        name=name, done=max(done, 0), wanted=wanted, reasons=tuple(reasons) or (short,)
    )


def _of_template(
    pods: Iterable[Mapping[str, Any]], template: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    images = [each["image"] for each in template["spec"]["containers"]]
    for pod in pods:
        # pods of an earlier install may have faults of their own
        mine = [each["image"] for each in pod["spec"]["containers"]] == images
        if mine and not pod["metadata"].get("deletionTimestamp"):
            yield pod


def _faults(pods: Iterable[Mapping[str, Any]]) -> Iterator[PodReason]:
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        for condition in status.get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                yield PodReason(pod=name, told=_reason(condition))
        containers = [
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        ]
        for container in containers:
            waiting = container.get("state", {}).get("waiting")
            if waiting and waiting.get("reason") not in (None, "ContainerCreating"):
                last = container.get("lastState", {}).get("terminated")
                yield PodReason(
                    pod=name,
                    told=_reason(waiting) + _ended(last),
                    image=container["image"] if waiting["reason"] in NO_IMAGE else "",
                    lasting=waiting["reason"] in _LASTING,
                )


def _ended(last: Mapping[str, Any] | None) -> str:
    return f" (it ended with exit code {last['exitCode']})" if last else ""


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> Iterator[PodReason]:
    """Yield the Deployment's own faults, such as that its pods may not be created."""
    for each in conditions:
        if each["type"] == "ReplicaFailure" and each["status"] == "True":
            yield PodReason(told=_reason(each))


def _reason(said: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (said.get("reason", ""), said.get("message", ""))))


def _told(waiting: Iterable[DeploymentRollout], seconds: float) -> Iterator[str]:
    alike: dict[frozenset[str], list[DeploymentRollout]] = defaultdict(list)
    for each in waiting:
        alike[frozenset(reason.cause for reason in each.reasons)].append(each)
    for those in alike.values():
        kept: dict[str, list[PodReason]] = defaultdict(list)
        for reason in (reason for each in those for reason in each.reasons):
            kept[reason.cause].append(reason)
        names = " and ".join(each.name for each in those)
        who = f"Deployments {names} do" if len(those) > 1 else f"Deployment {names} does"
        reasons = "; ".join(_once(reasons) for reasons in kept.values())
        yield f"{who} not run after {seconds:.0f} s: {reasons}"


def _once(reasons: Sequence[PodReason]) -> str:
    """Return the reason of several pods in the words of the first one."""
    first, others = reasons[0], {each.pod for each in reasons} - {reasons[0].pod}
    pod = f"pod {first.pod}: " if first.pod else ""
    more = f" (and {len(others)} more pods)" if len(others) > 1 else " (and one more pod)"
    return f"{pod}{first.told}{more if others else ''}"
