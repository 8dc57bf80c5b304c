"""When a shard says that it has looked at its members since the hub was set back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from propagator.members.health import Contact
from propagator.members.held_sweep import NOTHING_HELD, HeldSweep
from propagator.status.comparison import Comparison


@pytest.mark.proves("SC15")
@pytest.mark.parametrize(
    ("held", "ready", "contact", "told"),
    [
        (NOTHING_HELD, True, Contact.SERVING, True),
        (NOTHING_HELD, False, Contact.SERVING, False),
        (None, True, Contact.SERVING, False),
        (HeldSweep(cast("Any", "HubWentBack"), "", 1), True, Contact.SERVING, False),
        (None, False, Contact.AWAY, True),
    ],
    ids=["nothing is held", "not told to answer", "not counted", "not told to be held", "away"],
)
def test_a_shard_has_looked_once_the_status_of_each_member_that_answers_tells_so(
    held: HeldSweep | None, *, ready: bool, contact: Contact, told: bool
) -> None:
    comparison: Any = object.__new__(Comparison)
    session = SimpleNamespace(contact=contact, held=held)
    comparison._registry = SimpleNamespace(get=lambda _: session)
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    assert comparison._told_of(SimpleNamespace(name="m1", status=status)) is told
