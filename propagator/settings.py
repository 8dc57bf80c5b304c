"""The propagator's settings, with their defaults. All durations are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from crds.names import SYSTEM_NAMESPACE
from machinery.tracing import TraceSettings
from propagator.credentials.tokens import TOKEN_SECONDS

LOOKS_PER_SECOND = 50
"""The members of one process that are probed in a second, and as many that are asked for their
kinds: a thousand cost it no more than two hundred and fifty.
"""
JITTER = 0.2
"""The part by which two pauses between probes may differ from their mean."""


def paced(seconds: float, members: int) -> float:
    """Return the seconds between two looks at one of `members`, at least `seconds`."""
    return max(seconds, members / LOOKS_PER_SECOND)


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """How a session talks to its member."""

    process: str = "stowage-propagator"
    """What the User-Agent begins with."""
    workers: int = 16
    """Workloads reconciled at the same time on one member, at most half of them of one namespace.
    """
    connections: int = 32
    """Requests in flight to one member, without watches."""
    request_timeout: float = 10.0
    probe_period: float = 5.0
    """See `paced`."""
    probe_timeout: float = 5.0
    probe_confirm: float = 1.0
    """The pause between a first failed probe and the second, which decides."""
    secret_patience: float = 20.0
    """How long a member counts as connecting while its Secret has not been read."""
    probe_backoff: float = 10.0
    """The longest pause between two probes of a member that does not answer."""
    idle_watch: float = 300.0
    """A watch of one namespace ends after it has shown nothing for so long."""

    def noticed_within(self, members: int) -> float:
        """Return the most seconds until a member that stops answering is noticed."""
        pause = paced(self.probe_period, members) * (1 + JITTER)
        return pause + 2 * self.probe_timeout + self.probe_confirm


@dataclass(frozen=True, kw_only=True)
class RenewalSettings:
    renew_after: float = 2 / 3
    """The part of a token's life after which it is renewed."""
    seconds: int = TOKEN_SECONDS
    """The requested life of a new token; the member may grant less."""
    pause: float = 60.0
    """The minimum time between two renewals on one member, however short the granted life."""


@dataclass(frozen=True, kw_only=True)
class PropagatorSettings:
    kubeconfig: str | None = None
    """The path of the hub's kubeconfig; None means the usual places, then in-cluster."""
    context: str | None = None
    namespace: str = SYSTEM_NAMESPACE
    """The namespace of the registration Secrets and of the propagator's Lease."""
    http_host: str = "127.0.0.1"
    http_port: int = 10252
    identity: str | None = None
    """The name in the Lease; None means host name, process id and a random part."""
    lease_seconds: float = 10.0
    renew_deadline: float = 7.0
    lease_retry: float = 2.0
    hub_connections: int = 64
    hub_staleness: float = 150.0
    """The hub sends a bookmark a minute: after a longer silence its view is not acted on."""
    kept_sessions: float = 300.0
    """How long an instance keeps its sessions while another one leads."""
    traces: TraceSettings = field(default_factory=TraceSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    renewal: RenewalSettings = field(default_factory=RenewalSettings)
