"""Who waits for a worker, and who does not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from stowage.web.snapshot import HubSnapshot
from stowage.web.worker import DecisionRequest
from stowage.web.workers import Workers, WorkersBusy
from tests.fakeclock import settle
from tests.patience import PATIENCE

ANSWERING = """
import pathlib, sys, time
while head := sys.stdin.buffer.read(4):
    sys.stdin.buffer.read(int.from_bytes(head, "big"))
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.01)
    sys.stdout.buffer.write((18).to_bytes(4, "big") + b'{"result":{"a":1}}')
    sys.stdout.buffer.flush()
"""


def workers(patience: float, may_answer: Path) -> Workers:
    """Each answers once that file exists."""
    command = (sys.executable, "-S", "-c", ANSWERING, str(may_answer))
    return Workers(HubSnapshot(), most=1, seconds=30, patience=patience, command=command)


@pytest.mark.proves("V11")
async def test_a_request_waits_for_its_turn_where_it_may(tmp_path: Path) -> None:
    made = workers(PATIENCE * 30, tmp_path / "go")
    asking = [asyncio.create_task(made.ask(DecisionRequest("shop"))) for _ in range(3)]
    await settle()
    assert not any(each.done() for each in asking)
    (tmp_path / "go").touch()
    found = await asyncio.gather(*asking)
    assert [each for each, _ in found] == [{"a": 1}] * 3
    await made.close()


@pytest.mark.proves("V11")
@pytest.mark.parametrize("patience", [0, 0.05])
async def test_a_request_waits_no_longer_than_it_may(patience: float, tmp_path: Path) -> None:
    made = workers(patience, tmp_path / "go")
    first = asyncio.create_task(made.ask(DecisionRequest("shop")))
    await asyncio.sleep(0)
    with pytest.raises(WorkersBusy):
        await made.ask(DecisionRequest("shop"))
    (tmp_path / "go").touch()
    assert (await first)[0] == {"a": 1}
    assert (await made.ask(DecisionRequest("shop")))[0] == {"a": 1}, "its turn is free again"
    await made.close()
