"""The extension points around the write: Reserve, Permit, PreBind before it, PostBind after it.

The pure pass knows nothing of them: they are about keeping and giving back what a decision took,
and each may withhold the write.
"""

from __future__ import annotations

from controller.decision import Decision
from controller.framework.profile import Profile


async def permitted(profile: Profile, decision: Decision) -> bool:
    """Whether nobody withholds the write. When False, or when one raises, `withdrawn` follows."""
    unit, placements = decision.unit, decision.placements
    if not all(plugin.reserve(unit, placements).ok for plugin in profile.reserve):
        return False
    if not all(plugin.permit(unit, placements).ok for plugin in profile.permit):
        return False
    for plugin in profile.pre_bind:
        if not (await plugin.pre_bind(unit, placements)).ok:
            return False
    return True


def withdrawn(profile: Profile, decision: Decision) -> None:
    """The decision was not written: give back what was reserved, the last one first."""
    for plugin in reversed(profile.reserve):
        plugin.unreserve(decision.unit, decision.placements)


def posted(profile: Profile, decision: Decision) -> None:
    """The decision was written."""
    for plugin in profile.post_bind:
        plugin.post_bind(decision.unit, decision.placements)
