"""Write the records anew: all, or those that are named."""

from __future__ import annotations

import asyncio
import sys

from tests.truth.records import FOLDER, NAMES, record, text

FOLDER.mkdir(exist_ok=True)
for name in sys.argv[1:] or NAMES:
    (FOLDER / f"{name}.json").write_text(text(asyncio.run(record(name))))
