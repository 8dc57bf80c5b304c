"""Two lanes run what one run does, and one that fails fails both."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.lanes import LANES, run

ROOT = Path(__file__).resolve().parent.parent


def test_together_they_are_everything_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    whole = set(project["tool"]["pytest"]["ini_options"]["testpaths"])
    paths = [path for lane in LANES for path in lane if not path.startswith("--")]
    left_out = [path.removeprefix("--ignore=") for lane in LANES for path in lane if path[0] == "-"]
    assert sorted(paths) == sorted([*whole, *left_out])
    assert all((ROOT / path).is_dir() for path in paths)


@pytest.mark.parametrize(("second", "code"), [("assert True", 0), ("assert False", 1)])
def test_the_worst_of_them_counts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], second: str, code: int
) -> None:
    for name, body in (("one", "assert True"), ("two", second)):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    {body}\n")
    lanes = [[str(tmp_path / f"test_{name}.py")] for name in ("one", "two")]
    assert run(lanes, ["-q", f"--rootdir={tmp_path}"]) == code
    said = capfd.readouterr().out
    assert said.index("test_one.py") < said.index("test_two.py")
    assert said.count("1 passed") == (2 if code == 0 else 1)
