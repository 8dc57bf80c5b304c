"""A render with eight overrides and the images of a cluster, beside one without, and a plain loop.

    uv run python -m benchmarks.overrides [--clusters 1000] [--rounds 5]

One Workload is rendered for each cluster, as the propagator does before it writes to it: without
overrides; with eight, of which a cluster matches four on average, and two rules of images; and as a
plain loop would lay the same four patches, by the JSON patch library and a recursive merge, with
none of the checks and no digest. Rounds take turns, the least time of each counts, and the ratios
are those of one run. Prints how many distinct bodies the clusters get.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonpatch

from benchmarks.ground import deployment
from crds.names import LABEL_WORKLOAD_UID
from machinery.overrides.variables import ClusterFacts
from machinery.types.api import ImageRule
from propagator.apply.render import MemberFacts, Piece, render
from propagator.types.workload import Workload, workload_of

Body = dict[str, Any]
REGIONS, TIERS = ("eu", "us", "ap", "sa"), ("edge", "core")


def _args(text: str) -> Body:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "args": [text]}]}}}}


def overrides() -> list[Body]:
    """Return one for each region, one for each tier, and two for all."""
    merged = [
        {
            "name": region,
            "clusterSelector": {"matchLabels": {"region": region}},
            "patch": _args(f"--region={region}"),
        }
        for region in REGIONS
    ]
    operation = {"op": "add", "path": "/metadata/labels/tier", "value": ""}
    patched = [
        {
            "name": tier,
            "clusterSelector": {"matchLabels": {"tier": tier}},
            "jsonPatch": [{**operation, "value": tier}],
        }
        for tier in TIERS
    ]
    labels = {"spec": {"template": {"metadata": {"labels": {"fleet": "yes"}}}}}
    paused = [{"op": "add", "path": "/spec/paused", "value": False}]
    everywhere: list[Body] = [
        {"name": "fleet", "clusterSelector": {}, "patch": labels},
        {"name": "paused", "clusterSelector": {}, "jsonPatch": paused},
    ]
    return [*merged, *patched, *everywhere]


def workload(laid: Sequence[Body]) -> Workload:
    template = deployment("web", 3)
    template["metadata"]["labels"] = {"app": "web"}
    meta = {"name": "web", "namespace": "shop", "uid": "u-1"}
    spec = {"targetDeployment": template, "overrides": [*laid]}
    return workload_of({"metadata": meta, "spec": spec})


def member(number: int, images: Sequence[ImageRule]) -> MemberFacts:
    labels = {"region": REGIONS[number % len(REGIONS)], "tier": TIERS[number % len(TIERS)]}
    return MemberFacts(
        ClusterFacts.of(f"m{number}", labels, provider="", version=""), images, hub="h"
    )


def rendered(about: Workload, where: MemberFacts) -> Piece:
    (piece,) = render(about, replicas=3, first_ordinal=0, secrets=[], member=where)
    return piece


def plain(template: Mapping[str, Any], laid: Sequence[Body], where: MemberFacts) -> Body:
    """Lay the patches whose labels match as a script would."""
    body: Body = copy.deepcopy(dict(template))
    labels = where.facts.labels
    for each in laid:
        wanted = each["clusterSelector"].get("matchLabels", {})
        if any(labels.get(key) != text for key, text in wanted.items()):
            continue
        if "patch" in each:
            _merge(body, each["patch"])
        else:
            body = jsonpatch.apply_patch(body, each["jsonPatch"])
    body["spec"]["replicas"] = 3
    body["spec"]["template"]["metadata"]["labels"][LABEL_WORKLOAD_UID] = "u-1"
    return body


def _merge(body: Any, patch: Any) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(body.get(key), dict):
            _merge(body[key], value)
        elif key == "containers":
            for container in value:
                named = [c for c in body[key] if c["name"] == container["name"]]
                named[0].update(container)
        else:
            body[key] = copy.deepcopy(value)


def least(rounds: int, ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least seconds of each, over so many rounds that take turns."""
    took = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            took[name] = min(took[name], time.perf_counter() - began)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    laid, bare = workload(overrides()), workload([])
    images = [ImageRule("docker.io", "registry.eu"), ImageRule("nginx", "registry.eu/nginx")]
    there = [member(number, ()) for number in range(given.clusters)]
    with_images = [member(number, images) for number in range(given.clusters)]
    template = bare.template
    took = least(
        given.rounds,
        {
            "without": lambda: [rendered(bare, each) for each in there],
            "with": lambda: [rendered(laid, each) for each in with_images],
            "plain loop": lambda: [plain(template, overrides(), each) for each in there],
        },
    )
    each = {name: seconds / given.clusters * 1e6 for name, seconds in took.items()}
    distinct = {rendered(laid, where).digest for where in with_images}
    dear, cheap, naive = each["with"], each["without"], each["plain loop"]
    print(f"{given.clusters} clusters, {len(distinct)} distinct bodies")
    print(f"  without overrides: {cheap:.0f} µs a render")
    print(f"  8 overrides and images: {dear:.0f} µs, {dear / cheap:.1f} times that")
    print(f"  a plain loop: {naive:.0f} µs; ours takes {dear / naive:.1f} times as long")


if __name__ == "__main__":
    main()
