"""Whether a propagator looks at the members now: its Lease, as this process sees it renewed.

A loss counts only as long as somebody looks. So each doubt ends the toleration of a loss: a Lease
that is not renewed, another holder, another term. As with the election itself no two clocks are
compared, but for the beginning of a term with a moment that this process has written: a process
that starts knows no term of before.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controller.model.moving import moment_of
from crds.names import PROPAGATOR_LEASE
from machinery.api.resources import LEASES
from machinery.clock import Clock
from machinery.errors import NotFound, TransportError

if TYPE_CHECKING:
    from machinery.api.verbs import Verbs

LATE_SECONDS = 3.0
"""A leader renews every two seconds. While it is late no loss counts, as one may be due at any
moment; once its Lease has expired, the tolerations begin anew."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The Lease at one look. `began` is when the present term began, None where nobody holds it."""

    holder: str = ""
    began: datetime | None = None
    renewed: str = ""
    seconds: int = 0


NOBODY = LeaseView()


class PropagatorLease:
    """Looks at the Lease; `late` and `counts` are about the last look.

    It is `judged` once the Lease was renewed while this process looked, or was long enough not.
    """

    def __init__(self, client: Verbs, *, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Begin anew: nobody looks for a while."""
        self._view = NOBODY
        self._renewed_at = -math.inf
        """When this process saw the present renewal first; monotonic."""
        self._began = math.inf
        self.judged, self.late, self._expired = False, True, True

    def counts(self, since: datetime) -> bool:
        """Whether a loss that was first seen then was seen by the propagator that looks now.

        A term whose Lease has expired may be over.
        """
        began = self._view.began
        return not self.judged or (began is not None and began <= since and not self._expired)

    async def look(self) -> bool:
        """Read the Lease; return whether it says anything else than before."""
        before, now = self._says(), self._clock.monotonic()
        self._began = min(self._began, now)
        view = NOBODY
        with suppress(NotFound, TransportError):
            lease = await self._client.get(LEASES, PROPAGATOR_LEASE, namespace=self._namespace)
            view = _view(lease)
        now = self._clock.monotonic()
        same = (view.holder, view.began) == (self._view.holder, self._view.began)
        if same and view.renewed != self._view.renewed:
            self._renewed_at = now
        elif not same:
            self._renewed_at = -math.inf
        self._view = view
        silent = now - self._renewed_at
        self.late, self._expired = silent >= LATE_SECONDS, silent >= max(view.seconds, LATE_SECONDS)
        self.judged |= not self.late or now - self._began >= LATE_SECONDS
        return before != self._says()

    def _says(self) -> tuple[object, ...]:
        view = self._view
        return self.judged, self.late, self._expired, view.holder, view.began


def _view(lease: Any) -> LeaseView:
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    began = moment_of(str(spec.get("acquireTime") or ""))
    if not holder or began is None:
        return NOBODY
    seconds = spec.get("leaseDurationSeconds")
    return LeaseView(
        holder, began, str(spec.get("renewTime") or ""), seconds if isinstance(seconds, int) else 0
    )
