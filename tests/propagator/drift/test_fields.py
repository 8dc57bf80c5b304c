"""Which fields somebody else has changed, told from an object with its managedFields."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from crds.names import FIELD_MANAGER
from propagator.drift.fields import (
    MISSING,
    FieldDrift,
    applied,
    digest_of,
    drifted,
    dropped,
    note_of,
    noted_in,
    path_of,
    value_at,
    without,
)

NAME = 'k:{"name":"main"}'
PORT = 'k:{"containerPort":80,"protocol":"TCP"}'
IMAGE = ("spec", "template", "spec", "containers", {"name": "main"}, "image")

BODY: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "labels": {"team": "shop", "stowage.dev/managed": "true"},
        "annotations": {"owner.stowage.dev/1": "shop/web"},
    },
    "spec": {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "nginx:1",
                        "args": ["a", "b"],
                        "ports": [{"containerPort": 80}],
                        "env": [{"name": "TOKEN", "value": "sesame"}],
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ]
            }
        },
    },
}
OURS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:team": {}, "f:stowage.dev/managed": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    NAME: {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {PORT: {".": {}, "f:containerPort": {}}},
                        "f:env": {
                            'k:{"name":"TOKEN"}': {".": {}, "f:name": {}, "f:value": {}},
                        },
                        "f:resources": {"f:requests": {"f:cpu": {}}},
                    }
                }
            }
        },
    },
}


def entry(fields: dict[str, Any], manager: str = "kubectl-edit", **more: str) -> dict[str, Any]:
    said = {"operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-02T03:04:05Z"}
    return {"manager": manager, **said, **more, "fieldsV1": fields}


class Live:
    """The object as our apply left it, and what others do to it then."""

    def __init__(self) -> None:
        self.body = copy.deepcopy(BODY)
        self.body["spec"]["progressDeadlineSeconds"] = 600  # a default
        self.container["ports"][0]["protocol"] = "TCP"
        self.ours = copy.deepcopy(OURS)
        self.others: list[dict[str, Any]] = []

    @property
    def container(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["spec"]["template"]["spec"]["containers"][0]
        return found

    @property
    def our_container(self) -> dict[str, Any]:
        spec = self.ours["f:spec"]["f:template"]["f:spec"]
        found: dict[str, Any] = spec["f:containers"][NAME]
        return found

    def taken(self, fields: dict[str, Any], **by: str) -> None:
        spec = {"f:spec": {"f:template": {"f:spec": {"f:containers": {NAME: fields}}}}}
        self.others.append(entry(spec, **by))

    def drift(self, body: dict[str, Any] = BODY) -> list[FieldDrift]:
        ours = entry(self.ours, FIELD_MANAGER, operation="Apply")
        meta = {**self.body["metadata"], "managedFields": [ours, *self.others]}
        return drifted(body, {**self.body, "metadata": meta})


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.mark.proves("X3")
def test_what_stands_and_what_others_add_is_no_drift(live: Live):
    live.body["metadata"]["labels"]["more"] = "yes"
    live.body["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "x"})
    live.taken({"f:terminationMessagePath": {}})
    assert live.drift() == []


@pytest.mark.proves("X1")
def test_a_changed_field_is_told_with_path_both_values_and_who(live: Live):
    live.container["image"] = "nginx:2"
    del live.our_container["f:image"]
    live.taken({"f:image": {}}, manager="long-ago", time="2025-01-01T00:00:00Z")
    live.taken({"f:image": {}})
    assert [each.told("Deployment") for each in live.drift()] == [
        {
            "path": "spec.template.spec.containers[main].image",
            "hub": "nginx:1",
            "member": "nginx:2",
            "manager": "kubectl-edit",
        }
    ]


@pytest.mark.proves("X1")
def test_items_are_told_apart_by_their_keys_though_the_body_leaves_out_a_default(live: Live):
    body = copy.deepcopy(BODY)
    ports = body["spec"]["template"]["spec"]["containers"][0]["ports"]
    ports.append({"containerPort": 443})
    live.container["ports"][0]["containerPort"] = 443
    live.our_container["f:ports"] = {PORT.replace("80", "443"): {".": {}, "f:containerPort": {}}}
    [port] = live.drift(body)
    assert port.steps[-1] == {"containerPort": 80}
    assert port.found is MISSING
    assert port.told("Deployment")["path"].endswith("ports[80]")


@pytest.mark.proves("X1")
def test_a_removed_label_and_a_removed_item_are_told(live: Live):
    del live.body["metadata"]["labels"]["team"]
    del live.ours["f:metadata"]["f:labels"]["f:team"]
    live.container["env"] = []
    del live.our_container["f:env"]
    told = [each.told("Deployment") for each in live.drift()]
    assert [each["path"] for each in told] == [
        "spec.template.spec.containers[main].env",
        "metadata.labels.team",
    ]
    assert told[1] == {
        "path": "metadata.labels.team",
        "hub": "shop",
        "member": "",
        "manager": "",
    }


def test_a_list_that_the_server_owns_as_a_whole_is_one_field(live: Live):
    live.container["args"] = ["a"]
    del live.our_container["f:args"]
    [args] = live.drift()
    assert args.told("Deployment")["hub"] == "", "a whole list is named, not shown"


@pytest.mark.parametrize("empty", [None, [], {}])
def test_what_a_server_does_not_keep_is_no_drift(live: Live, empty: Any):
    body = copy.deepcopy(BODY)
    body["spec"]["tolerations"] = empty
    assert live.drift(body) == []


@pytest.mark.proves("RB7")
def test_null_in_a_map_of_texts_is_stored_as_an_empty_text_and_no_drift(live: Live):
    body = copy.deepcopy(BODY)
    pods = {"example.com/who": None}
    body["spec"]["template"]["metadata"] = {
        **body["spec"]["template"].get("metadata", {}),
        "annotations": pods,
    }
    stored = live.body["spec"]["template"].setdefault("metadata", {})
    stored["annotations"] = {"example.com/who": ""}
    assert live.drift(body) == []


def test_what_somebody_took_and_set_back_is_no_drift(live: Live):
    del live.our_container["f:resources"]
    live.container["resources"]["limits"] = {"cpu": "2"}  # added by others
    live.taken({"f:resources": {"f:requests": {"f:cpu": {}}}})
    assert live.drift() == []


@pytest.mark.proves("X2")
@pytest.mark.parametrize(
    ("manager", "scaled"), [("kube-controller-manager", True), ("kubectl", False)]
)
def test_an_autoscaler_is_told_from_a_person_that_scales(live: Live, manager: str, scaled: bool):
    live.body["spec"]["replicas"] = 5
    del live.ours["f:spec"]["f:replicas"]
    live.others.append(entry({"f:spec": {"f:replicas": {}}}, manager, subresource="scale"))
    [replicas] = live.drift()
    assert replicas.scaled is scaled
    assert replicas.told("Deployment")["manager"] == f"{manager} (scale)"


@pytest.mark.proves("X4")
def test_no_value_is_told_that_may_be_secret(live: Live):
    live.container["env"][0]["value"] = "changed"
    del live.our_container["f:env"]['k:{"name":"TOKEN"}']["f:value"]
    [token] = [each.told("Deployment") for each in live.drift()]
    assert token["path"].endswith("env[TOKEN].value")
    assert (token["hub"], token["member"]) == ("", "")
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a.key": "c2VzYW1l"}}
    ours = entry({"f:data": {"f:other": {}}}, FIELD_MANAGER, operation="Apply")
    there = {**secret, "data": {"a.key": "b3BlbmVk"}, "metadata": {"managedFields": [ours]}}
    [key] = [each.told("Secret") for each in drifted(secret, there)]
    assert key == {"path": "data[a.key]", "hub": "", "member": "", "manager": ""}


@pytest.mark.parametrize("spoilt", [None, [], [{}], "all", [{"manager": "x", "fieldsV1": 7}]])
def test_an_object_whose_entries_say_nothing_has_no_drift_that_is_known(spoilt: Any):
    assert drifted(BODY, {**BODY, "metadata": {"managedFields": spoilt}}) == []


@pytest.mark.proves("X2")
def test_a_body_without_a_field_is_whole_but_for_that(live: Live):
    left = [IMAGE, ("spec", "template", "spec", "containers", {"name": "main"}, "resources")]
    body = without(BODY, left)
    assert value_at(body, IMAGE) is MISSING
    assert value_at(body, (*IMAGE[:-1], "args")) == ["a", "b"]
    assert value_at(BODY, IMAGE) == "nginx:1", "the other one is as before"
    assert "resources" not in body["spec"]["template"]["spec"]["containers"][0]
    assert without(BODY, []) is BODY
    whole = without(BODY, [IMAGE[:-1]])
    assert whole["spec"] == {"replicas": 3}, "an empty list would be an apply of it"


@pytest.mark.proves("X2")
def test_a_field_is_left_though_the_body_leaves_out_a_default_of_its_keys(live: Live):
    body = copy.deepcopy(BODY)
    ports = body["spec"]["template"]["spec"]["containers"][0]["ports"]
    ports[0]["name"] = "http"
    ports.append({"containerPort": 80, "protocol": "UDP", "name": "quic"})
    live.container["ports"] = [
        {"containerPort": 80, "protocol": "TCP", "name": "web"},
        {"containerPort": 80, "protocol": "UDP", "name": "quic"},
    ]
    udp = {".": {}, "f:containerPort": {}, "f:protocol": {}, "f:name": {}}
    live.our_container["f:ports"][PORT.replace("TCP", "UDP")] = udp
    live.taken({"f:ports": {PORT: {"f:name": {}}}})
    [name] = live.drift(body)
    assert (name.wanted, name.found) == ("http", "web")
    assert value_at(body, name.steps) == "http"
    left = without(body, [name.steps])["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert left == [{"containerPort": 80}, ports[1]]


@pytest.mark.proves("X2")
def test_a_note_survives_and_tells_whether_the_value_is_wanted_still():
    [(steps, digest)] = noted_in(note_of(BODY, [IMAGE]))
    assert steps == IMAGE
    assert digest == digest_of("nginx:1")
    edited = json.loads(json.dumps(BODY).replace("nginx:1", "nginx:3"))
    assert digest != digest_of(value_at(edited, steps))
    assert digest_of(value_at(edited, ("spec", "none"))) == ""


NEVER_LEFT = [
    json.dumps([[steps, "x"]])
    for steps in (
        ["metadata"],
        ["metadata", "name"],
        ["metadata", "labels"],
        ["metadata", "labels", "stowage.dev/managed"],
        ["metadata", "annotations", "owner.stowage.dev/1"],
        ["kind"],
        ["spec"],
        ["status", "replicas"],
        [{"name": "x"}, "y"],
    )
]


@pytest.mark.parametrize(
    "text", ["", "{", "[[]]", "[[1, 2]]", '[[[], "x"]]', "[" * 100_000, *NEVER_LEFT]
)
def test_a_spoilt_note_says_nothing(text: str):
    assert noted_in(text) == []


def test_paths_are_bounded_and_readable():
    assert path_of(("data", "a/b c")) == "data[a/b c]"
    assert len(path_of(("x" * 5000,))) <= 1024


@pytest.mark.proves("B2")
def test_what_our_applies_own_is_the_body_that_they_had() -> None:
    live = Live()
    # Neither a default nor what somebody else has.
    body = {"metadata": {"labels": BODY["metadata"]["labels"]}, "spec": BODY["spec"]}
    live.body["spec"]["paused"] = True
    live.container["env"].append({"name": "MORE", "value": "theirs"})
    live.our_container["f:ports"] = {PORT: {".": {}, "f:containerPort": {}}}
    ours = entry(live.ours, FIELD_MANAGER, operation="Apply")
    live.body["metadata"]["managedFields"] = [ours, entry({"f:spec": {"f:paused": {}}})]
    assert applied(live.body) == body
    assert applied({"metadata": {"managedFields": [entry({"f:spec": {}})]}}) == {}
    assert applied({"metadata": {"managedFields": "spoilt"}}) == {}


def answered(sent: dict[str, Any]) -> dict[str, Any]:
    """The answer to an apply, with a default."""
    answer = copy.deepcopy(sent)
    answer["metadata"]["managedFields"] = [entry(OURS, FIELD_MANAGER, operation="Apply")]
    [main] = answer["spec"]["template"]["spec"]["containers"]
    main["ports"][0]["protocol"] = "TCP"
    return answer


@pytest.mark.proves("RB8")
def test_what_an_apply_sent_and_its_answer_lacks_was_dropped_whoever_is_said_to_own_it():
    sent = copy.deepcopy(BODY)
    [main] = sent["spec"]["template"]["spec"]["containers"]
    main |= {"stopSignal": "SIGUSR1", "tty": False, "lifecycle": {"preStop": {}}}
    main["command"] = ["sh", {"odd": "x"}]
    sent["spec"]["paused"] = None
    answer = answered(sent)
    answer["spec"]["template"]["spec"]["containers"].insert(0, {"name": "sidecar"})
    assert dropped(sent, answer, "v1") == []
    there = answer["spec"]["template"]["spec"]["containers"][1]
    there["resources"]["requests"]["cpu"] = "1000m"  # as a server may spell it
    for field in ("tty", "lifecycle"):
        del there[field]  # empty or false: left out of any answer
    del answer["spec"]["paused"]
    assert dropped(sent, answer, "v1") == []

    del there["stopSignal"]
    del there["env"][0]["value"]
    del there["command"][1]["odd"]
    found = {path_of(each.steps): each for each in dropped(sent, answer, "its API server v1.35.1")}
    main_path = "spec.template.spec.containers[main]"
    lost = {"stopSignal", "env[TOKEN].value", "command[1].odd"}
    assert found.keys() == {f"{main_path}.{each}" for each in lost}
    assert found[f"{main_path}.stopSignal"].told("Deployment") == {
        "path": f"{main_path}.stopSignal",
        "hub": "SIGUSR1",
        "member": "",
        "manager": "its API server v1.35.1",
    }
    assert found[f"{main_path}.env[TOKEN].value"].told("Deployment")["hub"] == ""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}, "metadata": {}}
    assert dropped(secret, {**secret, "stringData": {}}, "v1") == []


@pytest.mark.proves("RB8")
def test_an_item_that_the_answer_lacks_was_dropped():
    answer = answered(BODY)
    answer["spec"]["template"]["spec"]["containers"][0]["env"] = []
    [env] = dropped(BODY, answer, "v1")
    assert path_of(env.steps).endswith("containers[main].env[TOKEN]")
