"""`stowage plan` from files alone: what it prints, decides, and says of wrong objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.errors import ConfigurationError
from stowage.console import output
from tests.stowage.importing import run, written

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
EXAMPLES = Path(__file__).parents[2] / "examples"
FLEET = EXAMPLES / "fleet" / "three-zones.yaml"

Write = Callable[..., str]


def cluster(name: str, *, cpu: Any = 8, ready: bool = True, **parts: Any) -> dict[str, Any]:
    free = {"cpu": cpu, "memory": "32Gi", "pods": 110}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": parts.pop("labels", {})},
        "spec": parts,
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeGroups": [{"count": 1, "free": free}],
            "capacity": {"nodes": 1, "allocatable": free, "requested": {}},
        },
    }


def workload(
    name: str,
    *,
    replicas: int = 2,
    cpu: str = "500m",
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"app": name, **(labels or {})},
            **(metadata or {}),
        },
        "spec": {"replicas": replicas, "targetDeployment": deployment, **spec},
    }
    return {**body, "status": status} if status else body


def placed(**shares: int) -> dict[str, Any]:
    return {"placements": [{"cluster": c, "replicas": n} for c, n in shares.items()]}


def beside(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "stowage.dev/cluster"}
    return {REQUIRED: [term]}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(name: str, *objects: Any, text: str = "") -> str:
        path = tmp_path / name
        path.write_text(text or written(*objects))
        return str(path)

    return to_file


def plan(files: str, fleet: str, *args: object, **how: Any) -> dict[str, dict[str, Any]]:
    result = run("plan", "-f", files, "--fleet", fleet, "-o", "json", *args, **how)
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)["workloads"]
    return {each["name"]: each for each in listed}


def shares(planned: Mapping[str, Any]) -> dict[str, int]:
    return {share["cluster"]: share["replicas"] for share in planned["placements"]}


def refusal(*args: object) -> str:
    result = run("plan", *args)
    assert isinstance(result.exception, ConfigurationError), result.output
    return str(result.exception)


@pytest.mark.proves("Q9")
def test_labels_alone_and_a_selector_choose_the_same_clusters(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", labels={"tier": "gold"}), cluster("b"))

    def planned(selector: dict[str, Any]) -> list[dict[str, int]]:
        override = {
            "name": "gold",
            "clusterSelector": selector,
            "patch": {"spec": {"paused": True}},
        }
        weights = [
            {"clusterSelector": selector, "weight": 3},
            {"clusterSelector": {}, "weight": 1},
        ]
        parts = workload(
            "parts",
            replicas=4,
            distribution="Divided",
            distributionWeights=weights,
            overrides=[override],
        )
        one = workload("one", clusterSelector=selector)
        found = plan(write("w.yaml", one, parts), fleet)
        return [shares(found["one"]), shares(found["parts"])]

    expressions = [{"key": "tier", "operator": "In", "values": ["gold"]}]
    for form in (
        {"tier": "gold"},
        {"matchLabels": {"tier": "gold"}},
        {"matchExpressions": expressions},
    ):
        assert planned(form) == [{"a": 2}, {"a": 3, "b": 1}]
    both = write("w.yaml", workload("one", clusterSelector={"matchLabels": {}, "tier": "gold"}))
    assert "not both" in refusal("-f", both, "--fleet", fleet)


@pytest.mark.proves("Q8")
def test_the_exit_code_says_whether_anything_changes(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a"), workload("same", status=placed(a=2)))
    same, new = write("same.yaml", workload("same")), write("new.yaml", workload("new"))
    wrong = workload("wrong")
    wrong["spec"]["targetDeployment"]["spec"]["selector"]["matchLabels"] = {"app": "other"}
    for file, option, code in (
        (same, "--exit-code", 0),
        (new, "--exit-code", 2),
        (new, "--output=table", 0),
        (write("wrong.yaml", wrong), "--exit-code", 1),
    ):
        result = run("plan", "-f", file, option, "--fleet", fleet)
        assert result.exit_code == code, (file, result.output)
    assert result.stderr == (
        "refused: shop/wrong: spec.targetDeployment.spec.selector: Invalid value: {'app': 'other'}: "
        "`selector` does not match template `labels`: every member refuses it\n"
    )


@pytest.mark.proves("Q8")
def test_a_member_says_what_it_refuses(write: Write, apiserver: Any) -> None:
    fleet = write("fleet.yaml", cluster("a"))
    wrong = workload("web", metadata={"namespace": "default"})
    wrong["spec"]["targetDeployment"]["spec"]["replica"] = 3
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    other = workload("other", metadata={"namespace": "default"}, manifests=[widget])
    context = yaml.safe_load(Path(apiserver.kubeconfig).read_text())["current-context"]
    at = ("--server", context, "--kubeconfig", apiserver.kubeconfig)
    result = run("plan", "-f", write("w.yaml", wrong, other), "--fleet", fleet, *at)
    assert result.exit_code == 1, result.output
    first, second = result.stderr.splitlines()
    assert first.startswith("refused: default/web: Deployment web: ")
    assert ".spec.replica: field not declared in schema" in first
    assert second.startswith("refused: default/other: Widget w: the server has no kind Widget")
    good = write("good.yaml", workload("good", metadata={"namespace": "default"}))
    assert run("plan", "-f", good, "--fleet", fleet, *at).exit_code == 0


@pytest.mark.proves("Q8")
def test_a_namespace_that_the_propagator_will_make_is_no_refusal(
    write: Write, apiserver: Any
) -> None:
    fleet = write("fleet.yaml", cluster("a"))
    context = yaml.safe_load(Path(apiserver.kubeconfig).read_text())["current-context"]
    at = ("--server", context, "--kubeconfig", apiserver.kubeconfig)
    new = workload("new", metadata={"namespace": "not-there-yet"})
    result = run("plan", "-f", write("new.yaml", new), "--fleet", fleet, *at)
    assert (result.exit_code, result.stderr) == (0, "")
    new["spec"]["targetDeployment"]["spec"]["replica"] = 3
    result = run("plan", "-f", write("new.yaml", new), "--fleet", fleet, *at)
    assert result.exit_code == 1
    assert ".spec.replica: field not declared in schema" in result.stderr


@pytest.mark.proves("E30", "C19")
def test_what_programs_are_told(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a"), cluster("b", ready=False))
    told = plan(write("w.yaml", workload("demo")), fleet)["demo"]
    assert (told["namespace"], told["desired"], told["pending"]) == ("shop", 2, 0)
    text = "all 2 go to the best cluster"
    why = {"kind": "Whole", "number": 2, "of": 0, "name": "", "text": text}
    assert told["placements"] == [{"cluster": "a", "replicas": 2, "reasons": [why]}]
    brief = [{key: c[key] for key in ("name", "fits", "reason")} for c in told["clusters"]]
    assert brief == [
        {"name": "a", "fits": True, "reason": ""},
        {"name": "b", "fits": False, "reason": "not ready"},
    ]
    assert 1 <= told["clusters"][0]["score"] <= 10


def test_several_files_after_one_option_as_a_shell_makes_them(write: Write) -> None:
    one, two = write("1.yaml", workload("one")), write("2.yaml", workload("two"))
    fleet = write("fleet.yaml", cluster("a"))
    assert list(plan(one, fleet, two)) == ["one", "two"]


def test_each_one_sees_those_before_it(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=2), cluster("b", cpu=1))
    told = plan(write("w.yaml", *(workload(n, cpu="1") for n in ("x", "y", "z"))), fleet)
    assert [shares(told[name]) for name in ("x", "y", "z")] == [{"a": 2}, {}, {}]


def test_the_more_important_goes_first_and_files_keep_their_order(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=1))
    late = workload("a-late", priority=5)
    told = plan(write("w.yaml", workload("z"), workload("b"), late), fleet)
    assert list(told) == ["z", "b", "a-late"]
    assert [name for name, each in told.items() if shares(each)] == ["a-late"]
    told = plan(write("w.yaml", workload("z"), workload("b")), fleet)
    assert [name for name, each in told.items() if shares(each)] == ["z"]


def test_changes_against_what_is_there(write: Write) -> None:
    there = workload("demo", replicas=3, distribution="Divided", status=placed(a=2, b=1))
    edited = workload("demo", replicas=6, distribution="Divided")
    fleet = write("fleet.yaml", cluster("a"), cluster("b"), cluster("c"), there)
    files = write("w.yaml", edited)
    told = plan(files, fleet)["demo"]
    assert told["present"] == placed(a=2, b=1)["placements"]
    assert sum(shares(told).values()) == 6
    assert shares(told)["a"] >= 2
    table = run("plan", "-f", files, "--fleet", fleet).stdout
    assert "c +2" in table
    assert "→" in table


def test_on_a_narrow_terminal_a_row_goes_on_below_itself(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "width", lambda: 50)
    files = write("w.yaml", workload("demo"), workload("idle", clusterSelector={"no": "such"}))
    printed = run("plan", "-f", files, "--fleet", write("fleet.yaml", cluster("a"))).stdout
    assert [" ".join(line.split()) for line in printed.splitlines()] == [
        "WORKLOAD DESIRED ASSIGNED PENDING CLUSTERS",
        "CHANGE",
        "shop/demo 2 2 0 a=2",
        "a +2",
        "shop/idle 2 0 2 -",
        "pending",
        "FailedToSchedule: 0/1 clusters: 1 didn't match clusterSelector",
    ]


def test_others_that_it_moves_are_shown_too(write: Write) -> None:
    waiting = workload("front", workloadAffinity=beside("back"))
    idle = workload("idle", clusterSelector={"no": "such"})
    fleet = write("fleet.yaml", cluster("a"), waiting, idle)
    told = plan(write("w.yaml", workload("back")), fleet)
    assert list(told) == ["back", "front"]
    assert shares(told["front"]) == {"a": 2}


def test_a_scaled_number_stays_where_the_file_names_none(write: Write) -> None:
    there = workload("demo", replicas=5, status=placed(a=5))
    silent = workload("demo")
    del silent["spec"]["replicas"]
    fleet = write("fleet.yaml", cluster("a"), there)
    assert plan(write("w.yaml", silent), fleet)["demo"]["desired"] == 5
    applied = json.dumps({"spec": {"replicas": 5}})
    there["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    fleet = write("fleet.yaml", cluster("a"), there)
    assert plan(write("w.yaml", silent), fleet)["demo"]["desired"] == 1


@pytest.mark.parametrize("server_side", [False, True])
def test_a_label_that_the_file_no_longer_has_is_removed_if_an_apply_set_it(
    write: Write, server_side: bool
) -> None:
    """Such as one that binds it to a policy; what somebody else set stays."""
    bound = {"stowage.dev/workload-policy": "none", "stowage.dev/workload-group": "none"}
    there = workload("demo", labels=bound, metadata={"annotations": {"a": "1"}})
    mine = {"stowage.dev/workload-policy": "none", "app": "demo"}
    if server_side:
        fields = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in mine}}}
        entry = {"manager": "kubectl", "operation": "Apply", "fieldsV1": fields}
        there["metadata"]["managedFields"] = [entry]
    else:
        applied = json.dumps({"metadata": {"labels": mine}})
        notes = {"kubectl.kubernetes.io/last-applied-configuration": applied}
        there["metadata"]["annotations"] |= notes
    fleet = write("fleet.yaml", cluster("a"), there)
    files = write("w.yaml", workload("demo"))
    assert plan(files, fleet)["demo"]["reason"] == "GroupNotFound"
    del there["metadata"]["labels"]["stowage.dev/workload-group"]
    fleet = write("fleet.yaml", cluster("a"), there)
    assert shares(plan(files, fleet)["demo"]) == {"a": 2}


def test_the_status_in_a_file_of_workloads_does_not_count(write: Write) -> None:
    told = plan(
        write("w.yaml", workload("demo", status=placed(b=2))),
        write("fleet.yaml", cluster("a"), cluster("b", cpu=1)),
    )
    assert (told["demo"]["present"], shares(told["demo"])) == ([], {"a": 2})


def test_the_namespace_of_those_that_name_none(write: Write) -> None:
    bare = workload("demo")
    del bare["metadata"]["namespace"]
    files, fleet = write("w.yaml", bare), write("f.yaml", cluster("a"))
    assert plan(files, fleet)["demo"]["namespace"] == "default"
    assert plan(files, fleet, "-n", "bank")["demo"]["namespace"] == "bank"


@pytest.mark.parametrize("form", ["list", "array", "json", "documents"])
def test_every_form_of_a_fleet(write: Write, form: str) -> None:
    members = [cluster("a"), cluster("b")]
    listed = {"apiVersion": "v1", "kind": "List", "items": members}
    objects = {"list": [listed], "array": [members], "documents": members, "json": [listed]}
    text = json.dumps(listed) if form == "json" else ""
    fleet = write("fleet.json", *objects[form], text=text)
    told = plan(write("w.yaml", workload("demo")), fleet)["demo"]
    assert [each["name"] for each in told["clusters"]] == ["a", "b"]


def test_a_fleet_in_one_line_a_cluster(write: Write) -> None:
    sums = {"cpu_milli": 8000, "memory_bytes": 2**34, "pods": 220}
    used = {"cpu_milli": 4000, "memory_bytes": 2**33, "pods": 20}
    rows = [
        {"name": "a", "ready": True, "nodes": 2, "allocatable": sums, "allocated": used},
        {"name": "b", "ready": False, "nodes": 2, "allocatable": sums, "allocated": used},
    ]
    fleet = write("fleet.json", text=json.dumps(rows))
    told = plan(write("w.yaml", workload("demo", replicas=9, distribution="Divided")), fleet)
    assert shares(told["demo"]) == {"a": 8}  # 4 cpu are free, 500m each
    assert [c["reason"] for c in told["demo"]["clusters"]] == ["", "not ready"]


@pytest.mark.proves("J1")
@pytest.mark.parametrize(
    "sums",
    [
        {"cpu": 8, "memory": "16Gi", "pods": 220},
        {"cpu": "8000m", "memory": 2**34, "pods": "220"},
        {"cpu_milli": 8000, "memory_bytes": 2**34, "pods": 220},
    ],
)
def test_a_row_gives_amounts_as_kubernetes_writes_them(write: Write, sums: dict[str, Any]) -> None:
    row = {"name": "a", "nodes": 2, "allocatable": {**sums, "nvidia.com/gpu": 4}}
    files = write("w.yaml", workload("demo", replicas=20, distribution="Divided"))
    assert shares(plan(files, write("fleet.yaml", [row]))["demo"]) == {"a": 16}


@pytest.mark.proves("J1")
def test_the_clusters_of_the_examples_have_room(write: Write) -> None:
    files = write("w.yaml", workload("demo", replicas=96, distribution="Divided"))
    fleet = str(EXAMPLES / "fleet" / "two-domains.yaml")
    assert shares(plan(files, fleet)["demo"]) == {"a": 48, "b": 48}  # 24 cpu each, 500m a replica


@pytest.mark.proves("J1")
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"allocatabel": {}}, "'allocatabel' is no key of a row; those are name, labels"),
        ({"allocatable": {"cpus": 8}}, "allocatable: 'cpus' is no resource"),
        ({"allocatable": {"cpu": "8x"}}, "allocatable: cpu: "),
        ({"allocatable": {"cpu": -1}}, "allocatable: cpu: -1 is negative"),
        ({"allocatable": {"cpu": 1, "cpu_milli": 9}}, "'cpu_milli' stands beside another spelling"),
        ({"allocated": [1]}, "allocated: amounts by resource are needed"),
    ],
)
def test_a_row_with_an_unknown_key_is_refused(write: Write, edit: Any, said: str) -> None:
    row = {"name": "a", "nodes": 2, "allocatable": {"cpu": 8}, **edit}
    fleet = write("fleet.yaml", [{"name": "b", "nodes": 0, "allocatable": {}}, row])
    result = run("plan", "-f", write("w.yaml", workload("demo")), "--fleet", fleet)
    told = str(result.exception)
    assert "fleet.yaml, document 2: " in told
    assert said in told


def test_a_foreign_namespace_is_noted(write: Write) -> None:
    files = write("w.yaml", workload("demo", targetNamespace="bank"))
    result = run("plan", "-f", files, "--fleet", write("fleet.yaml", cluster("a")))
    assert result.exit_code == 0
    assert (
        "shop/demo: the right to use targetnamespaces.stowage.dev bank (spec.targetNamespace)"
        in result.stderr
    )


def test_a_spread_behind_its_workload_is_noted(write: Write) -> None:
    subsets = [{"name": "all"}]
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
    spread = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": "late", "namespace": "shop"},
        "spec": {"targetRef": target, "subsets": subsets},
    }
    fleet = write("fleet.yaml", cluster("m1"))

    def noted(*objects: Any, fleet: str = fleet) -> str:
        return run("plan", "-f", write("w.yaml", *objects), "--fleet", fleet).stderr

    said = "shop/web: WorkloadSpread late stands behind it; apply WorkloadSpread late first"
    assert said in noted(workload("web"), spread)
    assert said not in noted(spread, workload("web"))
    there = write("there.yaml", cluster("m1"), workload("web"))
    assert said not in noted(workload("web"), spread, fleet=there)


def test_a_long_row_is_cut(write: Write) -> None:
    members = [cluster(f"c{n}") for n in range(9)]
    files = write("w.yaml", workload("demo", replicas=9, distribution="Divided"))
    row = run("plan", "-f", files, "--fleet", write("fleet.yaml", *members)).stdout
    assert "c0=1,c1=1,c2=1,c3=1,c4=1,… 4 more" in row


def policy(name: str, *, kind: str = "Required", **domains: int) -> dict[str, Any]:
    listed = [{"name": domain, "replicas": n} for domain, n in domains.items()]
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "demo"}},
            "allocationPolicy": listed,
            "allocationType": kind,
        },
    }


BOUND = {"stowage.dev/workload-policy": "demo"}


class TestPolicies:
    @pytest.fixture
    def zones(self, write: Write) -> str:
        members = [cluster(name, labels={"zone": name}) for name in ("member", "host")]
        return write("fleet.yaml", *members)

    def test_a_policy_of_the_files_takes_the_place_of_the_one_there(self, write: Write) -> None:
        there = workload("demo", replicas=6, labels=BOUND, status=placed(member=1, host=3))
        members = [cluster(name, labels={"zone": name}) for name in ("member", "host")]
        fleet = write("fleet.yaml", *members, policy("demo", member=1, host=3), there)
        told = plan(write("w.yaml", policy("demo", member=3, host=3)), fleet)["demo"]
        assert shares(told) == {"member": 3, "host": 3}
        assert list(plan(write("w.yaml", policy("demo", member=1, host=3)), fleet)) == []

    @pytest.mark.proves("K6", "K7")
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"allocationType": "require"}, "spec.allocationType: "),
            ({"allocationPolicy": []}, "spec.allocationPolicy: "),
            ({"topologyKey": ""}, "spec.topologyKey: "),
        ],
    )
    def test_what_admission_refuses(
        self, write: Write, zones: str, change: dict[str, Any], says: str
    ) -> None:
        wrong = policy("demo", member=1)
        wrong["spec"].update(change)
        file = write("w.yaml", workload("demo"), wrong)
        said = refusal("-f", file, "--fleet", zones)
        assert said.startswith(f"{file}, document 2: WorkloadPolicy demo: {says}")


class TestWrong:
    @pytest.fixture
    def fleet(self, write: Write) -> str:
        return write("fleet.yaml", cluster("a"))

    @pytest.mark.proves("Q10")
    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"replica": 3}, 'spec.replica: unknown field, did you mean "replicas"?'),
            (
                {"spreadConstraints": [{"topologyKey": "a", "maxDomain": 2}]},
                'spec.spreadConstraints[0].maxDomain: unknown field, did you mean "maxDomains"?',
            ),
            ({"qqq": 1}, "spec.qqq: unknown field"),
            ({"replicas": "many"}, 'spec.replicas: Invalid value: "many": must be of type integer'),
            (
                {"replicas": -1},
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                {"distribution": "Doubled"},
                (
                    'spec.distribution: Unsupported value: "Doubled": supported values: "Single", '
                    '"Divided", "Duplicated"'
                ),
            ),
            (
                {"tolerations": {}},
                'spec.tolerations: Invalid value: "object": must be of type array',
            ),
            ({"spreadConstraints": [{}]}, "spec.spreadConstraints[0].topologyKey: Required value"),
        ],
    )
    def test_faults_are_told_in_the_words_of_kubectl(
        self, write: Write, fleet: str, spec: dict[str, Any], says: str
    ) -> None:
        file = write("w.yaml", workload("bad", **spec))
        assert refusal("-f", file, "--fleet", fleet) == f"{file}, document 1: Workload bad: {says}"

    @pytest.mark.proves("Q10")
    def test_a_cluster_that_is_not_there_is_told_with_the_one_that_is_meant(
        self, write: Write, tmp_path: Path
    ) -> None:
        fleet = write("fleet.yaml", cluster("member-1"), cluster("paris"))
        file = write(
            "w.yaml",
            workload("a", targetCluster={"name": "membr-1"}),
            workload("b", clusterSelector={"stowage.dev/cluster": "zzz"}),
        )
        result = run("plan", "-f", file, "--fleet", fleet)
        assert result.stderr.splitlines() == [
            (
                "note: shop/a: spec.targetCluster: there is no cluster 'membr-1', did you mean "
                '"member-1"?'
            ),
            "note: shop/b: spec.clusterSelector[stowage.dev/cluster]: there is no cluster 'zzz'",
        ]
        lost = run("simulate", "--lose", "pari", "--fleet", fleet)
        assert str(lost.exception) == 'there is no cluster pari, did you mean "paris"?'

    @pytest.mark.proves("Q10", "Q11")
    @pytest.mark.parametrize(
        ("text", "line", "says"),
        [
            (
                "apiVersion: stowage.dev/v1alpha1\nkind: Workloads\nmetadata: {name: web}\n",
                1,
                (
                    'no matches for kind "Workloads" in version "stowage.dev/v1alpha1", did you mean '
                    '"Workload"?'
                ),
            ),
            (
                "kind: ConfigMap\n---\n# ours\nkind: WorkloadPolicies\nmetadata: {name: web}\n",
                4,
                (
                    'no matches for kind "WorkloadPolicies" in version "stowage.dev/v1alpha1", did you '
                    'mean "WorkloadPolicy"?'
                ),
            ),
            (
                "kind: List\nitems:\n- kind: ConfigMap\n\n- apiVersion: stowage.dev/v1\n  kind: X\n",
                5,
                'no matches for kind "X" in version "stowage.dev/v1"',
            ),
            ("metadata: {name: web}\n", 1, "kind: Required value"),
            (
                "\n\nkind: Deployment\nmetadata: {name: web}\n---\nkind: Service\n",
                3,
                (
                    "no Workload in these files: found Deployment web and 1 more; `stowage wrap -f` "
                    "makes Workloads of such objects"
                ),
            ),
        ],
    )
    def test_a_file_without_anything_to_plan_is_an_error_with_its_line(
        self, write: Write, fleet: str, text: str, line: int, says: str
    ) -> None:
        file = write("w.yaml", text=text)
        assert refusal("-f", file, "--fleet", fleet) == f"{file}:{line}: {says}"

    @pytest.mark.proves("Q11")
    def test_an_empty_file_is_an_error_too(self, write: Write, fleet: str) -> None:
        file = write("w.yaml", text="# nothing\n---\n")
        assert refusal("-f", file, "--fleet", fleet) == f"{file}: no Workload in these files"

    def test_a_quantity_that_is_none(self, write: Write, fleet: str) -> None:
        file = write("w.yaml", workload("bad", cpu="much"))
        said = refusal("-f", file, "--fleet", fleet)
        assert said.startswith(f"{file}, document 1: Workload bad: ")
        assert "containers[0].resources" in said

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"spec": {"unschedulable": "yes"}}, "spec.unschedulable: "),
            ({"status": {"nodeGroups": [{"count": "x"}]}}, "status.nodeGroups[0].count: "),
            ({"metadata": {}}, "metadata.name: "),
            ({"metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels"),
        ],
    )
    def test_a_member_cluster(self, write: Write, change: dict[str, Any], says: str) -> None:
        fleet = write("fleet.yaml", cluster("a"), {**cluster("b"), **change})
        said = refusal("-f", write("w.yaml", workload("demo")), "--fleet", fleet)
        assert said.startswith(f"{fleet}, document 2: MemberCluster")
        assert says in said

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a: 1\nb:\n  c: 1\n  c: 2", "w.yaml:4: not YAML: 'c' twice"),
            ("a: b: c", "w.yaml:1: not YAML: "),
            ("just words", "document 1: an object is expected here, found str"),
            ("- 5", "document 1: an object is expected here, found int"),
        ],
    )
    def test_what_is_no_object(self, write: Write, fleet: str, text: str, says: str) -> None:
        assert says in refusal("-f", write("w.yaml", text=text), "--fleet", fleet)

    @pytest.mark.parametrize(
        ("metadata", "says"),
        [
            ({"name": ""}, "metadata.name: Required value"),
            ({"name": "Not_A_Name"}, "metadata.name: "),
            ({"labels": "none"}, "metadata.labels: "),
        ],
    )
    def test_metadata(self, write: Write, fleet: str, metadata: dict[str, Any], says: str) -> None:
        file = write("w.yaml", workload("demo", metadata=metadata))
        assert says in refusal("-f", file, "--fleet", fleet)

    def test_the_same_twice(self, write: Write, fleet: str) -> None:
        file = write("w.yaml", workload("demo"), workload("demo"))
        said = refusal("-f", file, "--fleet", fleet)
        assert said.endswith(f"metadata.name: shop/demo is in {file}, document 1 already")
        twice = write("fleet.yaml", cluster("a"), cluster("a"))
        said = refusal("-f", write("w.yaml", workload("demo")), "--fleet", twice)
        assert said.endswith(f"metadata.name: a is in {twice}, document 1 already")

    def test_files_that_are_not_there(self, write: Write, fleet: str, tmp_path: Path) -> None:
        absent = tmp_path / "absent"
        assert refusal("-f", absent, "--fleet", fleet) == f"{absent}: No such file or directory"
        empty = tmp_path / "empty"
        empty.mkdir()
        assert "no .yaml, .yml, .json file" in refusal("-f", empty, "--fleet", fleet)
        assert "no MemberCluster" in refusal("-f", EXAMPLES, "--fleet", EXAMPLES)
        nothing = write("x.yaml", {"metadata": {}})
        assert "document 1: kind: " in refusal("-f", EXAMPLES, "--fleet", nothing)

    @pytest.mark.long
    def test_in_a_process_it_is_1_and_wrong_usage_2(
        self, stowage: Any, write: Write, fleet: str
    ) -> None:
        file = write("w.yaml", workload("bad", replicas=-1))
        outcome = stowage.process("plan", "-f", file, "--fleet", fleet)
        assert outcome.code == 1
        assert outcome.err.startswith(f"error: {file}, document 1: Workload bad: spec.replicas")
        assert stowage.process("plan", "--fleet", fleet).code == 2


HOOKED = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {preFilterHook: {enabled: [{name: Anywhere}]}}
"""


@pytest.mark.proves("E20")
def test_what_hooks_changed_is_told(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(HOOKED)
    files = ("-f", "examples/04-cluster-selector-labels.yaml")
    about = (*files, "--fleet", "examples/fleet/three-zones.yaml")
    hooked = (
        *about,
        "--plugin",
        "tests.controller.framework.outsider:Anywhere",
        "--config",
        config,
    )
    told = "hook Anywhere changed the Workload"
    assert told in run("plan", *hooked).stdout
    assert told in run("explain", "wl/by-labels", "-n", "demo", *hooked).stdout
    (planned,) = json.loads(run("plan", *hooked, "-o", "json").stdout)["workloads"]
    assert planned["hooks"] == [
        {"plugin": "Anywhere", "phase": "PreFilter", "text": "changed the Workload"}
    ]
    assert planned["pending"] == 0
    (bare,) = json.loads(run("plan", *about, "-o", "json").stdout)["workloads"]
    assert bare["hooks"] == []
    assert bare["pending"] == 2


@pytest.mark.proves("J6")
def test_units_that_no_node_can_run_any_more_are_told(write: Write) -> None:
    there = workload("demo", replicas=2, cpu="1")
    there["status"] = {"placements": [{"cluster": "a", "replicas": 2}]}
    fleet = write("fleet.yaml", cluster("a", cpu=4), cluster("b", cpu=16), there)
    files = write("w.yaml", workload("demo", replicas=2, cpu="6"))
    shown = run("plan", "-f", files, "--fleet", fleet)
    assert "  does not fit: no node of a has 6 cpu" in shown.stdout.splitlines()
    assert plan(files, fleet)["demo"]["doesNotFit"] == ["no node of a has 6 cpu"]
    explained = run("explain", "wl/demo", "-n", "shop", "-f", files, "--fleet", fleet)
    assert "does not fit: no node of a has 6 cpu" in explained.stdout
    kept = run("plan", "-f", write("k.yaml", workload("demo", cpu="2")), "--fleet", fleet)
    assert "does not fit" not in kept.stdout


@pytest.mark.proves("J12", "J13")
def test_an_override_that_does_not_fit_on_a_cluster_that_is_not_used_is_noted(write: Write) -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "mian"}]}}}}
    selector = {"matchLabels": {"stowage.dev/cluster": "b"}}
    override = {"name": "eu", "clusterSelector": selector, "patch": patch}
    files = write("w.yaml", workload("demo", overrides=[override]))
    fleet = write("fleet.yaml", cluster("a", cpu=16), cluster("b", cpu=4))
    shown = run("plan", "-f", files, "--fleet", fleet)
    assert shown.stderr.splitlines() == [
        (
            "note: shop/demo: override eu does not fit on b, not used now: "
            "spec.template.spec.containers[0]: no container 'mian' in the template, and no image"
        )
    ]
    fits = write("k.yaml", workload("demo"))
    assert not run("plan", "-f", fits, "--fleet", fleet).stderr


@pytest.mark.proves("J11")
def test_the_first_step_of_a_rebalance_is_told_from_its_end(write: Write) -> None:
    asked = {"movement": {"rebalanceAfter": "2026-01-02T00:00:00Z"}, "distribution": "Divided"}
    there = workload("demo", replicas=8, cpu="1", distribution="Divided")
    share = {"name": "a", "replicas": 8, "scheduled": 8, "current": 8, "ready": 8}
    there["status"] = {"placements": [{"cluster": "a", "replicas": 8}], "clusters": [share]}
    fleet = write("fleet.yaml", cluster("a", cpu=2), cluster("b", cpu=10), there)
    files = write("w.yaml", workload("demo", replicas=8, cpu="1", **asked))
    told = plan(files, fleet)["demo"]
    shown = run("plan", "-f", files, "--fleet", fleet).stdout
    left = told["moveLater"]
    assert left > 0
    line = f"  first step of a move: {left} replicas move later; stowage simulate shows the end"
    assert line in shown.splitlines()
    end = run("simulate", "-f", files, "--fleet", fleet).stdout.splitlines()
    row = next(line.split() for line in end if line.startswith("shop/demo"))
    moved = 8 - shares(told).get("a", 0)
    assert str(moved + left) == row[3], "the end is all of it"


def told_by(name: str, **facts: Any) -> dict[str, Any]:
    body = cluster(name)
    body["status"] |= facts
    return body


@pytest.mark.proves("KD59", "KD61", "KD65")
def test_files_know_what_members_say(write: Write) -> None:
    """Plan, explain and simulate read the same facts of a fleet's statuses."""
    quota = {"namespace": "shop", "name": "team", "free": {"pods": "2"}}
    zones = [
        {"count": 1, "free": {"cpu": "8", "pods": "9"}, "labels": {ZONE: zone}}
        for zone in ("eu-1a", "eu-1b")
    ]
    fleet = write(
        "fleet.yaml",
        told_by("m1", quotas=[quota], kinds=[]),
        told_by("m2", quotas=[quota], kinds=[], nodeGroups=zones),
    )
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}}
    there = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["eu-1b"]}]}
    files = write(
        "w.yaml",
        workload("divided", replicas=3, distribution="Divided"),
        workload("custom", manifests=[rollout]),
    )
    found = plan(files, fleet)
    assert sum(shares(found["divided"]).values()) == 3
    assert all(share <= 2 for share in shares(found["divided"]).values())
    assert "2 clusters do not serve argoproj.io/v1alpha1 Rollout" in found["custom"]["message"]
    result = run("explain", "wl/custom", "-f", files, "--fleet", fleet, "-n", "shop")
    assert (
        result.output.count("   does not serve argoproj.io/v1alpha1 Rollout (ServedKinds)\n") == 2
    )
    zoned = write("z.yaml", workload("zoned", clusterSelector=there))
    assert shares(plan(zoned, fleet)["zoned"]) == {"m2": 2}
    large = write("large.yaml", workload("whole", replicas=5))
    result = run("explain", "wl/whole", "-f", large, "--fleet", fleet, "-n", "shop")
    assert "ResourceQuota shop/team has pods 2 left" in result.output
