"""`stowage plugins`: the plugins that are installed here, as a configuration uses them.

The controller's own code reads the configuration: a file that passes here starts a controller with
the same packages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from controller import catalogue, config
from controller.framework.profile import PROTOCOLS, Profile
from controller.framework.runtime import controllers
from controller.framework.runtime.feature import Feature
from controller.framework.runtime.registry import ENTRY_POINTS, Registry, installed
from controller.framework.runtime.services import PREFIX, services
from controller.plugins.defaults import BUILTIN
from crds.names import DEFAULT_SCHEDULER
from stowage.console import output
from stowage.console.terminal import say

_SCORE = "score"
_HOOKS = tuple(point for point in PROTOCOLS if point.endswith("Hook"))


def show(config_file: Path | None, modules: Sequence[str], form: str) -> None:
    """Print the plugins of each profile. Raises ConfigurationError for a wrong file."""
    found = listed(config_file, modules)
    for note in found.notes():
        say(f"note: {note}", err=True)
    output.show(found.to_dict(), form, text=found.table())


def listed(config_file: Path | None, modules: Sequence[str] = ()) -> Listing:
    """Return the installed plugins, and their use by this file or by the default profile.

    `modules` are factories that no installed package offers, as `module:factory`. Raises
    ConfigurationError.
    """
    features = catalogue.features()
    registry = catalogue.registry(features).with_installed()
    known = origins(features)
    for module in modules:
        (added,) = set(registry.with_modules([module]).names) - known.keys()
        known[added] = module
    if config_file is None:
        profiles = {DEFAULT_SCHEDULER: config.default_profile(registry)}
        return Listing(profiles, {}, registry, known, features)
    found = config.load(config_file, registry)
    return Listing(found.profiles, found.args, registry, known, features)


def origins(features: Sequence[Feature]) -> dict[str, str]:
    """Return the origin of each plugin, by name; `features` are those of `catalogue.features`."""
    found = dict.fromkeys(BUILTIN, "stowage")
    theirs = [f"feature {make.__module__.split('.')[-2]}" for make in catalogue.FEATURES]
    theirs += [_package(point) for point in installed(catalogue.ENTRY_POINTS)]
    for origin, feature in zip(theirs, features, strict=True):
        found |= dict.fromkeys(feature.plugins, origin)
    return found | {point.name: _package(point) for point in installed(ENTRY_POINTS)}


def _package(point: EntryPoint) -> str:
    """Return the package of an entry point; its module where the package is not known."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else point.value


@dataclass(frozen=True, slots=True)
class Listing:
    """Profiles by scheduler name, the args that they give plugins, and each plugin's origin."""

    profiles: Mapping[str, Profile]
    given: Mapping[str, Mapping[str, Mapping[str, Any]]]
    registry: Registry
    origins: Mapping[str, str]
    features: Sequence[Feature]

    def brought(self) -> list[dict[str, Any]]:
        """Return the hooks, routes and controllers of enabled plugins, once for all profiles."""
        enabled = [p for profile in self.profiles.values() for p in profile.plugins.values()]
        found: dict[str, dict[str, list[str]]] = {}
        for profile in self.profiles.values():
            for point in _HOOKS:
                for name in profile.names.get(point, ()):
                    hooks = _beside(found, name)["hooks"]
                    hooks += [] if point in hooks else [point]
        for each in services(enabled):
            name = each.path.removeprefix(f"{PREFIX}/").partition("/")[0]
            _beside(found, name)["routes"].append(f"{each.method} {each.path}")
        for name, controller in controllers.names(self.features, enabled):
            _beside(found, name)["controllers"].append(controller)
        return [{"name": name, **found[name]} for name in sorted(found)]

    def unused(self) -> list[str]:
        """Return the plugins that no profile enables, sorted."""
        enabled = {name for each in self.profiles.values() for name in each.plugins}
        return sorted(self.origins.keys() - enabled)

    def notes(self) -> Iterator[str]:
        """Yield args of a profile for plugins that it does not enable."""
        for scheduler, given in self.given.items():
            for name in sorted(given.keys() - self.profiles[scheduler].plugins.keys()):
                yield f"profile {scheduler} gives args to {name}, and no point of it enables {name}"

    def to_dict(self) -> dict[str, Any]:
        """Return what `-o json` prints; only plugins at the point score have a weight."""
        profiles = [
            {
                "schedulerName": name,
                "pluginTimeoutMilliseconds": round(profile.plugin_timeout * 1000),
                "points": [self._point(profile, at) for at in PROTOCOLS],
            }
            for name, profile in self.profiles.items()
        ]
        unused = [self._plugin(name, {}) for name in self.unused()]
        return {"profiles": profiles, "plugins": self.brought(), "unused": unused}

    def table(self) -> str:
        parts = [self._profile(profile) for profile in self.profiles.values()]
        if brought := self.brought():
            lines = [
                {"plugin": each["name"], "does": does, "what": what}
                for each in brought
                for does in ("hooks", "routes", "controllers")
                for what in each[does]
            ]
            beside = output.table(lines, ("plugin", "does", "what"))
            parts.append(f"Beside the points, once for all profiles:\n{beside}")
        if unused := [self._plugin(name, {}) for name in self.unused()]:
            rows = output.table([_row(each) for each in unused], ("plugin", "from", "args"))
            parts.append(f"Installed, and enabled by no profile:\n{rows}")
        return "\n\n".join(parts)

    def _profile(self, profile: Profile) -> str:
        points = [self._point(profile, at) for at in PROTOCOLS]
        rows = [{"point": at["point"], **_row(each)} for at in points for each in at["plugins"]]
        bare = ", ".join(at["point"] for at in points if not at["plugins"])
        table = output.table(rows, ("point", "plugin", "weight", "from", "args"))
        without = f"\nNo plugin at {bare}." if bare else ""
        limit = profile.plugin_timeout
        takes = f"at most {limit * 1000:.0f} ms" if limit else "as long as it takes"
        said = f"{without}\nEach call of a plugin: {takes}."
        return f"Profile {profile.scheduler_name}:\n{table}{said}"

    def _point(self, profile: Profile, point: str) -> dict[str, Any]:
        given = self.given.get(profile.scheduler_name, {})
        plugins = [self._plugin(name, given.get(name, {})) for name in profile.names.get(point, ())]
        for each in plugins if point == _SCORE else ():
            each["weight"] = profile.weights[each["name"]]
        return {"point": point, "plugins": plugins}

    def _plugin(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        args = arguments(self.registry.model(name), given)
        return {"name": name, "origin": self.origins[name], "args": _plain(args)}


def _beside(found: dict[str, dict[str, list[str]]], name: str) -> dict[str, list[str]]:
    return found.setdefault(name, {"hooks": [], "routes": [], "controllers": []})


def arguments(model: type[BaseModel] | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with defaults filled in.

    Without a model there are no known defaults. A required argument that is missing is left out.
    """
    if model is None:
        return given
    try:
        whole = model.model_validate(dict(given))
    except ValidationError:  # only of one that no profile enables
        whole = model.model_construct()
    return whole.model_dump(by_alias=True)


def _plain(value: Any) -> Any:
    """Return the value as JSON has it; a default may be any object."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Collection) and not isinstance(value, (str, bytes)):
        return [_plain(each) for each in value]
    if value is None or type(value) in (str, bool, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _row(plugin: Mapping[str, Any]) -> dict[str, Any]:
    args = plugin["args"].items()
    told = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in args)
    return {
        "plugin": plugin["name"],
        "weight": plugin.get("weight", "-"),
        "from": plugin["origin"],
        "args": " ".join(told) or "-",
    }
