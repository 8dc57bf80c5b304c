"""A command that writes names the context and the server of its hub before it writes there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from machinery.api import client
from machinery.errors import ConfigurationError
from stowage.cli import cli
from stowage.simulation import rebalance

pytestmark = pytest.mark.proves("RB23")

SERVER = "https://hub.example:6443"
TOLD = f"hub: {SERVER} (context dev)\n"

WRITES = {
    "install": "--crds-only",
    "join": "m1 --member-kubeconfig MEMBER",
    "join ": "m1 --from-clusterprofile fleet/m1",
    "invite": "m1",
    "revoke": "m1",
    "agents upgrade": "--image=example.com/stowage:1",
    "unjoin": "m1 --member-kubeconfig MEMBER",
    "rename": "m1 m2",
    "sweep": "m1 --confirm",
    "drain": "m1",
    "taint": "m1 spot:NoSchedule",
    "cordon": "m1",
    "uncordon": "m1",
    "shards": "2",
    "restore": "--accept wl/web",
    "restart": "wl/web",
    "rebalance": "wl/web",
    "tenant add": "shop",
    "tenant remove": "shop",
    "rollout approve": "wl/web",
    "rollout pause": "wl/web",
    "rollout resume": "wl/web",
    "rollout abort": "wl/web",
    "rollout retry": "wl/web",
    "upgrade": "",
    "uninstall": "--confirm 0123456789ab",
    **{
        f"migrate {step}": "--from karmada --from-kubeconfig PEER"
        for step in ("adopt", "release", "take", "finish", "undo")
    },
}
"""Commands and arguments; what tells a command's second line from its first is a blank."""
READS = {
    "plan",
    "explain",
    "history",
    "drift",
    "status",
    "simulate",
    "tenant list",
    "rollout status",
    "backup",
    "import",
    "pods",
    "logs",
    "migrate plan",
    "migrate status",
    "version",
}
PROCESSES = {"agent", "controller", "propagator", "ui"}


class Reached(ConfigurationError):
    """The command was about to ask its hub."""


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hub is there; what the command reads of one before it writes is empty."""

    def reached(*_: Any, **__: Any) -> None:
        raise Reached("reached")

    monkeypatch.setattr(client, "ApiClient", reached)
    nothing = SimpleNamespace(notes=(), to_dict=dict, table=lambda verb: verb)
    monkeypatch.setattr(rebalance, "planned", lambda *_, **__: nothing)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "hub", SERVER, "dev")


def written(file: Path, server: str, context: str) -> Path:
    content = {
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def commands(group: click.Command, name: str = "") -> Iterator[str]:
    """The names of commands that ask a hub."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for each in group.list_commands(context):
            found = group.get_command(context, each)
            assert found is not None
            yield from commands(found, f"{name} {each}".strip())
    elif any("--kubeconfig" in option.opts for option in group.params):
        yield name


def test_it_is_known_of_each_command_whether_it_writes() -> None:
    assert set(commands(cli)) == {name.strip() for name in WRITES} | READS | PROCESSES


@pytest.mark.parametrize("name", WRITES)
def test_a_command_that_writes_says_where_before_it_asks(
    name: str, file: Path, tmp_path: Path
) -> None:
    member = written(tmp_path / "member", "https://m1.example", "theirs")
    args = [str(member) if arg in ("MEMBER", "PEER") else arg for arg in WRITES[name].split()]
    ran = CliRunner().invoke(cli, [*name.split(), *args, "--kubeconfig", str(file)])
    assert isinstance(ran.exception, Reached), ran.output
    assert TOLD in ran.stderr
    assert "secret" not in ran.stderr
    if "MEMBER" in WRITES[name]:
        assert "member: https://m1.example (context theirs)\n" in ran.stderr
    if "PEER" in WRITES[name]:
        assert "karmada: https://m1.example (context theirs)\n" in ran.stderr


@pytest.mark.parametrize(
    "line", ["rename m1 m2 --dry-run", "sweep m1", "tenant list", "rollout status wl/web --wait"]
)
def test_a_command_that_only_reads_says_nothing(line: str, file: Path) -> None:
    ran = CliRunner().invoke(cli, [*line.split(), "--kubeconfig", str(file)])
    assert ran.exception is not None
    assert "hub:" not in ran.stderr
