"""Where plugins come from: a name and a factory each, ours and those of others.

A factory takes the plugin's arguments from the configuration file. Features bring theirs
(`with_feature`); others add theirs with `with_plugin`, or as an entry point of the group
`stowage.plugins` in an installed package.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, TypeAlias

from controller.framework.feature import Enabled, Factory, Feature
from machinery.errors import ConfigurationError

Defaults: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
"""The plugins of the default profile at each point, in order; the number is a score's weight."""
ENTRY_POINTS = "stowage.plugins"


class Registry:
    """Factories by name, and which plugins the default profile enables."""

    def __init__(self, factories: Mapping[str, Factory], defaults: Defaults) -> None:
        self._factories = dict(factories)
        self._defaults = {point: list(plugins) for point, plugins in defaults.items()}

    @property
    def defaults(self) -> Defaults:
        """The plugins of the default profile."""
        return self._defaults

    def with_feature(self, feature: Feature) -> Registry:
        """Add a feature's plugins; the registry itself. Raises as `with_plugin`."""
        for name, factory in feature.plugins.items():
            self.with_plugin(name, factory)
        for enabled in feature.defaults:
            self._enable(enabled)
        return self

    def _enable(self, enabled: Enabled) -> None:
        listed = self._defaults.setdefault(enabled.point, [])
        names = [name for name, _ in listed]
        place = names.index(enabled.before) if enabled.before in names else len(names)
        listed.insert(place, (enabled.plugin, enabled.weight))

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
        """A plugin.

        Raises ConfigurationError when its factory does not take the arguments, or made something
        that cannot be called by that name.
        """
        factory = self._factories[name]
        try:
            inspect.signature(factory).bind(**args)
            plugin = factory(**args)
        except (TypeError, ValueError) as e:
            raise ConfigurationError(f"plugin {name} does not take these args: {e}") from e
        return _named(plugin, name)


def _named(plugin: Any, name: str) -> Any:
    """The plugin under the name of the configuration; one that has it already is left alone."""
    if getattr(plugin, "name", None) == name:
        return plugin
    try:
        plugin.name = name
    except AttributeError as e:  # frozen, or without such a field
        own = getattr(plugin, "name", "nothing")
        raise ConfigurationError(f"plugin {name} calls itself {own}, and cannot be renamed") from e
    return plugin
