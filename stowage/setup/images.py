"""Names of images, in parts."""

from __future__ import annotations

from typing import NamedTuple


class Image(NamedTuple):
    """The parts of a name such as `registry:5000/stowage:1@sha256:…`."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def of(cls, reference: str) -> Image:
        name, _, digest = reference.partition("@")
        before, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:
            return cls(name, "", digest)
        return cls(before, tag, digest)
