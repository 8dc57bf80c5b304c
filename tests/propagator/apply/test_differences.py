"""What an apply would change, in words: paths, both values, never those of a Secret."""

from __future__ import annotations

from typing import Any

import pytest

from propagator.drift.fields import differences, in_words

pytestmark = pytest.mark.proves("X6")


def web(image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": image}, {"name": "side", "image": "side"}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    return {
        "metadata": {"name": "web", "uid": "1", "generation": 3, "resourceVersion": "7"},
        "spec": {"replicas": 2, "template": template, **spec},
        "status": {"replicas": 2},
    }


def words(live: dict[str, Any], applied: dict[str, Any], *, secret: bool = False) -> str:
    return in_words(differences(live, applied), secret=secret)


def test_marks_of_ours_and_what_each_write_changes_are_no_difference() -> None:
    live = web()
    live["metadata"] |= {"labels": None, "annotations": {"deployment.kubernetes.io/revision": "1"}}
    applied = web()
    applied["metadata"] |= {
        "resourceVersion": "8",
        "generation": 4,
        "managedFields": [{}],
        "labels": {"stowage.dev/managed": "true"},
        "annotations": {
            "deployment.kubernetes.io/revision": "1",
            "owner.stowage.dev/u": "shop/web",
            "stowage.dev/hub": "h",
        },
    }
    applied["status"] = {}
    assert differences(live, applied) == []


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (
            web("nginx:2"),
            "spec.template.spec.containers[main].image (nginx:1 here, nginx:2 there)",
        ),
        (web(replicas=5), "spec.replicas (2 here, 5 there)"),
        (web(paused=True), "spec.paused (nothing here, true there)"),
        (web(paused={"a.b/c": ""}), 'spec.paused (nothing here, {"a.b/c":""} there)'),
        (
            web(a=1, b=2, c=3, d=4, e=5),
            (
                "spec.a (nothing here, 1 there), spec.b (nothing here, 2 there), "
                "spec.c (nothing here, 3 there) and 2 more"
            ),
        ),
    ],
)
def test_up_to_three_paths_are_named_with_both_values(live: dict[str, Any], said: str) -> None:
    assert words(live, web()) == said


def test_labels_and_annotations_of_others_count() -> None:
    live, applied = web(), web()
    live["metadata"]["annotations"] = {"example.com/who": "me", "plain": ""}
    assert words(live, applied) == (
        'metadata.annotations (nothing here, {"example.com/who":"me","plain":""} there)'
    )
    applied["metadata"]["annotations"] = {"example.com/who": "you", "plain": ""}
    assert words(live, applied) == "metadata.annotations[example.com/who] (you here, me there)"


@pytest.mark.proves("RB7")
def test_an_annotation_that_is_applied_as_null_is_no_difference() -> None:
    live, applied = web(), web()
    applied["metadata"]["annotations"] = {"example.com/who": ""}  # as the server stores null
    assert not differences(live, applied)
    live["metadata"]["annotations"] = {"example.com/who": ""}
    assert not differences(live, applied)
    live["metadata"]["annotations"] = {"example.com/who": "me"}
    assert words(live, applied).startswith("metadata.annotations[example.com/who]")


def test_a_label_of_ours_on_the_pods_counts() -> None:
    """It would restart them."""
    applied = web()
    applied["spec"]["template"]["metadata"]["labels"]["stowage.dev/workload-uid"] = "u"
    assert "workload-uid] (u here, nothing there)" in words(web(), applied)


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], "l[0].name (a here, b"),
        ([{"name": "a"}, {"name": "a"}], [{"name": "a"}], 'l[1] ({"name":"a"} here, nothing'),
        ([1, 2], [1, 3], "l[1] (2 here, 3 there)"),
        ([{"name": "a"}], [{"name": "b"}], 'l[a] ({"name":"a"} here, nothing there), l[b]'),
        ([], {}, "l ([] here, {} there)"),
        ("", None, 'l ("" here, null there)'),
    ],
)
def test_lists_go_by_name_or_by_place(here: Any, there: Any, said: str) -> None:
    meta = {"metadata": {"name": "a"}}
    assert words({**meta, "l": there}, {**meta, "l": here}).startswith(said)


def test_no_value_is_long_and_none_of_a_secret_is_told() -> None:
    long = words(web("x" * 5000), web("\x1b[31m"))
    assert len(long) < 400
    assert "\x1b" not in long
    live = {"metadata": {"name": "s"}, "data": {"password": "b2xk"}, "type": "Opaque"}
    applied = {**live, "data": {"password": "bmV3"}, "stringData": {"a": "secret"}}
    assert words(live, applied, secret=True) == "data.password, stringData"
