"""Control planes that start, freeze, die and come back."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from stowage.playground.processes import Process, ProcessFailed, wait_until
from tests.patience import PATIENCE


def test_kubectl_says_what_the_server_said(apiserver):
    with pytest.raises(ProcessFailed, match="not found"):
        apiserver.kubectl("get", "namespace", "nowhere")


@pytest.mark.proves("S13")
def test_etcd_answers_nobody_without_our_certificate(control_planes, apiserver):
    """It holds the Secrets of every cluster, as they are."""
    assert wait_until(apiserver.ready, seconds=PATIENCE * 10)
    with_ours = control_planes.etcd_client()
    without = ssl.create_default_context(cadata=_authority(with_ours))
    asked = json.dumps({"key": base64.b64encode(b"/").decode(), "range_end": "AA=="}).encode()
    url = f"{control_planes.endpoint}/v3/kv/range"
    with urllib.request.urlopen(url, asked, timeout=60, context=with_ours) as answer:
        assert int(json.load(answer)["count"]) > 0
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        urllib.request.urlopen(url, asked, timeout=10, context=without)
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(url.replace("https:", "http:"), asked, timeout=10)


def _authority(context):
    (certificate,) = context.get_ca_certs(binary_form=True)
    return ssl.DER_cert_to_PEM_cert(certificate)


_PARENT = """
import sys, time
from pathlib import Path
from stowage.playground.processes import Process
child = Process("sleeper", ["sleep", "300"], Path(sys.argv[1]) / "log")
child.start(detached=False)
print("started", flush=True)
time.sleep(300)
"""


_ENDED_BY_ANOTHER = """
import os, signal, sys
from pathlib import Path
from stowage.playground.processes import Process
child = Process("sleeper", ["sleep", "300"], Path(sys.argv[1]) / "log")
child.start(detached=True)
os.kill(child.pid(), signal.SIGKILL)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
"""


def test_nothing_is_warned_of_a_child_that_another_process_ended(tmp_path):
    command = [sys.executable, "-Wdefault", "-c", _ENDED_BY_ANOTHER, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""


_BUSY = """
import hashlib, os, threading
def run():
    while True:
        hashlib.sha256(bytes(100_000)).digest()
        os.write(1, b".")
for _ in range(7):
    threading.Thread(target=run).start()
run()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of threads")
def test_no_thread_of_a_frozen_process_goes_on(tmp_path):
    busy = Process("busy", [sys.executable, "-c", _BUSY], tmp_path / "log")
    busy.start(detached=False)
    try:
        for _ in range(5):
            before = len(busy.log.read_bytes())
            assert wait_until(lambda b=before: len(busy.log.read_bytes()) > b, seconds=PATIENCE * 5)
            busy.freeze()
            threads = Path(f"/proc/{busy.pid()}/task").iterdir()
            states = [(each / "stat").read_text().rpartition(")")[2].split()[0] for each in threads]
            assert len(states) > 1
            assert set(states) == {"T"}
            busy.thaw()
    finally:
        busy.end(signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills with the parent")
def test_processes_die_with_their_parent(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout.readline() == "started\n"
        child = Process("sleeper", [], tmp_path / "log")
        assert child.alive()
        parent.kill()
    assert wait_until(lambda: not child.alive(), seconds=PATIENCE * 5)
