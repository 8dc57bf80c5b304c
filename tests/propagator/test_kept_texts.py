"""Which texts of a Workload are kept once: all; for good: those of a fixed number alone."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from propagator.types.kept import kept
from propagator.types.workload import Workload

BODY = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "a-namespace", "uid": "u"},
    "spec": {"schedulerName": "stowage"},
    "status": {
        "readySummary": "3/7",
        "clusters": [{"name": "paris", "state": "Running", "message": "as nobody said before"}],
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "ReplicasNotReady",
                "message": "3 of 7 are ready",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
}
FIXED = {"Workload", "stowage.dev/v1alpha1"}


@pytest.mark.proves("B8")
def test_no_message_and_no_time_is_kept_for_as_long_as_the_process_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interned: set[str] = set()

    def intern(text: str) -> str:
        interned.add(text)
        return text

    raw = msgspec.json.encode(BODY)
    decoder: Any = msgspec.json.Decoder(Workload)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "intern", intern)
        one, two = kept(decoder.decode(raw)), kept(decoder.decode(raw))
    enums = {one.spec.adoption, one.spec.drift, one.spec.on_delete, one.spec.delivery}
    assert interned <= FIXED | enums | {one.spec.dependencies}
    assert one.status.conditions[0].message is two.status.conditions[0].message
    assert one.status.clusters[0]["message"] is two.status.clusters[0]["message"]


@pytest.mark.proves("B8")
def test_nothing_kept_holds_the_page_that_it_came_with() -> None:
    """A Raw of an answer is a view of it, and keeps all Workloads of that page."""
    some = {"apiVersion": "apps/v1", "kind": "Deployment"}
    spec = {
        "targetDeployment": some,
        "targetService": some,
        "template": some,
        "manifests": [some],
        "overrides": [some],
        "rollout": some,
    }
    said = {"overrides": [some], "revisions": [some]}
    raw = msgspec.json.encode({**BODY, "spec": spec, "status": said})
    one = kept(msgspec.json.decode(raw, type=Workload))
    fields = [
        getattr(part, name) for part in (one.spec, one.status) for name in part.__struct_fields__
    ]
    found = [each for each in (*fields, *one.spec.manifests) if isinstance(each, msgspec.Raw)]
    assert len([each for each in found if bytes(each)]) == len(spec) + len(said)
    assert all(each.copy() is each for each in found)
