"""`stowage import --from`: a live hub is read by get and list alone, and gives what its files do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from machinery.errors import ConfigurationError
from stowage.importing.reading import CLUSTER_SCOPED
from tests.stowage.importing import Files, deployment, loaded, run
from tests.stowage.plain_hub import serving
from tests.stowage.test_import_karmada import beside, member, names, override, plain, policy, select
from tests.stowage.test_import_peers import (
    argo_secret,
    fed,
    federated,
    fleet,
    managed,
    picked,
    placement,
    replica_set,
    resource_override,
)

SERVER = {"uid": "u", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}


class ApiHub:
    """Answers discovery and lists of these objects, in pages of two; refuses some plurals."""

    def __init__(self, *bodies: dict[str, Any], refused: str = "") -> None:
        self.bodies = [{**b, "metadata": {**b["metadata"], **SERVER}} for b in bodies]
        self.refused = refused
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        versions = {body["apiVersion"] for body in self.bodies}
        if path == "/apis":
            groups = sorted({v.partition("/")[0] for v in versions if "/" in v})
            return 200, {"groups": [self._group(group, versions) for group in groups]}
        if group := re.fullmatch(r"/apis/([^/]+)", path):
            found = any(v.startswith(f"{group[1]}/") for v in versions)
            return (
                (200, self._group(group[1], versions)) if found else (404, {"reason": "NotFound"})
            )
        if version := re.fullmatch(r"/apis?/((?:[^/]+/)?v[^/]+)", path):
            return 200, {"resources": [*self._resources(version[1])]}
        return self._list(path, query)

    def _group(self, group: str, versions: set[str]) -> dict[str, Any]:
        own = sorted(v for v in versions if v.startswith(f"{group}/"))
        listed = [{"groupVersion": v, "version": v.partition("/")[2]} for v in own]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}

    def _resources(self, version: str) -> Any:
        for kind in sorted({b["kind"] for b in self.bodies if b["apiVersion"] == version}):
            yield {
                "name": f"{kind.lower()}s",
                "kind": kind,
                "namespaced": kind not in CLUSTER_SCOPED and not kind.startswith("Cluster"),
                "verbs": ["get", "list"],
            }

    def _list(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        found = re.fullmatch(r"/apis?/((?:[^/]+/)?v[^/]+)(?:/namespaces/([^/]+))?/(\w+)", path)
        assert found, path
        if found[3] == self.refused:
            return 403, {"reason": "Forbidden", "message": "no"}
        items = [
            body
            for body in self.bodies
            if (body["apiVersion"], f"{body['kind'].lower()}s") == (found[1], found[3])
            and found[2] in (None, body["metadata"].get("namespace"))
        ]
        if "labelSelector" in query:
            key, _, value = query["labelSelector"][0].partition("=")
            items = [b for b in items if b["metadata"].get("labels", {}).get(key) == value]
        at = int(query.get("continue", ["0"])[0])
        onward = {"continue": str(at + 2)} if at + 2 < len(items) else {}
        return 200, {"items": items[at : at + 2], "metadata": onward}


GIVEN = {
    "karmada": [
        policy(select(), select("Service", "v1"), placement={"clusterAffinity": names("m1", "m2")}),
        policy(select("ConfigMap", "v1"), name="conf"),
        override((names("m1"), plain("/metadata/labels/a", "b", "add"))),
        member("m1"),
        member("m2"),
        deployment(),
        beside("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        *(beside("ConfigMap", f"c{n}") for n in range(5)),
    ],
    "ocm": [placement(numberOfClusters=1), replica_set(), managed("a"), managed("b")],
    "kubefleet": [
        picked(policy={"placementType": "PickAll"}),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        fleet("m1", region="eu"),
        resource_override(),
        deployment(),
        beside("ConfigMap", "conf"),
    ],
    "kubefed": [federated(placement={"clusters": [{"name": "a"}]}), fed("a")],
    "argocd": [argo_secret()],
}


def imported(folder: Path, hub: ApiHub, system: str, *args: str) -> Result:
    with serving(hub.answer, folder) as file:
        return run("import", "--from", system, "--kubeconfig", file, *args)


@pytest.mark.proves("IM4")
@pytest.mark.parametrize("system", GIVEN)
def test_a_hub_gives_what_its_objects_in_files_give(tmp_path: Path, system: str) -> None:
    hub = ApiHub(*GIVEN[system])
    live = imported(tmp_path, hub, system, "-A", "--lossy")
    assert live.exit_code == 0, live.output
    files = Files(tmp_path)
    assert live.stdout == run("import", "-f", files.write(*hub.bodies), "--lossy").stdout
    assert live.stdout == run("import", "-f", files.write(*GIVEN[system]), "--lossy").stdout


@pytest.mark.proves("IM4")
def test_what_a_rule_of_all_namespaces_makes_is_in_the_one_asked_for(tmp_path: Path) -> None:
    wide = policy(select("ConfigMap", "v1"), name="conf", kind="ClusterPropagationPolicy")
    hub = ApiHub(wide, beside("ConfigMap", "c"), member("m1"))
    live = imported(tmp_path, hub, "karmada", "-n", "shop", "--lossy")
    found = {each["kind"]: each["metadata"] for each in loaded(live.stdout)}
    assert found["Workload"] == {"name": "conf", "namespace": "shop"}
    files = Files(tmp_path)
    given = run("import", "-f", files.write(*hub.bodies), "-n", "shop", "--lossy")
    assert live.stdout == given.stdout


@pytest.mark.proves("IM4")
def test_a_right_that_lacks_is_named(tmp_path: Path) -> None:
    hub = ApiHub(*GIVEN["karmada"], refused="overridepolicys")
    result = imported(tmp_path, hub, "karmada", "-n", "shop")
    assert isinstance(result.exception, ConfigurationError)
    text = "the right to list overridepolicys.policy.karmada.io in namespace shop lacks"
    assert text in str(result.exception)
    assert result.stdout == ""


@pytest.mark.proves("IM4")
def test_only_what_the_rules_select_is_read(tmp_path: Path) -> None:
    hub = ApiHub(*GIVEN["karmada"], beside("Secret", "pw"), beside("Pod", "p", spec={}))
    assert imported(tmp_path, hub, "karmada", "-n", "shop", "--lossy").exit_code == 0
    assert not [path for path in hub.asked if path.endswith(("/secrets", "/pods"))]
    read = [path for path in hub.asked if path.endswith("/deployments")]
    assert read
    assert all("/namespaces/shop/" in path for path in read)


def test_nothing_of_a_namespace_without_objects(tmp_path: Path) -> None:
    hub = ApiHub(federated(placement={}))
    result = imported(tmp_path, hub, "kubefed", "-n", "other")
    assert "-A reads all" in str(result.exception)


def test_files_or_a_hub(tmp_path: Path) -> None:
    file = Files(tmp_path).write(policy())
    assert run("import").exit_code == 2
    assert run("import", "-f", file, "--from", "karmada").exit_code == 2
    assert run("import", "-f", file, "-A").exit_code == 2
    assert run("import", "--from", "nobody").exit_code == 2
