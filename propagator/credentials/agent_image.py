"""The image of an agent's own Deployment, which `stowage agents upgrade` changes from the hub."""

from __future__ import annotations

import copy

from crds.names import AGENT, SYSTEM_NAMESPACE
from machinery import logs
from machinery.api.resources import DEPLOYMENTS
from machinery.api.verbs import Verbs
from machinery.types import conditions

LOG = logs.get(__name__)


async def follow_image(member: Verbs, image: str, *, home: str = SYSTEM_NAMESPACE) -> str:
    """Have the agent's Deployment run that image; return why it does not, if it cannot.

    An agent that is no Deployment, or an empty image, changes nothing. Raises TransportError;
    Conflict where the Deployment was changed meanwhile.
    """
    if not image:
        return ""
    found = await member.find(DEPLOYMENTS, AGENT, namespace=home)
    if found is None:
        return ""
    containers = copy.deepcopy(found["spec"]["template"]["spec"]["containers"])
    if containers[0].get("image") != image:
        containers[0]["image"] = image
        patch = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
        await member.merge_patch(DEPLOYMENTS, AGENT, patch, namespace=home)
        LOG.info("its Deployment is told to run %s", image)
        return ""
    progress = conditions.find(found.get("status") or {}, "Progressing")
    if progress.get("status") != "False":
        return ""
    return f"the agent of image {image} does not start: {progress.get('message', '')}"
