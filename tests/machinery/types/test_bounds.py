"""What is taken of what comes from outside: the checks, tried with what would slip past a weak one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.api.resources import PODS, Resource, group_path
from machinery.errors import BadRequest
from machinery.types import bounds
from machinery.types.bounds import DEPTH, TooMuch, check_json, clean, shown

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}",\\:a\x00é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def depth(value: object) -> int:
    """As the definition says it."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def within(data: bytes, most: int) -> bool:
    try:
        check_json(data, depth=most)
    except TooMuch:
        return False
    return True


@pytest.mark.proves("S5")
@given(VALUES, st.integers(0, 4))
def test_the_depth_of_any_json_is_told_without_decoding_it(value: object, most: int) -> None:
    assert within(json.dumps(value).encode(), most) is (depth(value) <= most)


@pytest.mark.proves("S5", "S6")
@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 2_000_000,
        b'{"a":' * 1_000_000,
        b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1),
        b'["]",' * (DEPTH + 1) + b"0" + b',"["]' * (DEPTH + 1),  # brackets in strings, to confuse
        b'["\\\\",' * (DEPTH + 1) + b"0" + b"]" * (DEPTH + 1),  # an escape that ends before a quote
        b"[" + b"[]," * 1_000_000 + b"0]",  # flat, and 200 MB once decoded
        b"[" + b"0," * 2_000_000 + b"0]",
    ],
)
def test_what_would_cost_far_more_than_its_bytes_is_refused(hostile: bytes) -> None:
    with pytest.raises(TooMuch):
        check_json(hostile)


def test_a_large_object_of_an_ordinary_kind_passes() -> None:
    check_json(json.dumps({"data": {f"key-{n}": "x" * 1000 for n in range(2000)}}).encode())
    check_json(json.dumps({"data": {"csv": '1,"2",[3],' * 150_000}}).encode())
    check_json(b"[" * DEPTH + b'"[[[["' + b"]" * DEPTH)


@pytest.mark.proves("S10")
@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("a\x1b[31mred\x1b[0m b", "a [31mred [0m b"),
        ("two\nlines\r\n\tand a tab", "two lines and a tab"),
        ("\u202eturned\u2066round\u200b", "turned round"),
        ("half \ud800 of one", "half of one"),
        ("plain é 日本", "plain é 日本"),
    ],
)
def test_a_servers_words_become_one_plain_line(text: str, tidy: str) -> None:
    assert clean(text) == tidy


@pytest.mark.proves("S10")
@given(st.text(), st.integers(2, 40))
def test_a_clean_text_is_short_and_printable(text: str, most: int) -> None:
    tidy = clean(text, most)
    assert len(tidy) <= most
    tidy.encode()
    assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in tidy)


def test_a_long_text_says_that_it_goes_on() -> None:
    assert clean("x" * 10_000, 20) == "x" * 19 + "…"
    assert clean(" " * 10_000 + "x", 20) == "…"


@pytest.mark.proves("S10")
def test_a_terminal_is_shown_lines_and_nothing_that_it_obeys() -> None:
    assert shown("a\tb\nc\x1b[2J\x07\u202e") == "a\tb\nc?[2J??"


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a%2fb", "%2e%2e", "a/../../b", "x" * 300, "a/status?dryRun=All"]
)
def test_what_kubernetes_allows_in_no_name_is_no_part_of_a_path(name: str) -> None:
    for path in (
        lambda: PODS.path("default", name),
        lambda: PODS.path("default", "pod", name),
        lambda: Resource("", "v1", name, "Odd").path(),
        lambda: group_path(name or "/", "v1"),
        lambda: group_path("apps", name),
    ):
        with pytest.raises(BadRequest):
            path()
    if name:
        with pytest.raises(BadRequest):
            PODS.path(name)


@pytest.mark.proves("S3")
def test_what_a_path_could_mistake_is_quoted() -> None:
    assert PODS.path("a b", "c?d#e\n;") == "/api/v1/namespaces/a%20b/pods/c%3Fd%23e%0A%3B"
    assert group_path("x?y", "v1") == "/apis/x%3Fy/v1"


def test_the_numbers_fit_together() -> None:
    assert bounds.MODEST_BYTES < bounds.USUAL_PAGE_BYTES < bounds.PAGE_BYTES


@pytest.mark.proves("S3")
@pytest.mark.parametrize("levels", [80, 3000, 9000])
def test_one_deep_object_is_cut_out_of_a_list_and_stays_too_deep(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    before, after = rb'{"x": "a\"{[", "y": [[1], {}]}', rb'{"w": "\\"}'
    page = b'{"items":[' + b",".join((before, deep, after)) + b"]}"
    cut = bounds.shallow(page)
    items = json.loads(cut)["items"]
    assert [items[0], items[2]] == [json.loads(before), json.loads(after)]
    with pytest.raises(bounds.TooMuch):
        bounds.check_json(json.dumps(items[1]).encode())
    assert bounds.shallow(before) == before
