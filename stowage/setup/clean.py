"""`stowage clean`: what `join` made on a member that no hub serves any more.

`unjoin` without the member's kubeconfig, or a hub that is gone, leaves accounts, roles and policies
there. The Lease of a hub says whether one still serves the member.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from machinery.api.client import ApiClient
from machinery.api.resources import LEASES
from machinery.errors import ConfigurationError
from propagator.members.hub_lease import HELD_SECONDS, HUB_LEASE
from stowage.console.terminal import say
from stowage.console.words import seconds, time
from stowage.setup import member_side


async def clean(
    member: ApiClient, home: str, *, now: Callable[[], datetime], confirmed: Callable[[], bool]
) -> None:
    """Show what is there, and remove it once `confirmed` says so.

    Raises ConfigurationError while a hub serves the member.
    """
    await served_by(member, home, now())
    made = await member_side.made_there(member, home)
    if not made:
        say("nothing that `stowage join` makes is there")
        return
    say("\n".join(("These go:", *(f"  {each}" for each in made))))
    if not confirmed():
        say("nothing is removed")
        return
    await served_by(member, home, now())  # whoever was asked may have taken an hour
    await member_side.remove_made(member, made, say)
    say(f"done; namespaces stay, {home} among them, and what Workloads have in them")


async def served_by(member: ApiClient, home: str, now: datetime, hub: str = "") -> None:
    """Raise ConfigurationError if a hub has renewed its Lease there a short while ago.

    With `hub`, the UID of a hub's kube-system, only if it was that one.
    """
    spec = (await member.find(LEASES, HUB_LEASE, namespace=home) or {}).get("spec") or {}
    renewed = time(spec.get("renewTime") or "")
    silent = None if renewed is None else (now - renewed).total_seconds()
    if spec.get("holderIdentity") and silent is not None and silent < HELD_SECONDS:
        uid, *more = spec["holderIdentity"].split(" ")
        if hub and uid != hub:
            return
        at = "".join(more[:1])
        raise ConfigurationError(
            f"a hub{f' at {at}' if at else ''} serves this cluster: it renewed Lease "
            f"{home}/{HUB_LEASE} {seconds(silent)} ago. Run `stowage unjoin` against that hub; "
            f"{HELD_SECONDS} s after its last renewal this command goes on"
        )
