"""Compiled modules are kept, also where the environment asks Python to leave the sources' folders alone.

A test starts many processes of ours, and each would compile its hundreds of modules again. So what
PYTHONDONTWRITEBYTECODE keeps out of the checkout goes into a folder of its own in the user's cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path


def keep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Keep what this process and those that it starts compile. Nothing to do where that is so."""
    if not environment.pop("PYTHONDONTWRITEBYTECODE", ""):
        return
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = environment.setdefault("PYTHONPYCACHEPREFIX", str(cache / "stowage" / "bytecode"))
    sys.dont_write_bytecode, sys.pycache_prefix = False, folder
