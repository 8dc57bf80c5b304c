"""`stowage wrap`: what becomes of the objects of a chart, in each form in which they come."""

from __future__ import annotations

import copy
import itertools
import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import Result

from crds.admission.validation import object_violations
from machinery.errors import ConfigurationError
from stowage.wrapping.objects import HELM_FILE
from tests.stowage.importing import loaded, run, written

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "deploy/helm-plugin/plugin.yaml"
INSTANCE = "app.kubernetes.io/instance"


def thing(api_version: str, kind: str, name: str, **body: Any) -> dict[str, Any]:
    labels = {INSTANCE: "shop"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        **body,
    }


def pods(app: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", **spec.pop("container", {})}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def runs(
    kind: str, app: str, *, replicas: int | None = None, more: Any = (), **spec: Any
) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"app": app}}, "template": pods(app, **spec), **dict(more)}
    return thing("apps/v1", kind, app, spec=body | ({"replicas": replicas} if replicas else {}))


def hooked(each: dict[str, Any], when: str = "pre-upgrade") -> dict[str, Any]:
    return {**each, "metadata": {**each["metadata"], "annotations": {"helm.sh/hook": when}}}


def placed(each: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {**each["metadata"], **({"namespace": namespace} if namespace else {})}
    return {**each, "metadata": metadata}


PASSWORD = {"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "password", "key": "p"}}}]}
SETTINGS = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
WEB = runs("Deployment", "web", serviceAccountName="shop", container=SETTINGS)
DB = runs("StatefulSet", "db", replicas=3, more={"serviceName": "db"}, serviceAccountName="shop", container=PASSWORD)  # fmt: skip
SEED = thing("batch/v1", "Job", "seed", spec={"template": pods("seed", restartPolicy="Never")})
ROUTE = {
    "path": "/",
    "pathType": "Prefix",
    "backend": {"service": {"name": "web", "port": {"number": 80}}},
}
HPA = thing(
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    "web",
    spec={
        "minReplicas": 2,
        "maxReplicas": 9,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    },
)
CHART = [
    thing("v1", "ServiceAccount", "shop"),
    thing("v1", "Secret", "password", stringData={"p": "canary"}),
    thing("v1", "Secret", "tls", stringData={"tls.crt": "canary"}),
    thing("v1", "ConfigMap", "settings", data={"a": "b"}),
    thing("v1", "ConfigMap", "stray", data={"a": "b"}),
    thing("rbac.authorization.k8s.io/v1", "Role", "reader", rules=[]),
    thing("rbac.authorization.k8s.io/v1", "RoleBinding", "reader", roleRef={"kind": "Role", "name": "reader"}, subjects=[{"kind": "ServiceAccount", "name": "shop"}]),
    thing("v1", "Service", "db", spec={"clusterIP": "None", "selector": {"app": "db"}}),
    thing("v1", "Service", "web", spec={"selector": {"app": "web"}}),
    WEB,
    HPA,
    DB,
    SEED,
    thing("networking.k8s.io/v1", "Ingress", "web", spec={"tls": [{"secretName": "tls"}], "rules": [{"http": {"paths": [ROUTE]}}]}),
    thing("policy/v1", "PodDisruptionBudget", "db", spec={"selector": {"matchLabels": {"app": "db"}}}),
    thing("monitoring.coreos.com/v1", "ServiceMonitor", "web", spec={"selector": {"matchLabels": {INSTANCE: "shop"}}}),
]  # fmt: skip
HOOK = hooked(
    thing("batch/v1", "Job", "migrate", spec={"template": pods("m", restartPolicy="Never")})
)


def stream(objects: Iterable[Any]) -> str:
    return written(*objects)


def wrapped(objects: Iterable[Any], *options: str) -> Result:
    return run("wrap", *options, input=stream(objects))


def listed(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0, result.exception
    found = loaded(result.stdout)
    by_name = {f"{each['kind']}/{each['metadata']['name']}": each for each in found}
    assert len(by_name) == len(found)
    return by_name


def held(workload: dict[str, Any]) -> Iterator[str]:
    for each in workload["spec"].get("manifests", ()):
        yield f"{each['kind']}/{each['metadata']['name']}"


def workloads(result: Result) -> dict[str, dict[str, Any]]:
    return {n: e for n, e in listed(result).items() if e["kind"] == "Workload"}


def notes(result: Result) -> dict[str, str]:
    lines = [line.removeprefix("note: standard input: ") for line in result.stderr.splitlines()]
    return {name: text for name, _, text in (line.partition(": ") for line in lines)}


# --- Workloads ------------------------------------------------------------------------------------


@pytest.mark.proves("IM18")
def test_a_secret_of_another_namespace_goes_along_with_nothing() -> None:
    """A Workload that named it would wait for it, as Secrets come from its own namespace."""
    objects = [placed(each, "shop") for each in CHART if each["metadata"]["name"] != "tls"]
    tls = thing("v1", "Secret", "tls", stringData={"tls.crt": "canary"})
    for where, named in (("other", None), ("shop", [{"name": "tls"}]), ("", [{"name": "tls"}])):
        made = workloads(wrapped([*objects, placed(tls, where)]))
        assert made["Workload/web"]["spec"].get("resources") == named


@pytest.mark.proves("IM16")
def test_each_object_of_a_chart_is_in_one_place() -> None:
    result = wrapped([*CHART, HOOK])
    made = listed(result)
    web, db, seed = (made[f"Workload/{name}"] for name in ("web", "db", "seed"))
    assert set(held(web)) == {"ConfigMap/settings", "Service/web", "Ingress/web", "Role/reader", "RoleBinding/reader", "ServiceMonitor/web"}  # fmt: skip
    assert set(held(db)) == {"Service/db", "PodDisruptionBudget/db"}
    assert list(held(seed)) == []
    assert list(held(made["Workload/shop-rest"])) == ["ConfigMap/stray"]
    assert made.keys() - {f"Workload/{name}" for name in ("web", "db", "seed", "shop-rest")} == {
        "ServiceAccount/shop",
        "Secret/password",
        "Secret/tls",
        "HorizontalPodAutoscaler/web",
        "Job/migrate",
    }
    assert web["spec"]["targetDeployment"]["kind"] == "Deployment"
    assert db["spec"]["template"]["kind"] == "StatefulSet"
    assert db["spec"]["replicas"] == 3
    assert "replicas" not in db["spec"]["template"]["spec"]
    assert made["Workload/shop-rest"]["spec"]["distribution"] == "Duplicated"
    for each in workloads(result).values():
        assert object_violations("Workload", each) == []
    total = len(made) + sum(len(list(held(each))) for each in workloads(result).values())
    assert total == len(CHART) + 2  # the hook, and the Workload of the rest


@pytest.mark.proves("IM16")
def test_a_hook_and_a_stray_object_are_named() -> None:
    told = notes(wrapped([*CHART, HOOK]))
    assert told["Job migrate"] == "is a hook (pre-upgrade): its tool runs it, on the hub"
    assert told["ConfigMap stray"].endswith("it goes with shop-rest, on each cluster")
    asked = wrapped(CHART, "--rest-with", "db")
    assert "ConfigMap/stray" in set(held(listed(asked)["Workload/db"]))
    assert notes(asked)["ConfigMap stray"].endswith("it goes with the Workload db")
    assert set(workloads(asked)) == {"Workload/web", "Workload/db", "Workload/seed"}


@pytest.mark.proves("IM16")
def test_the_rest_needs_a_name_where_no_label_gives_one() -> None:
    stray = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray"}}
    refused = wrapped([stray, {**SEED, "metadata": {"name": "seed"}}])
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert str(refused.exception) == (
        "standard input, document 1: ConfigMap stray: no object here refers to it: name the "
        "Workload that takes it along by --rest-with: seed, or a new one"
    )
    odd = {**stray, "metadata": {"name": "stray", "labels": {INSTANCE: "My_Release"}}}
    assert "--rest-with" in str(wrapped([odd]).exception)
    told = str(wrapped([stray], "--rest-with", "Bad_Name").exception)
    assert told == "--rest-with: 'Bad_Name' cannot be a Workload's name"
    named = wrapped([stray], "--rest-with", "common")
    assert list(held(workloads(named)["Workload/common"])) == ["ConfigMap/stray"]


@pytest.mark.proves("IM16")
def test_an_autoscaler_scales_the_workload() -> None:
    made = listed(wrapped([WEB, HPA]))
    target = made["HorizontalPodAutoscaler/web"]["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
    assert made["Workload/web"]["spec"]["replicas"] == 2
    other = {**HPA, "spec": {**HPA["spec"], "scaleTargetRef": {"kind": "Deployment", "name": "x"}}}
    kept = listed(wrapped([runs("Deployment", "web", replicas=4), other], "--rest-with", "web"))
    assert "HorizontalPodAutoscaler/web" in set(held(kept["Workload/web"]))
    assert kept["Workload/web"]["spec"]["replicas"] == 4
    keda = thing("keda.sh/v1alpha1", "ScaledObject", "web", spec={"minReplicaCount": 3, "scaleTargetRef": {"name": "web", "envSourceContainerName": "main"}})  # fmt: skip
    scaled = listed(wrapped([WEB, keda]))
    assert scaled["ScaledObject/web"]["spec"]["scaleTargetRef"] == {**target, "envSourceContainerName": "main"}  # fmt: skip
    assert scaled["Workload/web"]["spec"]["replicas"] == 3
    own = runs("Deployment", "web", replicas=4)
    assert listed(wrapped([own, HPA]))["Workload/web"]["spec"]["replicas"] == 4


@pytest.mark.proves("IM16")
def test_two_of_one_name_are_two_workloads() -> None:
    job = thing("batch/v1", "CronJob", "web", spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": pods("w")}}})  # fmt: skip
    result = wrapped([job, WEB, thing("v1", "ConfigMap", "settings")])
    assert set(workloads(result)) == {"Workload/web", "Workload/web-cronjob"}
    assert (
        workloads(result)["Workload/web-cronjob"]["spec"]["template"]["metadata"]["name"] == "web"
    )
    assert "becomes the Workload web-cronjob" in notes(result)["CronJob web"]


@pytest.mark.proves("IM16")
def test_what_pods_of_one_name_goes_with_it_whoever_names_it_too() -> None:
    first = runs("Deployment", "a")
    monitor = thing("x.example/v1", "Probe", "p", spec={"configMapName": "settings", "selector": {"matchLabels": {"app": "a"}}})  # fmt: skip
    result = wrapped([first, WEB, monitor, thing("v1", "ConfigMap", "settings")])
    made = workloads(result)
    assert set(held(made["Workload/web"])) == {"ConfigMap/settings"}
    assert set(held(made["Workload/a"])) == {"Probe/p"}


@pytest.mark.proves("IM16")
def test_what_several_workloads_need_stays_on_the_hub_and_is_followed() -> None:
    other = runs("Deployment", "api", container=SETTINGS)
    result = wrapped([WEB, other, thing("v1", "ConfigMap", "settings")])
    made = listed(result)
    assert "ConfigMap/settings" in made
    for name in ("web", "api"):
        assert made[f"Workload/{name}"]["spec"]["dependencies"] == "Follow"
    assert notes(result)["ConfigMap settings"] == (
        "stays on the hub, and goes along with each of web, api"
    )
    assert "stowage tenant add NAMESPACE" in result.stderr


def test_a_kind_goes_with_its_objects() -> None:
    crd = thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "backups.x.example", spec={"group": "x.example", "names": {"kind": "Backup"}})  # fmt: skip
    backup = thing("x.example/v1", "Backup", "db", spec={"ref": {"kind": "StatefulSet", "name": "db"}})  # fmt: skip
    result = wrapped([crd, DB, backup])
    assert set(held(workloads(result)["Workload/db"])) == {
        "CustomResourceDefinition/backups.x.example",
        "Backup/db",
    }
    assert "brings along apiextensions.k8s.io/CustomResourceDefinition: " in result.stderr


def test_namespaces_of_objects_hold() -> None:
    def at(each: dict[str, Any], namespace: str) -> dict[str, Any]:
        return {**each, "metadata": {**each["metadata"], "namespace": namespace}}

    settings = thing("v1", "ConfigMap", "settings")
    made = list(
        yaml.safe_load_all(
            wrapped([at(WEB, "a"), at(WEB, "b"), at(settings, "a"), at(settings, "b")]).stdout
        )
    )
    for each, namespace in zip(made, "ab", strict=True):
        assert each["metadata"]["namespace"] == namespace
        assert [m["metadata"] for m in each["spec"]["manifests"]] == [settings["metadata"]]
        assert "namespace" not in each["spec"]["targetDeployment"]["metadata"]
    put = listed(wrapped([WEB, settings, CHART[0], CHART[1]], "-n", "shop"))
    assert {each["metadata"]["namespace"] for each in put.values()} == {"shop"}
    refused = wrapped([at(CHART[5], "kube-system"), at(CHART[6], "kube-system"), WEB, CHART[0]])
    assert refused.exit_code == 1
    assert "no Workload brings anything into kube-system" in str(refused.exception)


def test_bare_and_broken_input_is_told() -> None:
    assert str(run("wrap", input="").exception) == "there is no object to wrap"
    assert "metadata.name: is missing" in str(
        run("wrap", input="apiVersion: v1\nkind: X").exception
    )
    assert "not YAML" in str(run("wrap", input="{").exception)
    assert str(run("wrap", "-f", "/none.yaml").exception) == "/none.yaml: No such file or directory"
    wrong = runs("Deployment", "web")
    wrong["spec"]["replicas"] = -1
    told = str(wrapped([wrong]).exception)
    assert told.startswith("standard input, document 1: Deployment web: as the Workload web")
    assert "spec.replicas" in told
    same = [WEB, {**WEB, "spec": {}}, {**WEB, "spec": {}}]
    assert "has the name of that of Deployment web" in str(wrapped(same).exception)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inner:
            yield from paths(each, (*path, key))


def test_odd_values_are_told_and_crash_nothing() -> None:
    crd = thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x", spec={"group": "x.example", "names": {"kind": "X"}})  # fmt: skip
    odd = itertools.cycle(["x", 3, [], None, {}, [None], True])
    tried = 0
    for each in (WEB, HPA, CHART[6], CHART[8], CHART[13], CHART[14], DB, HOOK, crd):
        for path in paths(each):
            if not path or path[0] in ("apiVersion", "kind"):
                continue
            made = copy.deepcopy(each)
            inside = made
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = next(odd)
            others = [other for other in (WEB, CHART[8], CHART[0]) if other is not each]
            result = wrapped([made, *others], "--rest-with", "web")
            assert result.exception is None or isinstance(result.exception, ConfigurationError), (
                path
            )
            tried += 1
    assert tried > 100


def test_what_tools_and_servers_wrote_is_left_out() -> None:
    live = {**WEB, "status": {"replicas": 1}}
    marks = {"internal.config.kubernetes.io/index": "3", HELM_FILE: "a.yaml", "own": "yes"}
    live["metadata"] = {**WEB["metadata"], "uid": "1", "managedFields": [], "annotations": marks}
    (made,) = workloads(wrapped([live])).values()
    inner = made["spec"]["targetDeployment"]
    assert inner["metadata"] == {**WEB["metadata"], "annotations": {"own": "yes"}}
    assert "status" not in inner


# --- Secrets --------------------------------------------------------------------------------------


@pytest.mark.proves("IM18")
def test_secrets_pass_through_and_are_followed() -> None:
    result = wrapped(CHART)
    made = listed(result)
    assert made["Secret/password"] == CHART[1]
    assert made["Workload/db"]["spec"]["dependencies"] == "Follow"
    assert made["Workload/web"]["spec"]["resources"] == [{"name": "tls"}]
    assert "canary" not in json.dumps(list(workloads(result).values()))
    assert "canary" not in result.stderr
    alone = runs("Deployment", "plain")
    assert "dependencies" not in workloads(wrapped([alone]))["Workload/plain"]["spec"]
    elsewhere = wrapped([runs("Deployment", "db", container=PASSWORD)])
    assert workloads(elsewhere)["Workload/db"]["spec"]["dependencies"] == "Follow"
    unused = wrapped([alone, CHART[1]])
    assert notes(unused)["Secret password"] == "stays on the hub, as no Workload here names it"


# --- fields laid over -----------------------------------------------------------------------------


def spec_file(folder: Path, name: str, **fields: Any) -> str:
    (folder / name).write_text(json.dumps(fields))
    return str(folder / name)


@pytest.mark.proves("IM18")
def test_fields_lie_over_each_workload_and_over_one(tmp_path: Path) -> None:
    each = spec_file(tmp_path, "all.yaml", distribution="Divided", clusterSelector={"a": "b"})
    one = spec_file(tmp_path, "db.yaml", distribution="Duplicated", resources=[{"name": "more"}])
    made = workloads(wrapped(CHART, "--spec", f"db={one}", "--spec", each))
    assert {name: made[name]["spec"].get("distribution") for name in made} == {
        "Workload/web": "Divided",
        "Workload/db": "Duplicated",
        "Workload/seed": "Divided",
        "Workload/shop-rest": "Duplicated",  # it has nothing to divide
    }
    assert all(each["spec"]["clusterSelector"] == {"a": "b"} for each in made.values())
    assert made["Workload/db"]["spec"]["resources"] == [{"name": "more"}]
    more = spec_file(tmp_path, "web.yaml", resources=[{"name": "more"}])
    web = workloads(wrapped(CHART, "--spec", f"web={more}"))["Workload/web"]
    assert web["spec"]["resources"] == [{"name": "tls"}, {"name": "more"}]


@pytest.mark.proves("IM18")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"clusterSelektor": {}}, 'over the Workload web it is refused: spec.clusterSelektor: unknown field, did you mean "clusterSelector"?'),
        ({"distribution": "Some"}, "spec.distribution: "),
        ({"manifests": []}, "FILE: manifests: wrap makes it of the objects: remove it"),
        ({"overrides": 3}, "spec.overrides: "),
        ({"resources": "x"}, "spec.resources: "),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    file = spec_file(tmp_path, "spec.yaml", **fields)
    for option in (file, f"web={file}"):
        result = wrapped(CHART, "--spec", option)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(result.exception).startswith(f"{file}: ")
        assert says in str(result.exception).replace(file, "FILE")


@pytest.mark.proves("IM18")
def test_a_name_that_no_workload_has_is_told(tmp_path: Path) -> None:
    file = spec_file(tmp_path, "spec.yaml", distribution="Divided")
    told = str(wrapped(CHART, "--spec", f"wbe={file}").exception)
    assert told == f"--spec wbe={file}: no such Workload: there are db, seed, shop-rest, web"
    (tmp_path / "two.yaml").write_text("a: b\n---\nc: d\n")
    told = str(wrapped(CHART, "--spec", str(tmp_path / "two.yaml")).exception)
    assert told.endswith("two.yaml: fields of a Workload's spec are expected here")


# --- Helm, and KRM functions ----------------------------------------------------------------------


def by_file(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As Helm 4 hands them over: in the order of their files, whose names they bear."""
    marked = []
    for each in objects:
        meta = each["metadata"]
        file = f"shop/templates/{meta['name']}-{each['kind'].lower()}.yaml"
        annotations = {**meta.get("annotations", {}), HELM_FILE: file}
        marked.append({**each, "metadata": {**meta, "annotations": annotations}})
    return sorted(marked, key=lambda each: each["metadata"]["annotations"][HELM_FILE])


def unmarked(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As Helm 4 leaves them: without the names of files."""
    for each in objects:
        annotations = each["metadata"].get("annotations", {})
        annotations.pop(HELM_FILE, None)
        if not annotations:
            each["metadata"].pop("annotations", None)
    return list(objects)


@pytest.mark.proves("IM17")
def test_both_versions_of_helm_give_the_same_workloads() -> None:
    ordered = sorted(CHART, key=lambda each: f"{each['metadata']['name']}-{each['kind'].lower()}")
    third = loaded(wrapped(ordered).stdout)
    fourth = wrapped(by_file([*CHART, HOOK]))
    found = loaded(fourth.stdout)
    for each in found:
        if each["kind"] == "Workload":
            assert HELM_FILE not in json.dumps(each["spec"])
    hooks = [each for each in found if each["metadata"]["name"] == "migrate"]
    assert hooks == by_file([HOOK])
    found.remove(hooks[0])
    assert unmarked(found) == third
    kinds = [kind for kind, _ in itertools.groupby(each["kind"] for each in third)]
    assert kinds == ["ServiceAccount", "Secret", "HorizontalPodAutoscaler", "Workload"]


@pytest.mark.proves("IM17")
def test_hooks_alone_stay_hooks() -> None:
    result = wrapped(by_file([HOOK]))
    assert loaded(result.stdout) == by_file([HOOK])


@pytest.mark.proves("IM17")
def test_a_resource_list_goes_in_and_comes_out() -> None:
    asked = {"kind": "Wrap", "apiVersion": "stowage.dev/v1alpha1", "metadata": {"name": "w"}}
    around = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
    given = {**around, "functionConfig": asked, "items": CHART}
    result = run("wrap", input=json.dumps(given))
    (made,) = yaml.safe_load_all(result.stdout)
    assert {key: made[key] for key in (*around, "functionConfig")} == {
        **around,
        "functionConfig": asked,
    }
    assert made["items"] == loaded(wrapped(CHART).stdout)
    stray = next(e for e in made["results"] if e["resourceRef"]["name"] == "stray")
    assert stray["severity"] == "info"
    assert "no object here refers to it" in stray["message"]
    empty = run("wrap", input=json.dumps({**around, "items": []}))
    assert yaml.safe_load(empty.stdout) == {**around, "items": []}
    text = thing("v1", "ConfigMap", "x", data={"kind": "ResourceList"})
    assert listed(wrapped([WEB, text], "--rest-with", "web")).keys() == {"Workload/web"}


@pytest.mark.proves("IM17")
@pytest.mark.parametrize(
    "mark", [{"previousNames": "web,web-1"}, {"previousNames": "x"}, {"needsHashSuffix": "enabled"}]
)
def test_names_that_kustomize_changes_later_are_refused(mark: dict[str, str]) -> None:
    def marked(**given: str) -> dict[str, Any]:
        annotations = {f"internal.config.kubernetes.io/{key}": text for key, text in given.items()}
        annotations["kustomize.config.k8s.io/id"] = "kind: Deployment"
        return {**WEB, "metadata": {**WEB["metadata"], "annotations": annotations}}

    result = wrapped([marked(**mark)])
    assert result.exit_code == 1
    assert "pipe `kustomize build` into `stowage wrap` instead" in str(result.exception)
    (kept,) = workloads(wrapped([marked(previousNames="web")])).values()
    assert kept["spec"]["targetDeployment"]["metadata"] == WEB["metadata"]


@pytest.mark.proves("IM17")
def test_the_plugin_for_helm_4_runs_this_command() -> None:
    plugin = yaml.safe_load(PLUGIN.read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert plugin["type"] == "postrenderer/v1"
    assert plugin["name"] == "stowage-wrap"
    assert plugin["version"] == project["version"]
    (command,) = plugin["runtimeConfig"]["platformCommand"]
    assert command["command"] in project["scripts"]
    assert run(*command["args"], "--help").exit_code == 0


def test_in_a_terminal_it_asks_for_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("stowage.commands.wrapping.sys", terminal)
    result = run("wrap")
    assert result.exit_code == 2
    assert "name the objects: -f FILE, or pipe them in" in result.stderr
