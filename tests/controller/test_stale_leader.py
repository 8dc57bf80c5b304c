"""A leader that does not see the hub any more leaves the lease to one that does."""

from __future__ import annotations

import pytest

from controller.app import SURRENDER_SECONDS, Controller
from machinery.api.resources import LEASES

from .memory import Stage


def holder(stage: Stage) -> str:
    (lease,) = stage.hub.all(LEASES)
    return str(lease["spec"]["holderIdentity"])


@pytest.mark.proves("L15")
async def test_a_leader_whose_view_stays_stale_gives_up_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage("a", cpu="4")
    async with stage.leading() as controller:
        stage.workload("before")
        await stage.until(lambda: stage.placed("before"))
        assert holder(stage) == "one"
        trouble = "nothing heard of workloads"
        with monkeypatch.context() as patch:
            patch.setattr(controller, "unready", lambda: trouble)
            await stage.calm(SURRENDER_SECONDS / 2)
            assert holder(stage) == "one", "a short trouble costs no term"
            await stage.until(lambda: not controller.leading, seconds=SURRENDER_SECONDS)
            await stage.until(lambda: holder(stage) == "", seconds=5)
            await stage.calm(20)
            assert holder(stage) == "", "nor does it ask for the lease again while it is blind"
        stage.workload("after")
        await stage.until(lambda: stage.placed("after"))
        assert holder(stage) == "one"


@pytest.mark.proves("L15")
async def test_one_that_went_blind_while_it_waited_for_the_lease_does_not_keep_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who waits for its turn for hours may see nothing any more when that comes."""
    stage = Stage("a", cpu="4")
    holders: list[str] = []
    sees = Controller.unready

    def unready(controller: Controller) -> str:
        leases = stage.hub.all(LEASES)
        if leases and holder(stage) not in holders[-1:]:
            holders.append(holder(stage))
        return "nothing heard of workloads" if holders == ["one"] else sees(controller)

    monkeypatch.setattr(Controller, "unready", unready)
    monkeypatch.setattr("controller.app.SURRENDER_SECONDS", 5.0)
    async with stage.leading():
        assert holders == ["one", "", "one"]
