"""Runs deploy/argocd/health.lua as Argo CD does: Lua 5.1, without its libraries but tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lupa import lua51

from tests import kstatus

SCRIPT = Path(__file__).resolve().parent.parent / "deploy" / "argocd" / "health.lua"

WORDS = {
    kstatus.IN_PROGRESS: {"Progressing", "Suspended"},
    kstatus.CURRENT: {"Healthy", "Suspended"},
    kstatus.FAILED: {"Degraded"},
}
"""What Argo CD may say where kstatus says that."""


def health(stored: Mapping[str, Any], script: str = "") -> dict[str, str]:
    """Return status and message. Raises LuaError."""
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    for library in ("string", "io", "os", "math", "debug", "python"):
        lua.globals()[library] = None
    lua.globals()["obj"] = lua.table_from(stored, recursive=True)
    return dict(lua.execute(script or SCRIPT.read_text()))
