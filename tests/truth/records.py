"""The records by name: scenarios of a controller, and plans of the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stowage.cli import cli
from tests.truth.recording import plain, recorded, recorded_rollout
from tests.truth.scenarios import ROLLOUTS, SCENARIOS

FOLDER = Path(__file__).parent / "records"
EXAMPLES = Path(__file__).parents[2] / "examples"
FLEET = EXAMPLES / "fleet" / "three-zones.yaml"
_BESIDE = {"00-namespace", "18-spread-hpa"}
"""Examples without an object of ours: there is nothing to plan, which is an error."""
PLANS = {
    f"plan_{path.stem}": path
    for path in sorted(EXAMPLES.glob("[0-9]*.yaml"))
    if path.stem not in _BESIDE
}
NAMES = sorted([*SCENARIOS, *ROLLOUTS, *PLANS])


async def record(name: str) -> dict[str, Any]:
    """Return the record of that name as the code makes it now."""
    if name in SCENARIOS:
        return await recorded(SCENARIOS[name])
    if name in ROLLOUTS:
        return await recorded_rollout(ROLLOUTS[name])
    given = ["-f", str(PLANS[name]), "--fleet", str(FLEET)]
    done = CliRunner().invoke(cli, ["plan", *given, "-o", "json"])
    plan = plain(json.loads(done.stdout), "time")
    sent, there = {}, f"{FLEET.read_text()}\n---\n{PLANS[name].read_text()}"
    for each in plan["workloads"]:
        for cluster in [share["cluster"] for share in each["placements"]][:1]:
            about = [f"wl/{each['name']}", "-n", each["namespace"], "--cluster", cluster]
            asked = ["explain", *about, "--fleet", "-", "--rendered"]
            shown = CliRunner().invoke(cli, asked, input=there)
            sent[f"{each['name']} on {cluster}"] = shown.stdout + shown.stderr
    return {"code": done.exit_code, "plan": plan, "beside": done.stderr, "sent": sent}


def text(found: dict[str, Any]) -> str:
    """Return a record as it is stored."""
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
