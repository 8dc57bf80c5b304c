"""What one pod requests, as the API server (1.36.3) defaults it and kube-scheduler sums it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.requests import request_of

GI = 2**30


def pod(*containers: dict[str, Any], **whole: Any) -> dict[str, Any]:
    """A pod whose containers have these resources, and that has `whole` for all of them."""
    return {"containers": [{"resources": each} for each in containers], "resources": whole}


@pytest.mark.proves("RB2")
@pytest.mark.parametrize(
    ("asked", "memory"),
    [
        (pod({"requests": {"memory": "1Gi"}}, limits={"memory": "4Gi"}), GI),
        (pod({}, limits={"memory": "4Gi"}), 4 * GI),
        (pod({"limits": {"memory": "2Gi"}}, limits={"memory": "4Gi"}), 2 * GI),
        (pod({"requests": {"memory": "0"}}, limits={"memory": "4Gi"}), 0),
        (pod({}, {"requests": {"memory": "1Gi"}}, limits={"memory": "4Gi"}), GI),
        (
            pod({"requests": {"memory": "1Gi"}}, limits={"memory": "4Gi"}, requests={"cpu": "1"}),
            GI,
        ),
        (
            pod(
                {"requests": {"memory": "1Gi"}},
                limits={"memory": "4Gi"},
                requests={"memory": "3Gi"},
            ),
            3 * GI,
        ),
    ],
)
def test_a_limit_of_the_whole_pod_is_a_request_only_of_what_no_container_asks_for(
    asked: dict[str, Any], memory: int
) -> None:
    assert request_of(asked).get("memory", 0) == memory


@pytest.mark.proves("RB17")
@pytest.mark.parametrize(
    ("memory", "bytes_"),
    [
        (["99.5m"], 1),
        (["99.5m"] * 10, 1),  # stored as 100m each
        (["100.5m"] * 10, 2),  # stored as 101m each
        (["0.5"] * 4, 2),
        (["1.0005", "1"], 3),
    ],
)
def test_a_request_is_rounded_up_to_thousandths_and_their_sum_to_whole_units(
    memory: list[str], bytes_: int
) -> None:
    asked = pod(*({"requests": {"memory": each}} for each in memory))
    assert request_of(asked)["memory"] == bytes_


@pytest.mark.proves("RB17")
def test_cpu_is_rounded_up_to_thousandths_before_it_is_summed() -> None:
    asked = pod(*({"requests": {"cpu": "99.5m"}} for _ in range(10)))
    assert request_of(asked)["cpu"] == 1000
