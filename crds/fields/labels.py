"""How labels, taints and tolerations are written in our kinds: as Kubernetes writes them for nodes.

Only the form is checked here, and which keys are ours; `machinery.types.selectors` says what
matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from crds.base import (
    NAME,
    PRESERVE,
    QUALIFIED,
    Count,
    LabelKey,
    LabelMap,
    LabelValue,
    Model,
    Rule,
    atomic,
)
from crds.names import GROUP, LABEL_GROUP, LABEL_POLICY

KEEPS = ("Never", "Move", "Always")
"""The values of the annotation `ANNOTATION_KEEP` on an object."""
USERS_LABELS = (LABEL_POLICY, LABEL_GROUP)
"""Labels of our group that users write on templates."""

RESERVED_TEXT = f"labels and annotations of {GROUP} are written by Stowage alone; remove them"
"""Of what is refused; a wrong value of `ANNOTATION_KEEP` is, too."""

_KEY_OR_NOTHING = rf"^(({NAME}(\.{NAME})*/)?{QUALIFIED})?$"

RequirementValue = Annotated[str, Field(max_length=63, pattern=rf"^(-[0-9]+|({QUALIFIED})?)$")]
"""A label's value, or a negative number to compare with."""


def reserved(key: str) -> bool:
    """Whether a label's or annotation's key is ours: `stowage.dev/…` or `*.stowage.dev/…`."""
    return key.startswith(f"{GROUP}/") or f".{GROUP}/" in key


def cel_reserved(key: str) -> str:
    """The same in CEL, of an expression."""
    return f"({key}.startsWith('{GROUP}/') || {key}.contains('.{GROUP}/'))"


class Operator(StrEnum):
    """The operators of a requirement on labels."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class TaintEffect(StrEnum):
    """The effect of a taint on Workloads that do not tolerate it.

    NoSchedule and NoExecute keep new replicas away; NoExecute has those that run there leave, too.
    PreferNoSchedule only makes the cluster the last choice.
    """

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares with a taint's value."""

    EQUAL = "Equal"
    EXISTS = "Exists"


def _whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


class Requirement(Model):
    """One requirement on a label."""

    rules = (
        Rule(
            field="values",
            text="operators In and NotIn need at least one value",
            cel="!(self.operator in ['In', 'NotIn']) || "
            "(has(self.values) && size(self.values) > 0)",
            holds=lambda r: r.operator not in (Operator.IN, Operator.NOT_IN) or bool(r.values),
        ),
        Rule(
            field="values",
            text="operators Exists and DoesNotExist take no values; remove them",
            cel="!(self.operator in ['Exists', 'DoesNotExist']) || "
            "!has(self.values) || size(self.values) == 0",
            holds=lambda r: (
                r.operator not in (Operator.EXISTS, Operator.DOES_NOT_EXIST) or not r.values
            ),
        ),
        Rule(
            field="values",
            text="operators Gt and Lt take exactly one value, a whole number",
            cel="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1"
            " && self.values[0].matches('^-?[0-9]{1,18}$'))",
            holds=lambda r: (
                r.operator not in (Operator.GT, Operator.LT)
                or (len(r.values) == 1 and _whole(r.values[0]))
            ),
        ),
    )

    key: LabelKey
    """The label's key."""
    operator: Operator
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: list[RequirementValue] = atomic(64)
    """The values of In and NotIn; one whole number for Gt and Lt; empty for the others."""


class LabelSelector(Model):
    """Labels and expressions, all of which must hold. An empty selector selects everything."""

    match_labels: LabelMap = Field(default_factory=dict)
    """Labels that must be there with just these values."""
    match_expressions: list[Requirement] = atomic(32)
    """Requirements that must all hold."""


SELECTOR_FIELDS = ("matchLabels", "matchExpressions")
SELECTOR_TEXT = (
    "give labels alone, each with its value as text, or matchLabels and matchExpressions, not both"
)


class ClusterSelector(LabelSelector):
    """Selects clusters by their labels; labels alone, `{tier: gold}`, are taken as matchLabels."""

    @model_validator(mode="before")
    @classmethod
    def _take_labels_alone(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        parts = {key for key, value in given.items() if isinstance(value, Mapping | list | Model)}
        if not given or parts == given.keys() or given.keys() & set(SELECTOR_FIELDS) - parts:
            return given
        if parts:
            raise PydanticCustomError("selector", SELECTOR_TEXT)
        return {"matchLabels": given}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # A structural schema has fields of its own or any others of one form; the admission
        # policies judge the others (`crds.admission.selecting`).
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        handler.resolve_ref_schema(schema)[PRESERVE] = True
        return schema


class SelectorTerm(Model):
    """Like a node selector term: labels and expressions, ANDed. An empty term matches nothing."""

    match_expressions: list[Requirement] = atomic(32)
    """Requirements that must all hold."""
    match_labels: LabelMap = Field(default_factory=dict)
    """Labels that must be there with just these values."""


class Taint(Model):
    """Keeps Workloads away that do not tolerate it."""

    key: LabelKey
    """The taint's key."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: TaintEffect
    """NoSchedule, PreferNoSchedule or NoExecute."""


class Toleration(Model):
    """Lets a Workload onto clusters with a matching taint."""

    rules = (
        Rule(
            field="operator",
            text="an empty key tolerates everything and needs operator Exists",
            cel="(has(self.key) && size(self.key) > 0) || self.operator == 'Exists'",
            holds=lambda t: bool(t.key) or t.operator == TolerationOperator.EXISTS,
        ),
        Rule(
            field="value",
            text="operator Exists takes no value; remove it",
            cel="self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",
            holds=lambda t: t.operator != TolerationOperator.EXISTS or not t.value,
        ),
        Rule(
            field="tolerationSeconds",
            text="only a taint of effect NoExecute is tolerated for a time: set effect to it",
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            holds=lambda t: t.toleration_seconds is None or t.effect == TaintEffect.NO_EXECUTE,
        ),
    )

    key: Annotated[str, Field(max_length=317, pattern=_KEY_OR_NOTHING)] | None = None
    """The taint's key; without one, operator Exists tolerates every taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal compares the value, Exists takes any."""
    value: LabelValue | None = None
    """The taint's value, for operator Equal."""
    effect: TaintEffect | None = None
    """The effect to tolerate; every one when unset."""
    toleration_seconds: Count | None = None
    """For how long a taint of effect NoExecute is tolerated; for ever when unset."""
