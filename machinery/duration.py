"""Durations as people write them for Kubernetes: `30s`, `1h30m`, `24h`, `1.5h`, `250ms`."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


def parse(text: str) -> float:
    """Seconds. `0` needs no unit. Raises ValueError, naming the text, for anything else."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise ValueError(f"not a duration: {text!r}; write it like 30s, 1h30m or 24h")
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)
