"""A certificate authority for each control plane, and the kubeconfig of its administrator.

Keys are of elliptic curves, which take no noticeable time.
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from machinery.clock import SystemClock

_CLOCK = SystemClock()
_LIFETIME = timedelta(days=3650)
_SERVER_NAMES = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
_SERVER_ADDRESSES = ["127.0.0.1", "10.96.0.1"]  # the second is the first of the service range


@dataclass(frozen=True)
class Pair:
    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that signs one server and a few clients."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        self._certificate = (
            _builder(self._subject, self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """Its own certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self) -> Pair:
        """Return a serving certificate for an API server on this machine."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(a)) for a in _SERVER_ADDRESSES]
        return self._issue(
            _name("kube-apiserver"),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(names),
        )

    def client(self, user: str, group: str = "", *, lifetime: timedelta = _LIFETIME) -> Pair:
        """Return a client certificate: the API server takes CN as user and O as group."""
        return self._issue(
            _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, None, lifetime=lifetime
        )

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        *,
        lifetime: timedelta = _LIFETIME,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._key.public_key()
        builder = (
            _builder(subject, self._subject, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def write_etcd_keys(folder: Path) -> None:
    """Write etcd's certificates and the only client certificate it accepts, unless they exist."""
    if (folder / "ca.crt").exists():
        return
    authority = Authority("etcd-ca")
    server, client = authority.server(), authority.client("control-planes")
    files = {
        "server.crt": server.certificate,
        "server.key": server.key,
        "client.crt": client.certificate,
        "client.key": client.key,
        "ca.crt": authority.certificate,  # last: where it exists, all exist
    }
    for name, data in files.items():
        write_private(folder / name, data)


def client_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context for a client of that etcd."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.load_cert_chain(folder / "client.crt", folder / "client.key")
    return context


def signing_key() -> bytes:
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def kubeconfig(name: str, server: str, authority: bytes, client: Pair) -> str:
    """Return a kubeconfig with one context, and everything embedded."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": server, "certificate-authority-data": _b64(authority)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _b64(client.certificate),
                        "client-key-data": _b64(client.key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def write_private(path: Path, data: bytes | str) -> Path:
    """Write a file that only its owner may read; it never exists with wider rights."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    lifetime: timedelta = _LIFETIME,
) -> x509.CertificateBuilder:
    # An expired certificate (a negative lifetime) must still begin before it ends.
    now = _CLOCK.now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5) + min(lifetime, timedelta()))
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
