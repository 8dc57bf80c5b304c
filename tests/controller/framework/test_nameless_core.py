"""The core knows no plugin by its name: with other names for all of them it decides the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller import catalogue
from controller.framework.runtime.feature import Feature
from controller.framework.runtime.registry import Registry
from controller.plugins.defaults import BUILTIN, DEFAULTS
from tests.stowage.conftest import Stowage

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
OTHER = "Other"
THEIRS = ("controller.features.", "controller.plugins.")
"""The rooms of the plugins, whose modules may say their own name, as `NAME`."""


def other(name: str) -> str:
    return name if name.startswith(OTHER) or not name else OTHER + name


def renamed(of: Sequence[Feature] | None = None) -> Registry:
    """The catalogue's registry, where each plugin has another name."""
    defaults = {
        point: [(other(name), weight) for name, weight in plugins]
        for point, plugins in DEFAULTS.items()
    }
    made = Registry({other(name): factory for name, factory in BUILTIN.items()}, defaults)
    for feature in catalogue.features() if of is None else of:
        plugins = {other(name): factory for name, factory in feature.plugins.items()}
        enabled = [
            replace(each, plugin=other(each.plugin), before=other(each.before))
            for each in feature.defaults
        ]
        theirs: Any = SimpleNamespace(plugins=plugins, defaults=enabled)
        made.with_feature(theirs)
    return made


def planned() -> str:
    """Each decision on the examples in full: verdicts, scores, reasons, remedies."""
    fleet = EXAMPLES / "fleet" / "three-zones.yaml"
    printed = Stowage().succeed("plan", "-f", EXAMPLES, "--fleet", fleet, "-o", "json")
    return re.sub(r'"time": ".*?"', "", printed)


@pytest.mark.long
@pytest.mark.proves("E1", "E13")
def test_plugins_of_other_names_decide_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = planned()
    monkeypatch.setattr(catalogue, "registry", renamed)
    for name, module in sys.modules.items():
        if name.startswith(THEIRS) and "NAME" in vars(module):
            monkeypatch.setattr(module, "NAME", other(module.NAME))
    found = planned()
    assert found.count(OTHER) > 200
    assert found.replace(OTHER, "").splitlines() == expected.splitlines()
