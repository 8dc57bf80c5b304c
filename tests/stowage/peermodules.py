"""The Go modules of other systems, in which their definitions and examples are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path


def fetched(module: str, folder: Path) -> Path:
    """Return where a module, `path@version`, lies; Go keeps it in its cache."""
    told = subprocess.run(
        ["go", "mod", "download", "-json", module], cwd=folder, check=True, capture_output=True
    )
    return Path(json.loads(told.stdout)["Dir"])
