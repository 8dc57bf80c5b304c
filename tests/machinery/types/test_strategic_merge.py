"""Strategic merge: what a patch makes of a pod template, and what it is refused for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.types.strategic_merge import DEPTH, MOST_FAULTS, faults, merge

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "nginx", "tier": "web"}, "finalizers": ["a.example/x"]},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "nginx",
                "command": ["nginx", "-g"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [
                    {"containerPort": 53, "name": "dns"},
                    {"containerPort": 53, "protocol": "UDP", "name": "dns-udp"},
                ],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "volumeMounts": [{"mountPath": "/data", "name": "data"}],
            },
            {"name": "side", "image": "side:1"},
        ],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "value": "test-team", "effect": "NoSchedule"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
    },
}


def patched(**spec: Any) -> dict[str, Any]:
    merged = merge(TEMPLATE, {"spec": spec})
    result: dict[str, Any] = merged["spec"]
    return result


def main(**fields: Any) -> dict[str, Any]:
    container: dict[str, Any] = patched(containers=[{"name": "main", **fields}])["containers"][0]
    return container


def refusal(patch: Any) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        merge(TEMPLATE, patch)
    return str(caught.value)


@pytest.mark.proves("W11")
def test_a_container_is_merged_by_name_and_the_others_stay() -> None:
    patch = {
        "metadata": {"labels": {"arch": "x86"}},
        "spec": {
            "containers": [
                {"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "800Mi"}}}
            ]
        },
    }
    merged = merge(TEMPLATE, patch)
    assert merged["metadata"]["labels"] == {"app": "nginx", "tier": "web", "arch": "x86"}
    first, second = merged["spec"]["containers"]
    assert first["resources"] == {"limits": {"cpu": "500m", "memory": "800Mi"}}
    assert {**first, "resources": None} == {**TEMPLATE["spec"]["containers"][0], "resources": None}
    assert second == TEMPLATE["spec"]["containers"][1]


def test_a_container_that_is_new_goes_ahead_of_those_that_the_patch_does_not_name() -> None:
    """The first example of Kubernetes' page on `kubectl patch`."""
    spec = patched(containers=[{"name": "cache", "image": "redis"}])
    assert [each["name"] for each in spec["containers"]] == ["cache", "main", "side"]


@pytest.mark.proves("RB1")
@pytest.mark.parametrize(
    ("live", "patch", "stored"),
    [
        ("abd", "e", "eabd"),
        ("abd", "be", "abed"),
        ("abd", "eb", "eabd"),
        ("abd", "de", "abde"),
        ("abd", "da", "bda"),
        ("abd", "ed", "eabd"),
        ("abcd", "cxa", "bcxad"),
        ("", "ba", "ba"),
    ],
)
def test_items_stand_as_the_server_orders_them(live: str, patch: str, stored: str) -> None:
    def pod(names: str, value: str) -> dict[str, Any]:
        env = [{"name": name, "value": value} for name in names]
        return {"spec": {"containers": [{"name": "main", "image": "x", "env": env}]}}

    env = merge(pod(live, "0"), pod(patch, "1"))["spec"]["containers"][0]["env"]
    assert "".join(each["name"] for each in env) == stored
    assert {each["name"] for each in env if each["value"] == "1"} == set(patch)


@pytest.mark.proves("RB1")
def test_what_the_server_loses_by_its_first_key_is_kept() -> None:
    """On purpose: ports of one number by their protocol, constraints of one topologyKey."""
    ports = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    made = merge(
        {"spec": {"containers": [{"name": "main", "image": "x", "ports": ports}]}},
        {"spec": {"containers": [{"name": "main", "ports": [{**ports[1], "name": "dns"}]}]}},
    )
    assert made["spec"]["containers"][0]["ports"] == [ports[0], {**ports[1], "name": "dns"}]
    spread = [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": each}
        for each in ("DoNotSchedule", "ScheduleAnyway")
    ]
    made = merge(
        {"spec": {"topologySpreadConstraints": spread}},
        {"spec": {"topologySpreadConstraints": [{**spread[1], "maxSkew": 3}]}},
    )
    assert made["spec"]["topologySpreadConstraints"] == [spread[0], {**spread[1], "maxSkew": 3}]


def test_tolerations_are_replaced() -> None:
    """The second example there: a list without a merge key."""
    one = [{"key": "disktype", "value": "ssd", "effect": "NoSchedule"}]
    assert patched(tolerations=one)["tolerations"] == one


def test_a_list_of_words_is_replaced_and_finalizers_are_united() -> None:
    assert main(command=["sleep"])["command"] == ["sleep"]
    merged = merge(TEMPLATE, {"metadata": {"finalizers": ["b.example/y", "a.example/x"]}})
    assert merged["metadata"]["finalizers"] == ["a.example/x", "b.example/y"]


def test_null_takes_a_key_away() -> None:
    assert "nodeSelector" not in patched(nodeSelector=None)
    assert main(resources={"limits": {"cpu": None}})["resources"] == {"limits": {"memory": "1Gi"}}
    assert "livenessProbe" not in main(livenessProbe=None)
    assert main(livenessProbe={"tcpSocket": {"port": 1, "host": None}})["livenessProbe"] == {
        "tcpSocket": {"port": 1}
    }


def test_delete() -> None:
    spec = patched(containers=[{"name": "side", "$patch": "delete"}])
    assert [each["name"] for each in spec["containers"]] == ["main"]
    assert main(env=[{"name": "A", "$patch": "delete"}])["env"] == [{"name": "B", "value": "2"}]
    assert patched(nodeSelector={"$patch": "delete"})["nodeSelector"] == {}
    assert patched(containers=[{"name": "none", "$patch": "delete"}]) == TEMPLATE["spec"]


def test_replace() -> None:
    assert patched(nodeSelector={"$patch": "replace", "a": "b"})["nodeSelector"] == {"a": "b"}
    one = {"name": "one", "image": "one"}
    assert patched(containers=[{"$patch": "replace"}, one])["containers"] == [one]
    assert main(env=[{"$patch": "replace"}])["env"] == []


def test_retain_keys() -> None:
    """So a volume becomes one of another kind."""
    volume = {"name": "data", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
    assert patched(volumes=[volume])["volumes"] == [{"name": "data", "hostPath": {"path": "/x"}}]
    wrong = {"name": "data", "hostPath": {"path": "/x"}, "$retainKeys": ["name"]}
    assert "spec.volumes[0].$retainKeys" in refusal({"spec": {"volumes": [wrong]}})


def test_ports_are_told_apart_by_their_protocol() -> None:
    tcp, udp = main(ports=[{"containerPort": 53, "protocol": "UDP", "hostPort": 53}])["ports"]
    assert tcp == {"containerPort": 53, "name": "dns"}
    assert udp == {"containerPort": 53, "protocol": "UDP", "name": "dns-udp", "hostPort": 53}
    tcp, udp = main(ports=[{"containerPort": 53, "name": "first"}])["ports"]
    assert (tcp["name"], udp["name"]) == ("first", "dns-udp")
    assert len(main(ports=[{"containerPort": 53, "protocol": "SCTP"}])["ports"]) == 3
    assert main(ports=[{"containerPort": 53, "$patch": "delete"}])["ports"] == []


def test_two_items_of_one_name_in_a_patch_are_merged_one_after_the_other() -> None:
    new = [{"name": "C", "value": "3"}, {"name": "C", "value": "4"}]
    assert main(env=new)["env"][:-2] == [{"name": "C", "value": "4"}]


def test_a_quantity_may_change_between_number_and_text() -> None:
    assert main(resources={"limits": {"cpu": "500m"}})["resources"]["limits"]["cpu"] == "500m"


def test_where_the_template_has_nothing() -> None:
    assert merge({}, {"metadata": {"labels": {"a": "b"}}}) == {"metadata": {"labels": {"a": "b"}}}
    assert merge({"metadata": None}, {"metadata": {"labels": {"a": "b"}}})["metadata"]
    assert merge(TEMPLATE, {}) == TEMPLATE
    odd = {"spec": {"containers": ["no mapping", {"image": "without a name"}, {"name": "a"}]}}
    merged = merge(odd, {"spec": {"containers": [{"name": "a", "tty": True}]}})
    assert merged["spec"]["containers"][2] == {"name": "a", "tty": True}


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        (
            {"spec": {"containers": [{"name": "main"}, {"name": "side"}, {"name": "third"}]}},
            "spec.containers[2]: no container 'third' in the template, and no image",
        ),
        (
            {"spec": {"containers": [{"name": "main", "ports": {"containerPort": 80}}]}},
            "spec.containers[0].ports: must be a list, not a mapping",
        ),
        (
            {"spec": {"containers": [{"name": "main", "ports": "80"}]}},
            "spec.containers[0].ports: must be a list, not a string",
        ),
        (
            {"spec": {"containers": [{"name": "main", "ports": [80]}]}},
            "spec.containers[0].ports[0]: must be a mapping, not a number",
        ),
        (
            {"spec": {"containers": [{"name": "main", "command": {"a": "b"}}]}},
            "spec.containers[0].command: the template has a list there, the patch a mapping",
        ),
        (
            {"spec": {"tolerations": "all"}},
            "spec.tolerations: the template has a list there, the patch a string",
        ),
        ({"spec": {"containers": {"name": "main"}}}, "spec.containers: must be a list"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0]: has no name, by which"),
        ({"spec": {"containers": [{"name": ["x"]}]}}, "spec.containers[0]: has no name, by which"),
        ({"spec": {"containers": [None]}}, "spec.containers[0]: must be a mapping, not nothing"),
        (
            {"spec": {"containers": [{"$patch": "replace"}]}},
            "spec.containers: the patch leaves no container",
        ),
        ({"spec": {"containers": None}}, "spec.containers: the patch leaves no container"),
        ({"spec": None}, "spec.containers: the patch leaves no container"),
        (
            {"spec": {"containers": [{"name": "main", "$patch": "replace"}]}},
            "spec.containers[0]: $patch: replace stands for the whole list, as an item of its own",
        ),
        (
            {"spec": {"nodeSelector": {"$patch": "merge"}}},
            "spec.nodeSelector.$patch: must be delete or replace",
        ),
        (
            {"spec": {"$setElementOrder/containers": []}},
            "spec.$setElementOrder/containers: is not taken: of the directives there are $patch",
        ),
        (
            {"spec": {"tolerations": [{"$patch": "replace"}]}},
            "spec.tolerations[0].$patch: this list is replaced as a whole: take it out",
        ),
        (
            {"metadata": {"labels": {"version": 2}}},
            "metadata.labels.version: must be a string: put a number in quotes",
        ),
        ({"metadata": {"labels": ["a"]}}, "metadata.labels: must be a mapping, not a list"),
        ({"replicas": 3}, "replicas: a pod template has metadata and spec alone"),
        ([], "the patch: must be a mapping, not a list"),
        (None, "the patch: must be a mapping, not nothing"),
    ],
)
def test_refused(patch: Any, told: str) -> None:
    assert told in refusal(patch)


def test_every_fault_is_told_up_to_a_number() -> None:
    bad = {"metadata": {"labels": {f"l{n}": n for n in range(50)}}}
    assert len(faults(bad)) == MOST_FAULTS
    assert faults({"spec": {"nodeSelector": {"a": "b"}}}) == []


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ({"spec": deep(DEPTH)}, "nested deeper"),
        ({"spec": deep(100_000)}, "nested deeper"),
        ({"spec": {"command": ["a"] * 20_000}}, "more than 10000 values"),
        ({"spec": {"priorityClassName": "a" * 70_000}}, "64 KiB of text"),
        ({"metadata": {"labels": {"a" * 70_000: ""}}}, "64 KiB of text"),
    ],
    ids=["deep", "deeper than Python", "many", "long", "long key"],
)
def test_too_much(patch: Any, told: str) -> None:
    assert told in refusal(patch)
    assert len(faults(patch)) == 1


def test_a_template_that_is_none() -> None:
    assert merge({"spec": ["odd"]}, {}) == {"spec": ["odd"]}
    with pytest.raises(ValueError, match="spec: the template has a list there"):
        merge({"spec": ["odd"]}, {"spec": {"a": 1}})


def test_a_field_with_an_odd_name_is_shown_without_what_a_terminal_obeys() -> None:
    assert "\x1b" not in refusal({"metadata": {"labels": {"\x1b[31mred": 1}}})


def test_a_long_patch_against_a_long_template_takes_no_square_of_time() -> None:
    template = {"spec": {"volumes": [{"name": f"v{n}"} for n in range(100_000)]}}
    patch = {"spec": {"volumes": [{"name": f"v{n}", "$patch": "delete"} for n in range(3000)]}}
    assert len(merge(template, patch)["spec"]["volumes"]) == 97_000


KEYS = [
    *("metadata", "spec", "labels", "finalizers", "containers", "volumes", "name", "image"),
    *("ports", "env", "containerPort", "protocol", "$patch", "$retainKeys"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "delete", "replace"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES, VALUES)
def test_whatever_comes_is_merged_or_refused_and_never_changed(template: Any, patch: Any) -> None:
    template = template if isinstance(template, dict) else {}
    before = copy.deepcopy((template, patch))
    try:
        merged = merge(template, patch)
    except ValueError:
        pass
    else:
        merged.clear()
    assert (template, patch) == before


@given(VALUES)
def test_what_is_merged_is_not_the_patch_itself(patch: Any) -> None:
    """Whoever marks what comes out must not mark the patch."""
    try:
        merged = merge({}, patch)
    except ValueError:
        return
    before = copy.deepcopy(patch)
    for part in _mappings(merged):
        assert not {"$patch", "$retainKeys"} & set(part)
        part["marked"] = True
    assert patch == before


def _mappings(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(part for inner in list(value.values()) for part in _mappings(inner))]
    return [part for inner in value for part in _mappings(inner)] if isinstance(value, list) else []
