"""What the README promises to say, it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def sections() -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## +(.+)$", README, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.proves("C34")
@pytest.mark.parametrize(
    "what",
    [
        "scheduling of pods onto nodes",
        "autoscaling of clusters",
        "serverless or virtual-machine targets",
        "creation of clusters",
    ],
)
def test_what_is_kept_out_is_said(what: str) -> None:
    said = " ".join(sections()["What it does not do"].split())
    assert what in said[: said.index("Members keep")]


def test_the_two_commands_come_first() -> None:
    first = next(iter(sections()))
    assert first == "Two commands"
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", sections()[first]))
