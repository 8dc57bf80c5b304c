"""Who waits for a worker, and who does not."""

from __future__ import annotations

import asyncio
import inspect
import json
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from machinery.errors import ConfigurationError
from stowage.fleet import inventory
from stowage.fleet.manifests import parse
from stowage.web import worker
from stowage.web.snapshot import HubSnapshot
from stowage.web.worker import DecisionRequest, WhatIf
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


def test_a_worker_takes_no_module_of_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "crds.py").write_text("raise SystemExit(3)")
    command = inspect.signature(Workers).parameters["command"].default
    ended = subprocess.run(command, cwd=tmp_path, input=b"", check=False, timeout=PATIENCE * 60)
    assert ended.returncode == 0


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


@pytest.mark.proves("A26")
async def test_those_of_one_caller_leave_turns_to_others(tmp_path: Path) -> None:
    made, done = workers(PATIENCE * 30, tmp_path / "go"), list[str]()

    async def ask(caller: str) -> None:
        await made.ask(DecisionRequest("shop"), caller)
        done.append(caller)

    asking = [asyncio.create_task(ask(caller)) for caller in ["one"] * 5 + ["two"]]
    await settle()
    (tmp_path / "go").touch()
    await asyncio.gather(*asking)
    assert done.index("two") == 1, "the second one"
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


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 30])
@pytest.mark.parametrize("warm", [True, False])
async def test_whoever_is_cancelled_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, warm: bool, turns: int
) -> None:
    made, begun = workers(0, tmp_path / "go"), list[asyncio.subprocess.Process]()
    begin = asyncio.create_subprocess_exec

    async def noted(*command: str, **how: Any) -> asyncio.subprocess.Process:
        begun.append(await begin(*command, **how))
        return begun[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    asking = asyncio.create_task(made.warm() if warm else made.ask(DecisionRequest("shop")))
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await made.close()
    assert all(each.returncode is not None for each in begun)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi")
)


@pytest.mark.proves("A17")
@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]\n", "a: &a {b: *a}\n"])
def test_aliases_that_stand_for_too_much_are_refused(text: str) -> None:
    assert len(text) < 800
    with pytest.raises(ConfigurationError, match=r"pasted.yaml:1: not YAML: its aliases stand for"):
        list(parse("pasted.yaml", text))


@pytest.mark.proves("A17")
def test_aliases_of_a_few_lines_are_read() -> None:
    text = "kind: A\nlabels: &l {app: web}\nselector: *l\nmore: {<<: *l, tier: x}\n"
    (found,) = parse("a.yaml", text)
    assert found.body["selector"] == {"app": "web"}
    assert found.body["more"] == {"app": "web", "tier": "x"}


@pytest.mark.proves("A17")
def test_a_request_may_take_so_much_memory_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def deciding(_request: Any, _present: Any) -> dict[str, Any]:
        seen.append(resource.getrlimit(resource.RLIMIT_DATA)[0])
        raise MemoryError

    monkeypatch.setattr(worker, "decided", deciding)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    data = worker._answered(worker.DecisionRequest("shop"), worker.PlanInputs())
    assert json.loads(data)["fault"] == "it takes more than 256 MiB of memory"
    assert resource.getrlimit(resource.RLIMIT_DATA) == before, "for the request alone"
    assert 256 * 2**20 < seen[0] < 16 * 2**30


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.proves("V11")
@pytest.mark.parametrize("namespaces_only", [True, False])
def test_a_kind_that_one_reader_pastes_is_no_kind_of_the_next(*, namespaces_only: bool) -> None:
    kind = (EXAMPLES / "kinds/gadget-kind.yaml").read_text()
    fleet = (EXAMPLES / "fleet/three-zones.yaml").read_text()
    gadget = """
apiVersion: stowage.dev/v1alpha1
kind: Workload
metadata: {name: g, namespace: shop}
spec:
  template:
    apiVersion: example.com/v1
    kind: Gadget
    metadata: {name: g}
    spec: {size: 2, core: {spec: {containers: [{name: c}]}}}
"""
    present = inventory.of_fleet([*parse("fleet", f"{fleet}\n---\n{kind}")], namespace="shop")

    def answer(yaml: str, *, only: bool = False) -> dict[str, Any]:
        asked = DecisionRequest("shop", scenario=WhatIf(yaml=yaml), namespaces_only=only)
        found = worker.decided(asked, present)
        return found if only else {k: v for k, v in found["workloads"][0].items() if k != "time"}

    before = answer(gadget)
    assert before["desired"] == 2
    other = kind.replace("path: spec.size", "path: spec.count")
    answer(f"{gadget}---\n{other}", only=namespaces_only)
    assert answer(gadget) == before
