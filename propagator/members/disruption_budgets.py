"""The PodDisruptionBudgets of one member, watched from the first move on.

One with a selector too large to keep applies to all pods of its namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import TransportError
from machinery.runtime.informer import Informer
from machinery.types.bounds import CONDITIONS, MESSAGE, clean
from machinery.types.metadata import Key, Meta, Object, shared
from machinery.types.selectors import LabelSelector
from propagator.members.capacity.kept import PodLabels

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
MOST_TERMS = 64
"""Labels, expressions and values of a kept selector."""
MOST_CHARACTERS = 8192
"""Characters of all these together."""
_KEPT_BYTES = 1000


class _BudgetSpec(msgspec.Struct, frozen=True):
    selector: LabelSelector | None = None


class _BudgetCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    observed_generation: int = 0
    conditions: list[_BudgetCondition] = []


class WireBudget(Object, frozen=True):
    """The decoded form; `slim_budget` converts it."""

    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


class DisruptionBudget(Object, frozen=True):
    selector: LabelSelector | None = None
    """None selects no pod."""
    allowed: int = 0
    current: bool = False
    """Whether `allowed` is of the present spec."""
    fault: str = ""
    """Why the member allows nothing, such as pods that nothing can scale."""

    @property
    def keys(self) -> set[str]:
        """The labels that its selector reads."""
        if self.selector is None:
            return set()
        return {*self.selector.match_labels, *(e.key for e in self.selector.match_expressions)}

    def holds(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if self.selector is None or self.metadata.namespace != namespace:
            return False
        return self.selector.matches(labels)


class DisruptionBudgets:
    """`begin` runs the informer in each phase in which the member answers."""

    def __init__(
        self, client: Verbs, *, begin: Callable[[Informer[Object]], None], clock: Clock
    ) -> None:
        self._client = client
        self._begin = begin
        self._clock = clock
        self._heard: dict[Key, float] = {}
        self._told: Callable[[str], None] = lambda _: None
        self.informer: Informer[Object] | None = None
        """None until needed."""

    def listen(self, changed: Callable[[str], None]) -> None:
        """The first one is called with the namespace of each budget that changes."""
        if self.informer is None:
            self._told = changed
            self.informer = Informer(
                self._client,
                BUDGETS,
                WireBudget,
                transform=slim_budget,
                clock=self._clock,
                kept_bytes=_KEPT_BYTES,
            )
            self.informer.add_handler(self._changed)
            self._begin(self.informer)

    @property
    def known(self) -> bool:
        return self.informer is not None and self.informer.trusted

    @property
    def obstacle(self) -> TransportError | None:
        """None if the budgets can be read, or if that is not known yet."""
        return self.informer.last_error if self.informer is not None and not self.known else None

    def over(self, namespace: str, pods: Iterable[PodLabels | None]) -> list[DisruptionBudget]:
        """Return those over pods of any of these labels, by name; None is under all of them."""
        listed = self.informer.values() if self.informer is not None else ()
        there = [
            each
            for each in cast("list[DisruptionBudget]", list(listed))
            if each.metadata.namespace == namespace
        ]
        # A label that each pod has of its own makes no set of labels for each pod.
        keys = {key for each in there for key in each.keys}
        alike = {pod and tuple(each for each in pod if each[0] in keys) for pod in pods}
        matching = [
            each
            for each in there
            if any(labels is None or each.holds(namespace, dict(labels)) for labels in alike)
        ]
        return sorted(matching, key=lambda each: each.metadata.name)

    def get(self, key: Key) -> DisruptionBudget | None:
        held = self.informer.get(key) if self.informer is not None else None
        return cast("DisruptionBudget | None", held)

    def heard(self, key: Key) -> float:
        """When the budget last changed, by this process's clock."""
        return self._heard.get(key, 0.0)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        either = new or old
        assert either is not None  # noqa: S101 - an informer tells of one of them
        key = either.metadata.key
        if new is None:
            self._heard.pop(key, None)
        else:
            self._heard[key] = self._clock.monotonic()
        self._told(key[0])


def slim_budget(found: Object) -> Object:
    assert isinstance(found, WireBudget)  # noqa: S101 - the informer decodes nothing else
    meta, selector = found.metadata, found.spec.selector
    if selector is not None and _size(selector) > MOST_CHARACTERS:
        selector = LabelSelector()
    return DisruptionBudget(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
        ),
        selector=selector,
        allowed=max(found.status.disruptions_allowed, 0),
        current=found.status.observed_generation == meta.generation,
        fault=_fault(found.status),
    )


def _fault(status: _BudgetStatus) -> str:
    for each in status.conditions[:CONDITIONS]:
        if (each.type, each.status, each.reason) == ("DisruptionAllowed", "False", "SyncFailed"):
            return shared(clean(f"{each.reason}: {each.message}", MESSAGE))
    return "" if status.observed_generation else "its member has given it no status"


def _size(selector: LabelSelector) -> int:
    expressions = selector.match_expressions
    texts = [
        *selector.match_labels,
        *selector.match_labels.values(),
        *(text for each in expressions for text in (each.key, each.operator, *each.values)),
    ]
    return MOST_CHARACTERS + 1 if len(texts) > MOST_TERMS else sum(map(len, texts))
