"""Member kubeconfigs are read strictly: what could execute, read or trust anything is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from machinery.errors import KubeconfigError
from machinery.kubeconfig import connection_from_secret, parse_kubeconfig
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


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff", b"[1, 2", b"just text", b"", b"a: &a [1]\nb: *a", b"x" * (10 * 2**20)],
)
def test_what_is_no_kubeconfig(data: bytes) -> None:
    assert refused(data).key in ("kubeconfig", "current-context")


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
