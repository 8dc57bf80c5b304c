"""No token leaves this machine in plain text."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
import yaml

from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from stowage.hub import guarded

pytestmark = pytest.mark.proves("S13")


@pytest.mark.parametrize(
    "server",
    [
        "http://10.0.0.1:10251",
        "http://controller.example",
        "http://127.0.0.1.example.com",
        "http://[2001:db8::1]:10251",
        "HTTP://10.0.0.1",
        "http://127.0.0.1@10.0.0.1",
    ],
)
@pytest.mark.parametrize("how", [{"token": "t"}, {"username": "u", "password": "p"}])
def test_plain_http_elsewhere_is_refused(server, how):
    with pytest.raises(ConfigurationError, match="is plain http"):
        guarded(Connection(server=server, **how))


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"])
def test_on_this_machine_it_is_said(server, capsys):
    guarded(Connection(server=server, token="t"))
    assert capsys.readouterr().err == f"note: {server} gets the credential without TLS\n"


@pytest.mark.parametrize(
    "connection",
    [Connection(server="https://10.0.0.1", token="t"), Connection(server="http://10.0.0.1")],
)
def test_with_tls_or_without_a_credential_nothing_is_said(connection, capsys):
    assert guarded(connection) is connection
    assert capsys.readouterr().err == ""


@pytest.fixture
def listener():
    """A server on every address of this machine, and what was asked of it."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(dict(self.headers))
            self.send_error(404)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port, asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_command_keeps_the_credential_of_a_hub_to_itself(listener, stowage, tmp_path):
    port, asked = listener
    kubeconfig = tmp_path / "hub.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(f"http://0.0.0.0:{port}")))
    token = tmp_path / "token"
    token.write_text("secret")
    manifest = tmp_path / "w.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap"}))
    hub = f"--kubeconfig={kubeconfig}"
    for command in (
        ["install", hub],
        ["plan", hub, "-f", manifest],
        ["explain", "wl/x", hub],
        ["controller", hub],
        ["propagator", hub],
    ):
        outcome = stowage(*command)
        assert outcome.code == 1
        assert f"error: http://0.0.0.0:{port} is plain http" in outcome.err
    outcome = stowage(
        "explain", "wl/x", f"--controller=http://0.0.0.0:{port}", f"--token-file={token}", hub
    )
    assert "is plain http" in outcome.err
    assert asked == []


def _kubeconfig(server):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "hub", "user": {"token": "secret"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
    }
