"""Which objects a Workload may bring to a member: admission's last check, with member facts.

It also covers Workloads that a hub without policies has stored, which need the controller's review.
A cluster-scoped kind needs a right of the Workload's namespace (`crds.admission.carried`).
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Raw

from crds.admission.carried import carried, guarded, kind_name
from crds.fields.template import well_formed
from crds.names import CLUSTER_SCOPED_OBJECTS, GROUP, VERB_USE
from crds.workload import PropagatedReason
from machinery.api.resources import Resource
from machinery.discovery.access_reviews import namespace_may_use
from machinery.discovery.enforcement import InForce
from machinery.errors import Forbidden, TransportError
from propagator.errors import HubFault, Refused
from propagator.members.context import ControllerContext
from propagator.members.kinds import USUAL_KINDS, no_kind, resource_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.types.workload import Workload, outline_of

ANSWER_SECONDS = 10.0
"""How long an answer of the hub's authorizer is cached."""


def takes(session: MemberSession, resource: Resource) -> bool:
    """Whether a member takes objects of that resource, by its scope and spec.allowedKinds."""
    kind = kind_name(resource.api_version, resource.kind)
    return (resource.namespaced and not guarded(kind)) or kind in session.allowed_kinds


def not_taken(session: MemberSession, resource: Resource, field: str = "") -> Refused:
    kind = kind_name(resource.api_version, resource.kind)
    where = f"{field}: " if field else ""
    return Refused(
        PropagatedReason.KIND_NOT_ALLOWED,
        f"{where}{session.name} does not take {kind}: its MemberCluster has to list it in "
        "spec.allowedKinds",
    )


class CarriedObjectsReview:
    """`judged` returns whether the hub enforces its policy."""

    def __init__(self, context: ControllerContext, *, judged: InForce) -> None:
        self._judged = judged
        self._hub = context.hub
        self._clock = context.clock
        self._answers: dict[tuple[str, str], tuple[bool, float]] = {}

    async def admit(self, session: MemberSession, workload: Workload) -> None:
        """Raises Refused if the Workload may not be written; TransportError, HubFault."""
        if not self._judged():
            self._check_review(workload)
        _check_form(workload)
        _check_namespaces(session, workload)
        if isinstance(session, PullSession):
            await self._admit_unseen(session, workload)
            return
        for (api_version, kind), field in _unusual(workload).items():
            resource = await _known(session, api_version, kind)
            if resource is None:
                continue  # the writer refuses this one object
            if not takes(session, resource):
                raise not_taken(session, resource, field)
            if not resource.namespaced and not guarded(kind_name(api_version, kind)):
                await self._ask(workload, kind_name(api_version, kind), field)

    async def _admit_unseen(self, session: PullSession, workload: Workload) -> None:
        """Judge the kinds by name: only the agent knows their scope.

        One that is not guarded needs the right of the namespace.
        """
        for (api_version, kind), field in _unusual(workload).items():
            name = kind_name(api_version, kind)
            if name in session.allowed_kinds and not guarded(name):
                await self._ask(workload, name, field)
            elif guarded(name) and name not in session.allowed_kinds:
                group, _, version = api_version.rpartition("/")
                raise not_taken(session, Resource(group, version, "", kind), field)

    def _check_review(self, workload: Workload) -> None:
        generation, review = workload.metadata.generation, workload.status.review
        if review.generation != generation:
            why = self._judged.obstacle or "its validating policy is not in force"
            raise Refused(
                PropagatedReason.NOT_REVIEWED,
                f"the hub does not judge Workloads itself ({why}): generation {generation} waits "
                "for the controller's review",
            )
        if review.refusal:
            raise Refused(PropagatedReason.INVALID_WORKLOAD, review.refusal)

    async def _ask(self, workload: Workload, kind: str, field: str) -> None:
        namespace = workload.metadata.namespace
        if not await self._may(namespace, kind):
            right = f"{VERB_USE} {CLUSTER_SCOPED_OBJECTS}.{GROUP} {kind}"
            message = f"{field}: namespace {namespace} may not {right}"
            raise Refused(PropagatedReason.KIND_NOT_ALLOWED, message)

    async def _may(self, namespace: str, kind: str) -> bool:
        now = self._clock.monotonic()
        self._answers = {k: held for k, held in self._answers.items() if held[1] > now}
        held = self._answers.get((namespace, kind))
        if held is not None:
            return held[0]
        try:
            answer = await namespace_may_use(self._hub, namespace, CLUSTER_SCOPED_OBJECTS, kind)
        except Forbidden as e:
            message = f"the hub does not let us ask who may bring along {kind}: {e}"
            raise Refused(PropagatedReason.KIND_NOT_ALLOWED, message) from e
        except TransportError as e:
            raise HubFault(f"it could not be asked who may bring along {kind}", e) from e
        self._answers[namespace, kind] = (answer, now + ANSWER_SECONDS)
        return answer


def _check_form(workload: Workload) -> None:
    for field, pair in _carried(workload):
        if not well_formed(*pair):
            raise no_kind(*pair, field)


def _check_namespaces(session: MemberSession, workload: Workload) -> None:
    for namespace in sorted(workload.namespaces()):
        if not session.allows(namespace):
            raise Refused(
                PropagatedReason.NAMESPACE_NOT_ALLOWED,
                f"{session.name} does not take namespace {namespace}",
            )


def _carried(workload: Workload) -> list[tuple[str, tuple[str, str]]]:
    """Return (field, kind) of every object that may have any kind."""
    spec = workload.spec
    manifests = [_named(raw) for raw in spec.manifests]
    bodies = carried({"template": _named(spec.template), "manifests": manifests})
    return [(field, (body["apiVersion"], body["kind"])) for field, body in bodies]


def _named(raw: Raw) -> dict[str, str]:
    outline = outline_of(raw)
    return {"apiVersion": outline.api_version, "kind": outline.kind} if outline else {}


def _unusual(workload: Workload) -> dict[tuple[str, str], str]:
    """Each kind has the name of a field."""
    named: dict[tuple[str, str], str] = {}
    for field, pair in _carried(workload):
        if pair not in USUAL_KINDS:
            named.setdefault(pair, f"{field}.kind")
    return named


async def _known(session: MemberSession, api_version: str, kind: str) -> Resource | None:
    with suppress(Refused):
        return await resource_of(session, api_version, kind)
    return None
