"""Member kubeconfigs are read strictly: what could execute, read or trust anything is refused."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from machinery.config.kubeconfig import connection_from_secret, parse_kubeconfig
from machinery.errors import KubeconfigError
from stowage.playground import pki


def document(**changes: Any) -> dict[str, Any]:
    authority = pki.Authority("test")
    cluster = {
        "server": "https://192.0.2.1:6443",
        "certificate-authority-data": base64.b64encode(authority.certificate).decode(),
    }
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster | changes.pop("cluster", {})}],
        "users": [{"name": "it", "user": changes.pop("user", {"token": "secret-token"})}],
        **changes,
    }


def refused(data: bytes) -> KubeconfigError:
    with pytest.raises(KubeconfigError) as raised:
        parse_kubeconfig(data)
    return raised.value


def test_a_good_one_is_taken_and_shows_no_secret() -> None:
    connection = parse_kubeconfig(yaml.safe_dump(document()).encode())
    assert connection.server == "https://192.0.2.1:6443"
    assert connection.token == "secret-token"
    assert "secret-token" not in repr(connection)


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"user": {"exec": {"command": "rm"}}}, "users[0].user.exec"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "users[0].user.auth-provider"),
        ({"user": {"tokenFile": "/etc/shadow"}}, "users[0].user.tokenFile"),
        ({"user": {"client-key": "/k", "token": "t"}}, "users[0].user.client-key"),
        ({"user": {"as": "root", "token": "t"}}, "users[0].user.as"),
        ({"user": {}}, "users[0].user"),
        ({"user": {"client-certificate-data": "!!"}}, "users[0].user.client-certificate-data"),
        (
            {"cluster": {"certificate-authority": "/ca"}},
            "clusters[0].cluster.certificate-authority",
        ),
        (
            {"cluster": {"insecure-skip-tls-verify": True}},
            "clusters[0].cluster.insecure-skip-tls-verify",
        ),
        ({"cluster": {"server": "http://192.0.2.1"}}, "clusters[0].cluster.server"),
        ({"cluster": {"server": "file:///etc/passwd"}}, "clusters[0].cluster.server"),
        ({"current-context": ""}, "current-context"),
        ({"current-context": "other"}, "contexts"),
        ({"clusters": []}, "clusters"),
    ],
)
def test_the_offending_key_is_named(changes: dict[str, Any], key: str) -> None:
    fault = refused(yaml.safe_dump(document(**changes)).encode())
    assert fault.key == key
    assert "secret" not in str(fault)


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff",
        b"[1, 2",
        b"just text",
        b"",
        b"a: &a [1]\nb: *a",
        b"a: &a [1]\nb: 2",
        b"x" * (10 * 2**20),
        b"a: !!python/object/apply:os.system [ls]",
        b"a: !!binary aGk=",
        b"a: 1\n---\nb: 2",
        b"a: 1\na: 2",
        b"? [a]\n: b",
        b"? {a: b}\n: c",
        b"\xef\xbb\xbf\xff",
        b"\xff\xfea",
        b"%YAML 9.9\n---\na: b",
        b"a: [" * 10_000,
        b"{" * 60_000,
        b"[" * 60_000,
        b"- " * 30_000,
        b"? " * 30_000,
        b'{"a":' * 10_000,
        b"a: {" + b"b: {" * 10_000,
        b"".join(b" " * n + b"a:\n" for n in range(300)),
        b"a: [" + b"x," * 30_000 + b"x]",
        b'{"a": [' + b"[]," * 20_000 + b"[]]}",
    ],
)
def test_what_is_no_kubeconfig(data: bytes) -> None:
    assert refused(data).key in ("kubeconfig", "current-context")


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: " + b"[" * 17 + b"]" * 17, "nested deeper"),
        (b'{"a": ' + b"[" * 17 + b"]" * 17 + b"}", "nested deeper"),
        (b"a: [" + b"x," * 5000 + b"x]", "values"),
        (b"a: " + b"x" * 70_000, "larger than 64 KiB"),
        (b"a: !!str x\nb: !x y", "tags"),
    ],
)
def test_what_exceeds_a_bound_is_refused_by_its_name(data: bytes, words: str) -> None:
    assert words in str(refused(data))


@pytest.mark.proves("S6")
@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps])
def test_values_are_the_text_that_stands_there(dump: Callable[[Any], str]) -> None:
    text = dump(document(user={"token": "TOKEN", "password": None})).replace('"TOKEN"', "TOKEN")
    for written, token in (("123", "123"), ("1.50", "1.50"), ("true", "true"), ('"yes"', "yes")):
        assert parse_kubeconfig(text.replace("TOKEN", written).encode()).token == token
    assert refused(text.replace("TOKEN", "null").encode()).key == "users[0].user"


@pytest.mark.proves("S6")
def test_a_check_that_is_switched_on_may_be_said_to_be() -> None:
    changed = document(cluster={"insecure-skip-tls-verify": False})
    for text in (yaml.safe_dump(changed), json.dumps(changed)):
        assert parse_kubeconfig(text.encode()).server


SERVERS = [
    "https://[::1",
    "https://::1]:6443",
    "https://h:99999",
    "https://h:0",
    "https://h:-1",
    "https://h:port",
    "https://:pw@h",
    "https://u@h",
    "https://@h",
    "https://[fe80::1%25eth0]:6443",
    "https://[fe80::1%eth0]",
    "https://1.2.3.4.5",
    "https://999.1.1.1",
    "https://bücher.example",
    "https://h h",
    "https://h\n.example",
    "https://h\x00",
    "https://h?x=y",
    "https://h?",
    "https://h#",
    "https://h/../admin",
    "https://h/a\\b",
    "https://h/<x>",
    "https://-h",
    "https://h..example",
    "https://h.example.",
    "https://" + "a" * 64,
    "https://" + "a." * 200 + "a",
    "https://h/" + "a" * 5000,
    "https://",
    "https:h",
    "//h",
    "HTTP://h",
    "https://{h}",
]


@pytest.mark.proves("S6")
@pytest.mark.parametrize("server", SERVERS)
def test_an_address_that_cannot_be_used_is_refused_before_anybody_tries(server: str) -> None:
    text = json.dumps(document(cluster={"server": server}))
    fault = refused(text.encode())
    assert fault.key == "clusters[0].cluster.server"
    with pytest.raises(KubeconfigError) as raised:
        connection_from_secret({"endpoint": server.encode(), "token": b"t"})
    assert raised.value.key == "endpoint"
    assert "pw" not in str(raised.value)


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    "server",
    [
        "https://192.0.2.1",
        "https://[2001:db8::1]:6443",
        "https://api.example.org:6443/k8s/clusters/c-x1",
        "https://localhost:6443/",
        "https://xn--bcher-kva.example",
        "HTTPS://h",
    ],
)
def test_an_address_that_can_be_used_is_taken(server: str) -> None:
    assert parse_kubeconfig(json.dumps(document(cluster={"server": server})).encode())


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        *[
            ("cluster", "tls-server-name", name)
            for name in (
                "a b",
                ".h",
                "h.",
                "-h",
                "a" * 64,
                "bü",
                "a\nb",
                "*.h",
                "h:1",
                "[::1]",
                "/",
            )
        ],
        *[
            ("cluster", "proxy-url", url)
            for url in (
                "socks5://h",
                "http://[::1",
                "http://h:99999",
                "http://u:p w@h",
                "http://u:p\n@h",
                "http://h/path",
                "http://h?x",
                "http://",
                "h:3128",
                "http://hü",
            )
        ],
        ("user", "token", "a b"),
        ("user", "token", "a\nb"),
        ("user", "token", "ü"),
        ("user", "token", ["a"]),
        ("user", "username", "a:b"),
        ("user", "username", "a\rb"),
        ("user", "password", "a\x9bb"),
        ("user", "k\x1b[31m" + "x" * 500, "a"),
    ],
)
def test_every_part_is_looked_at(where: str, key: str, value: Any) -> None:
    user = {"username": "u", "password": "p", **({"token": "t"} if key != "token" else {})}
    changes = {"user": user, **({} if where == "user" else {"cluster": {key: value}})}
    if where == "user":
        user[key] = value
    fault = refused(json.dumps(document(**changes)).encode())
    assert fault.key.startswith({"user": "users[0].user", "cluster": "clusters[0].cluster"}[where])
    assert key[:1] in fault.key
    assert "\x1b" not in str(fault)
    assert len(str(fault)) < 400


@pytest.mark.proves("S6")
def test_a_proxy_with_credentials_is_taken() -> None:
    changed = document(cluster={"proxy-url": "http://u:p%20w@proxy.example:3128/"})
    assert parse_kubeconfig(json.dumps(changed).encode()).proxy_url


@pytest.mark.proves("S6")
def test_a_key_made_to_keep_us_busy_is_refused_at_once() -> None:
    authority = pki.Authority("test")
    prime = (1 << 40_000) + 1
    numbers = rsa.RSAPrivateNumbers(
        p=prime,
        q=prime + 2,
        d=65537,
        dmp1=3,
        dmq1=3,
        iqmp=3,
        public_numbers=rsa.RSAPublicNumbers(65537, prime * (prime + 2)),
    )
    try:
        key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    except ValueError:
        pytest.skip("this OpenSSL makes no such key")
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    data = {"endpoint": b"https://h", "clientCert": authority.certificate, "clientKey": pem}
    with pytest.raises(KubeconfigError, match="clientKey"):
        connection_from_secret(data)


@pytest.mark.proves("S6")
@given(
    st.binary(max_size=300)
    | st.text(alphabet="{}[]:,-?&*!|>%@`\"'#\n\t ab1~", max_size=80).map(str.encode)
)
def test_whatever_it_is_the_answer_is_a_connection_or_a_refusal(data: bytes) -> None:
    with suppress(KubeconfigError):
        parse_kubeconfig(data)
    with suppress(KubeconfigError):
        connection_from_secret({"endpoint": data, "token": data, "proxyURL": data})


def test_key_by_key() -> None:
    authority = pki.Authority("test")
    data = {
        "endpoint": b"https://192.0.2.1:6443",
        "clusterCA": authority.certificate,
        "username": b"u",
        "password": b"p",
    }
    connection = connection_from_secret(data)
    assert (connection.username, connection.password) == ("u", "p")
    assert connection.ca == authority.certificate


def test_a_key_that_is_not_the_certificates() -> None:
    authority = pki.Authority("test")
    one, other = authority.client("a", "b"), authority.client("a", "b")
    data = {
        "endpoint": b"https://192.0.2.1:6443",
        "clientCert": one.certificate,
        "clientKey": other.key,
    }
    with pytest.raises(KubeconfigError, match="does not belong"):
        connection_from_secret(data)


def test_a_users_own_may_name_files_and_an_address_that_is_not_https(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("the CA")
    own = document(user={"client-certificate": "crt", "client-key": str(tmp_path / "key")})
    own["clusters"][0]["cluster"] = {
        "server": "http://127.0.0.1:8080/",
        "certificate-authority": "ca.crt",
    }
    for name in ("crt", "key"):
        (tmp_path / name).write_text(name)
    data = yaml.safe_dump(own).encode()
    found = parse_kubeconfig(data, trusted=True, directory=tmp_path)
    assert (found.server, found.ca) == ("http://127.0.0.1:8080", b"the CA")
    assert (found.client_cert, found.client_key) == (b"crt", b"key")
    own["users"].append(copy.deepcopy(own["users"][0]))
    with pytest.raises(KubeconfigError, match="several"):
        parse_kubeconfig(yaml.safe_dump(own).encode(), trusted=True, directory=tmp_path)
    assert refused(data).key == "clusters[0].cluster.certificate-authority"
