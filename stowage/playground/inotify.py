"""The kernel's limits of file watches for one user, compared with the need of kind's nodes.

Every node is a container whose kubelet, container runtime and pods watch files as the same user of
this host. With too low a limit the last node never gets ready, and minutes later its log says `too
many open files`. The check runs before any container is created.
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
    """Return the limits that are too low and the command that raises them; empty for none.

    Always empty where the Docker engine runs on another machine, or in a virtual one with limits of
    its own.
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
