"""The promises of WorkloadPolicy, read from the numbers that the members run.

The members get labels of this file's own, so that its domains are not those of the examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Failed, Playground, deployment, steady, wait, workload

DOMAIN = "policy.example.com/domain"  # A: member-1; B: member-2; member-3 has no value
REGION = "policy.example.com/region"  # A: member-1 and member-2; B: member-3
COUNTED = "policy.example.com/counted"
LABELS = {
    "member-1": {DOMAIN: "A", REGION: "A"},
    "member-2": {DOMAIN: "B", REGION: "A"},
    "member-3": {REGION: "B"},
}
CRD = "workloadpolicies.stowage.dev"
RULES = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"


@pytest.fixture(scope="module", autouse=True)
def labels(playground: Playground) -> Iterator[None]:
    """Label the members."""
    hub = playground.hub
    for member, labels in LABELS.items():
        hub("label", "mc", member, "--overwrite", *(f"{k}={v}" for k, v in labels.items()))
    try:
        yield
    finally:
        for member, labels in LABELS.items():
            hub("label", "mc", member, *(f"{key}-" for key in labels))


def policy(
    name: str, namespace: str, domains: dict[str, int], *, key: str = DOMAIN, **spec: Any
) -> dict[str, Any]:
    """Return a policy over DOMAIN that counts the units with its name at COUNTED."""
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {COUNTED: name}},
            "allocationPolicy": [{"name": n, "replicas": r} for n, r in domains.items()],
            **spec,
        },
    }


def bound(name: str, namespace: str, replicas: int, *, to: str = "", **spec: Any) -> dict[str, Any]:
    """Return a Workload that the policy `to` binds and counts; by default the one of its name."""
    template = deployment(name)
    template["spec"]["template"]["metadata"]["labels"][COUNTED] = to or name
    made = workload(name, namespace, targetDeployment=template, replicas=replicas, **spec)
    made["metadata"]["labels"] = {"stowage.dev/workload-policy": to or name}
    return made


def deployed(playground: Playground, namespace: str, name: str) -> dict[str, int]:
    """Return spec.replicas of the Deployment on each member that has it."""
    found = {member: playground.seen(member, namespace, name) for member in playground.members}
    return {member: it["spec"]["replicas"] for member, it in found.items() if it}


def until_deployed(
    playground: Playground, namespace: str, name: str, shares: dict[str, int]
) -> None:
    """Wait for these shares on the members, and assert that the hub's status has the same."""
    wait(
        f"{name} to be {shares} on the members",
        lambda: deployed(playground, namespace, name) == shares,
        timeout=30,
    )
    assert playground.placements(namespace, name) == shares


def columns(playground: Playground, namespace: str, kind: str, name: str) -> dict[str, str]:
    """Return what kubectl prints for one object, by heading; a cell may be empty."""
    head, row = playground.hub("-n", namespace, "get", kind, name, "-o", "wide").splitlines()
    begin = [at for at, c in enumerate(head) if c != " " and (at == 0 or head[at - 1] == " ")]
    cells = [slice(a, b) for a, b in zip(begin, [*begin[1:], None], strict=True)]
    return {head[cell].strip(): row[cell].strip() for cell in cells}


def until_column(
    playground: Playground, namespace: str, kind: str, name: str, **cells: str
) -> None:
    """Wait until kubectl prints these cells."""
    wait(
        f"{kind} {name} to print {cells}",
        lambda: cells.items() <= columns(playground, namespace, kind, name).items(),
        timeout=30,
    )


def warnings(playground: Playground, namespace: str, name: str) -> list[dict[str, Any]]:
    """Return the Warning events on a Workload."""
    listed = playground.hub.items("events", namespace)
    return [e for e in listed if e["involvedObject"]["name"] == name and e["type"] == "Warning"]


@pytest.mark.long
@pytest.mark.proves("K2")
def test_eight_units_are_five_and_three(playground: Playground, namespace: str) -> None:
    playground.hub.apply(policy("web", namespace, {"A": 5, "B": 3}), bound("web", namespace, 8))
    status = playground.until_running(namespace, "web")
    assert status["placements"] == [
        {"cluster": "member-1", "replicas": 5},
        {"cluster": "member-2", "replicas": 3},
    ]
    assert (status["desired"], status["assigned"], status["pending"]) == (8, 8, 0)
    assert deployed(playground, namespace, "web") == {"member-1": 5, "member-2": 3}
    until_column(
        playground, namespace, "workloads", "web",
        STATE="Running", CLUSTERS="member-1=5,member-2=3", DESIRED="8", ASSIGNED="8", READY="8/8",
    )  # fmt: skip
    until_column(playground, namespace, "wlp", "web", ALLOCATED="A=5/5,B=3/3")

    playground.hub("-n", namespace, "scale", "wl/web", "--replicas=12")
    until_deployed(playground, namespace, "web", {"member-1": 7, "member-2": 5})
    playground.hub("-n", namespace, "scale", "wl/web", "--replicas=5")
    until_deployed(playground, namespace, "web", {"member-1": 3, "member-2": 2})


@pytest.mark.long
@pytest.mark.proves("K16")
def test_a_policy_that_comes_late_is_found(playground: Playground, namespace: str) -> None:
    """The policy comes ten seconds later, and the Workload is not touched."""
    playground.hub.apply(bound("web", namespace, 8))
    said = playground.until_condition(namespace, "web", "Scheduled", reason="PolicyNotFound")
    assert said["status"] == "False"
    assert f"workload-policy web does not exist in namespace {namespace}" in said["message"]
    until_column(
        playground, namespace, "workloads", "web",
        STATE="Pending", CLUSTERS="", DESIRED="8", ASSIGNED="0", PENDING="8",
    )  # fmt: skip
    steady(playground, "it waits", lambda: playground.placements(namespace, "web") == {})
    assert deployed(playground, namespace, "web") == {}
    before = playground.hub.get("wl", "web", namespace)
    playground.hub.apply(policy("web", namespace, {"A": 5, "B": 3}))
    wait(
        "the condition to flip",
        lambda: playground.condition(namespace, "web", "Scheduled")["status"] == "True",
        timeout=10,
    )
    until_deployed(playground, namespace, "web", {"member-1": 5, "member-2": 3})
    after = playground.hub.get("wl", "web", namespace)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["status"]["policyRef"] == {"name": "web"}


@pytest.mark.long
@pytest.mark.proves("K3")
def test_clusters_of_one_region_share_its_number(playground: Playground, namespace: str) -> None:
    """Each of A's clusters has one unit; with two more, on either cluster, A has its four."""
    playground.hub.apply(
        policy("web", namespace, {"A": 4}, key=REGION, allocationType="Required"),
        bound("left", namespace, 1, to="web", clusterSelector={DOMAIN: "A"}),
        bound("right", namespace, 1, to="web", clusterSelector={DOMAIN: "B"}),
    )
    until_deployed(playground, namespace, "left", {"member-1": 1})
    until_deployed(playground, namespace, "right", {"member-2": 1})
    playground.hub.apply(bound("web", namespace, 9))
    playground.until_condition(namespace, "web", "Scheduled", reason="ReplicasReached")
    status = playground.until_running(namespace, "web")
    assert (status["desired"], status["assigned"], status["pending"]) == (9, 2, 7)
    shares = playground.placements(namespace, "web")
    assert sum(shares.values()) == 2
    assert set(shares) <= {"member-1", "member-2"}
    until_deployed(playground, namespace, "web", shares)
    until_column(playground, namespace, "wlp", "web", ALLOCATED="A=4/4")


@pytest.mark.long
@pytest.mark.proves("K17")
def test_what_a_selector_excludes_is_neither_counted_nor_chosen(
    playground: Playground, namespace: str
) -> None:
    playground.hub.apply(
        policy("web", namespace, {"A": 3}, key=REGION, allocationType="Required"),
        bound("first", namespace, 3, to="web", clusterSelector={DOMAIN: "A"}),
    )
    until_deployed(playground, namespace, "first", {"member-1": 3})
    playground.hub.apply(
        bound("second", namespace, 5, to="web", clusterSelector={DOMAIN: "B"}),
    )
    playground.until_condition(namespace, "second", "Scheduled", reason="ReplicasReached")
    until_deployed(playground, namespace, "second", {"member-2": 3})
    assert playground.status(namespace, "second")["pending"] == 2
    until_column(playground, namespace, "wlp", "web", ALLOCATED="A=6/3")
    playground.hub.apply(bound("third", namespace, 1, to="web"))
    playground.until_condition(namespace, "third", "Scheduled", reason="ReplicasReached")
    assert deployed(playground, namespace, "third") == {}


@pytest.mark.long
@pytest.mark.proves("K17")
def test_a_policy_that_was_stored_wrong_is_named_and_heals(
    playground: Playground, namespace: str
) -> None:
    """The rule that refuses it is removed while it is stored, as in an older schema."""
    rules = playground.hub.json("get", "crd", CRD)["spec"]["versions"][0]["schema"]
    rules = rules["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    wrong = policy("web", namespace, {"A": 2}, allocationMethod="Fill", scheduleStrategy="Balance")
    assert "spec.scheduleStrategy" in playground.hub.refused(wrong)
    rule(playground, [])
    try:
        wait("the wrong policy to be stored", lambda: stored(playground, wrong), timeout=20)
        playground.hub.apply(bound("web", namespace, 2))
        said = playground.until_condition(namespace, "web", "Scheduled", reason="InvalidPolicy")
        wait(
            "the policy itself to say so",
            lambda: (
                judged(playground, namespace)
                == [("Ready", "False", "InvalidPolicy"), ("Stalled", "True", "InvalidPolicy")]
            ),
            timeout=20,
        )
    finally:
        rule(playground, rules)
    assert said["status"] == "False"
    assert "workload-policy web: spec.scheduleStrategy" in said["message"]
    assert deployed(playground, namespace, "web") == {}
    playground.hub.apply(
        policy("web", namespace, {"A": 2}, allocationMethod="Fill", scheduleStrategy="Fill")
    )
    until_deployed(playground, namespace, "web", {"member-1": 2})
    wrong["metadata"]["name"] = "another"
    wait("the rule to be back", lambda: not stored(playground, wrong), timeout=20)


def judged(playground: Playground, namespace: str) -> list[tuple[str, str, str]]:
    """Return (type, status, reason) of the policy's conditions."""
    found = playground.hub.get("wlp", "web", namespace)["status"]["conditions"]
    return [(c["type"], c["status"], c["reason"]) for c in found]


def stored(playground: Playground, thing: dict[str, Any]) -> bool:
    """Return whether the hub accepts it."""
    try:
        return bool(playground.hub.apply(thing))
    except Failed:
        return False


def rule(playground: Playground, rules: list[dict[str, Any]]) -> None:
    """Replace the validation rules of the kind."""
    patch = json.dumps([{"op": "replace", "path": RULES, "value": rules}])
    playground.hub("patch", "crd", CRD, "--type=json", "-p", patch)


@pytest.mark.long
@pytest.mark.proves("K21")
def test_units_that_the_policy_does_not_mean_are_refused_and_said_so(
    playground: Playground, namespace: str
) -> None:
    stray = bound("stray", namespace, 2)
    stray["metadata"]["labels"] = {"stowage.dev/workload-policy": "web"}
    playground.hub.apply(policy("web", namespace, {"A": 5, "B": 3}))
    # Until the controller has read the policy.
    until_column(playground, namespace, "wlp", "web", ALLOCATED="A=0/5,B=0/3")
    playground.hub.apply(stray)
    status = playground.until_state(namespace, "stray", "Failed")
    said = playground.condition(namespace, "stray", "Scheduled")
    assert (said["status"], said["reason"]) == ("False", "FailedToSchedule")
    assert said["message"] == "0/3 clusters: 3 didn't match the workload-policy constraints"
    assert status.get("placements", []) == []
    assert deployed(playground, namespace, "stray") == {}
    wait("the event", lambda: warnings(playground, namespace, "stray"))
    described = playground.hub("-n", namespace, "describe", "wl", "stray").splitlines()
    (line,) = [each for each in described if "FailedScheduling" in each]
    assert line.split()[:2] == ["Warning", "FailedScheduling"]
    assert line.endswith("3 didn't match the workload-policy constraints")


@pytest.mark.long
@pytest.mark.proves("K22", "K26")
def test_one_event_names_what_is_full_and_a_preference_refuses_nothing(
    playground: Playground, namespace: str
) -> None:
    """Six units over one and three, by Fill: four and an event, or two and four and none."""
    numbers = {"A": 1, "B": 3}
    playground.hub.apply(
        policy("hard", namespace, numbers, allocationType="Required", allocationMethod="Fill"),
        policy("soft", namespace, numbers),
    )
    for name in ("hard", "soft"):  # heard of: no event tells that there is none
        until_column(playground, namespace, "wlp", name, ALLOCATED="A=0/1,B=0/3")
    playground.hub.apply(bound("hard", namespace, 6), bound("soft", namespace, 6))
    text = "workload-policy hard reached A (1/1), B (3/3)"
    said = playground.until_condition(namespace, "hard", "Scheduled", reason="ReplicasReached")
    assert text in said["message"]
    until_deployed(playground, namespace, "hard", {"member-1": 1, "member-2": 3})
    until_column(
        playground, namespace, "workloads", "hard",
        STATE="Running", CLUSTERS="member-1=1,member-2=3",
        DESIRED="6", ASSIGNED="4", PENDING="2", READY="4/6",
    )  # fmt: skip
    until_deployed(playground, namespace, "soft", {"member-1": 2, "member-2": 4})
    until_column(
        playground, namespace, "workloads", "soft",
        STATE="Running", CLUSTERS="member-1=2,member-2=4",
        DESIRED="6", ASSIGNED="6", PENDING="0", READY="6/6",
    )  # fmt: skip
    assert playground.condition(namespace, "soft", "Scheduled")["status"] == "True"
    (event,) = wait("the event", lambda: warnings(playground, namespace, "hard"))
    assert event["reason"] == "FailedScheduling"
    assert text in event["message"]
    assert warnings(playground, namespace, "soft") == []


@pytest.fixture
def elsewhere(playground: Playground, namespace: str) -> Iterator[str]:
    """Yield another namespace than the test's own."""
    other = f"{namespace}-other"
    playground.hub("create", "namespace", other)
    yield other
    playground.hub("-n", other, "delete", "wl", "--all", timeout=120)
    playground.hub("delete", "namespace", other, "--wait=false")


@pytest.mark.long
@pytest.mark.proves("K33")
def test_what_is_on_its_way_out_or_in_another_namespace_is_not_counted(
    playground: Playground, namespace: str, elsewhere: str
) -> None:
    """A foreign finalizer holds the Deployment, and with it the Workload."""
    member = playground.members["member-1"]
    for space in (elsewhere, namespace):
        playground.hub.apply(
            policy("web", space, {"A": 3}, allocationType="Required"),
            bound("first", space, 3, to="web"),
        )
        until_deployed(playground, space, "first", {"member-1": 3})
    playground.hub.apply(bound("second", namespace, 2, to="web"))
    playground.until_condition(namespace, "second", "Scheduled", reason="ReplicasReached")
    assert playground.placements(namespace, "second") == {}
    hold = ("-n", namespace, "patch", "deploy", "first", "--type=merge", "-p")
    member(*hold, '{"metadata":{"finalizers":["example.com/held"]}}')
    try:
        playground.hub("-n", namespace, "delete", "wl", "first", "--wait=false")
        wait(
            "its quota to be free",
            lambda: playground.placements(namespace, "second") == {"member-1": 2},
            timeout=10,
        )
        until_deployed(playground, namespace, "second", {"member-1": 2})
        until_column(playground, namespace, "wlp", "web", ALLOCATED="A=2/3")
        for held in (
            playground.hub.get("wl", "first", namespace),
            playground.seen("member-1", namespace, "first") or {},
        ):
            assert held["metadata"]["deletionTimestamp"]
    finally:
        member(*hold, '{"metadata":{"finalizers":null}}')
    until_column(playground, elsewhere, "wlp", "web", ALLOCATED="A=3/3")


@pytest.mark.long
@pytest.mark.proves("K29")
def test_an_edited_policy_moves_nothing_by_itself(playground: Playground, namespace: str) -> None:
    """By Fill the units of B, the last to come, would go first: were not A over its number."""
    stands = {"member-1": 3, "member-2": 3}
    hard = {"allocationType": "Required", "allocationMethod": "Fill"}
    playground.hub.apply(
        policy("ratio", namespace, {"A": 3, "B": 3}, **hard), bound("ratio", namespace, 6)
    )
    until_deployed(playground, namespace, "ratio", stands)
    playground.hub.apply(policy("ratio", namespace, {"A": 1, "B": 4}, **hard))
    until_column(playground, namespace, "wlp", "ratio", ALLOCATED="A=3/1,B=3/4")
    steady(
        playground,
        "three and three",
        lambda: playground.placements(namespace, "ratio") == stands,
    )
    assert deployed(playground, namespace, "ratio") == stands
    for member in stands:
        found = playground.seen(member, namespace, "ratio") or {}
        assert found["metadata"]["generation"] == 1, "nobody wrote there in between"

    playground.hub("-n", namespace, "scale", "wl/ratio", "--replicas=4")
    until_deployed(playground, namespace, "ratio", {"member-1": 1, "member-2": 3})
    playground.hub("-n", namespace, "scale", "wl/ratio", "--replicas=5")
    until_deployed(playground, namespace, "ratio", {"member-1": 1, "member-2": 4})
    until_column(playground, namespace, "wlp", "ratio", ALLOCATED="A=1/1,B=4/4")
