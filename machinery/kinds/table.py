"""The table of kinds: the profile of a kind, by group, version and name.

A process has one table, for one hub. A WorkloadKind of that hub takes the place of the profile of
its kind, whole (`use`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from crds.names import RESERVED_GROUPS
from machinery.kinds.builtin import DEPLOYMENT, PROFILES
from machinery.kinds.profile import Naming, Profile, Ready, Replicas
from machinery.kinds.wellknown import WELL_KNOWN

GroupKind: TypeAlias = tuple[str, str]
_BUILT_IN: Final = {(each.group, each.kind): each for each in (*PROFILES, *WELL_KNOWN)}
_KNOWN: Final = dict(_BUILT_IN)
MAKER_GROUPS: Final = frozenset(each.made_by.group for each in PROFILES if each.made_by)
"""The groups of the objects that control pods of known kinds."""
HASHED_MAKERS: Final = frozenset(
    (each.made_by.group, each.made_by.kind)
    for each in PROFILES
    if each.made_by and each.made_by.named is Naming.TEMPLATE_HASH
)
"""The objects that carry the hash of a pod template in their names, as (group, kind)."""
NAMING_LABELS: Final = {
    "jobset.sigs.k8s.io/jobset-name": ("trainer.kubeflow.org", "TrainJob"),
    "strimzi.io/pool-name": ("kafka.strimzi.io", "KafkaNodePool"),
}
"""Labels of pods with the name of the object, of group and kind, for which another controller made
them. A TrainJob has no template for the Workload's label: its JobSet, of its name, has the runtime
of the member. That of a KafkaNodePool would take the place of its Kafka's.
"""
NAMED_BY_PODS: Final = frozenset(NAMING_LABELS.values())
PRESENT: Final = Profile(group="", kind="", replicas=Replicas("spec.replicas"))
"""Of a Workload without a readable template: its own number counts."""


ALONE: Final = Profile(group="", kind="", ready=Ready(observed_generation="", exists=True))
"""Of a Workload of manifests alone: whole, without room, ready by its objects."""


def profile_of(api_version: Any, kind: Any, replicas_path: str = "") -> Profile:
    """Return the profile of a kind; the careful one if unknown.

    `replicas_path` is the path of the number of replicas of an unknown kind, unused for others.
    """
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return _unknown("", "", "")
    group, _, version = api_version.rpartition("/")
    found = _KNOWN.get((group, kind))
    if found is None:
        return _unknown(group, kind, replicas_path)
    if found.versions and version not in found.versions:
        return _unknown(group, kind, replicas_path, found.versions)
    return found


def profile_in(template: Mapping[str, Any], replicas_path: Any = "") -> Profile:
    path = replicas_path if isinstance(replicas_path, str) else ""
    return profile_of(template.get("apiVersion"), template.get("kind"), path)


def profile_of_main(spec: Mapping[str, Any]) -> Profile:
    """Return the profile of the main object of a Workload's stored spec."""
    template = spec.get("template")
    if not template and not spec.get("targetDeployment") and spec.get("manifests"):
        return ALONE
    if spec.get("targetDeployment") or not template:
        return DEPLOYMENT
    found = template if isinstance(template, Mapping) else {}
    return profile_in(found, spec.get("replicasPath") or "")


def known_kind(group: str, kind: str) -> Profile:
    """Return the profile of a kind in any version; the careful one if unknown."""
    return _KNOWN.get((group, kind)) or _unknown(group, kind, "")


def may_change(api_version: str) -> bool:
    """Whether a WorkloadKind may say what the kinds of that group are."""
    group = api_version.rpartition("/")[0]
    return bool(group) and group not in RESERVED_GROUPS


def use(profiles: Iterable[Profile]) -> None:
    """Have these profiles of the hub take the place of the built-in ones of their kinds."""
    found = _BUILT_IN | {(each.group, each.kind): each for each in profiles}
    for gone in _KNOWN.keys() - found.keys():
        del _KNOWN[gone]
    _KNOWN.update(found)


def from_hub() -> list[Profile]:
    return [each for of, each in _KNOWN.items() if _BUILT_IN.get(of) is not each]


def known_kinds() -> list[Profile]:
    """Return all profiles in use."""
    return list(_KNOWN.values())


@lru_cache(maxsize=1024)
def _unknown(group: str, kind: str, replicas_path: str, versions: tuple[str, ...] = ()) -> Profile:
    replicas = Replicas(replicas_path) if replicas_path else None
    return Profile(group=group, kind=kind, versions=versions, known=False, replicas=replicas)
