"""`stowage ui --serve` as a process: over TLS, with what it needs, and without what it does not take."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crds.names import GROUP
from stowage.cli import cli
from stowage.setup import install
from stowage.web import hosted
from stowage.web.hosted import CERTIFICATE_SECONDS
from stowage.web.snapshot import KINDS
from tests.fakeclock import FakeClock
from tests.machinery.certificates import Authority, Pair


def written(folder: Path, pair: Pair) -> tuple[Path, Path]:
    files = folder / "tls.crt", folder / "tls.key"
    for file, data in zip(files, (pair.certificate, pair.key), strict=True):
        file.write_bytes(data)
    return files


@pytest.mark.proves("V12")
@pytest.mark.long
def test_it_serves_over_tls_and_ends_when_interrupted(hub: Any, tmp_path: Path) -> None:
    authority = Authority()
    cert, key = written(tmp_path, authority.pair("page", "127.0.0.1"))
    (tmp_path / "current").write_bytes(b"k" * 32)
    command = [sys.executable, "-m", "stowage", "ui", "--serve", "--http-port=0"]
    given = [f"--kubeconfig={hub.kubeconfig}", f"--tls-cert={cert}", f"--tls-key={key}"]
    keys, log = f"--session-keys={tmp_path}", (tmp_path / "errors").open("w+")
    pipe = subprocess.PIPE
    with (
        log,
        subprocess.Popen([*command, *given, keys], stdout=pipe, stderr=log, text=True) as page,
    ):
        assert page.stdout is not None
        line = page.stdout.readline()
        port = int(re.search(r"serving on port (\d+)$", line.strip())[1])
        trust = ssl.create_default_context(cadata=authority.pem.decode())
        asked = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=60)
        asked.request("GET", "/", headers={"Accept": "application/json"})
        answer = asked.getresponse()
        assert (answer.status, json.loads(answer.read()).keys()) == (401, {"message"})
        asked.close()
        page.send_signal(signal.SIGINT)
        assert page.wait(60) == 0
        log.seek(0)
        assert "Traceback" not in log.read()


@pytest.mark.proves("V12")
@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--tls-cert=a"],
        ["--tls-key=a"],
        ["--behind-tls", "--tls-cert=a", "--tls-key=b"],
        ["--behind-tls", "-n", "shop"],
        ["--behind-tls", "--fleet", "fleet.yaml"],
    ],
    ids=" ".join,
)
def test_what_it_does_not_take_is_said(hub: Any, given: list[str]) -> None:
    done = CliRunner().invoke(cli, ["ui", "--serve", f"--kubeconfig={hub.kubeconfig}", *given])
    assert done.exit_code == 2, done.output
    assert "--serve" in done.stderr


async def test_a_renewed_certificate_is_taken_in_its_place(tmp_path: Path) -> None:
    loaded, clock = [], FakeClock()

    class Context:
        def load_cert_chain(self, *files: Path) -> None:
            loaded.append(files[0].read_bytes())

    first, second = (Authority().pair("page") for _ in range(2))
    files = written(tmp_path, first)
    renewing = asyncio.create_task(hosted._renew(Context(), files, clock))
    await clock.advance(CERTIFICATE_SECONDS)
    files[1].write_bytes(second.key)  # half of the next one
    await clock.advance(CERTIFICATE_SECONDS)
    written(tmp_path, second)
    await clock.advance(CERTIFICATE_SECONDS)
    renewing.cancel()
    assert loaded == [first.certificate, second.certificate]


@pytest.mark.proves("V18")
def test_the_account_reads_each_kind_that_the_page_shows() -> None:
    every = install.page_manifests(namespace="stowage-system", image="any")
    role = next(each for each in every if each["kind"] == "ClusterRole")
    kinds = next(each for each in role["rules"] if each["apiGroups"] == [GROUP])
    assert kinds["resources"] == sorted(each.plural for each in KINDS)
