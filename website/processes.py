"""Pages of what runs: the commands, the metrics, and the rights that the processes are given."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml
from prometheus_client.metrics import MetricWrapperBase

from controller.app import Controller, ControllerSettings
from machinery.api.client import ApiClient
from machinery.config.kubeconfig import Connection
from machinery.metrics import REGISTRY, GaugeFunc
from propagator.app import Propagator
from propagator.settings import PropagatorSettings
from stowage.cli import cli
from website.markdown import code, page, sentence, table

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
_SHARED = "machinery"
_PROCESSES = {
    _SHARED: "both processes",
    "controller": "the controller",
    "propagator": "the propagator",
}


# --- commands -------------------------------------------------------------------------------------


def commands() -> str:
    """Return the page of the command line."""
    return page(
        "Commands",
        "`stowage` is also `kubectl stowage`. Exit code 0: done; 1: it could not be done; 2: wrong"
        " usage. `status` exits with 1 when something needs a person, and with 2 where the hub"
        " could not be asked.",
        [_command(path, command) for path, command in _walk("stowage", cli) if path != "stowage"],
    )


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from _walk(f"{path} {name}", below)


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path, **cli.context_settings)
    usage = " ".join((path, *command.collect_usage_pieces(context)))
    help_text = "\n\n".join(
        " ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")
    )
    rows = [_option(each, context) for each in command.params if isinstance(each, click.Option)]
    options = table(("option", "default", "does"), rows) if rows else "No options."
    return f"## {path}\n\n```text {{usage}}\n{usage}\n```\n\n{_plain(help_text)}\n\n{options}"


def _option(option: click.Option, context: click.Context) -> list[str]:
    names = ", ".join(code(each) for each in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {code(option.make_metavar(context))}"
    default = option.to_info_dict()["default"]
    shown = default if isinstance(default, str | int | float) and not option.is_flag else ""
    return [names + value, code(shown), _plain(option.help or "")]


def _plain(text: str) -> str:
    """Escape what would be emphasis outside code."""
    return re.sub(r"(?<!`)([*_])(?![^`]*`)", r"\\\1", text).replace("<", "&lt;")


# --- metrics --------------------------------------------------------------------------------------


class _Known(NamedTuple):
    process: str
    names: str
    kind: str
    values: str
    tells: str


def metrics() -> str:
    """Return the page of the metrics that a process has before it leads."""
    asyncio.run(_make_processes())
    known = sorted(map(_metric, _ours()), key=lambda each: each.names)
    return page(
        "Metrics",
        "What `/metrics` of the two processes has from the start."
        " [Operating](../operations.md#metrics) says where it is served, and [Alerts](../alerts.md)"
        " what to watch. `process_*` and `python_*` are those of prometheus_client.",
        [
            f"## Of {title}\n\n"
            + table(
                ("metric", "type", "known values of labels", "tells"),
                ([m.names, m.kind, m.values, m.tells] for m in known if m.process == process),
            )
            for process, title in _PROCESSES.items()
        ],
    )


async def _make_processes() -> None:
    """Have both processes register their metrics; features do so when they are made."""
    connection = Connection("http://127.0.0.1:1")  # nothing is asked
    async with ApiClient(connection, name="hub") as client:
        Controller(ControllerSettings(connection=connection), client)
        Propagator(client, settings=PropagatorSettings())


def _ours() -> set[Any]:
    registered = set(REGISTRY._collector_to_names)  # noqa: SLF001 - nothing public has it
    return {each for each in registered if isinstance(each, MetricWrapperBase | GaugeFunc)}


def _process(metric: Any) -> str:
    """Return the package whose module keeps the metric; a feature of the controller has its own."""
    packages = {
        name.partition(".")[0]
        for name, module in list(sys.modules.items())
        if any(value is metric for value in vars(module).values())
    }
    return next((each for each in _PROCESSES if each in packages), "controller")


def _metric(metric: Any) -> _Known:
    (family,) = metric.describe()
    labels = tuple(getattr(metric, "_labelnames", getattr(metric, "labels", ())))
    name = family.name + ("_total" if family.type == "counter" else "")
    shown = f"{name}{{{','.join(labels)}}}" if labels else name
    values: dict[str, list[str]] = {}
    for sample in next(iter(metric.collect())).samples:
        for label in labels:
            if sample.labels[label] not in values.setdefault(label, []):
                values[label].append(sample.labels[label])
    known = "; ".join(f"{label}: {', '.join(map(code, found))}" for label, found in values.items())
    return _Known(_process(metric), code(shown), family.type, known, sentence(family.documentation))


# --- rights ---------------------------------------------------------------------------------------


class _Role(NamedTuple):
    manifest: Mapping[str, Any]
    why: str
    reasons: list[str]
    """The comment above each rule; one holds until the next one."""


def rights() -> str:
    """Return the page of the roles on the hub."""
    roles = [
        role
        for name in ("rbac.yaml", "users.yaml")
        for document in re.split(r"(?m)^---\n", (DEPLOY / name).read_text(encoding="utf-8"))
        if (role := _role(document)).manifest["kind"] in ("Role", "ClusterRole")
    ]
    return page(
        "Rights on the hub",
        "The roles that `stowage install` makes there. [Members](../members.md) has those on a"
        " member, [Admission](../admission.md) those that authors of Workloads need.",
        map(_section, roles),
    )


def _section(role: _Role) -> str:
    rows = [
        [_each(rule, "apiGroups"), _resources(rule), _each(rule, "verbs"), why]
        for rule, why in zip(role.manifest["rules"], role.reasons, strict=True)
    ]
    listed = table(("groups", "resources", "verbs", "for"), rows)
    title = f"## {role.manifest['kind']} {role.manifest['metadata']['name']}"
    return "\n\n".join(filter(None, (title, role.why, listed)))


def _role(document: str) -> _Role:
    head, _, body = document.partition("\nrules:\n")
    why: list[str] = []
    reasons: list[str] = []
    open_comment = False
    for line in body.splitlines():
        if line.startswith("#"):
            why, open_comment = [*(why if open_comment else []), line], True
        elif line.startswith("- "):
            reasons.append(_words(why))
            open_comment = False
    return _Role(yaml.safe_load(document.replace("${", "$(")), _words(head.splitlines()), reasons)


def _words(lines: Iterable[str]) -> str:
    return " ".join(each.removeprefix("#").strip() for each in lines if each.startswith("#"))


def _each(rule: Mapping[str, Any], key: str) -> str:
    return ", ".join(code(each or "core") for each in rule.get(key, ()))


def _resources(rule: Mapping[str, Any]) -> str:
    names = _each(rule, "resourceNames")
    what = _each(rule, "resources") or _each(rule, "nonResourceURLs")
    return f"{what} named {names}" if names else what
