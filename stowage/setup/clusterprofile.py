"""A cluster of an inventory joins without credentials: a MemberCluster for its ClusterProfile.

The controller makes the same MemberCluster where its configuration imports the namespace. The
credentials come afterwards, by `stowage join` or by a Secret.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from controller.features.clusterprofile.profiles import ClusterProfile, flaw, membercluster
from crds.names import ANNOTATION_PROFILE, LABEL_REGISTER
from machinery.api.client import ApiClient
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.errors import AlreadyExists, ConfigurationError, NotFound
from stowage.setup.member_side import Say


@dataclass(frozen=True, kw_only=True)
class ProfileJoin:
    """The arguments of `join --from-clusterprofile`. An empty `name` is that of the profile."""

    profile: str
    """`NAMESPACE/NAME` of the ClusterProfile."""
    namespace: str
    """Where the Secret with the credentials has to be."""
    name: str = ""
    properties: tuple[str, ...] = ()


async def join(hub: ApiClient, plan: ProfileJoin, *, say: Say) -> None:
    """Make the MemberCluster. Raises ConfigurationError with what to do."""
    found = await _profile(hub, plan.profile)
    if found.ours:
        raise ConfigurationError(f"{plan.profile} is what Stowage has exported of a member")
    if why := flaw(found):
        raise ConfigurationError(f"{plan.profile} cannot become a MemberCluster: {why}")
    body = membercluster(found, plan.properties, plan.name)
    name = body["metadata"]["name"]
    try:
        await hub.create(MEMBER_CLUSTERS, body)
        say(f"hub: MemberCluster {name} is there, without credentials")
    except AlreadyExists as e:
        stored = await hub.get(MEMBER_CLUSTERS, name)
        stands = stored["metadata"].get("annotations", {}).get(ANNOTATION_PROFILE)
        if stands != plan.profile:
            told = f"there is a MemberCluster {name} that does not stand for {plan.profile}"
            raise ConfigurationError(f"{told}: choose another name") from e
        say(f"hub: MemberCluster {name} is there already")
    say(
        f"{name}: nothing is placed there yet: run `stowage join {name} --member-kubeconfig …`, or "
        f"make the Secret {plan.namespace}/{name} with the label {LABEL_REGISTER}=true and a token"
    )


async def _profile(hub: ApiClient, asked: str) -> ClusterProfile:
    namespace, _, name = asked.partition("/")
    try:
        found = await hub.get(CLUSTER_PROFILES, name, namespace=namespace)
    except NotFound as e:
        raise ConfigurationError(f"the hub has no ClusterProfile {asked}: {e}") from e
    return msgspec.convert(found, ClusterProfile)
