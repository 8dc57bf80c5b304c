"""Where plugins come from: a name and a factory each, ours and those of others.

A factory takes the plugin's arguments from the configuration file. Others add theirs with
`with_plugin`, or as an entry point of the group `stowage.plugins` in an installed package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeAlias

from controller.plugins.catalogue import BUILTIN
from machinery.errors import ConfigurationError

Factory: TypeAlias = Callable[..., Any]
ENTRY_POINTS = "stowage.plugins"


class Registry:
    """Factories by name."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = dict(BUILTIN)

    def with_plugin(self, name: str, factory: Factory) -> Registry:
        """Add a factory; the registry itself. Raises ConfigurationError when the name is taken."""
        if name in self._factories:
            raise ConfigurationError(f"there is a plugin named {name} already")
        self._factories[name] = factory
        return self

    def with_installed(self) -> Registry:
        """Add the plugins of installed packages. Raises ConfigurationError as `with_plugin`."""
        for point in entry_points(group=ENTRY_POINTS):
            self.with_plugin(point.name, point.load())
        return self

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    @property
    def names(self) -> list[str]:
        """Every known name, sorted."""
        return sorted(self._factories)

    def make(self, name: str, args: Mapping[str, Any]) -> Any:
        """A plugin. Raises ConfigurationError when its factory does not take the arguments."""
        factory = self._factories[name]
        try:
            inspect.signature(factory).bind(**args)
            plugin = factory(**args)
        except (TypeError, ValueError) as e:
            raise ConfigurationError(f"plugin {name} does not take these args: {e}") from e
        plugin.name = name
        return plugin
