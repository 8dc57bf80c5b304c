"""The images of a cluster: which references a rule is about, and what stays of them."""

from __future__ import annotations

import pytest

from machinery.overrides.override import rewrite, rewritten
from machinery.types.api import ImageRule

TO_MIRROR = ImageRule("docker.io", "mirror.eu.example/docker")
DIGEST = "sha256:" + "a" * 64


@pytest.mark.proves("O12")
@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("nginx", "mirror.eu.example/docker/library/nginx"),
        ("nginx:1.29", "mirror.eu.example/docker/library/nginx:1.29"),
        ("docker.io/a/b:t", "mirror.eu.example/docker/a/b:t"),
        ("index.docker.io/a/b:t", "mirror.eu.example/docker/a/b:t"),
        ("a/b/c", "mirror.eu.example/docker/a/b/c"),
        (f"nginx@{DIGEST}", f"mirror.eu.example/docker/library/nginx@{DIGEST}"),
        (f"docker.io/a/b:t@{DIGEST}", f"mirror.eu.example/docker/a/b:t@{DIGEST}"),
        ("docker.io.evil/a", "docker.io.evil/a"),
        ("quay.io/a/b", "quay.io/a/b"),
        ("localhost/a", "localhost/a"),
        ("localhost:5000/a:1", "localhost:5000/a:1"),
        ("", ""),
    ],
)
def test_the_normalised_reference_decides(image: str, found: str) -> None:
    assert rewritten(image, [TO_MIRROR]) == found


@pytest.mark.proves("O12")
def test_the_longest_rule_wins_and_only_whole_parts_count() -> None:
    rules = [
        TO_MIRROR,
        ImageRule("docker.io/library", "official.example"),
        ImageRule("docker.io/library/nginx", "nginx.example/nginx"),
        ImageRule("localhost:5000/team/", "mirror.example/team/"),
    ]
    assert rewritten("nginx:1", rules) == "nginx.example/nginx:1"
    assert rewritten("nginx-debug:1", rules) == "official.example/nginx-debug:1"
    assert rewritten("docker.io/lib/x", rules) == "mirror.eu.example/docker/lib/x"
    assert rewritten("localhost:5000/team/x:2", rules) == "mirror.example/team/x:2"
    assert rewritten("localhost:5000/teams/x:2", rules) == "localhost:5000/teams/x:2"


@pytest.mark.proves("O12")
def test_each_container_of_each_pod_template_is_found() -> None:
    def containers(image: str) -> dict[str, object]:
        kinds = ("containers", "initContainers", "ephemeralContainers")
        return {kind: [{"name": "a", "image": image}] for kind in kinds}

    pods = {"template": {"spec": containers("nginx")}}
    body = {
        "kind": "CronJob",
        "spec": {"jobTemplate": {"spec": pods}, "workers": [pods], "image": "nginx"},
    }
    rewrite(body, [TO_MIRROR])
    there = {"template": {"spec": containers("mirror.eu.example/docker/library/nginx")}}
    assert body["spec"] == {"jobTemplate": {"spec": there}, "workers": [there], "image": "nginx"}
    odd = {"containers": ["nginx", {"image": 3}, {"name": "a"}], "initContainers": {"a": "nginx"}}
    rewrite(odd, [TO_MIRROR])
    assert odd["containers"] == ["nginx", {"image": 3}, {"name": "a"}]
