"""Labels alone as a selector of clusters: the API server's half of `ClusterSelector`.

A structural schema that lets fields of any name in cannot say what they hold, and CEL of a CRD does
not see them. An admission policy sees all. Here is what the model refuses by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from crds.admission.policy import Manifest
from crds.base import QUALIFIED
from crds.fields.labels import SELECTOR_FIELDS, SELECTOR_TEXT

_LISTS = ("distributionWeights", "rollout.waves", "overrides")
"""The lists of a spec whose elements have a clusterSelector."""
_MOST_LABELS, _LONGEST = 64, 63


def cel_validations(spec: str, lists: tuple[str, ...] = _LISTS) -> list[Manifest]:
    """Return a rule for each field of a spec that is a selector of clusters."""
    own = _where(spec, "clusterSelector", "", _selects(f"{spec}.clusterSelector"))
    return [
        own,
        _where(spec, "suspend", ".clusterSelector", _selects(f"{spec}.suspend.clusterSelector")),
        *(_where(spec, each, "[].clusterSelector", _each(spec, each, _selects)) for each in lists),
    ]


def cel_plain(spec: str) -> str:
    """Whether all selectors are in order, as far as that is cheap to ask; for `plain`."""
    own = f"(!has({spec}.clusterSelector) || {_selects(f'{spec}.clusterSelector')})"
    weights = "distributionWeights"
    suspend = f"(!has({spec}.suspend) || {_usual(f'{spec}.suspend.clusterSelector')})"
    return f"{own} && {suspend} && (!has({spec}.{weights}) || {_each(spec, weights, _usual)})"


def _where(spec: str, path: str, within: str, holds: str) -> Manifest:
    first, _, rest = path.partition(".")
    given = f"has({spec}.{first})" + (f" && has({spec}.{path})" if rest else "")
    message = f"spec.{path}{within}: {SELECTOR_TEXT}"
    return {"expression": f"!({given}) || {holds}", "message": message}


def _each(spec: str, path: str, holds: Callable[[str], str]) -> str:
    return f"{spec}.{path}.all(e, {holds('e.clusterSelector')})"


def _usual(selector: str) -> str:
    return f"{selector}.all(k, k in {list(SELECTOR_FIELDS)})"


def _selects(selector: str) -> str:
    """Whether it has the fields of a selector alone, or labels alone."""
    value = f"{selector}[k]"
    label = (
        f"!(k in {list(SELECTOR_FIELDS)}) && type({value}) == string"
        f" && size({value}) <= {_LONGEST} && {value}.matches('^({QUALIFIED})?$')"
    )
    alone = f"size({selector}) <= {_MOST_LABELS} && {selector}.all(k, {label})"
    return f"({_usual(selector)} || ({alone}))"
