"""What a line of the log holds, and what it must not."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from machinery import logs
from machinery.clock import parse_timestamp
from tests.machinery.certificates import Authority

PAIR = Authority().pair("user")
WEB_TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Logging is one for the process: it is given back as it was."""
    loggers = [logging.getLogger(), *map(logging.getLogger, logs.ROOTS)]
    handlers, levels = loggers[0].handlers[:], [each.level for each in loggers]
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    logs.configure(stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def only(stream: io.StringIO) -> dict[str, Any]:
    (line,) = lines(stream)
    return line


def failing(words: str) -> None:
    """Fail with those words."""
    raise ValueError(words)


# --- one JSON object a line


def test_a_line_tells_when_how_bad_who_and_what(stream: io.StringIO) -> None:
    logs.get("machinery.runtime.workqueue").warning("%s waits for %d", "key", 3)
    line = only(stream)
    moment = parse_timestamp(line.pop("time"))
    assert moment.tzinfo is not None
    assert line == {
        "level": "warning",
        "logger": "machinery.runtime.workqueue",
        "message": "key waits for 3",
    }


def test_a_line_names_its_object(stream: io.StringIO) -> None:
    logs.get("propagator").info("placed", extra={"object": "demo/web"})
    assert only(stream)["object"] == "demo/web"


def test_an_object_that_is_no_text_is_named_all_the_same(stream: io.StringIO) -> None:
    logs.get("propagator").info("placed", extra={"object": ("demo", b"web")})
    assert "demo" in only(stream)["object"]


@pytest.mark.parametrize("nasty", ["a\nb", 'quote " and \\', "\u2028 \x00 \x1b[31m", "Grüße 😀"])
def test_whatever_is_in_a_message_it_is_one_line_and_comes_back(
    stream: io.StringIO, nasty: str
) -> None:
    logs.get("controller").info("%s", nasty)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert json.loads(text)["message"] == nasty


def test_half_a_character_does_not_lose_the_line() -> None:
    raw = io.BytesIO()
    logs.configure(stream=io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    logs.get("controller").info("the file %s", "a\udc80b")
    assert json.loads(raw.getvalue())["message"] == "the file a\udc80b"


def test_an_exception_is_in_its_line_with_cause_and_place(stream: io.StringIO) -> None:
    try:
        try:
            failing("inner")
        except ValueError as e:
            raise LookupError("outer") from e
    except LookupError:
        logs.get("controller").exception("failed")
    logs.get("controller").info("and on")
    failed, after = lines(stream)
    assert failed["message"] == "failed"
    assert failed["level"] == "error"
    for part in ("ValueError: inner", "LookupError: outer", "Traceback", __file__):
        assert part in failed["error"]
    assert "error" not in after


# --- no secret


SECRETS = {
    "a key": PAIR.key.decode(),
    "a key in one line": PAIR.key.decode().replace("\n", "\\n"),
    "a key that breaks off": PAIR.key.decode()[:100],
    "a key in base64": base64.b64encode(PAIR.key).decode(),
    "a bearer token": "Authorization: Bearer abcdefgh12345678",
    "a bearer token in small letters": "authorization: bearer abcdefgh12345678",
    "a web token": f'"token": "{WEB_TOKEN}"',
    "a password": "Authorization: Basic YWRtaW46aHVzaA==",
}
HIDDEN = (
    *PAIR.key.decode().splitlines()[1:-1],
    base64.b64encode(PAIR.key).decode()[40:80],
    "abcdefgh12345678",
    "c2lnbmF0dXJl",
    "YWRtaW46aHVzaA",
)


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_from_elsewhere_is_in_no_part_of_a_line(secret: str, *, as_json: bool) -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, as_json=as_json)
    log = logs.get("machinery.api.client")
    log.info("the server said: %s, and more", secret)
    log.info("about", extra={"object": f"demo/{secret}"})
    try:
        failing(f"refused {secret}")
    except ValueError:
        log.exception("failed")
    text = stream.getvalue()
    assert text.count("[redacted]") >= 3
    for part in HIDDEN:
        assert part not in text


def test_a_secret_that_a_library_logs_is_hidden_too(stream: io.StringIO) -> None:
    logging.getLogger("urllib3").warning("sent Bearer abcdefgh12345678")
    assert only(stream)["message"] == "sent Bearer [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "0/3 clusters: 2 selector mismatch, 1 not ready",
        "member-a=1,host=3",
        "the bearer is ill",
        "basic authentication is refused",
        "sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
        "eyJ",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert logs.redacted(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    text = f"before {PAIR.key.decode()} between {WEB_TOKEN} after"
    assert logs.redacted(text) == "before [redacted]\n between [redacted] after"


# --- how much


def test_our_information_is_shown_and_that_of_libraries_is_not(stream: io.StringIO) -> None:
    for name in ("machinery.runtime.leader_election", "aiohttp.access"):
        logging.getLogger(name).debug("debug of %s", name)
        logging.getLogger(name).info("info of %s", name)
        logging.getLogger(name).warning("warning of %s", name)
    assert [line["message"] for line in lines(stream)] == [
        "info of machinery.runtime.leader_election",
        "warning of machinery.runtime.leader_election",
        "warning of aiohttp.access",
    ]


@pytest.mark.proves("E18")
@pytest.mark.parametrize(("verbosity", "shown"), [(0, 0), (3, 0), (4, 1), (9, 1)])
def test_verbosity_counts_as_klogs_does(stream: io.StringIO, verbosity: int, shown: int) -> None:
    logs.set_verbosity(verbosity)
    for root in logs.ROOTS:
        logs.get(f"{root}.part").debug("details")
        logs.get(f"{root}.part").info("news")
    messages = [line["message"] for line in lines(stream)]
    assert messages.count("details") == shown * len(logs.ROOTS)
    assert messages.count("news") == len(logs.ROOTS)
    logs.set_verbosity(0)
    logs.get("controller").debug("details again")
    assert "again" not in stream.getvalue()


def test_the_last_configuration_counts_and_no_line_comes_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(stream=first)
    logs.configure(logging.DEBUG, stream=second)
    logs.get("crds").debug("once")
    assert first.getvalue() == ""
    assert only(second)["message"] == "once"


def test_standard_error_is_where_lines_go(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.get("stowage").info("here")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["message"] == "here"


# --- as text


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, as_json=False)
    logs.get("controller").info("placed on %s", "member-a", extra={"object": "demo/web"})
    logs.get("controller").info("alone")
    first, second = stream.getvalue().splitlines()
    clock, _, rest = first.partition(" ")
    assert [part.isdigit() for part in clock.split(":")] == [True] * 3
    assert rest == "INFO demo/web: placed on member-a"
    assert second.endswith(" INFO alone")


def test_text_shows_tables_and_tracebacks_but_obeys_nobody() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, as_json=False)
    logs.get("controller").info("a\tb\n1\t2 \x1b[2J\x9b31m\r")
    try:
        failing("why")
    except ValueError:
        logs.get("controller").exception("failed")
    text = stream.getvalue()
    assert "a\tb\n1\t2 \\u001b[2J\\u009b31m\\u000d\n" in text
    assert "failed\nTraceback" in text
    assert text.endswith("ValueError: why\n")
