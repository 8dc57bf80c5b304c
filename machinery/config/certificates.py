"""Checks that the certificates and keys of a kubeconfig parse and belong together."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from machinery.errors import KubeconfigError

_KEY_BITS = 16384
"""The most bits of an RSA key."""
_PRIVATE_KEYS = (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)


def verify(
    ca: bytes | None, certificate: bytes | None, private_key: bytes | None, key_path: str
) -> None:
    """Raise KubeconfigError for malformed PEM, and for a key that is not the certificate's.

    `key_path` is the key's path in the document.
    """
    try:
        if ca:
            x509.load_pem_x509_certificates(ca)
    except (ValueError, UnsupportedAlgorithm) as e:
        raise KubeconfigError("certificate-authority-data", "is not a PEM certificate") from e
    if not certificate or not private_key:
        return
    try:
        public = x509.load_pem_x509_certificates(certificate)[0].public_key()
        key = serialization.load_pem_private_key(
            private_key,
            password=None,
            unsafe_skip_rsa_key_validation=True,  # it would take minutes for a key made for that
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise KubeconfigError(key_path, "certificate or key is not PEM, or encrypted") from e
    if not isinstance(key, _PRIVATE_KEYS):
        raise KubeconfigError(key_path, "is neither an RSA nor an elliptic curve key")
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > _KEY_BITS:
        raise KubeconfigError(key_path, f"is larger than {_KEY_BITS} bits")
    if key.public_key() != public:
        raise KubeconfigError(key_path, "does not belong to the certificate")
