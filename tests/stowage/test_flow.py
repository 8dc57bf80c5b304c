"""Our Leases and agents on a hub whose queues a tenant, or one of the agents, fills."""

from __future__ import annotations

import pytest

from stowage.setup import install


@pytest.mark.proves("SC30")
def test_the_leases_of_both_processes_go_with_the_leaders() -> None:
    objects = install.manifests(namespace="elsewhere", image="stowage:9")
    (schema,) = [
        each["spec"]
        for each in objects
        if each["kind"] == "FlowSchema" and each["metadata"]["name"] == "stowage"
    ]
    assert schema["priorityLevelConfiguration"] == {"name": "leader-election"}
    assert schema["matchingPrecedence"] < 9000, "the server's own for all accounts"
    (rule,) = schema["rules"]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    named = [each["serviceAccount"] for each in rule["subjects"]]
    assert {each["namespace"] for each in named} == {"elsewhere"}
    assert {each["name"] for each in named} == {"stowage-controller", "stowage-propagator"}
    assert {each["name"] for each in named} <= accounts
    (what,) = rule["resourceRules"]
    assert (what["resources"], what["namespaces"]) == (["leases"], ["elsewhere"])


@pytest.mark.proves("PL18")
def test_an_agent_has_a_queue_of_its_own_and_no_seat_of_others() -> None:
    (schema,) = [
        each["spec"]
        for each in install.manifests(namespace="elsewhere", image="stowage:9")
        if each["kind"] == "FlowSchema" and each["metadata"]["name"] == "stowage-agents"
    ]
    assert schema["priorityLevelConfiguration"] == {"name": "workload-low"}
    assert schema["distinguisherMethod"] == {"type": "ByUser"}
    assert schema["matchingPrecedence"] < 9000, "the server's own for all accounts"
    (rule,) = schema["rules"]
    assert rule["subjects"] == [{"kind": "Group", "group": {"name": "system:serviceaccounts"}}]
    (what,) = rule["resourceRules"]
    assert (what["apiGroups"], what["resources"], what["verbs"]) == (["stowage.dev"], ["*"], ["*"])
