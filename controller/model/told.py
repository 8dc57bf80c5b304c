"""The fields of a Workload's status that plugins tell, as the controller reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ToldByPlugins(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of Workload.status that plugins tell; those of other packages below `plugins`."""

    policy_ref: dict[str, Any] | None = None
    overrides: list[Any] | None = None
    reservations: Any = None
    """Read by `controller.model.objects.ReservedShare.read`."""
    plugins: dict[str, dict[str, Any]] = {}

    def says(self, fields: Mapping[str, Any]) -> bool:
        """Whether the status has these fields, by their JSON names, as given."""
        return all(
            msgspec.to_builtins(getattr(self, TOLD_BY_PLUGINS[name])) == value
            for name, value in fields.items()
        )


TOLD_BY_PLUGINS: Mapping[str, str] = dict(
    zip(ToldByPlugins.__struct_encode_fields__, ToldByPlugins.__struct_fields__, strict=True)
)
"""The attribute of each of these fields by its JSON name."""
