"""YAML that kubectl and PyYAML both read as it was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml


class _DUMPER(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # found at run time
    """Quotes texts that a reader may take for a number or a flag; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_AMBIGUOUS = re.compile(r"[-+.]?[0-9]|[yYnN~]$|[-+.]")


def _text(dumper: Any, text: str) -> Any:
    style = '"' if _AMBIGUOUS.match(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_DUMPER.add_representer(str, _text)


def dump(bodies: Iterable[Any], *, width: int = 2**16) -> str:
    """Return the objects as one YAML text."""
    text: str = yaml.dump_all(
        bodies, Dumper=_DUMPER, sort_keys=False, width=width, default_flow_style=False
    )
    return text
