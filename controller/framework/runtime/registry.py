"""The registry of plugins: a name and a factory each.

Factories are Stowage's own, or come from features, `--plugin module:factory` and entry points of
the group `stowage.plugins`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any, TypeAlias

from pydantic import BaseModel

from controller.framework.runtime.arguments import Factory, WrongArgs, model_of, read
from controller.framework.runtime.feature import Enabled, Feature
from controller.framework.runtime.handle import Handle
from machinery.errors import ConfigurationError

Defaults: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
"""(plugin, score weight) at each point, in order."""
ENTRY_POINTS = "stowage.plugins"
SINGLE = frozenset({"queueSort"})
"""Points with exactly one plugin: a feature's replaces the default."""


class Registry:
    def __init__(self, factories: Mapping[str, Factory], defaults: Defaults) -> None:
        self._factories = dict(factories)
        self._defaults = {point: list(plugins) for point, plugins in defaults.items()}
        self._replaced: set[tuple[str, str]] = set()

    @property
    def defaults(self) -> Defaults:
        return self._defaults

    def replaced(self, point: str, name: str) -> bool:
        """Whether a feature's plugin replaced that default.

        A profile that names the default gets it instead.
        """
        return (point, name) in self._replaced

    def with_feature(self, feature: Feature) -> Registry:
        """Add a feature's plugins. Returns the registry. Raises as `with_plugin`."""
        for name, factory in feature.plugins.items():
            self.with_plugin(name, factory)
        for enabled in feature.defaults:
            self._enable(enabled)
        return self

    def _enable(self, enabled: Enabled) -> None:
        listed = self._defaults.setdefault(enabled.point, [])
        if enabled.point in SINGLE:
            self._replaced.update((enabled.point, name) for name, _ in listed)
            listed.clear()
        names = [name for name, _ in listed]
        place = names.index(enabled.before) if enabled.before in names else len(names)
        listed.insert(place, (enabled.plugin, enabled.weight))

    def with_plugin(self, name: str, factory: Factory) -> Registry:
        """Returns the registry. Raises ConfigurationError for a taken name."""
        if name in self._factories:
            raise ConfigurationError(f"there is a plugin named {name} already")
        self._factories[name] = factory
        return self

    def with_modules(self, references: Iterable[str]) -> Registry:
        """Add `module:factory`, each under its `name` attribute or its own name.

        Raises ConfigurationError as `with_plugin`, and for a missing factory.
        """
        for reference in references:
            factory = _found(reference)
            name = getattr(factory, "name", None)
            own = name if isinstance(name, str) and name else getattr(factory, "__name__", "")
            self.with_plugin(own or reference.rpartition(":")[2], factory)
        return self

    def with_installed(self) -> Registry:
        """Add the plugins of installed packages. Raises ConfigurationError."""
        for point in installed(ENTRY_POINTS):
            self.with_plugin(point.name, loaded(f"plugin {point.name}", point.load))
        return self

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    @property
    def names(self) -> list[str]:
        return sorted(self._factories)

    def model(self, name: str) -> type[BaseModel] | None:
        return model_of(self._factories[name])

    def make(self, name: str, args: Mapping[str, Any], handle: Handle) -> Any:
        """Make a plugin.

        Raises WrongArgs for rejected arguments, ConfigurationError if the factory has another form,
        fails, or makes an object that cannot have the name.
        """
        factory = self._factories[name]
        given = read(name, factory, args)
        _check_form(name, factory)
        try:
            plugin = factory(given, handle)
        except (TypeError, ValueError, LookupError) as e:
            raise WrongArgs(name, f"does not take these args: {e}") from e
        except Exception as e:  # another package's code may raise anything
            fault = f"plugin {name} could not be made: {type(e).__name__}: {e}"
            raise ConfigurationError(fault) from e
        return _named(plugin, name)


def installed(group: str) -> Sequence[metadata.EntryPoint]:
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, _: tuple[str, ...]) -> Sequence[metadata.EntryPoint]:
    # A lookup reads a file of each installed package, about ten milliseconds in all.
    return tuple(metadata.entry_points(group=group))


def loaded(what: str, load: Callable[[], Any]) -> Any:
    """Return what `load` returns. Raises ConfigurationError for whatever it raises."""
    try:
        return load()
    except Exception as e:  # an import runs another package's code
        fault = f"{what} cannot be imported: {type(e).__name__}: {e}"
        raise ConfigurationError(fault) from e


def _found(reference: str) -> Factory:
    module, _, name = reference.partition(":")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"--plugin {reference}: write it as module:factory")
    found = loaded(f"--plugin {reference}", lambda: importlib.import_module(module))
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigurationError(f"--plugin {reference}: {module} has no factory {name}")
    factory: Factory = found
    return factory


def _check_form(name: str, factory: Factory) -> None:
    try:
        signature = inspect.signature(factory)
    except ValueError:  # a builtin: the call will show
        return
    except TypeError as e:
        raise ConfigurationError(f"plugin {name}: its factory cannot be called") from e
    try:
        signature.bind({}, None)
    except TypeError as e:
        fault = f"plugin {name}: its factory must take (args, handle): {e}"
        raise ConfigurationError(fault) from e


def _named(plugin: Any, name: str) -> Any:
    if getattr(plugin, "name", None) == name:
        return plugin
    try:
        plugin.name = name
    except AttributeError as e:  # frozen, or without such a field
        own = getattr(plugin, "name", "nothing")
        raise ConfigurationError(f"plugin {name} calls itself {own}, and cannot be renamed") from e
    return plugin
