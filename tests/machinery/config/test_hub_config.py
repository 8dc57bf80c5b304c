"""Where the hub is found, what is said when it is not, and tokens that change."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES
from machinery.config.hub_config import FRESH_SECONDS, hub_connection
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Unauthorized
from tests.fakeclock import FakeClock, settle
from tests.machinery.certificates import Authority

SERVER = "https://hub.example:6443"
AUTHORITY = Authority()
PAIR = AUTHORITY.pair("user")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(
    user: dict[str, Any] | None = None, *, name: str = "hub", **cluster: Any
) -> dict[str, Any]:
    """A kubeconfig of one context, whose parts all have that name."""
    ca = {"certificate-authority-data": encoded(AUTHORITY.pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": SERVER, **(cluster or ca)}}],
        "users": [{"name": name, "user": {"token": "static"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def written(file: Path, content: dict[str, Any]) -> str:
    file.write_text(yaml.safe_dump(content))
    return str(file)


async def token(connection: Connection, *, rejected: str | None = None) -> str:
    assert connection.token_source is not None
    return await connection.token_source(rejected=rejected)


class Plugin:
    """A credential plugin: a program that answers what it was last told to, and counts its runs."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "log-in"
        self._answer = directory / "answer"
        self._runs = directory / "runs"
        self.program.write_text(
            f"#!/bin/sh\necho >> {self._runs}\ntest -s {self._answer} || "
            f"{{ echo 'session has ended' >&2; exit 3; }}\ncat {self._answer}\n"
        )
        self.program.chmod(0o700)

    def waits_for(self, file: Path) -> None:
        """From now on it gives up unless that file comes soon."""
        wait = f"for i in 1 2 3 4 5 6 7 8 9; do test -e {file} && break; sleep 0.2; done\n"
        script = self.program.read_text().replace("\n", f"\n{wait}test -e {file} || exit 1\n", 1)
        self.program.write_text(script)

    @property
    def user(self) -> dict[str, Any]:
        version = "client.authentication.k8s.io/v1"
        return {"exec": {"apiVersion": version, "command": str(self.program)}}

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines())

    def answers(self, **status: str) -> None:
        kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        self._answer.write_text(json.dumps({**kind, "status": status}))

    def fails(self) -> None:
        self._answer.write_text("")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and nothing in the environment that tells of a hub."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return home


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The files of a pod's service account."""
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("of-the-pod\n")
    (account / "ca.crt").write_bytes(AUTHORITY.pem)
    (account / "namespace").write_text("stowage-system")
    return account


@pytest.fixture
def in_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


# --- where it is looked for


def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(ConfigurationError) as caught:
        hub_connection(kubeconfig=str(absent))
    assert str(absent) in str(caught.value)
    assert "--kubeconfig" in str(caught.value)


def test_a_file_that_is_not_there_is_no_reason_to_take_another(
    tmp_path: Path, account: Path, in_pod: None, home: Path
) -> None:
    (home / ".kube").mkdir()
    written(home / ".kube" / "config", document())
    with pytest.raises(ConfigurationError, match="absent"):
        hub_connection(kubeconfig=str(tmp_path / "absent"), service_account=account)


def test_of_several_files_named_none_may_be_missing(tmp_path: Path) -> None:
    file = written(tmp_path / "config", document())
    with pytest.raises(ConfigurationError, match=f"no file {tmp_path}/absent;"):
        hub_connection(kubeconfig=f"{file}:{tmp_path}/absent")


def test_where_nothing_is_configured_the_usual_place_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        hub_connection(service_account=tmp_path / "none")
    assert str(home / ".kube" / "config") in str(caught.value)
    assert "KUBECONFIG" in str(caught.value)


def test_a_variable_that_names_no_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/two")
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/one, {tmp_path}/two"):
        hub_connection(service_account=tmp_path / "none")


def test_the_file_named_goes_before_the_variable_and_that_before_home(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".kube").mkdir()
    at_home = document()
    at_home["clusters"][0]["cluster"]["server"] = "https://home.example"
    written(home / ".kube" / "config", at_home)
    assert hub_connection().server == "https://home.example"

    monkeypatch.setenv("KUBECONFIG", written(tmp_path / "variable", document()))
    assert hub_connection().server == SERVER

    named = document()
    named["clusters"][0]["cluster"]["server"] = "https://named.example"
    file = written(tmp_path / "named", named)
    assert hub_connection(kubeconfig=file).server == "https://named.example"


def test_files_of_the_variable_are_merged_and_absent_ones_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = written(tmp_path / "one", document(name="one"))
    two = document(name="two")
    two["clusters"][0]["cluster"]["server"] = "https://two.example"
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path}/absent:{written(tmp_path / 'two', two)}")
    assert hub_connection(context="one").server == SERVER
    assert hub_connection(context="two").server == "https://two.example"


# --- what is wrong in it


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("a: [", "line 1"),
        ("just words", "cannot be used"),
        ("[1, 2]", "cannot be used"),
        ("\x00", "cannot be used"),
        ("contexts: 5\nclusters: {}\nusers: x", "cannot be used"),
        ("{}", "--context"),
    ],
)
def test_what_is_no_kubeconfig_is_refused_with_its_name(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=says) as caught:
        hub_connection(kubeconfig=str(file))
    assert str(file) in str(caught.value)


def test_a_broken_file_is_no_reason_to_take_the_pods_account(
    home: Path, account: Path, in_pod: None
) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("a: [")
    with pytest.raises(ConfigurationError, match=str(home)):
        hub_connection(service_account=account)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{tmp_path} cannot be used: .*directory"):
        hub_connection(kubeconfig=str(tmp_path))


def test_an_unknown_context_is_named_beside_those_there_are(tmp_path: Path) -> None:
    content = document()
    content["contexts"].append({"name": "other", "context": {"cluster": "hub", "user": "hub"}})
    file = written(tmp_path / "config", content)
    with pytest.raises(ConfigurationError, match=r"no context 'nope'.*--context.*hub, other") as e:
        hub_connection(kubeconfig=file, context="nope")
    assert file in str(e.value)


def test_without_a_current_context_one_has_to_be_given_and_then_serves(tmp_path: Path) -> None:
    content = document()
    content["current-context"] = ""
    file = written(tmp_path / "config", content)
    with pytest.raises(ConfigurationError, match=r"which context.*--context.*hub"):
        hub_connection(kubeconfig=file)
    assert hub_connection(kubeconfig=file, context="hub").server == SERVER


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["clusters"].clear(), "no cluster 'hub'"),
        (lambda d: d["users"].clear(), "no user 'hub'"),
        (lambda d: d["contexts"][0]["context"].pop("cluster"), "which cluster"),
        (lambda d: d["clusters"][0]["cluster"].pop("server"), "no server"),
        (lambda d: d["clusters"][0]["cluster"].update(server="https://h:x"), "a port that is none"),
        (lambda d: d["clusters"][0]["cluster"].update(server="https://[::1"), "is not an http"),
        (lambda d: d["clusters"][0].pop("name"), "name"),
        (
            lambda d: d["clusters"][0].update(
                cluster={"server": SERVER, "certificate-authority": "/no/ca"}
            ),
            "/no/ca",
        ),
        (lambda d: d["users"][0].update(user={"client-certificate": "/no/cert"}), "/no/cert"),
        (lambda d: d["users"][0].update(user={"tokenFile": "/no/token"}), "/no/token"),
        (
            lambda d: d["clusters"][0]["cluster"].update({"certificate-authority-data": "%%%a"}),
            "cannot be used",
        ),
    ],
)
def test_what_is_missing_in_it_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    content = document()
    change(content)
    file = written(tmp_path / "config", content)
    with pytest.raises(ConfigurationError, match=says) as caught:
        hub_connection(kubeconfig=file)
    assert file in str(caught.value)


def test_skipped_verification_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "config", document(**{"insecure-skip-tls-verify": True}))
    with pytest.raises(ConfigurationError, match="certificate-authority-data"):
        hub_connection(kubeconfig=file)


def test_no_secret_of_the_file_is_in_the_error(tmp_path: Path) -> None:
    config = {"client-secret": "hush-hush", "client-id": "a"}  # no id-token
    user = {"auth-provider": {"name": "oidc", "config": config}}
    file = written(tmp_path / "config", document(user))
    with pytest.raises(ConfigurationError, match="id-token") as caught:
        hub_connection(kubeconfig=file)
    reported: BaseException | None = caught.value
    while reported is not None:
        assert "hush" not in str(reported)
        reported = reported.__cause__


# --- what is right in it


async def test_a_token_is_a_token_and_never_shown(tmp_path: Path) -> None:
    connection = hub_connection(kubeconfig=written(tmp_path / "config", document()))
    assert connection.server == SERVER
    assert connection.ca == AUTHORITY.pem
    assert connection.namespace == "default"
    assert await token(connection) == "static"
    assert "static" not in repr(connection)


def test_the_namespace_is_that_of_the_context_asked_for(tmp_path: Path) -> None:
    content = document()
    other = {"cluster": "hub", "user": "hub", "namespace": "elsewhere"}
    content["contexts"].append({"name": "other", "context": other})
    file = written(tmp_path / "config", content)
    assert hub_connection(kubeconfig=file).namespace == "default"
    assert hub_connection(kubeconfig=file, context="other").namespace == "elsewhere"


def test_certificates_are_taken_from_the_file_or_from_beside_it(tmp_path: Path) -> None:
    inline = {
        "client-certificate-data": encoded(PAIR.certificate),
        "client-key-data": encoded(PAIR.key),
    }
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.pem)
    (tmp_path / "user.pem").write_bytes(PAIR.certificate)
    (tmp_path / "key.pem").write_bytes(PAIR.key)
    beside = {"client-certificate": "user.pem", "client-key": "key.pem"}
    for user, cluster in [(inline, {}), (beside, {"certificate-authority": "ca.pem"})]:
        file = written(tmp_path / "config", document(user, **cluster))
        connection = hub_connection(kubeconfig=file)
        assert connection.ca == AUTHORITY.pem
        assert connection.client_cert == PAIR.certificate
        assert connection.client_key == PAIR.key
        assert connection.token_source is None


def test_no_key_is_left_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    make = tempfile.mkstemp

    def note(*args: Any, **kwargs: Any) -> tuple[int, str]:
        descriptor, name = make(*args, **kwargs)
        made.append(Path(name))
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", note)
    pair = AUTHORITY.pair("another")  # the library remembers those that it has seen
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }
    connection = hub_connection(kubeconfig=written(tmp_path / "config", document(user)))
    assert connection.client_key == pair.key
    assert made
    assert not any(file.exists() for file in made)
    memory = Path("/dev/shm")
    assert not memory.is_dir() or all(file.is_relative_to(memory) for file in made)


async def test_a_user_and_password_are_asked_for_as_such(tmp_path: Path) -> None:
    user = {"username": "admin", "password": "p:ss"}
    connection = hub_connection(kubeconfig=written(tmp_path / "config", document(user)))
    assert (connection.username, connection.password) == ("admin", "p:ss")
    assert connection.token_source is None
    assert "p:ss" not in repr(connection)


async def test_a_user_and_password_reach_the_server_as_basic_authentication(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({"items": []})

    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    content = document({"username": "admin", "password": "secret"})
    content["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        connection = hub_connection(kubeconfig=written(tmp_path / "config", content))
        async with ApiClient(connection) as client:
            await client.list(NAMESPACES)
    finally:
        await runner.cleanup()
    assert seen == [aiohttp.encode_basic_auth("admin", "secret")]


def test_impersonation_server_name_and_proxy_are_kept(tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-groups": ["ops", "dev"]}
    cluster = {"tls-server-name": "hub.internal", "proxy-url": "http://proxy.example:3128"}
    connection = hub_connection(kubeconfig=written(tmp_path / "config", document(user, **cluster)))
    assert (connection.impersonate, connection.impersonate_groups) == ("jane", ("ops", "dev"))
    assert connection.tls_server_name == "hub.internal"
    assert connection.proxy_url == "http://proxy.example:3128"


def test_the_environments_proxy_is_used_unless_it_excepts_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "config", document())
    assert hub_connection(kubeconfig=file).proxy_url is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert hub_connection(kubeconfig=file).proxy_url == "http://proxy.example:3128"
    monkeypatch.setenv("NO_PROXY", "localhost,.example")
    assert hub_connection(kubeconfig=file).proxy_url is None


# --- tokens that change


async def test_a_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    clock = FakeClock()
    file = written(tmp_path / "config", document({"tokenFile": "token"}))
    connection = hub_connection(kubeconfig=file, clock=clock)
    assert await token(connection) == "first"
    (tmp_path / "token").write_text("second")
    await clock.advance(FRESH_SECONDS / 2)
    assert await token(connection) == "first"
    await clock.advance(FRESH_SECONDS / 2)
    assert await token(connection) == "second"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    file = written(tmp_path / "config", document({"tokenFile": "token"}))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert await token(connection) == "first"
    (tmp_path / "token").write_text("second")
    assert await token(connection, rejected="first") == "second"
    assert await token(connection, rejected="first") == "second", "that is another one by now"


async def test_logging_in_anew_serves_a_process_that_runs(tmp_path: Path) -> None:
    file = written(tmp_path / "config", document({"token": "old"}))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert await token(connection) == "old"
    written(tmp_path / "config", document({"token": "new"}))
    assert await token(connection, rejected="old") == "new"


async def test_a_token_that_is_gone_is_said_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    file = written(tmp_path / "config", document({"tokenFile": "token"}))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert await token(connection) == "first"
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigurationError, match=str(tmp_path / "token")):
        await token(connection, rejected="first")
    (tmp_path / "token").write_text("second")
    assert await token(connection, rejected="first") == "second"


async def test_a_login_that_gives_no_token_any_more_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    file = written(tmp_path / "config", document({"token": "old"}))
    connection = hub_connection(kubeconfig=file, clock=clock)
    assert await token(connection) == "old"
    written(tmp_path / "config", document({}))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="log in again"):
            await token(connection, rejected="old")
    written(tmp_path / "config", document({"token": "new"}))
    await clock.advance(FRESH_SECONDS)
    assert await token(connection) == "new"


# --- credential plugins


async def test_a_plugin_gives_the_token_and_is_not_run_for_every_request(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(token="issued", expirationTimestamp="2999-01-01T00:00:00Z")
    clock = FakeClock()
    file = written(tmp_path / "config", document(plugin.user))
    connection = hub_connection(kubeconfig=file, clock=clock)
    for _ in range(3):
        assert await token(connection) == "issued"
        await clock.advance(FRESH_SECONDS)
    assert plugin.runs == 1


async def test_a_plugin_runs_again_when_its_token_has_expired(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(token="first", expirationTimestamp="2020-01-01T00:00:00Z")
    clock = FakeClock()
    file = written(tmp_path / "config", document(plugin.user))
    connection = hub_connection(kubeconfig=file, clock=clock)
    plugin.answers(token="second", expirationTimestamp="2020-01-01T00:00:00Z")
    assert await token(connection) == "second"
    plugin.answers(token="third", expirationTimestamp="2999-01-01T00:00:00Z")
    await clock.advance(FRESH_SECONDS)
    assert await token(connection) == "third"


async def test_a_plugin_runs_again_at_once_and_once_when_its_token_is_refused(
    tmp_path: Path,
) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(token="revoked")
    file = written(tmp_path / "config", document(plugin.user))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert await token(connection) == "revoked"
    before = plugin.runs
    plugin.answers(token="renewed")
    many = await asyncio.gather(*(token(connection, rejected="revoked") for _ in range(8)))
    assert set(many) == {"renewed"}
    assert plugin.runs == before + 1


async def test_others_go_on_while_a_plugin_runs(tmp_path: Path) -> None:
    plugin, go = Plugin(tmp_path), tmp_path / "go"
    plugin.answers(token="first")
    file = written(tmp_path / "config", document(plugin.user))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert await token(connection) == "first"
    plugin.answers(token="second")
    plugin.waits_for(go)
    renewing = asyncio.create_task(token(connection, rejected="first"))
    await settle()
    go.touch()  # nobody does while the plugin holds the event loop
    assert await renewing == "second"


def test_an_older_kind_of_plugin_serves_and_its_token_is_kept_in_the_file(tmp_path: Path) -> None:
    program = tmp_path / "issue"
    issued = {"access_token": "issued", "token_expiry": "2999-01-01T00:00:00Z"}
    program.write_text(f"#!/bin/sh\necho '{json.dumps({'credential': issued})}'\n")
    program.chmod(0o700)
    held = {"access-token": "old", "expiry": "2020-01-01T00:00:00Z", "cmd-path": str(program)}
    user = {"auth-provider": {"name": "gcp", "config": held}}
    file = written(tmp_path / "config", document(user))
    connection = hub_connection(kubeconfig=file, clock=FakeClock())
    assert asyncio.run(token(connection)) == "issued"
    (entry,) = yaml.safe_load(Path(file).read_text())["users"]
    assert entry["user"]["auth-provider"]["config"]["access-token"] == "issued"


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(clientCertificateData=PAIR.certificate.decode(), clientKeyData=PAIR.key.decode())
    connection = hub_connection(kubeconfig=written(tmp_path / "config", document(plugin.user)))
    assert connection.client_cert == PAIR.certificate
    assert connection.client_key == PAIR.key


def test_a_plugin_that_fails_is_named_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = Plugin(tmp_path)
    plugin.fails()
    file = written(tmp_path / "config", document(plugin.user))
    with pytest.raises(ConfigurationError, match="run it by hand") as caught:
        hub_connection(kubeconfig=file)
    assert file in str(caught.value)
    assert str(plugin.program) in str(caught.value)
    assert "session has ended" in caplog.text, "the error is in the log, as the message says"


@pytest.mark.parametrize("command", ["/no/such/program", "/bin/true", "/bin/false"])
def test_a_plugin_that_is_none_is_named(tmp_path: Path, command: str) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}
    with pytest.raises(ConfigurationError, match=command):
        hub_connection(kubeconfig=written(tmp_path / "config", document(user)))


async def test_a_plugin_that_fails_later_is_an_unauthorized_request_and_recovers(
    tmp_path: Path,
) -> None:
    plugin = Plugin(tmp_path)
    good = "first"

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == f"Bearer {good}":
            return web.json_response({"items": [{"metadata": {"name": "a"}}]})
        return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)

    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    plugin.answers(token="first")
    content = document(plugin.user)
    content["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        connection = hub_connection(kubeconfig=written(tmp_path / "config", content))
        async with ApiClient(connection) as client:
            assert (await client.list(NAMESPACES))["items"]
            good = "second"
            plugin.fails()
            with pytest.raises(Unauthorized, match="run it by hand"):
                await client.list(NAMESPACES)
            plugin.answers(token="second")
            assert (await client.list(NAMESPACES))["items"]
    finally:
        await runner.cleanup()


# --- in a pod


async def test_in_a_pod_it_is_the_service_account(account: Path, in_pod: None) -> None:
    clock = FakeClock()
    connection = hub_connection(service_account=account, clock=clock)
    assert connection.server == "https://10.0.0.1:443"
    assert connection.ca is not None
    assert connection.ca.strip() == AUTHORITY.pem.strip()
    assert connection.namespace == "stowage-system"
    assert await token(connection) == "of-the-pod"
    (account / "token").write_text("rotated")
    await clock.advance(FRESH_SECONDS)
    assert await token(connection) == "rotated"


def test_an_address_of_six_has_brackets(
    account: Path, in_pod: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert hub_connection(service_account=account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize("file", ["token", "ca.crt", "namespace"])
def test_a_pod_without_one_of_its_files_says_which(account: Path, in_pod: None, file: str) -> None:
    (account / file).write_text(" \n")
    with pytest.raises(ConfigurationError, match=f"{account / file} is empty"):
        hub_connection(service_account=account)
    (account / file).unlink()
    with pytest.raises(ConfigurationError, match="automountServiceAccountToken") as caught:
        hub_connection(service_account=account)
    assert str(account / file) in str(caught.value)


def test_a_service_account_without_an_address_says_so(account: Path) -> None:
    with pytest.raises(ConfigurationError, match="KUBERNETES_SERVICE_HOST"):
        hub_connection(service_account=account)


def test_a_context_asked_for_in_a_pod_is_not_passed_over(account: Path, in_pod: None) -> None:
    with pytest.raises(ConfigurationError, match="no file"):
        hub_connection(context="hub", service_account=account)


async def test_an_unreadable_token_later_is_said_in_our_words(account: Path, in_pod: None) -> None:
    connection = hub_connection(service_account=account, clock=FakeClock())
    assert await token(connection) == "of-the-pod"
    (account / "token").unlink()
    with pytest.raises(ConfigurationError, match=str(account / "token")):
        await token(connection, rejected="of-the-pod")
