"""The command line by itself: quick help, exit codes, and faults in plain words."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import shutil
import signal
import subprocess
import sys
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controller import app
from machinery.api.resources import NAMESPACES
from machinery.config import hub_config
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import ConfigurationError
from stowage import cli
from stowage.commands import processes
from stowage.playground.probes import HeldPort
from stowage.setup import install, join, rename
from stowage.simulation import drain
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.patience import PATIENCE, hold_on

from .conftest import listening

COMMANDS = (
    "controller",
    "propagator",
    "install",
    "join",
    "unjoin",
    "rename",
    "sweep",
    "tenant",
    "plan",
    "explain",
    "history",
    "drift",
    "status",
    "playground",
)
KUBECONFIG = """
current-context: hub
clusters: [{name: hub, cluster: {server: "https://127.0.0.1:9"}}]
contexts: [{name: hub, context: {cluster: hub, user: hub}}]
users: [{name: hub, user: {token: secret}}]
"""


@pytest.mark.proves("D5")
def test_help_names_every_command():
    printed = CliRunner().invoke(cli.cli, ["--help"])
    assert printed.exit_code == 0
    assert all(f"  {name} " in printed.output for name in (*COMMANDS, "import", "plugins"))


def test_a_command_called_here_leaves_the_collector_of_the_tests_alone(stowage):
    before = gc.get_threshold()
    assert stowage("--version").code == 0
    assert gc.get_threshold() == before


@pytest.mark.proves("Z3")
def test_it_says_which_version_it_is(stowage):
    assert stowage.succeed("--version") == f"stowage {metadata.version('stowage')}\n"


@pytest.mark.parametrize(
    "name",
    [n for n in (*COMMANDS, "tenant add", "tenant list") if n not in ("playground", "tenant")],
)
def test_every_command_says_which_hub(name):
    printed = CliRunner().invoke(cli.cli, [*name.split(), "--help"]).output
    assert all(option in printed for option in ("--kubeconfig", "--context", "namespace TEXT"))


@pytest.mark.proves("E17")
@pytest.mark.parametrize(
    ("given", "rows"), [([], 0), (["-s", "3"], 3), (["--debug-scores", "100"], 100)]
)
def test_the_controller_is_asked_for_rows_of_scores_by_a_flag(given, rows, monkeypatch, tmp_path):
    kubeconfig = tmp_path / "hub.kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    asked = []
    monkeypatch.setattr(app, "run", asked.append)
    monkeypatch.setattr(processes, "serve", lambda run, _verbosity: run())
    command = ["controller", "--kubeconfig", str(kubeconfig), *given]
    assert CliRunner().invoke(cli.cli, command).exit_code == 0
    assert [settings.debug_scores for settings in asked] == [rows]


@pytest.mark.proves("Q1")
@pytest.mark.parametrize(
    ("args", "module", "says"),
    [
        (["drain", "m1"], drain, "`stowage drain m1 --undo` takes it back"),
        (["rename", "m1", "m2"], rename, "`stowage rename m2 m1` takes it back"),
        (["unjoin", "m1"], join, "`stowage join m1 --member-kubeconfig FILE` takes it back"),
        (
            ["join", "m1", "--member-kubeconfig", "hub.kubeconfig"],
            join,
            "`stowage unjoin m1 --member-kubeconfig hub.kubeconfig` takes it back",
        ),
        (["install", "--crds-only"], install, "docs/uninstall.md has the commands"),
    ],
)
def test_an_interrupt_says_what_goes_on_and_how_it_is_taken_back(
    args, module, says, monkeypatch, tmp_path
):
    async def interrupted(*_args, **_named):
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(PATIENCE)

    monkeypatch.chdir(tmp_path)
    Path("hub.kubeconfig").write_text(KUBECONFIG)
    verb = "apply" if args[0] == "install" else args[0]
    monkeypatch.setattr(module, verb, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker ignores it
    try:
        done = CliRunner().invoke(cli.cli, [*args, "--kubeconfig", "hub.kubeconfig"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 130
    *_, last = done.stderr.splitlines()
    assert last.startswith("interrupted: ")
    assert says in last
    assert "Aborted" not in done.output


@pytest.mark.proves("Q1")
@pytest.mark.parametrize("args", [["drain", "m1"], ["rollout", "pause", "wl/web"], ["install"]])
def test_an_interrupt_before_the_first_write_says_that_nothing_was_written(
    args, monkeypatch, tmp_path
):
    def interrupted(**_named):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub_config, "hub_connection", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker ignores it
    try:
        done = CliRunner().invoke(cli.cli, args)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.exit_code, done.output) == (130, "\ninterrupted: nothing was written\n")


@pytest.mark.proves("Q15")
@pytest.mark.parametrize(
    ("name", "label", "says"),
    [
        ("Paris_1", "a=b", 'name: Invalid value: "Paris_1": must match pattern'),
        ("p" * 64, "a=b", "must have at most 63 characters"),
        ("paris", "tier=a b", 'labels.tier: Invalid value: "a b": must match pattern'),
        ("paris", "a b=c", "labels.a b"),
    ],
)
def test_a_name_or_label_that_no_hub_takes_is_found_before_anything_is_asked(
    stowage, name, label, says, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path("hub.kubeconfig").write_text(KUBECONFIG)
    files = ("--kubeconfig", "hub.kubeconfig", "--member-kubeconfig", "hub.kubeconfig")
    outcome = stowage("join", name, *files, "--label", label)
    assert outcome.code == 1
    assert says in outcome.err


@pytest.mark.proves("Q15")
async def test_the_hub_itself_is_joined_only_if_that_is_said():
    memory = MemoryHub(clock=FakeClock())
    meta = memory.put(NAMESPACES, {"metadata": {"name": "kube-system"}})["metadata"]
    at = parse_kubeconfig(KUBECONFIG.encode())
    plan = join.Join(name="paris", namespace="stowage-system", member=at)
    with pytest.raises(ConfigurationError, match=r"https://127\.0\.0\.1:9 is the hub itself"):
        await join._refuse_itself(memory, plan, meta["uid"])
    await join._refuse_itself(memory, plan, "another")


def test_reachable_through_kubectl():
    plugin = Path(sys.executable).parent / "kubectl-stowage"
    done = subprocess.run([plugin, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: kubectl-stowage")
    assert shutil.which("kubectl-stowage", path=str(plugin.parent))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nonsense"], "No such command"),
        (["join"], "Missing argument"),
        (["join", "x", "--member-kubeconfig", "/nowhere"], "does not exist"),
        (["playground", "up", "--members", "-1"], "--members"),
        (["install", "--nonsense"], "No such option"),
        (["explain", "wl/x", "-f", "-", "--controller", "https://c"], "--controller"),
        (["join", "x"], "either --member-kubeconfig or --from-clusterprofile"),
        (["join", "--from-clusterprofile", "paris"], "not of the form NAMESPACE/NAME"),
    ],
)
def test_wrong_usage_is_2(stowage, args, says):
    outcome = stowage(*args)
    assert outcome.code == 2
    assert says in outcome.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--label", "tier"], "not of the form key=value"),
        (["--allow", "example.com/"], "not of the form group/resource"),
    ],
)
def test_wrong_options_of_join_are_2(tmp_path, options, says):
    config = tmp_path / "config"
    config.write_text("")
    ran = CliRunner().invoke(
        cli.cli,
        ["join", "x", "--member-kubeconfig", str(config), *options],
        env={"KUBECONFIG": str(config)},
    )
    assert ran.exit_code == 2
    assert says in ran.output


@pytest.mark.parametrize("command", [["controller"], ["propagator"], ["install"], ["unjoin", "x"]])
def test_no_hub_is_1_and_says_what_to_do(stowage, tmp_path, command):
    outcome = stowage(*command, f"--kubeconfig={tmp_path / 'absent'}")
    assert outcome.code == 1
    assert outcome.err.startswith("error: no hub to talk to")
    assert "--kubeconfig" in outcome.err


def test_hub_that_does_not_answer_is_1(stowage, tmp_path):
    with HeldPort() as silent:
        text = f"""
apiVersion: v1
kind: Config
current-context: gone
clusters: [{{name: gone, cluster: {{server: "https://127.0.0.1:{silent.number}"}}}}]
users: [{{name: gone, user: {{token: x}}}}]
contexts: [{{name: gone, context: {{cluster: gone, user: gone}}}}]
"""
        config = tmp_path / "config"
        config.write_text(text)
        outcome = stowage("install", f"--kubeconfig={config}")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1].startswith("error: https://127.0.0.1:")


@pytest.mark.long
@pytest.mark.parametrize(
    ("role", "number"), [("controller", signal.SIGTERM), ("propagator", signal.SIGINT)]
)
def test_processes_end_when_asked(hub, tmp_path, role, number):
    hub_and_port = [f"--kubeconfig={hub.kubeconfig}", "--http-port=0"]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "stowage", role, *hub_and_port],
            stderr=out,
        )
    try:
        _until_healthy(listening(log))
        process.send_signal(number)
        assert process.wait(PATIENCE * 10) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    assert not [line for line in lines if line["level"] == "error"]


def _until_healthy(port: int) -> None:
    def healthy() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    hold_on(healthy)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "hub.kubeconfig"
    document = {
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "hub", "user": {"token": "secret"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


HELP = """
import sys
import click
click.Group("other", commands=[click.Command("one")]).main(["--help"], standalone_mode=False)
before = {*sys.modules}
from stowage.cli import cli
cli(["--help"], standalone_mode=False)
print(*sorted({*sys.modules} - before), file=sys.stderr)
"""
OF_PYTHON = {"copy", "dataclasses", "gc"}
"""What the help loads beside click and modules of ours. Any other costs a millisecond and more."""


@pytest.mark.proves("U2")
def test_help_loads_little_beside_click() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    loaded = done.stderr.strip().splitlines()[-1].split()
    ours = [name for name in loaded if name.partition(".")[0] in ("machinery", "stowage")]
    assert "stowage.commands.asking" in ours
    assert len(ours) < 32, "the options of the commands, and what prints"
    assert {*loaded} - {*ours} - OF_PYTHON == set()


@pytest.mark.perf
@pytest.mark.proves("U2")
def test_help_costs_at_most_150_ms_of_a_processor() -> None:
    def cost() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "stowage", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cost() for _ in range(10)) < 0.15


def test_a_file_that_cannot_be_read_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "none.json"
    monkeypatch.setattr(cli.garbage, "loading", lambda: None)  # the other tests run on as before
    monkeypatch.setattr(sys, "argv", ["stowage", "restore", str(file)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"error: {file}: No such file or directory\n"
