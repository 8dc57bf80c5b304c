"""Whom a client believes, and how it says who it is: real certificates, real handshakes."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from machinery.api.client import ApiClient
from machinery.api.credentials import client_context, in_memory
from machinery.config.kubeconfig import Connection
from machinery.errors import KubeconfigError, TLSVerificationFailed, Unreachable
from tests.fakeclock import EagerClock
from tests.machinery.certificates import Authority, Pair, server_context

AUTHORITY = Authority()
OTHER = Authority("other")
SERVER = AUTHORITY.pair("server", "127.0.0.1", "server.example")
USER = AUTHORITY.pair("jane")


@asynccontextmanager
async def serving(
    directory: Path, pair: Pair = SERVER, *, clients: bytes | None = None
) -> AsyncIterator[Connection]:
    """A server that answers the common name of who asks; the connection to it."""

    async def whoami(request: web.Request) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        names = [value for part in shown.get("subject", ()) for key, value in part]
        return web.json_response(names)

    app = web.Application()
    app.router.add_get("/whoami", whoami)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = server_context(pair, directory, clients=clients)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        port = runner.addresses[0][1]
        yield Connection(f"https://127.0.0.1:{port}", ca=AUTHORITY.pem)
    finally:
        await runner.cleanup()


async def whoami(connection: Connection) -> str:
    async with ApiClient(connection, clock=EagerClock()) as client:
        return (await client.request("GET", "/whoami")).decode()


# --- whom we believe


async def test_a_server_of_the_right_authority_and_name_is_believed(tmp_path: Path) -> None:
    async with serving(tmp_path) as connection:
        assert await whoami(connection) == "[]"


async def test_a_server_of_another_authority_is_not_and_is_told_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as connection:
        with pytest.raises(TLSVerificationFailed, match=connection.server):
            await whoami(replace(connection, ca=OTHER.pem))


async def test_one_of_several_authorities_is_enough(tmp_path: Path) -> None:
    async with serving(tmp_path) as connection:
        assert await whoami(replace(connection, ca=OTHER.pem + AUTHORITY.pem)) == "[]"


async def test_a_server_of_another_name_is_not_believed(tmp_path: Path) -> None:
    pair = AUTHORITY.pair("127.0.0.1", "elsewhere.example")  # a common name is no name
    async with serving(tmp_path, pair) as connection:
        with pytest.raises(TLSVerificationFailed, match="not valid for"):
            await whoami(connection)


async def test_the_name_to_verify_may_be_another_than_the_address(tmp_path: Path) -> None:
    pair = AUTHORITY.pair("server", "server.example")
    async with serving(tmp_path, pair) as connection:
        assert await whoami(replace(connection, tls_server_name="server.example")) == "[]"
        with pytest.raises(TLSVerificationFailed, match="not valid for"):
            await whoami(replace(connection, tls_server_name="other.example"))


async def test_an_expired_certificate_is_not_believed(tmp_path: Path) -> None:
    pair = AUTHORITY.pair("server", "127.0.0.1", days=-1)
    async with serving(tmp_path, pair) as connection:
        with pytest.raises(TLSVerificationFailed, match="expired"):
            await whoami(connection)


async def test_without_an_authority_the_systems_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system.pem").write_bytes(AUTHORITY.pem)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    async with serving(tmp_path) as connection:
        unnamed = replace(connection, ca=None)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
        assert await whoami(unnamed) == "[]"
        with pytest.raises(TLSVerificationFailed):
            await whoami(replace(connection, ca=OTHER.pem))  # named: the system's no longer count
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
        with pytest.raises(TLSVerificationFailed):
            await whoami(unnamed)


async def test_no_secret_is_sent_before_the_server_is_believed(tmp_path: Path) -> None:
    seen = bytearray()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            seen.extend(chunk)
        writer.close()

    context = server_context(SERVER, tmp_path)
    server = await asyncio.start_server(note, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(TLSVerificationFailed):
            await whoami(Connection(url, ca=OTHER.pem, token="secret-token"))
    assert not seen


def test_nothing_older_than_tls_1_2_is_spoken() -> None:
    context = client_context(Connection("https://a", ca=AUTHORITY.pem))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize(
    "ca",
    [b"", b"no certificate", b"\xff\xfe", AUTHORITY.pem[:80], AUTHORITY.pair("x").key],
    ids=["nothing", "other words", "no text", "half a certificate", "a key"],
)
def test_an_authority_that_is_none_is_refused_by_its_key(ca: bytes) -> None:
    with pytest.raises(KubeconfigError, match="certificate-authority-data") as caught:
        client_context(Connection("https://a", ca=ca))
    assert "PRIVATE" not in str(caught.value)


# --- who we are


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    async with serving(tmp_path, clients=AUTHORITY.pem) as connection:
        user = replace(connection, client_cert=USER.certificate, client_key=USER.key)
        assert await whoami(user) == '["jane"]'


async def test_a_server_that_wants_another_certificate_hangs_up(tmp_path: Path) -> None:
    stranger = OTHER.pair("stranger")
    async with serving(tmp_path, clients=AUTHORITY.pem) as connection:
        with pytest.raises(Unreachable):
            await whoami(connection)
        with pytest.raises(Unreachable):
            await whoami(
                replace(connection, client_cert=stranger.certificate, client_key=stranger.key)
            )


async def test_a_certificate_may_bring_its_chain_and_stand_in_one_file_with_its_key(
    tmp_path: Path,
) -> None:
    both = USER.key + USER.certificate + AUTHORITY.pem
    async with serving(tmp_path, clients=AUTHORITY.pem) as connection:
        user = replace(connection, client_cert=both, client_key=both)
        assert await whoami(user) == '["jane"]'


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        (USER.certificate, SERVER.key),
        (USER.certificate, b"no key"),
        (b"no certificate", USER.key),
        (USER.certificate, USER.encrypted(b"passphrase")),
        (USER.certificate, None),
        (None, USER.key),
        (USER.certificate, b""),
    ],
    ids=[
        "another's key",
        "no key",
        "no certificate",
        "an encrypted key",
        "a certificate alone",
        "a key alone",
        "an empty key",
    ],
)
def test_a_certificate_and_a_key_that_do_not_serve_are_refused_without_a_question(
    certificate: bytes | None, key: bytes | None
) -> None:
    connection = Connection("https://a", AUTHORITY.pem, client_cert=certificate, client_key=key)
    with pytest.raises(KubeconfigError, match="client-key-data") as caught:
        client_context(connection)
    assert "PRIVATE" not in str(caught.value)


LOCKED_KEY = """
import sys
from machinery.errors import KubeconfigError
from machinery.config.kubeconfig import Connection
from machinery.api.credentials import client_context
ca, certificate, key = (part.encode() for part in sys.argv[1].split("|"))
try:
    client_context(Connection("https://a", ca, client_cert=certificate, client_key=key))
except KubeconfigError as e:
    print(e)
"""


def test_nobody_is_asked_for_a_passphrase() -> None:
    parts = [AUTHORITY.pem, USER.certificate, USER.encrypted(b"passphrase")]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOCKED_KEY, b"|".join(parts)],
        input=b"passphrase\n",  # where OpenSSL would read it, without a terminal
        capture_output=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
    assert ran.stderr == b""
    assert ran.stdout.startswith(b"client-key-data: ")


# --- where the key lies meanwhile


def descriptors() -> int:
    """How many this process holds."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


@pytest.mark.parametrize("pipe", [False, True])
def test_a_key_in_memory_can_be_read_once_and_is_gone(*, pipe: bool) -> None:
    with in_memory(USER.key, pipe=pipe) as path:
        assert Path(path).read_bytes() == USER.key
        assert not os.path.realpath(path).startswith((tempfile.gettempdir(), "/dev/shm"))
    with pytest.raises(OSError, match="No such file"):
        Path(path).read_bytes()


WITHOUT_MEMORY_FILES = """
import os, sys
del os.memfd_create
from machinery.errors import KubeconfigError
from machinery.config.kubeconfig import Connection
from machinery.api.credentials import client_context
ca, certificate, key, another = (part.encode() for part in sys.stdin.read().split("|"))
client_context(Connection("https://a", ca, client_cert=certificate, client_key=key))
try:
    client_context(Connection("https://a", ca, client_cert=certificate, client_key=another))
except KubeconfigError as e:
    print(e)
"""


def test_where_the_system_has_no_memory_files_pipes_serve_as_well() -> None:
    parts = [AUTHORITY.pem, USER.certificate, USER.key, SERVER.key]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_MEMORY_FILES],
        input=b"|".join(parts),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == b""
    assert ran.stdout.startswith(b"client-key-data: ")


def test_what_no_pipe_holds_is_refused_and_no_descriptor_is_lost() -> None:
    before = descriptors()
    with pytest.raises(KubeconfigError, match="too long"), in_memory(b"x" * 2**20, pipe=True):
        pytest.fail("nothing would have come after what the pipe holds")
    assert descriptors() == before


def test_a_context_leaves_no_descriptor_and_needs_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    connection = Connection(
        "https://a", AUTHORITY.pem, client_cert=USER.certificate, client_key=USER.key
    )
    before = descriptors()
    contexts = [client_context(connection) for _ in range(20)]
    assert descriptors() == before
    assert len(contexts) == 20
