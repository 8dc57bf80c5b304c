"""The wishes of a chaos run's users: the Workloads that must exist at its end, with their specs.

Pure: a wish is made and changed by a seeded random generator, and rendered as the manifest that a
user would apply.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crds.names import LABEL_POLICY
from e2e.harness import deployment, pod_template
from machinery.api.resources import Resource

NAMESPACES = ("chaos-a", "chaos-b", "chaos-c")
ZONES = ("zone-1", "zone-2", "zone-3")
"""Each zone is the member of the same number."""
SECRET = "credential"
POLICY = "zones"
STRICT = "strict"
QUOTA = 4
"""Units that a namespace's strict policy allows in each zone; no user edits that policy."""
SCHEDULER = "chaos"
"""The scheduler of Workloads that the test places, as an external scheduler does."""
_PLAIN = ("Single", "Divided", "Duplicated")
MODES = (*_PLAIN, "Policy", "Strict", "Placed", "Spread", "Reserved")
_KINDS = ("Deployment", "Deployment", "StatefulSet")
_PLAIN_KINDS = (*_KINDS, "StatefulSet", "Job", "Job", "Widget", "Gadget")
"""Of Workloads whose units no other object divides."""
CUSTOM_GROUP = "chaos.example"
WIDGETS = Resource(CUSTOM_GROUP, "v1", "widgets", "Widget")
"""A custom kind whose status the test writes, as its operator would; its units move place first."""
GADGETS = Resource(CUSTOM_GROUP, "v1", "gadgets", "Gadget")
"""A custom kind that says nothing of itself: nobody knows whether it runs, and it stays."""
CUSTOM = {each.kind: each for each in (WIDGETS, GADGETS)}
COMPLETIONS = 8
"""The completions of every Job: more than its units, so that it takes a while."""
LABEL_MODE = "mode"
"""The label of a Job with the mode of its wish."""
LABEL_RUNS = "runs"
"""The label of pods that run once: `ONCE` as a whole, otherwise each by its ordinal."""
ONCE = "once"
LABEL_DATA = "data"
"""The label of the claims of a StatefulSet, which the test makes volumes for."""
LABEL_SPREAD = "spread"
"""The label of a Workload that a WorkloadSpread of its name targets."""
LABEL_LIFE = "life"
"""The label with the life of a Workload: one that was deleted and made again has two lives."""
LABEL_RESERVED = "reserved"
"""The label of a Workload whose room a Reservation of its name keeps, over the members."""
RESERVED = 3
"""Units of each such reservation."""
CPU = 20
"""Thousandths of cpu of every unit."""
CAP = 2
"""The cap of the second subset of each spread."""
CRITICAL_SECONDS = 140
_ZONE = "topology.kubernetes.io/zone"
_POLICIES = {"Policy": POLICY, "Strict": STRICT}
_PARTS = {"Strict": "strict"}
_UNIT = "unit"
_MOST_UNITS = 5
_TTLS = 4
"""A Job is forgotten 0 to 3 s after its end."""
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
FOREIGN = (NAMESPACES[0], "somebody-elses")
"""The Workload whose name a foreign Deployment has on each member."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One Workload as its user wants it now. `config` is the ConfigMap's value, None: none.

    `claim` asks for a PersistentVolumeClaim among its manifests, and `volumes` for one of each unit
    of a StatefulSet. `cap` is that of its first subset, where a WorkloadSpread of its name targets
    it. `run` is the number of the run of a Job, whose object is named after it.
    """

    mode: str
    kind: str
    replicas: int
    tag: str
    config: int | None
    secret: bool
    cap: int = 0
    claim: bool = False
    volumes: bool = False
    run: int = 0


TAKEN = Wish("Taken", "Deployment", 1, "3.1", config=None, secret=False)
PROBE = Wish("Duplicated", "Deployment", 1, "3.1", config=None, secret=False)


def made(chance: random.Random) -> Wish:
    """Return a random wish."""
    mode = chance.choice(MODES)
    kind = chance.choice(_PLAIN_KINDS if mode in _PLAIN else _KINDS)
    return Wish(
        mode=mode,
        kind=kind,
        replicas=chance.randint(1, _MOST_UNITS),
        tag=_tag(chance),
        config=chance.choice((None, chance.randint(0, 9))),
        secret=chance.random() < 0.3,
        cap=chance.randint(0, 3),
        claim=chance.random() < 0.6,
        volumes=kind == "StatefulSet" and mode in _PLAIN and chance.random() < 0.6,
    )


def changed(wish: Wish, chance: random.Random) -> Wish:
    """Return the wish after an edit. A Job with another image is another run."""
    if wish.kind == "Job" and chance.random() < 0.5:
        return replace(wish, tag=_tag(chance), run=wish.run + 1)
    match chance.randrange(6 if wish.mode == "Spread" else 5):
        case 5:
            return replace(wish, cap=chance.randint(0, 3))
        case 4:
            return replace(wish, claim=not wish.claim)
        case 0 if wish.kind != "Job":
            return replace(wish, replicas=chance.randint(0, _MOST_UNITS))
        case 1 if wish.kind != "Job":
            return replace(wish, tag=_tag(chance))
        case 2:
            return replace(wish, config=chance.choice((None, chance.randint(0, 9))))
        case _:
            return replace(wish, secret=not wish.secret)


def renewed(wish: Wish) -> Wish:
    """Return the wish after an edit that changes nothing but the image."""
    tag = f"{wish.tag}-again" if not wish.tag.endswith("-again") else "3.1"
    return replace(wish, tag=tag, run=wish.run + 1)


def manifest(namespace: str, name: str, wish: Wish, life: int = 0) -> dict[str, Any]:
    """Return the Workload that the user applies."""
    lives = {LABEL_LIFE: str(life)}
    spec: dict[str, Any] = {"replicas": wish.replicas, **_template(name, wish, lives)}
    if wish.kind in CUSTOM:
        spec["replicasPath"] = "spec.replicas"
    if wish.kind == WIDGETS.kind:
        spec["movement"] = {"maxSurge": 1}
    labels = {"app": name}
    if wish.mode == "Placed":
        spec["schedulerName"] = SCHEDULER
    elif wish.mode in _POLICIES:
        labels[LABEL_POLICY] = _POLICIES[wish.mode]
    elif wish.mode == "Spread":
        labels[LABEL_SPREAD] = "true"
    elif wish.mode == "Reserved":
        labels[LABEL_RESERVED] = "true"
        spec["distribution"] = "Divided"
    else:
        spec["distribution"] = "Duplicated" if wish.mode == "Taken" else wish.mode
    manifests: list[dict[str, Any]] = []
    if wish.config is not None:
        data = {"value": str(wish.config)}
        meta = {"name": f"{name}-config"}
        manifests.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    if wish.claim:
        manifests.append(_claim(claim_of(name), lives))
    if manifests:
        spec["manifests"] = manifests
    if wish.secret:
        spec["resources"] = [{"name": SECRET}]
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    }


def claim_of(name: str) -> str:
    return f"{name}-data"


def object_of(name: str, wish: Wish, life: int) -> str:
    """Return the name of its main object; each run of a Job has another one."""
    return f"{name}-{life}-{wish.run}" if wish.kind == "Job" else name


def _claim(name: str, lives: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": dict(lives)},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "",
        },
    }


def spread(namespace: str, name: str, wish: Wish) -> dict[str, Any]:
    """Return the WorkloadSpread on it: the zones in their order, the first two with a cap."""
    caps = (wish.cap, CAP, None)
    subsets = [
        {
            "name": zone,
            "requiredNodeSelectorTerm": {
                "matchExpressions": [{"key": _ZONE, "operator": "In", "values": [zone]}]
            },
            **({} if cap is None else {"maxReplicas": cap}),
        }
        for zone, cap in zip(ZONES, caps, strict=True)
    ]
    # longer than any fault lasts: units wait for a node as long as a member is away
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": CRITICAL_SECONDS}}
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": name}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetRef": target, "subsets": subsets, "scheduleStrategy": strategy},
    }


def reservation(namespace: str, name: str) -> dict[str, Any]:
    """Return a Reservation whose owner is the Workload of that name, again and again."""
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "template": pod_template(f"{name}-room", cpu=f"{CPU}m"),
            "replicas": RESERVED,
            "owners": [{"object": {"kind": "Workload", "name": name}}],
            "allocateOnce": False,
            "ttl": "0",
        },
    }


def policy(namespace: str, chance: random.Random) -> dict[str, Any]:
    """Return the policy of a namespace that is edited: Preferred, so that no unit stays pending."""
    quotas = [chance.randint(0, 6) for _ in ZONES]
    return _policy(namespace, POLICY, _UNIT, quotas, "Preferred")


def strict_policy(namespace: str) -> dict[str, Any]:
    """Return the policy of a namespace that is never edited, and bounds each zone."""
    return _policy(namespace, STRICT, _PARTS["Strict"], [QUOTA] * len(ZONES), "Required")


def _policy(
    namespace: str, name: str, part: str, quotas: list[int], allocation: str
) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "topologyKey": _ZONE,
            "labelSelector": {"matchLabels": {"part": part}},
            "allocationType": allocation,
            "allocationPolicy": [
                {"name": zone, "replicas": quota} for zone, quota in zip(ZONES, quotas, strict=True)
            ],
        },
    }


def counts(policy: str, workload: Mapping[str, Any]) -> bool:
    """Return whether the units of a Workload count for the policy of that name."""
    spec = workload["spec"]
    template = spec.get("targetDeployment") or spec["template"]
    part = template["spec"]["template"]["metadata"]["labels"]["part"]
    return bool(part == (_PARTS["Strict"] if policy == STRICT else _UNIT))


def mode_of(workload: Mapping[str, Any]) -> str:
    policy = workload["metadata"].get("labels", {}).get(LABEL_POLICY)
    if workload["spec"].get("schedulerName") == SCHEDULER:
        return "Placed"
    if LABEL_SPREAD in workload["metadata"].get("labels", {}):
        return "Spread"
    if LABEL_RESERVED in workload["metadata"].get("labels", {}):
        return "Reserved"
    bound = {name: mode for mode, name in _POLICIES.items()}
    return bound.get(policy) or str(workload["spec"].get("distribution"))


def image(wish: Wish) -> str:
    return f"registry.k8s.io/pause:{wish.tag}"


def _tag(chance: random.Random) -> str:
    return f"3.{chance.randint(1, 10)}"


def _template(name: str, wish: Wish, lives: Mapping[str, str]) -> dict[str, Any]:
    pods = pod_template(name, cpu=f"{CPU}m", image=image(wish))
    counted = wish.kind in _KINDS
    pods["metadata"]["labels"]["part"] = _PARTS.get(wish.mode, _UNIT) if counted else "none"
    body = deployment(object_of(name, wish, int(lives[LABEL_LIFE])))
    body["metadata"]["labels"] = dict(lives)
    body["spec"] = {"selector": {"matchLabels": {"app": name}}, "template": pods}
    if wish.kind == "Deployment":
        return {"targetDeployment": body}
    body["kind"] = wish.kind
    if wish.kind in CUSTOM:
        body["apiVersion"] = CUSTOM[wish.kind].api_version
        return {"template": body}
    pods["metadata"]["labels"][LABEL_RUNS] = ONCE if wish.mode == "Single" else "by-ordinal"
    if wish.kind == "Job":
        body["apiVersion"] = "batch/v1"
        body["metadata"]["labels"][LABEL_MODE] = wish.mode
        pods["spec"]["restartPolicy"] = "Never"
        ttl = wish.run % _TTLS
        body["spec"] = {
            "template": pods, "completions": COMPLETIONS, "ttlSecondsAfterFinished": ttl
        }  # fmt: skip
        return {"template": body}
    body["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    if wish.volumes:
        claim = _claim("data", {**lives, LABEL_DATA: "true"})
        body["spec"] |= {
            "volumeClaimTemplates": [{"metadata": claim["metadata"], "spec": claim["spec"]}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        }
    return {"template": body}


def definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of the custom kinds, for members."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return [
        {
            "apiVersion": DEFINITIONS.api_version,
            "kind": DEFINITIONS.kind,
            "metadata": {"name": f"{each.plural}.{each.group}"},
            "spec": {
                "group": each.group,
                "scope": "Namespaced",
                "names": {"plural": each.plural, "singular": each.plural[:-1], "kind": each.kind},
                "versions": [
                    {
                        "name": each.version,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": anything},
                        **({"subresources": {"status": {}}} if each == WIDGETS else {}),
                    }
                ],
            },
        }
        for each in CUSTOM.values()
    ]
