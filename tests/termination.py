"""A run that is told to end (SIGTERM) ends as one that is interrupted: what it started is stopped."""

from __future__ import annotations

import signal


def heed() -> None:
    """From now on the first SIGTERM raises KeyboardInterrupt, and no later one disturbs the end."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)  # unlike SIG_IGN no child inherits it
    raise KeyboardInterrupt
