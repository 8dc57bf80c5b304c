"""A ResourceInterpreterCustomization becomes a WorkloadKind where its scripts are only paths.

No script is run. A script that reads fields, and returns them, is known by its form; one that does
anything else is lost by name, and nothing is guessed of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crds.names import API_VERSION, RESERVED_GROUPS

Json = Mapping[str, Any]
_PATH = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+"
_HEAD = re.compile(
    r"\s*(?:local\s+kube\s*=\s*require\(\s*[\"']kube[\"']\s*\)\s*)?"
    r"function\s+([A-Za-z]+)\s*\(([^)]*)\)\s*(.*?)\s*end\s*",
    re.DOTALL,
)
_STATEMENT = re.compile(
    rf"(?:local\s+)?([A-Za-z_][\w.]*)\s*=\s*"
    rf"(?:kube\.accuratePodRequirements\(\s*({_PATH})\s*\)|({_PATH}|[A-Za-z_]\w*))\s*"
)
_RETURN = re.compile(rf"return\s+((?:{_PATH}|[A-Za-z_]\w*)(?:\s*,\s*(?:{_PATH}|[A-Za-z_]\w*))*)\s*")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(slots=True)
class Script:
    """A script that only moves values between paths: what it assigns, and what it returns."""

    assigned: dict[str, str]
    required: dict[str, str]
    """Names that hold the requirements of a pod template, with its path."""
    returned: list[str]
    arguments: list[str]

    def path(self, name: str) -> str:
        """Return the path behind a name, without the argument that it begins with."""
        found = self.assigned.get(name, name)
        root, dot, rest = found.partition(".")
        return rest if dot and root in self.arguments else ""


def read(text: str) -> Script | None:
    """Return a script that is only paths; None for any other."""
    found = _HEAD.fullmatch(_COMMENT.sub("", text))
    if found is None:
        return None
    script = Script({}, {}, [], [each.strip() for each in found[2].split(",")])
    rest = found[3]
    while rest:
        if script.returned:
            return None
        if (said := _RETURN.match(rest)) is not None:
            script.returned = [each.strip() for each in said[1].split(",")]
        elif (said := _STATEMENT.match(rest)) is not None and said[1] != "return":
            if said[2]:
                script.required[said[1]] = said[2]
            else:
                script.assigned[said[1]] = said[3]
        else:
            return None
        rest = rest[said.end() :]
    return script if script.returned else None


def kind_of(spec: Json) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the WorkloadKind of a customization, and the scripts that it comes of, with a field.

    None where the scripts say nothing that a WorkloadKind could.
    """
    target = spec.get("target") or {}
    group, _, version = str(target.get("apiVersion") or "").rpartition("/")
    kind = str(target.get("kind") or "")
    said = {name: read(text) for name, text in _scripts(spec)}
    made: dict[str, Any] = {"group": group, "kind": kind, "versions": [version]}
    used: dict[str, str] = {}
    _replicas(said, made, used)
    if not used or not group or group in RESERVED_GROUPS:
        return None, {}
    name = f"{kind.lower()}.{group}"
    body = {"apiVersion": API_VERSION, "kind": "WorkloadKind", "metadata": {"name": name}}
    return {**body, "spec": made}, used


def _scripts(spec: Json) -> Iterator[tuple[str, str]]:
    for name, rule in (spec.get("customizations") or {}).items():
        text = (rule or {}).get("luaScript")
        if isinstance(text, str) and text.strip():
            yield name, text


def _replicas(
    said: Mapping[str, Script | None], made: dict[str, Any], used: dict[str, str]
) -> None:
    """Take the number of replicas, and the template of their pods, where both scripts agree."""
    reads, writes = said.get("replicaResource"), said.get("replicaRevision")
    if reads is None or not 1 <= len(reads.returned) <= 2:
        return
    path = reads.path(reads.returned[0])
    if not path.startswith("spec."):
        return
    if "replicaRevision" in said and not _writes(writes, path):
        return
    template = ""
    if len(reads.returned) == 2:
        name = reads.returned[1]
        whole = reads.required.get(name, "")
        template = whole.partition(".")[2] if whole.partition(".")[0] in reads.arguments else ""
        if not template and name != "nil" and reads.assigned.get(name) != "nil":
            return
    made["replicas"] = {"path": path}
    used["replicaResource"] = "spec.replicas"
    if writes is not None:
        used["replicaRevision"] = "spec.replicas.path"
    if template.startswith("spec."):
        made["pods"] = [{"template": template}]


def _writes(script: Script | None, path: str) -> bool:
    """Whether a script writes the number that it is given to that path, and nothing else."""
    if script is None or len(script.arguments) != 2:
        return False
    given, number = script.arguments
    return script.assigned == {f"{given}.{path}": number} and script.returned == [given]
