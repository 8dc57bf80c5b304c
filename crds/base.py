"""The base class of the models of all kinds, its rules, and the small types of Kubernetes.

A model is the one source of a kind: the CRD's schema is generated from it, and it validates the
same object without a server. So a rule that JSON Schema cannot say stands here once, as a `Rule`
with its two spellings side by side: CEL for the API server, Python for everybody else.

The bounds on lengths are generous for people and small for the API server, which multiplies them to
estimate what a CEL rule may cost and refuses a CRD that could cost too much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic.functional_validators import AfterValidator
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from crds.names import FORBIDDEN_NAMESPACE_PREFIX, SYSTEM_NAMESPACE, forbidden_namespace

PRESERVE = "x-kubernetes-preserve-unknown-fields"
VALIDATIONS = "x-kubernetes-validations"
_MAP_KEYS = "x-kubernetes-list-map-keys"


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation rule of a model, for the API server and for Python.

    `field` is where the fault lies, relative to the model, in JSON spelling (`values`); `text` says
    what is wrong and what to do. `cel` and `holds` must agree on every object; the tests compare
    them on a real server. `located` is False where CEL may not point at the field.
    """

    field: str
    text: str
    cel: str
    holds: Callable[[Any], bool]
    located: bool = True

    def manifest(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.cel, "message": f"{self.field}: {self.text}"}
        return entry | ({"fieldPath": f".{self.field}"} if self.located else {})


@dataclass(frozen=True, slots=True)
class Transition:
    """A rule on how a model may change: `holds` is told the new one and the old one."""

    field: str
    text: str
    cel: str
    holds: Callable[[Any, Any], bool]

    def manifest(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        message = f"{self.field}: {self.text}"
        return {"rule": self.cel, "message": message, "fieldPath": f".{self.field}"}


def _refuse_duplicates(field: str, keys: list[Any], elements: list[BaseModel]) -> None:
    seen = set()
    for element in elements:
        given = element.model_dump(by_alias=True, mode="json")
        key = tuple(given[name] for name in keys)
        if key in seen:
            text = f"only one element with {' and '.join(map(str, keys))} {', '.join(key)}"
            raise PydanticCustomError("rule", "{field}: {text}", {"field": field, "text": text})
        seen.add(key)


class Model(BaseModel):
    """The base of every part of our kinds: camelCase outside, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    transitions: ClassVar[tuple[Transition, ...]] = ()

    @model_validator(mode="after")
    def _keep_keys_unique(self) -> Self:
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            keys = extra.get(_MAP_KEYS) if isinstance(extra, dict) else None
            if isinstance(keys, list):
                _refuse_duplicates(field.alias or name, keys, getattr(self, name))
        return self

    @model_validator(mode="after")
    def _obey(self) -> Self:
        broken = next((rule for rule in self.rules if not rule.holds(self)), None)
        if broken:
            raise PydanticCustomError(
                "rule", "{field}: {text}", {"field": broken.field, "text": broken.text}
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        own = handler.resolve_ref_schema(schema)
        if cls.rules or cls.transitions:
            own[VALIDATIONS] = [
                *(rule.manifest() for rule in cls.rules),
                *(rule.manifest() for rule in cls.transitions),
            ]
        if cls.model_config.get("extra") == "allow":
            own[PRESERVE] = True
        return schema

    def manifest(self) -> dict[str, Any]:
        """The object as JSON: what was given, nothing that was only defaulted."""
        return self.model_dump(by_alias=True, exclude_unset=True, mode="json")


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""Schema extras of a list that one writer replaces whole."""


def atomic(most: int) -> Any:
    """A list of at most `most` elements, empty by default, that one writer replaces whole."""
    return Field(default_factory=list, max_length=most, json_schema_extra=ATOMIC)


def listmap(*keys: str, most: int) -> Any:
    """A list of at most `most` elements, empty by default, told apart by these fields."""
    extra: dict[str, Any] = {
        "x-kubernetes-list-type": "map",
        _MAP_KEYS: list(keys),
    }
    return Field(default_factory=list, max_length=most, json_schema_extra=extra)


NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

Int32 = Annotated[
    int, Field(strict=True, ge=-(2**31), le=2**31 - 1, json_schema_extra={"format": "int32"})
]
Int64 = Annotated[int, Field(strict=True, json_schema_extra={"format": "int64"})]
Version = Annotated[int, Field(strict=True, ge=0, json_schema_extra={"format": "int64"})]
"""A resourceVersion: objects of one resource are ordered by it."""
Count = Annotated[
    int, Field(strict=True, ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})
]
"""A number of replicas or clusters: not negative."""
Positive = Annotated[
    int, Field(strict=True, ge=1, le=2**31 - 1, json_schema_extra={"format": "int32"})
]
Weight = Annotated[int, Field(strict=True, ge=1, le=100, json_schema_extra={"format": "int32"})]
"""The weight of a preference, 1 to 100."""
Flag = Annotated[bool, Field(strict=True)]

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=f"^{NAME}$")]
DnsName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{NAME}(\.{NAME})*$")]
LabelKey = Annotated[
    str,
    Field(min_length=1, max_length=317, pattern=rf"^({NAME}(\.{NAME})*/)?{QUALIFIED}$"),
]
LabelValue = Annotated[str, Field(max_length=63, pattern=f"^({QUALIFIED})?$")]
LabelMap = Annotated[dict[str, LabelValue], Field(max_length=64)]
"""Labels, equality of each; at most 64."""

Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
"""`2026-01-02T03:04:05Z`."""
Instant = Annotated[Timestamp, datetime]
"""The same, of which the structs make a `datetime`."""

_MOMENT = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


def _moment(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError as e:
        told = "not a moment; write it as 2026-01-02T03:04:05Z"
        raise PydanticCustomError("moment", told) from e
    return text


Moment = Annotated[
    str,
    Field(max_length=64, pattern=_MOMENT, json_schema_extra={"format": "date-time"}),
    AfterValidator(_moment),
]
"""`2026-01-02T03:04:05Z` that a user writes, as RFC 3339 has it."""

PERCENT = "^(100|0?[0-9]{1,2})%$"
"""Whole percents, 100 at most."""


def _not_forbidden(name: str) -> str:
    if forbidden_namespace(name):
        raise PydanticCustomError("namespace", FORBIDDEN_TEXT)
    return name


FORBIDDEN_TEXT = (
    f"{FORBIDDEN_NAMESPACE_PREFIX}* and {SYSTEM_NAMESPACE} are never a target; name another one"
)
_NOT_FORBIDDEN = {
    "rule": f"!self.startsWith('{FORBIDDEN_NAMESPACE_PREFIX}') && self != '{SYSTEM_NAMESPACE}'",
    "message": FORBIDDEN_TEXT,
}
TargetNamespace = Annotated[
    DnsLabel,
    Field(json_schema_extra={VALIDATIONS: [_NOT_FORBIDDEN]}),
    AfterValidator(_not_forbidden),
]
"""A namespace on members: any but the ones that hold a cluster's own parts."""

QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""Not negative, and of no exponent that only costs time."""
_LONGEST_QUANTITY = 64


def _quantity(amount: str | int) -> str | int:
    if isinstance(amount, str) and not (
        len(amount) <= _LONGEST_QUANTITY and re.fullmatch(QUANTITY, amount)
    ):
        raise PydanticCustomError("quantity", "not a quantity; write it as 500m, 2 or 12Gi")
    return amount


Quantity = Annotated[
    str | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)],
    AfterValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "maxLength": _LONGEST_QUANTITY,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""An amount as Kubernetes writes it: `3500m`, `12Gi`, `80`."""

Resources = Annotated[dict[str, Quantity], Field(max_length=64)]
"""Amounts by resource name: cpu, memory, pods, and extended resources."""


def amounts(field: str) -> Rule:
    """The amounts of that field are nothing or more; what is text has a pattern that says so."""

    def holds(part: Any) -> bool:
        given: Mapping[str, Any] = getattr(part, to_snake(field))
        return all(not isinstance(n, int) or n >= 0 for n in given.values())

    each = f"self.{field}"
    cel = f"!has({each}) || {each}.all(k, type({each}[k]) != int || {each}[k] >= 0)"
    return Rule(field, "must not be negative; ask for nothing or more", cel, holds)


class ConditionStatus(StrEnum):
    """The three answers of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """A condition as every Kubernetes kind has it."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """The kind of statement that is true or not."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """One word for programs."""
    message: Annotated[str, Field(max_length=32768)] | None = None
    """A sentence for people."""
    last_transition_time: Timestamp | None = None
    """When `status` last changed."""
    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about."""


class Kind(Model):
    """The base of the kinds themselves.

    A column is its name, type and JSON path, and a priority: 1 is printed with `-o wide` only.
    """

    plural: ClassVar[str]
    short: ClassVar[str]
    namespaced: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str, str, int], ...]] = ()
    subresources: ClassVar[dict[str, Any]] = {"status": {}}

    metadata: dict[str, Any] = Field(default_factory=dict)
    """The object's metadata, as Kubernetes has it."""
