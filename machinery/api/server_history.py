"""The history of one API server's store, of which every resourceVersion is a moment.

A store that is set back, as from a backup, begins another history: it counts on from the moment of
the backup, so that its versions soon are those of before, for other changes. A reader that comes
back only then cannot tell from its own version. So whoever sees one version go back, an informer or
the elector, ends the history here, for all readers of that server.
"""

from __future__ import annotations


class ServerHistory:
    """Shared by the clients of one server; `number` tells one history from another."""

    def __init__(self) -> None:
        self.number = 0

    def end(self, known: int) -> None:
        """Record that the history of that number has ended; nothing happens when it is known."""
        if known == self.number:
            self.number += 1
