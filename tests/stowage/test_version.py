"""`stowage version` and `stowage completion`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from machinery.clock import microtime
from tests.stowage.plain_hub import Answer, PlainHub, hub_of

from .conftest import Stowage

pytestmark = pytest.mark.proves("Q22")
OWN = metadata.version("stowage")


class Hub(PlainHub):
    """A hub that serves our kinds in two versions."""

    def answer(self, path: str, query: dict[str, list[str]]) -> Answer:
        if path == "/version":
            return 200, {"major": "1", "gitVersion": "v1.36.3"}
        if path == "/apis/stowage.dev" and not self.foreign:
            return 200, {"versions": [{"version": "v1beta1"}, {"version": "v1alpha1"}]}
        return super().answer(path, query)


hub = hub_of(Hub)


@pytest.fixture
def led(hub: PlainHub) -> tuple[PlainHub, str]:
    """A hub whose controller leads, and whose propagator has never run."""
    lease = {
        "metadata": {
            "name": "stowage-controller",
            "namespace": "stowage-system",
            "annotations": {"stowage.dev/release": "0.9.7"},
        },
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 10,
            "renewTime": microtime(datetime.now(UTC)),
        },
    }
    hub.leases = [lease]
    return hub, f"--kubeconfig={hub.file}"


def test_the_releases_of_the_command_and_of_both_processes(
    led: tuple[PlainHub, str], stowage: Stowage
) -> None:
    there, at = led
    assert stowage.succeed("version", at).splitlines() == [
        f"client       {OWN}",
        "controller   0.9.7",
        "propagator   ?                   nobody leads now",
        "kinds        v1beta1, v1alpha1",
        "hub          v1.36.3",
    ]
    told = json.loads(stowage.succeed("version", at, "-o", "json"))
    assert told == {
        "client": OWN,
        "processes": {"controller": "0.9.7", "propagator": "?"},
        "kinds": "v1beta1, v1alpha1",
        "hub": "v1.36.3",
    }
    there.foreign = True
    assert "kinds        none" in stowage.succeed("version", at)
    assert json.loads(stowage.succeed("version", at, "-o", "json"))["kinds"] == ""
    assert f'client: "{OWN}"' in stowage.succeed("version", at, "-o", "yaml")


def test_a_hub_that_cannot_be_asked_is_told_below(
    led: tuple[PlainHub, str], stowage: Stowage, tmp_path: Path
) -> None:
    there, at = led
    there.faults["leases"] = 403
    done = stowage("version", at)
    assert (done.code, done.out) == (1, f"client   {OWN}\n")
    assert "the releases on the hub are not known: " in done.err
    assert stowage.succeed("version", "--client", at) == f"client   {OWN}\n"
    nowhere = stowage("version", env={"KUBECONFIG": str(tmp_path / "absent")})
    assert (nowhere.code, nowhere.out) == (1, f"client   {OWN}\n")
    assert "no hub to talk to" in nowhere.err
    told = stowage("version", "-o", "json", env={"KUBECONFIG": str(tmp_path / "absent")})
    assert (told.code, json.loads(told.out)) == (1, {"client": OWN})
    assert told.err == nowhere.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(stowage: Stowage, shell: str) -> None:
    script = stowage.succeed("completion", shell)
    assert f"_STOWAGE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_script_asks_the_command_itself_for_its_words() -> None:
    asked = {"_STOWAGE_COMPLETE": "bash_complete", "COMP_WORDS": "stowage cor", "COMP_CWORD": "1"}
    program = "import sys; sys.argv = ['stowage']; from stowage.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,cordon\n"
