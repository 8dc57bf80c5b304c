"""`stowage import` itself: its streams and exit codes, what goes along, and input built to harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.errors import ConfigurationError
from stowage.console.yamltext import dump
from tests.stowage.importing import (
    Files,
    bound,
    clone_set,
    controlled,
    deployment,
    pod,
    policy,
    reservation,
    run,
    runs,
    said,
    spread,
    subset,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def beside(kind: str, name: str, **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **body}


# --- streams, exit codes --------------------------------------------------------------------------


def test_several_files_folders_and_standard_input(files: Files, tmp_path: Path) -> None:
    alone = files.imported(policy(), bound())
    first = files.write(policy(), name="a.yaml")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.json").write_text(json.dumps({"kind": "List", "items": [bound()]}))
    result = run("import", "-f", first, "-f", tmp_path / "more")
    again = run("import", "-f", "-", input=yaml.safe_dump_all([policy(), bound()], sort_keys=False))
    assert result.stdout == again.stdout
    assert len(list(yaml.safe_load_all(result.stdout))) == len(alone)
    assert "standard input: " in again.stderr


def test_a_loss_prints_nothing_unless_it_is_accepted(files: Files) -> None:
    given = policy(new=1), bound()
    refused = files.result(*given)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "1 field cannot be kept true" in str(refused.exception)
    accepted = files.result(*given, lossy=True)
    assert accepted.exit_code == 0
    assert said(accepted) == said(refused)


def test_the_example_of_openkruise_is_kept_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = run("import", "-f", "examples/import/openkruise.yaml")
    assert made.exit_code == 0
    kinds = [each["kind"] for each in yaml.safe_load_all(made.stdout)]
    assert kinds == ["Workload", "WorkloadSpread"]


def test_the_example_of_koordinator_is_kept_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = run("import", "-f", "examples/import/koordinator.yaml")
    assert made.exit_code == 0
    reservation, workload = yaml.safe_load_all(made.stdout)
    assert [reservation["kind"], workload["kind"]] == ["Reservation", "Workload"]
    assert reservation["metadata"]["namespace"] == workload["metadata"]["namespace"] == "shop"


def test_every_kind_of_ours_passes_in_the_order_of_an_apply(files: Files) -> None:
    quota = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadQuota",
        "metadata": {"name": "team", "namespace": "shop"},
        "spec": {"hard": {"units": "3"}},
    }
    made = run("import", "-f", files.write(bound(), policy(), quota))
    assert made.exit_code == 0, made.stderr
    kinds = [each["kind"] for each in yaml.safe_load_all(made.stdout)]
    assert kinds == ["WorkloadQuota", "WorkloadPolicy", "Workload"]


def test_wrong_usage() -> None:
    assert run("import").exit_code == 2
    assert run("import", "--lossless", "-f", "x").exit_code == 2


def test_the_namespace_is_for_objects_that_name_none(files: Files) -> None:
    given = [policy(), bound()]
    for each in given:
        del each["metadata"]["namespace"]
    made = files.imported(*given)
    assert "namespace" not in made["Workload/web"]["metadata"]
    result = run("import", "-f", files.write(*given), "-n", "shop")
    named = [each["metadata"]["namespace"] for each in yaml.safe_load_all(result.stdout)]
    assert named == ["shop", "shop"]


def test_objects_of_another_namespace_are_others(files: Files) -> None:
    other = deployment()
    other["metadata"]["namespace"] = "elsewhere"
    assert "no Deployment web" in files.refusal(spread(subset("a")), other)


def test_texts_of_many_lines_can_be_read() -> None:
    assert dump([{"a": "one\ntwo\n"}]) == "a: |\n  one\n  two\n"


EVIL = "web\nlost: all of it\u2028note: x\r"


def test_what_a_file_says_begins_no_line_of_its_own(files: Files) -> None:
    """Whatever a name or a label holds, each note has one line."""
    named, labelled = bound(), bound()
    named["metadata"]["name"] = EVIL
    labelled["spec"]["template"]["metadata"]["labels"]["workload-policy/kosmos.io"] = EVIL
    for each in (named, labelled):
        notes = files.result(policy(), each).stderr.splitlines()
        assert all(note.startswith(f"note: {files.folder}") for note in notes)
        assert any("web lost: all of it note: x" in note for note in notes)


def test_what_a_file_says_keeps_an_error_in_one_line(files: Files) -> None:
    named, labelled = bound(), bound()
    named["metadata"]["name"] = EVIL
    two = {"workload-policy/kosmos.io": EVIL, "workload-policy.kosmos.io": "other"}
    labelled["spec"]["template"]["metadata"]["labels"] = two
    for each in (named, labelled):
        refused = files.refusal(policy(), each)
        assert len(refused.splitlines()) == 1
        assert "web lost: all of it note: x" in refused


def test_a_long_note_is_said_to_its_end(files: Files) -> None:
    domains = [{"name": f"domain-{number}", "replicas": 1} for number in range(1000)]
    assert any("domain-999" in note for note in files.notes(policy(allocationPolicy=domains)))


# --- what a server wrote --------------------------------------------------------------------------


def test_what_a_server_wrote_is_left_out_in_one_note(files: Files) -> None:
    given = bound()
    given["metadata"] |= {
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    given["status"] = {"replicas": 1}
    held = files.imported(policy(), given)["Workload/web"]["spec"]["targetDeployment"]
    assert held["metadata"] == {"name": "web", "labels": {"team": "a"}}
    notes = [each for each in files.notes(policy(), given) if "Deployment web: metadata: " in each]
    assert len(notes) == 1


def test_owners_and_finalizers_are_a_loss(files: Files) -> None:
    given = bound()
    given["metadata"] |= {"ownerReferences": [{"kind": "App"}], "finalizers": ["a/b"]}
    assert len(files.losses(policy(), given)) == 2


def test_nulls_are_as_good_as_nothing(files: Files) -> None:
    given = policy(brandNew=None, allocationType=None)
    given["metadata"]["creationTimestamp"] = None
    assert files.imported(given) == files.imported(policy())


# --- pods on several clusters ---------------------------------------------------------------------

ZONES = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {}}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"affinity": {"podAntiAffinity": {HARD: [ZONES]}}}, "affinity.podAntiAffinity"),
        ({"affinity": {"podAffinity": {HARD: [ZONES]}}}, "affinity.podAffinity"),
        (
            {
                "topologySpreadConstraints": [
                    {**ZONES, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "topologySpreadConstraints[0].topologyKey",
        ),
    ],
)
def test_rules_that_reach_over_clusters_are_a_loss(files: Files, spec: Any, field: str) -> None:
    given = spread(subset("a")), deployment(**spec)
    [lost] = files.losses(*given)
    assert f"spec.template.spec.{field}" in lost
    held = files.imported(*given, lossy=True)["Workload/web"]["spec"]["targetDeployment"]
    assert held["spec"]["template"] == given[1]["spec"]["template"]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": []}}}},
        {"affinity": {"podAntiAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": ZONES}]}}},
        {"topologySpreadConstraints": [{**ZONES, "whenUnsatisfiable": "ScheduleAnyway"}]},
    ],
)
def test_rules_that_mean_less_are_noted(files: Files, spec: dict[str, Any]) -> None:
    plain = len(files.notes(spread(subset("a")), deployment()))
    assert files.imported(spread(subset("a")), deployment(**spec))
    assert len(files.notes(spread(subset("a")), deployment(**spec))) == plain + 1


# --- what goes along ------------------------------------------------------------------------------


def test_services_and_what_pods_ask_for_go_along(files: Files) -> None:
    asked = pod(
        serviceAccountName="web",
        volumes=[{"name": "a", "configMap": {"name": "conf"}}],
        imagePullSecrets=[{"name": "pull"}],
    )
    target = runs("apps/v1", "Deployment", replicas=2, template=asked)
    ports = [{"port": 80}]
    given = (
        spread(subset("a")),
        target,
        beside(
            "Service",
            "one",
            spec={"selector": {"app": "web"}, "ports": ports, "clusterIP": "10.1.2.3"},
        ),
        beside(
            "Service", "two", spec={"selector": {"app": "web"}, "ports": ports, "clusterIP": "None"}
        ),
        beside("ConfigMap", "conf", data={"a": "b"}),
        beside("ServiceAccount", "web"),
        beside("Secret", "pull", stringData={"a": "hidden"}),
    )
    made = files.imported(*given)
    assert list(made) == ["Workload/web", "WorkloadSpread/web-spread"]
    spec = made["Workload/web"]["spec"]
    settings, one, two, account = spec["manifests"]
    assert one == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one"},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    }
    assert settings["metadata"]["name"] == "conf"
    assert two["spec"]["clusterIP"] == "None"
    assert account["kind"] == "ServiceAccount"
    assert spec["resources"] == [{"name": "pull"}]
    result = files.result(*given)
    assert "hidden" not in result.stdout
    assert "apply it to the hub" in result.stderr
    assert "these files do not have" not in result.stderr


def test_what_pods_ask_for_and_nobody_brings_is_named(files: Files) -> None:
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "pw", "key": "a"}}}]
    containers = [{"name": "main", "image": "app:1", "env": env}]
    notes = files.notes(spread(subset("a")), deployment(containers=containers))
    assert any("its pods ask for Secret pw, which these files do not have" in n for n in notes)


def test_a_claim_that_all_share_is_a_loss(files: Files) -> None:
    volume = {"name": "a", "persistentVolumeClaim": {"claimName": "disk"}}
    claim = beside("PersistentVolumeClaim", "disk", spec={})
    [lost] = files.losses(spread(subset("a")), deployment(volumes=[volume]), claim)
    assert "an empty volume of its own" in lost


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (beside("ConfigMap", "conf"), "put it into spec.manifests of one, or apply it"),
        (beside("Service", "x", spec={"selector": {"app": "other"}}), "put it into spec.manifests"),
        (beside("Service", "x", spec={"ports": []}), "put it into spec.manifests"),
        (beside("Namespace", "x"), "put it into spec.manifests"),
        (
            runs("apps/v1", "Deployment") | {"metadata": {"name": "y"}},
            "no policy, spread or group here names it; it is left out: `stowage wrap` makes",
        ),
        (
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "x"},
            },
            "let its scaleTargetRef name the Workload",
        ),
    ],
)
def test_of_all_else_a_note_says_what_to_do(files: Files, other: Any, text: str) -> None:
    given = spread(subset("a")), deployment(), other
    assert list(files.imported(*given)) == ["Workload/web", "WorkloadSpread/web-spread"]
    assert any(text in note for note in files.notes(*given))


def test_an_unknown_kind_is_named_with_file_and_document(files: Files) -> None:
    other = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    [lost] = files.losses(spread(subset("a")), deployment(), other)
    assert "Thing of example.com is not a kind that can be imported" in lost
    assert "in.yaml, document 3" in lost


def test_objects_of_ours_pass_through(files: Files) -> None:
    output = files.result(policy(), bound()).stdout
    own = list(yaml.safe_load_all(output))
    assert files.result(*own).stdout == output
    own[1]["metadata"] |= {"uid": "u", "finalizers": ["stowage.dev/propagation"]}
    own[1]["status"] = {"state": "Running"}
    assert files.result(*own).stdout == output


def test_files_without_anything_to_import_are_an_error(files: Files) -> None:
    assert "none of these objects" in files.refusal(beside("ConfigMap", "conf"))
    assert "there is no object" in files.refusal()


# --- input built to harm --------------------------------------------------------------------------


def refusal(files: Files, text: str) -> str:
    path = files.folder / "in.yaml"
    path.write_text(text)
    result = run("import", "-f", path)
    assert isinstance(result.exception, ConfigurationError), result.output
    assert not result.stdout
    return str(result.exception)


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)
CHARACTERS = f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + BOMB, "aliases stand for more than"),
        (HEAD + CHARACTERS, "aliases stand for more than"),
        (HEAD + "data: &a {b: *a}\n", "aliases stand for more than"),
        (HEAD + "data: " + "[" * 200 + "]" * 200, "nested more than"),
        (HEAD + "data: " + "[" * 20_000, "not YAML"),
        (HEAD + "data: {1: a}\n", "the key 1 must be a text"),
        (HEAD + "data: {on: a}\n", "the key True must be a text"),
        (HEAD + "data: .nan\n", "JSON has no such value"),
        (HEAD + "data: !!binary aGk=\n", "JSON has no such value"),
        (HEAD + f"data: {'9' * 30}\n", "JSON has no such value"),
        (HEAD + f"data: {'9' * 5000}\n", "not YAML that can be read"),
        (HEAD + "data: !!python/object:os.system x\n", "not YAML"),
        (HEAD + "kind: Secret\n", "'kind' twice"),
        ("kind: [", "not YAML"),
        ("5\n", "an object is expected"),
        ("kind: List\nitems: 5\n", "an object is expected"),
        ("kind: ConfigMap\n", "in.yaml, document 1: ConfigMap: apiVersion: is missing"),
        ("apiVersion: v1\n", "kind: is missing"),
        ("apiVersion: v1\nkind: ConfigMap\n", "metadata.name: is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}\n", "metadata.name: is missing"),
        (f"{HEAD}---\n{HEAD}", "is in"),
    ],
)
def test_input_built_to_harm_is_an_error(files: Files, text: str, expected: str) -> None:
    assert expected in refusal(files, text)


def test_files_that_cannot_be_read(files: Files) -> None:
    for name in ("missing.yaml", "/dev/zero"):
        result = run("import", "-f", name)
        assert isinstance(result.exception, ConfigurationError)
        assert name in str(result.exception)
    (files.folder / "b.yaml").write_bytes(b"a: \xff")
    assert "UTF-8" in str(run("import", "-f", files.folder / "b.yaml").exception)


WRONG: tuple[Any, ...] = (None, 5, True, "text", [1], {"a": 1}, [{}])


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_no_wrong_type_anywhere_is_more_than_an_error(files: Files, wrong: Any) -> None:
    """Each field of an input in turn is something else: it is refused, or it goes through."""
    given = [policy(), bound(), spread(subset("a", 1, tolerations=[{"key": "a"}]), subset("b"))]
    given.append(_reserved())
    own = {"targetDeployment": deployment()}
    head = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload"}
    given.append({**head, "metadata": {"name": "own"}, "spec": own})
    for index, one in enumerate(given):
        for path in _paths(one):
            changed = [*given]
            changed[index] = _replaced(one, path, wrong)
            result = files.result(*changed, lossy=True)
            fine = result.exit_code == 0 or isinstance(result.exception, ConfigurationError)
            assert fine, (path, result.exception)


@pytest.mark.long
def test_no_field_goes_without_a_trace(files: Files) -> None:
    """Whatever one changes in an input shows: in the output, in the notes, or as an error."""
    silent = [".".join(map(str, path)) for one, path in _leaves() if not _shows(files, one, path)]
    assert silent == [  # named as a whole: what is in them makes no difference
        "spec.updateStrategy.inPlaceUpdateStrategy.a",
        "spec.scaleStrategy.podsToDelete.0",
        "spec.targetRef.apiVersion",
        "spec.owners.0.object.uid",
        "spec.owners.0.object.resourceVersion",
        "spec.owners.0.object.fieldPath",
        "spec.owners.1.controller.uid",
        "spec.preAllocation",
        "spec.unschedulable",
        "spec.taints.0.key",
        "spec.taints.0.value",
        "spec.taints.0.effect",
    ]


def _given() -> list[Any]:
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}}
    tolerated = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    patch = {"metadata": {"labels": {"x": "y"}}}
    some = subset("a", 1, tolerations=[tolerated], patch=patch)
    update = {"type": "InPlaceIfPossible", "maxSurge": 2, "inPlaceUpdateStrategy": {"a": 1}}
    claim = {"metadata": {"name": "d"}, "spec": {"storageClassName": "s"}}
    clones = clone_set(
        updateStrategy=update, volumeClaimTemplates=[claim], scaleStrategy={"podsToDelete": ["p"]}
    )
    return [
        policy(scheduleStrategy="Fill"),
        clones,
        spread(some, target=clones, scheduleStrategy=strategy),
        _reserved(),
    ]


def _reserved() -> dict[str, Any]:
    """A Reservation with all its fields, and two owners that have all of theirs."""
    named = {"kind": "Pod", "namespace": "shop", "name": "a", "uid": "u"}
    read = {"resourceVersion": "1", "fieldPath": "spec"}
    flags = {"uid": "v", "controller": True, "blockOwnerDeletion": True}
    expression = {"key": "tier", "operator": "In", "values": ["gold"]}
    labels = {"matchLabels": {"app": "web"}, "matchExpressions": [expression]}
    return reservation(
        {"object": {**named, **read}, "labelSelector": labels},
        controlled("StatefulSet", "db", **flags),
        ttl="24h",
        expires="2030-01-01T00:00:00Z",
        allocateOnce=False,
        allocatePolicy="Aligned",
        preAllocation=True,
        unschedulable=True,
        taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}],
    )


def _leaves() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    for one in _given():
        for path in _paths(one):
            if not isinstance(_at(one, path), dict | list):
                yield one, path


def _shows(files: Files, one: Any, path: tuple[Any, ...]) -> bool:
    before = files.result(*_given(), lossy=True)
    assert before.exit_code == 0, before.exception
    value = _at(one, path)
    other = _replaced(one, path, value + 1 if isinstance(value, int) else f"{value}x")
    after = files.result(*(other if each == one else each for each in _given()), lossy=True)
    return after.exit_code != 0 or (after.stdout, after.stderr) != (before.stdout, before.stderr)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _paths(value: Any) -> list[tuple[Any, ...]]:
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    return [path for key in keys for path in ((key,), *((key, *p) for p in _paths(value[key])))]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copied
