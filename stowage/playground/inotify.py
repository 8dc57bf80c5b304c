"""What the kernel lets one user watch, and whether that is enough for so many nodes of kind.

Every node is a container whose kubelet, container runtime and pods watch files as the same user of
this host. Where the limit is too low, the node that comes too late never gets ready, and minutes
later its log says `too many open files`. So this is looked at before any container is made.
"""

from __future__ import annotations

import os
from pathlib import Path

KERNEL = Path("/proc/sys/fs/inotify")
# What one node takes, rounded up. With the kernel's default of 128 instances the fifth fails.
_A_NODE = {"max_user_instances": 32, "max_user_watches": 4096}
# What kind's own page on known issues says to set: enough for a dozen nodes.
_ROOMY = {"max_user_instances": 512, "max_user_watches": 524288}


def shortage(nodes: int) -> str:
    """What is too low for that many nodes, and the command that mends it; empty when all is well.

    Always empty where the engine is on another machine, or in a virtual one: its limits are its
    own.
    """
    if not _engine_is_here():
        return ""
    return "; ".join(filter(None, (_short(name, each * nodes) for name, each in _A_NODE.items())))


def _engine_is_here() -> bool:
    host = os.environ.get("DOCKER_HOST", "")
    return KERNEL.is_dir() and (not host or host.startswith("unix://"))


def _short(name: str, needed: int) -> str:
    limit = int((KERNEL / name).read_text())
    if limit >= needed:
        return ""
    wanted = max(_ROOMY[name], needed)
    return (
        f"fs.inotify.{name} is {limit}, and {needed // _A_NODE[name]} nodes of kind on this host "
        f"need {needed}: `sudo sysctl -w fs.inotify.{name}={wanted}`"
    )
