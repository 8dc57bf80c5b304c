"""What a hub tells the agents of its members in mode Pull: the ConfigMap `hub` of each namespace.

The shard that serves a member writes it, and its agent reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crds.membercluster import MemberMode
from crds.names import HUB_CONFIG

MOST_SERVERS = 8
_LONGEST_CA = 262144


@dataclass(frozen=True, slots=True)
class HubFacts:
    """A hub as its agents see it.

    Args:
        uid: the UID of its kube-system.
        servers: its addresses, `https://` URLs, the first one preferred; at least one.
        ca: the certificates that its servers are verified by, PEM; empty for those of the system.
        mode: the member's spec.mode; an agent lets go of a member that is not in Pull.
        min_agent: the oldest release that is served; empty for any.
        image: the image that the agent shall run; empty to leave the one that it runs.
    """

    uid: str
    servers: tuple[str, ...]
    ca: str = ""
    mode: str = MemberMode.PULL.value
    min_agent: str = ""
    image: str = ""

    def data(self) -> dict[str, str]:
        """Return the `data` of the ConfigMap, without what is empty: others may have written it."""
        told = {
            "uid": self.uid,
            "mode": self.mode,
            "servers": "\n".join(self.servers),
            "ca": self.ca,
            "minAgent": self.min_agent,
            "image": self.image,
        }
        return {key: value for key, value in told.items() if value}

    @classmethod
    def of(cls, data: Mapping[str, str]) -> HubFacts:
        """Raises ValueError for other `data`."""
        servers = tuple(data.get("servers", "").split())
        if not data.get("uid"):
            raise ValueError(f"ConfigMap {HUB_CONFIG}: uid is missing")
        if not servers or len(servers) > MOST_SERVERS:
            raise ValueError(f"ConfigMap {HUB_CONFIG}: servers has to be 1 to {MOST_SERVERS} URLs")
        if len(data.get("ca", "")) > _LONGEST_CA:
            raise ValueError(f"ConfigMap {HUB_CONFIG}: ca is longer than {_LONGEST_CA} characters")
        return cls(
            uid=data["uid"],
            servers=servers,
            ca=data.get("ca", ""),
            mode=data.get("mode", MemberMode.PULL.value),
            min_agent=data.get("minAgent", ""),
            image=data.get("image", ""),
        )
