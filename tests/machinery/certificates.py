"""Certificates for the tests, made when they are needed: real ones, of elliptic curves, quick."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NOW = datetime.now(UTC)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def encrypted(self, passphrase: bytes) -> bytes:
        """The key, locked."""
        key = serialization.load_pem_private_key(self.key, password=None)
        return _pem(key, serialization.BestAvailableEncryption(passphrase))


class Authority:
    """A CA that signs whatever it is asked to."""

    def __init__(self, name: str = "test") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} CA")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = _builder(self._name, self._name, self._key.public_key(), days=1)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        signed = builder.add_extension(usage, True).sign(self._key, hashes.SHA256())
        self.pem = signed.public_bytes(serialization.Encoding.PEM)

    def pair(self, name: str, *alternatives: str, days: int = 1) -> Pair:
        """A signed certificate for these DNS names or addresses; negative days: expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key.public_key(), days=days)
        if alternatives:
            names = x509.SubjectAlternativeName([_general(each) for each in alternatives])
            builder = builder.add_extension(names, critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return Pair(pem, _pem(key, serialization.NoEncryption()))


def server_context(pair: Pair, directory: Path, *, clients: bytes | None = None) -> ssl.SSLContext:
    """The server's side of TLS; `clients` is the CA that its clients must be signed by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = directory / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(file)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.decode())
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(_NOW - timedelta(days=7))
    return builder.not_valid_after(_NOW + timedelta(days=days))


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: object, locked: serialization.KeySerializationEncryption) -> bytes:
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return key.private_bytes(*formats, locked)
