"""The first token of an agent, sealed for the key that the agent has made on its member.

Whoever holds the invitation may read it; only the holder of the private key opens it.
"""

from __future__ import annotations

import base64
import binascii

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox


def new_key() -> str:
    """Return a new private key for X25519, in base64."""
    return base64.b64encode(bytes(PrivateKey.generate())).decode()


def claim_of(key: str) -> str:
    """Return the public key of a private one, both in base64. Raises ValueError for no key."""
    return base64.b64encode(bytes(_private(key).public_key)).decode()


def seal(token: str, claim: str) -> str:
    """Return the token sealed for a public key, in base64. Raises ValueError for no key."""
    try:
        public = PublicKey(base64.b64decode(claim, validate=True))
        return base64.b64encode(SealedBox(public).encrypt(token.encode())).decode()
    except (binascii.Error, CryptoError) as e:
        raise ValueError("the claim is no public key for X25519 in base64") from e


def opened(sealed: str, key: str) -> str:
    """Return the token. Raises ValueError where it was sealed for another key."""
    try:
        return SealedBox(_private(key)).decrypt(base64.b64decode(sealed, validate=True)).decode()
    except (binascii.Error, CryptoError, UnicodeDecodeError) as e:
        raise ValueError("the token is sealed for another key") from e


def _private(key: str) -> PrivateKey:
    try:
        return PrivateKey(base64.b64decode(key, validate=True))
    except (binascii.Error, CryptoError) as e:
        raise ValueError("no private key for X25519 in base64") from e
