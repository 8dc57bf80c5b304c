"""The arguments of a plugin, checked before it is made so that an error names the field.

`args` is an instance of the pydantic model that its `args_model` or the annotation of its first
parameter names; otherwise a mapping as written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from crds.faults import worded
from machinery.errors import ConfigurationError

Factory: TypeAlias = Callable[[Any, Any], Any]
"""(args, handle): the plugin."""


class Args(BaseModel):
    """Stowage's models: camelCase in the file, no unknown fields."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class NoArgs(Args):
    """For plugins without arguments."""


class WrongArgs(ConfigurationError):
    """`where` is the path of the wrong field below `args`."""

    def __init__(self, plugin: str, message: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"plugin {plugin}: {message}")
        self.where = where


@dataclass(frozen=True, slots=True)
class Plain:
    """The factory of a plugin without arguments or use of the handle."""

    make: Callable[[], Any]

    @property
    def args_model(self) -> type[NoArgs]:
        return NoArgs

    def __call__(self, _args: NoArgs, _handle: object) -> Any:
        return self.make()


def model_of(factory: Factory) -> type[BaseModel] | None:
    """Return the factory's model; None if it takes a mapping."""
    named = getattr(factory, "args_model", None)
    if named is None:
        try:
            parameters = inspect.signature(factory, eval_str=True).parameters.values()
        except (TypeError, ValueError, NameError):  # a builtin, or names for type checkers
            return None
        named = next((each.annotation for each in parameters), None)
    return named if isinstance(named, type) and issubclass(named, BaseModel) else None


def read(plugin: str, factory: Factory, args: Mapping[str, Any]) -> Any:
    """Return the factory's first argument. Raises WrongArgs."""
    model = model_of(factory)
    if model is None:
        return dict(args)
    try:
        return model.model_validate(dict(args))
    except ValidationError as e:
        loc, text = worded(e, model)[0]
        raise WrongArgs(plugin, text, tuple(loc)) from e
