"""What shells and kubectl complete: commands, options, and names on the hub."""

from __future__ import annotations

import os
import pty
import re
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from stowage.cli import cli, complete
from stowage.commands import completing
from stowage.toolchain import binaries
from tests.patience import PATIENCE

from .plain_hub import PlainHub, hub_of, kubeconfig

pytestmark = pytest.mark.proves("PK34")

ROOT = Path(__file__).parents[2]


class NamespacedHub(PlainHub):
    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        if path == "/api/v1/namespaces":
            return 200, {"items": named("default", "shop")}
        return super().answer(path, query)


hub = hub_of(NamespacedHub)


def named(*names: str) -> list[dict[str, object]]:
    return [{"metadata": {"name": each, "namespace": "default"}} for each in names]


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    found = ShellComplete(cli, {}, "stowage", "").get_completions(before, incomplete)
    return [str(each.value) for each in found]


@pytest.fixture
def names(hub: PlainHub, monkeypatch: pytest.MonkeyPatch) -> PlainHub:
    monkeypatch.setenv("KUBECONFIG", str(hub.file))
    # A machine under load is no dead hub.
    monkeypatch.setattr(completing, "SECONDS", PATIENCE)
    monkeypatch.setattr(completing, "CONNECTION_SECONDS", PATIENCE)
    hub.workloads = named("web", "worker", "db")
    hub.clusters = named("paris", "tokyo")
    hub.reservations = named("pool")
    return hub


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("expl",), ["explain"]),
        (("explain", "wl/"), ["wl/db", "wl/web", "wl/worker"]),
        (("explain", "wl/w"), ["wl/web", "wl/worker"]),
        (("explain", ""), ["wl/db", "wl/web", "wl/worker"]),
        (("explain", "workload", "d"), ["db"]),
        (("explain", "rsv/"), ["rsv/pool"]),
        (("explain", "xx/"), []),
        (("rollout", "status", "wl/d"), ["wl/db"]),
        (("rebalance", "wl/db", "wl/w"), ["wl/web", "wl/worker"]),
        (("drain", ""), ["paris", "tokyo"]),
        (("cordon", "paris", ""), ["tokyo"]),
        (("explain", "-n", "s"), ["shop"]),
        (("tenant", "add", "d"), ["default"]),
        (("status", "--context", ""), ["hub"]),
        (("explain", "wl/web", "--contr"), ["--controller"]),
    ],
)
def test_names_on_the_hub_are_completed(names: PlainHub, words: tuple[str, ...], found: list[str]) -> None:  # fmt: skip
    assert completed(*words) == found


def test_names_are_those_of_the_hub_and_namespace_that_options_name(
    names: PlainHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    assert completed("explain", "wl/") == []
    file = ("--kubeconfig", str(tmp_path / "hub.kubeconfig"))
    assert completed("explain", *file, "wl/d") == ["wl/db"]
    assert completed("explain", *file, "-n", "shop", "wl/") == []
    assert "/apis/stowage.dev/v1alpha1/namespaces/shop/workloads" in names.asked


def test_a_hub_that_refuses_or_does_not_answer_gives_no_names(
    names: PlainHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names.faults[""] = 403
    assert completed("drain", "") == []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # the connection is made, and never answered
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(completing, "SECONDS", 0.05)
        assert completed("explain", "wl/") == []
    assert capsys.readouterr().err == ""


def test_a_shell_waits_less_than_half_a_second() -> None:
    assert completing.SECONDS < 0.5


# --- as a person types it -------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with the scripts that the wheel has."""
    patient = f"from stowage.commands import completing as c; c.SECONDS = c.CONNECTION_SECONDS = {PATIENCE}"  # fmt: skip
    for name, entry in (("stowage", "main"), ("kubectl-stowage", "main"), ("kubectl_complete-stowage", "complete")):  # fmt: skip
        script = tmp_path / name
        script.write_text(
            f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"{patient}\nfrom stowage.cli import {entry}\n{entry}()\n"
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


class Bash:
    """A bash at a terminal."""

    def __init__(self) -> None:
        self.process, self.terminal = pty.fork()
        if not self.process:
            os.environ["PS1"] = "> "
            os.environ["TERM"] = "dumb"
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

    def until(self, pattern: str) -> str:
        """What it shows until that. Fails the test where it never does."""
        shown = ""
        while re.search(pattern, shown) is None:
            ready, _, _ = select.select([self.terminal], [], [], PATIENCE)
            assert ready, shown
            shown += os.read(self.terminal, 4096).decode()
        return shown

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.process, 0)


@pytest.fixture
def bash(path: Path) -> Iterator[Bash]:
    there = Bash()
    yield there
    there.close()


@pytest.mark.long
def test_bash_completes(names: PlainHub, bash: Bash) -> None:
    bash.until("> ")
    bash.type("bind 'set enable-bracketed-paste off'; source <(stowage completion bash); echo do''ne\n")  # fmt: skip
    bash.until("done")
    bash.type("stowage expl\t")
    bash.until("stowage explain ")
    bash.type("wl/wo\t")
    bash.until("wl/worker ")
    bash.type("\x15stowage explain wl/\t\t")
    shown = bash.until(r"wl/worker")
    assert "wl/db" in shown
    assert "wl/web" in shown
    bash.type("\x15stowage drain p\t")
    bash.until("drain paris ")


@pytest.mark.long
def test_kubectl_gives_the_same_names(names: PlainHub, path: Path) -> None:
    command = [binaries.path("kubectl"), "__complete", "stowage", "explain", "wl/"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*completed("explain", "wl/"), ":4"]


def test_kubectl_is_told_names_and_that_they_are_no_files(
    names: PlainHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-stowage", "explain", "wl/w"])
    complete()
    assert capsys.readouterr().out == "wl/web\nwl/worker\n:4\n"
