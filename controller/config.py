"""SchedulerConfiguration: the plugins, weights and settings per scheduler name.

A wrong file is refused at start with line, field and known values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from controller import catalogue
from controller.framework.calling.guard import at_zero
from controller.framework.profile import (
    PLUGIN_TIMEOUT,
    PROTOCOLS,
    ClusterProfilesConfiguration,
    ImportRule,
    Profile,
    SchedulerConfiguration,
)
from controller.framework.runtime.arguments import WrongArgs
from controller.framework.runtime.handle import DryRunHandle, Handle
from controller.framework.runtime.registry import Registry
from controller.model.moving import (
    NEVER,
    BrakeConfiguration,
    MovementConfiguration,
)
from crds.base import Count, DnsLabel, LabelKey
from crds.faults import worded
from crds.fields.labels import LabelSelector
from crds.fields.movement import Budget
from crds.names import DEFAULT_SCHEDULER
from crds.workloadquota import WorkloadQuotaSpec
from machinery.errors import ConfigurationError
from machinery.types.budget import amount
from machinery.types.selectors import parse_label_selector

ALL = "*"
LEASE = "stowage-controller"
_DAY = 86_400
_MOVEMENT = MovementConfiguration()
Where: TypeAlias = tuple[str | int, ...]
"""The path of a field in the file."""


class _Strict(BaseModel):
    # The docstrings of fields are the words of docs/reference/configuration.md.
    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class _Enabled(_Strict):
    name: str
    weight: int = Field(default=1, ge=1, le=100)
    """The factor of the plugin's scores, at the point score."""


class _Disabled(_Strict):
    name: str


class _Point(_Strict):
    enabled: list[_Enabled] = []
    """Plugins that come after those of the defaults, in this order."""
    disabled: list[_Disabled] = []
    """Plugins of the defaults that are left out; `*` leaves out all of them."""


class _PluginConfig(_Strict):
    name: str
    args: dict[str, Any] = {}
    """Read by the plugin's own model; see the arguments of plugins."""


class _Profile(_Strict):
    scheduler_name: str = DEFAULT_SCHEDULER
    """The `spec.schedulerName` of the Workloads that this profile decides."""
    plugins: dict[str, _Point] = {}
    """By extension point, such as `filter`."""
    plugin_config: list[_PluginConfig] = []
    plugin_timeout_milliseconds: int = Field(default=round(PLUGIN_TIMEOUT * 1000), ge=0, le=60_000)
    """How long one call of a plugin may take; 0 sets no bound."""


class _LeaderElection(_Strict):
    leader_elect: bool = True
    """Whether a Lease decides which instance acts."""


def _tolerated(seconds: int) -> int:
    if seconds != NEVER and not 0 < seconds <= _DAY:
        told = "must be from 1 to 86400 seconds, or -1 for never"
        raise PydanticCustomError("seconds", told)
    return seconds


def _some(budget: int | str) -> int | str:
    if not amount(budget, 100, up=True):
        raise PydanticCustomError("nothing", "must be more than 0, or nothing could ever move")
    return budget


class _Brake(_Strict):
    max_lost: Budget = _MOVEMENT.brake.max_lost
    """Clusters that may be lost at once before nothing moves for it."""
    topology_key: LabelKey = _MOVEMENT.brake.topology_key
    """The label whose values are the domains."""
    max_lost_domains: Count = _MOVEMENT.brake.max_lost_domains
    """Domains of which more than half of the clusters may be lost."""


class _Movement(_Strict):
    not_ready_toleration_seconds: Annotated[int, Field(strict=True), AfterValidator(_tolerated)] = (
        _MOVEMENT.not_ready_toleration_seconds
    )
    """How long a Workload without a toleration of its own stays on a lost cluster; -1: for ever."""
    dwell_seconds: int = Field(_MOVEMENT.dwell_seconds, strict=True, ge=0, le=_DAY)
    """How long a cluster has to be ready again before anything goes there."""
    max_moving: Annotated[Budget, AfterValidator(_some)] = _MOVEMENT.max_moving
    """Units, over the fleet, that moves have placed and that are not ready yet."""
    brake: _Brake = _Brake()

    def read(self) -> MovementConfiguration:
        brake = BrakeConfiguration(**self.brake.model_dump())
        return MovementConfiguration(**self.model_dump(exclude={"brake"}), brake=brake)


_PropertyName = Annotated[
    str, Field(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$")
]
"""As the name of a label holds it; a slash becomes an underscore there."""


class _Import(_Strict):
    namespace: DnsLabel
    """The namespace of the ClusterProfiles."""
    selector: LabelSelector = LabelSelector()
    """Chooses among them by their labels."""
    properties: list[_PropertyName] = []
    """Names of properties that become labels."""

    def read(self) -> ImportRule:
        selector = self.selector.model_dump(by_alias=True, exclude_none=True, mode="json")
        return ImportRule(self.namespace, parse_label_selector(selector), tuple(self.properties))


class _ClusterProfiles(_Strict):
    imports: list[_Import] = Field(default=[], alias="import")
    """ClusterProfiles that become MemberClusters."""
    export: bool = False
    """Whether each MemberCluster is shown as a ClusterProfile."""

    def read(self) -> ClusterProfilesConfiguration:
        return ClusterProfilesConfiguration(
            tuple(each.read() for each in self.imports), self.export
        )


class ConfigurationFile(_Strict):
    """The file as it is written."""

    api_version: Literal["stowage.dev/v1alpha1"]
    kind: Literal["SchedulerConfiguration"]
    leader_election: _LeaderElection = _LeaderElection()
    default_quota: WorkloadQuotaSpec | None = None
    """The quota of namespaces that have none of their own."""
    movement: _Movement = _Movement()
    """What leaves lost and drained clusters, and how much of it at once."""
    cluster_profiles: _ClusterProfiles | None = None
    """Which ClusterProfiles become MemberClusters, and whether MemberClusters are shown as some."""
    placement_decisions: bool = Field(default=False, strict=True)
    """Whether Workloads that ask for it are published as PlacementDecisions."""
    profiles: list[_Profile] = Field(default=[_Profile()], min_length=1)
    """One for each scheduler name."""


class _Workshop(NamedTuple):
    registry: Registry
    handle: Handle

    def make(self, name: str, args: Mapping[str, Any]) -> Any:
        return self.registry.make(name, args, self.handle)


def default_profile(registry: Registry | None = None, handle: Handle | None = None) -> Profile:
    """Return the profile without a file; without a handle, for a dry run."""
    workshop = _Workshop(registry or catalogue.registry(), handle or DryRunHandle())
    return _profile(_Profile(), workshop, _Places({}, "defaults"), 0)


def load(path: Path, registry: Registry, handle: Handle | None = None) -> SchedulerConfiguration:
    """Read a configuration file. Raises ConfigurationError with file, line and field."""
    try:
        text = path.read_text()
    except OSError as e:
        raise ConfigurationError(f"{path}: {e.strerror}") from e
    return parse(text, registry, handle, name=str(path))


def parse(
    text: str, registry: Registry, handle: Handle | None = None, *, name: str = "configuration"
) -> SchedulerConfiguration:
    """Without a handle, for a dry run. Raises ConfigurationError."""
    rehearsal = DryRunHandle()
    workshop = _Workshop(registry, handle or rehearsal)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigurationError(f"{name}: not YAML: {e}") from e
    lines: dict[Where, int] = {}
    places = _Places(lines, name)
    twice = _note(lines, node)
    if twice is not None:
        raise places.error(twice, "stands here twice")
    try:
        found = ConfigurationFile.model_validate(document)
    except ValidationError as e:
        loc, text = worded(e, ConfigurationFile)[0]
        raise places.error(tuple(loc), text) from e
    if found.default_quota is not None:
        quota = found.default_quota.model_dump(by_alias=True, mode="json")
        for each in found.profiles:
            args = {"defaultQuota": quota}
            each.plugin_config.append(_PluginConfig(name=catalogue.DEFAULT_QUOTA, args=args))
    profiles: dict[str, Profile] = {}
    for index, each in enumerate(found.profiles):
        if each.scheduler_name in profiles:
            raise places.error(
                ("profiles", index, "schedulerName"), f"{each.scheduler_name} has a profile already"
            )
        profiles[each.scheduler_name] = _profile(each, workshop, places, index)
    if len({type(p.queue_sort) for p in profiles.values()}) > 1:
        raise places.error(
            ("profiles", 0, "plugins", "queueSort"),
            "there is one queue, so all profiles need the same queueSort",
        )
    given = {
        each.scheduler_name: {config.name: config.args for config in each.plugin_config}
        for each in found.profiles
    }
    elect, movement = found.leader_election.leader_elect, found.movement.read()
    configuration = SchedulerConfiguration(
        profiles,
        elect,
        given,
        movement,
        cluster_profiles=found.cluster_profiles.read() if found.cluster_profiles else None,
        placement_decisions=found.placement_decisions,
    )
    rehearsal.configuration = configuration
    return configuration


class _Places:
    def __init__(self, lines: Mapping[Where, int], name: str) -> None:
        self._lines = lines
        self._name = name

    def error(self, where: Sequence[str | int], message: str) -> ConfigurationError:
        known = tuple(where)
        while known and known not in self._lines:
            known = known[:-1]
        line = self._lines.get(known, 1)
        field = ""
        for part in where:
            field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
        return ConfigurationError(": ".join(filter(None, (f"{self._name}:{line}", field, message))))


def _note(lines: dict[Where, int], node: Any, path: Where = ()) -> Where | None:
    if node is None:
        return None
    lines.setdefault(path, node.start_mark.line + 1)
    inside: list[tuple[Where, Any, int]] = []
    if isinstance(node, yaml.MappingNode):
        inside = [((*path, k.value), v, k.start_mark.line + 1) for k, v in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inside = [((*path, i), v, v.start_mark.line + 1) for i, v in enumerate(node.value)]
    twice = None
    for where, value, line in inside:
        twice = twice or (where if where in lines else None)
        lines[where] = line
        twice = _note(lines, value, where) or twice
    return twice


def _profile(found: _Profile, workshop: _Workshop, places: _Places, index: int) -> Profile:
    at: Where = ("profiles", index)
    registry = workshop.registry
    for point in found.plugins:
        if point not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise places.error((*at, "plugins", point), f"no such extension point; known: {known}")
    args = _arguments(found, registry, places, at)
    made: dict[str, Any] = {}
    enabled: dict[str, list[Any]] = {}
    weights: dict[str, int] = {}
    for point, protocol in PROTOCOLS.items():
        where = (*at, "plugins", point)
        for name, weight in _chosen(point, found, registry, places, where):
            if name not in made:
                made[name] = _made(name, args.get(name), workshop, places, at)
            if not isinstance(made[name], protocol):
                raise places.error((*where, "enabled"), f"{name} is no {point} plugin")
            enabled.setdefault(point, []).append(made[name])
            if point == "score":
                weights[name] = weight
    sorts = enabled.get("queueSort", [])
    if len(sorts) != 1:
        names = ", ".join(plugin.name for plugin in sorts) or "none"
        raise places.error(
            (*at, "plugins", "queueSort"), f"exactly one plugin must be enabled, found: {names}"
        )
    seconds = found.plugin_timeout_milliseconds / 1000
    profile = Profile.of(found.scheduler_name, enabled, weights, seconds)
    at_zero(profile.names)
    return profile


def _arguments(
    found: _Profile, registry: Registry, places: _Places, at: Where
) -> dict[str, tuple[int, Mapping[str, Any]]]:
    args: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for number, config in enumerate(found.plugin_config):
        place = (*at, "pluginConfig", number, "name")
        _known(config.name, registry, places, place)
        if config.name in args:
            raise places.error(place, f"{config.name} has its args already")
        args[config.name] = (number, config.args)
    return args


def _made(
    name: str,
    config: tuple[int, Mapping[str, Any]] | None,
    workshop: _Workshop,
    places: _Places,
    at: Where,
) -> Any:
    number, args = config or (None, {})
    where: Where = (
        (*at, "pluginConfig") if number is None else (*at, "pluginConfig", number, "args")
    )
    try:
        return workshop.make(name, args)
    except WrongArgs as e:
        raise places.error((*where, *e.where), str(e)) from e
    except ConfigurationError as e:
        raise places.error(where, str(e)) from e


def _chosen(
    point: str,
    found: _Profile,
    registry: Registry,
    places: _Places,
    where: Where,
) -> list[tuple[str, int]]:
    asked = found.plugins.get(point, _Point())
    for number, disabled in enumerate(asked.disabled):
        if disabled.name != ALL:
            _known(disabled.name, registry, places, (*where, "disabled", number, "name"))
    names = [enabled.name for enabled in asked.enabled]
    for number, enabled in enumerate(asked.enabled):
        place = (*where, "enabled", number)
        _known(enabled.name, registry, places, (*place, "name"))
        if enabled.name in names[:number]:
            raise places.error((*place, "name"), f"{enabled.name} is enabled twice")
        if point != "score" and "weight" in enabled.model_fields_set:
            raise places.error((*place, "weight"), "only score plugins have a weight")
    out = {disabled.name for disabled in asked.disabled} | {e.name for e in asked.enabled}
    # If it is the only one enabled, a default that a feature replaced gets its place back.
    if len(names) == 1 and registry.replaced(point, names[0]):
        out.add(ALL)
    kept = [] if ALL in out else [p for p in registry.defaults.get(point, ()) if p[0] not in out]
    return [*kept, *((plugin.name, plugin.weight) for plugin in asked.enabled)]


def _known(name: str, registry: Registry, places: _Places, where: Where) -> None:
    if name not in registry:
        raise places.error(where, f"no plugin named {name}; known: {', '.join(registry.names)}")


def lease_name(configuration: SchedulerConfiguration) -> str:
    """All processes with these scheduler names compete for it."""
    names = sorted(configuration.profiles)
    return LEASE if DEFAULT_SCHEDULER in names else "-".join((LEASE, *names)).lower()[:253]
