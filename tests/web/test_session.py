"""The key, the cookie, and the secret that seals it."""

from __future__ import annotations

from pathlib import Path

import pytest

from machinery.http_messages import Request
from stowage.web.session import COOKIE, SESSION_SECONDS, Sessions, secret_of_user

pytestmark = pytest.mark.proves("V1")


def asking(*, key: str = "", cookie: str = "") -> Request:
    return Request("GET", "/", query={"key": key} if key else {}, headers={"cookie": cookie})


def opened(sessions: Sessions) -> str:
    """The cookie that the key gives."""
    assert sessions.key is not None
    given = sessions.redeem(asking(key=sessions.key))
    assert given.endswith("; HttpOnly; SameSite=Strict")
    return given.partition(";")[0]


def test_a_cookie_is_good_for_hours_and_for_who_has_the_secret() -> None:
    now = [1000.0]
    sessions = Sessions(b"secret", now=lambda: now[0])
    cookie = opened(sessions)
    session = sessions.opened(asking(cookie=f"other=1; {cookie}"))
    assert session
    again = Sessions(b"secret", now=lambda: now[0])
    assert again.opened(asking(cookie=cookie)) == session, "a server that was started anew"
    assert not Sessions(b"another", now=lambda: now[0]).opened(asking(cookie=cookie))
    now[0] += SESSION_SECONDS
    assert not sessions.opened(asking(cookie=cookie))


@pytest.mark.parametrize(
    "cookie",
    ["", f"{COOKIE}=", f"{COOKIE}=a.9999999999.x", f"{COOKIE}=.", "\x00=;;", f"{COOKIE}=é.1"],
)
def test_a_cookie_of_another_form_opens_nothing(cookie: str) -> None:
    assert not Sessions(b"secret").opened(asking(cookie=cookie))


def test_a_longer_life_cannot_be_written_into_a_cookie() -> None:
    sessions = Sessions(b"secret")
    name, until, seal = opened(sessions).removeprefix(f"{COOKIE}=").split(".")
    assert not sessions.opened(asking(cookie=f"{COOKIE}={name}.{int(until) + 1}.{seal}"))


def test_a_key_is_good_once_and_no_other_is() -> None:
    sessions = Sessions(b"secret")
    assert not sessions.redeem(asking(key="another"))
    assert not sessions.redeem(asking())
    key = sessions.key or ""
    assert sessions.redeem(asking(key=key))
    assert not sessions.redeem(asking(key=key))


def test_the_secret_is_kept_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = secret_of_user()
    file = tmp_path / "stowage" / "ui-secret"
    assert first == file.read_bytes() == secret_of_user()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["ui-secret"]
    file.chmod(0o644)
    assert secret_of_user() != first, "others may have read it"
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    assert len(secret_of_user()) == 32
