"""What pods name goes along, on real API servers: when it comes, what it is, and when it goes."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from machinery.errors import AlreadyExists, NotFound
from tests.propagator.stage import KINDS, MakeStage, Stage, configmap, deployment, settled
from tests.propagator.waits import LOOKS, until

STATEFUL_SETS = KINDS["StatefulSet"]
KINDS_THERE = (CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES)
SOON = 10.0
"""Seconds: within so many the members have what the hub has."""


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def pods(name: str = "web", *, kind: str = "Deployment", **pod: Any) -> dict[str, Any]:
    """A template with these fields of its pods."""
    body = deployment(name)
    body["kind"] = kind
    body["spec"]["template"]["spec"] |= pod
    return body


def mounting(*names: str, optional: bool = False) -> dict[str, Any]:
    """Fields of pods that mount these ConfigMaps."""
    return {
        "volumes": [
            {"name": f"v{n}", "configMap": {"name": name, "optional": optional}}
            for n, name in enumerate(names)
        ]
    }


def asking(*secrets: str) -> dict[str, Any]:
    """Fields of pods that take these Secrets into their environment."""
    sources = [{"secretRef": {"name": name}} for name in secrets]
    return {"containers": [{"name": "main", "image": "pause", "envFrom": sources}]}


async def make(
    stage: Stage,
    resource: Resource,
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    on: ApiClient | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """An object on the hub, or on a member."""
    meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    body = {"apiVersion": "v1", "kind": resource.kind, "metadata": meta, **fields}
    return await (on or stage.hub).create(resource, body, namespace=stage.namespace)


async def follow(stage: Stage, name: str, template: dict[str, Any], **spec: Any) -> None:
    await stage.create(name, template=template, dependencies="Follow", **spec)


async def states(stage: Stage, name: str) -> dict[str, str]:
    """`kind/name: state` of status.dependencies."""
    told = (await stage.status(name)).get("dependencies", [])
    return {f"{each['kind']}/{each['name']}": each["state"] for each in told}


async def says(stage: Stage, name: str, **wanted: str) -> None:
    """Wait until status.dependencies has those states and no other objects."""
    found: dict[str, str] = {}

    async def there() -> bool:
        found.clear()
        found.update(await states(stage, name))
        return found == wanted

    await until(there, what=lambda: found)


async def data_on(stage: Stage, member: str, name: str, data: Any, kind: Resource = CONFIG_MAPS):
    """Wait until the object has that data there."""
    found: dict[str, Any] = {}

    async def there() -> bool:
        found.clear()
        found.update(await stage.on(member, name, kind=kind) or {})
        return found.get("data") == data

    await until(there, seconds=SOON, what=lambda: found)


async def told(stage: Stage, reason: str) -> list[str]:
    """The notes of events with that reason."""
    listed = await stage.hub.list(EVENTS, namespace=stage.namespace)
    return [each["note"] for each in listed["items"] if each["reason"] == reason]


async def uid_of(stage: Stage, name: str) -> str:
    return str((await stage.workload(name) or {})["metadata"]["uid"])


async def run_pod(
    stage: Stage, member: str, workload: str, *, marked: bool = True, **spec: Any
) -> str:
    """A pod of the Workload on a member, as its controllers would make one; its name."""
    with suppress(AlreadyExists):
        await make(stage, SERVICE_ACCOUNTS, "default", on=stage.members[member])
    meta = {
        "generateName": "pod-",
        "labels": {"stowage.dev/workload-uid": await uid_of(stage, workload)} if marked else {},
    }
    containers = [{"name": "main", "image": "pause"}]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": containers, "automountServiceAccountToken": False, **spec},
    }
    made = await stage.members[member].create(PODS, body, namespace=stage.namespace)
    return str(made["metadata"]["name"])


async def end_pod(stage: Stage, member: str, name: str) -> None:
    path = PODS.path(stage.namespace, name)
    await stage.members[member].request("DELETE", path, params={"gracePeriodSeconds": "0"})


async def stays(stage: Stage, member: str, name: str, kind: Resource = CONFIG_MAPS) -> None:
    """Whatever was done before."""
    await settled(stage)
    assert await stage.on(member, name, kind=kind) is not None


@pytest.mark.long
@pytest.mark.proves("DP1")
async def test_all_that_pods_need_is_there_before_they_can_be(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await make(stage, SECRETS, "db", data={"password": encoded("one")})
    config = {".dockerconfigjson": encoded('{"auths": {}}')}
    for name in ("pull", "account-pull"):
        await make(stage, SECRETS, name, type="kubernetes.io/dockerconfigjson", data=config)
    await make(stage, SERVICE_ACCOUNTS, "runner", imagePullSecrets=[{"name": "account-pull"}])
    template = pods(
        **mounting("settings"),
        **asking("db"),
        imagePullSecrets=[{"name": "pull"}],
        serviceAccountName="runner",
    )
    await follow(stage, "demo", template)
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    there = {
        "settings": CONFIG_MAPS,
        "db": SECRETS,
        "pull": SECRETS,
        "account-pull": SECRETS,
        "runner": SERVICE_ACCOUNTS,
    }
    main = await stage.appears("m1")
    for name, kind in there.items():
        found = await stage.on("m1", name, kind=kind)
        assert found is not None, name
        version = int(found["metadata"]["resourceVersion"])
        assert version < int(main["metadata"]["resourceVersion"]), name
        assert await stage.on("m2", name, kind=kind) is None
    assert (await stage.on("m1", "pull", kind=SECRETS))["type"].endswith("dockerconfigjson")
    await says(stage, "demo", **{f"{k.kind}/{n}": "Synced" for n, k in there.items()})


@pytest.mark.long
@pytest.mark.proves("DP2")
async def test_a_workload_that_does_not_follow_has_nothing_read_or_copied(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    request, watch = ApiClient.request, ApiClient.watch

    async with stage_on() as stage:

        async def requested(self: ApiClient, method: str, path: str, **how: Any) -> Any:
            if self.connection.server == stage.hub.connection.server and self is not stage.hub:
                asked.append(path)
            return await request(self, method, path, **how)

        def watched(self: ApiClient, res: Resource, **how: Any) -> Any:
            if self.connection.server == stage.hub.connection.server and self is not stage.hub:
                asked.append(res.path(how.get("namespace")))
            return watch(self, res, **how)

        monkeypatch.setattr(ApiClient, "request", requested)
        monkeypatch.setattr(ApiClient, "watch", watched)

        def reads() -> list[str]:
            inside = f"/namespaces/{stage.namespace}/"
            plurals = [each.plural for each in KINDS_THERE]
            return [p for p in asked if inside in p and any(f"/{k}" in p for k in plurals)]

        await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
        await make(stage, SECRETS, "db", data={"password": encoded("one")})
        template = pods(**mounting("settings"), **asking("db"))
        for name, spec in (("none", {}), ("said", {"dependencies": "None"})):
            await stage.bring(
                name, {"m1": 1}, template=pods(name) | {"spec": template["spec"]}, **spec
            )
        await settled(stage)
        assert asked, "the hub was asked for something"
        assert not reads()
        assert await stage.on("m1", "settings", kind=CONFIG_MAPS) is None
        assert await stage.on("m1", "db", kind=SECRETS) is None
        assert "dependencies" not in await stage.status("none")
        await stage.patch("none", {"spec": {"dependencies": "Follow"}})
        await stage.appears("m1", "settings", kind=CONFIG_MAPS)
        assert reads(), "and what follows is found by the same means"


@pytest.mark.proves("DP3")
async def test_an_edit_on_the_hub_reaches_all_members_and_restarts_nothing(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await make(stage, SECRETS, "db", data={"password": encoded("one")})
    await follow(stage, "demo", pods(**mounting("settings"), **asking("db")))
    await stage.place("demo", m1=1, m2=1)
    await stage.propagated("demo")
    before = {m: (await stage.on(m))["metadata"]["generation"] for m in ("m1", "m2")}
    for kind, name, data in (
        (CONFIG_MAPS, "settings", {"color": "red"}),
        (SECRETS, "db", {"password": encoded("two")}),
    ):
        await stage.hub.merge_patch(kind, name, {"data": data}, namespace=stage.namespace)
        for member in ("m1", "m2"):
            await data_on(stage, member, name, data, kind)
    for member, generation in before.items():
        assert (await stage.on(member))["metadata"]["generation"] == generation


@pytest.mark.long
@pytest.mark.proves("DP4")
async def test_what_is_immutable_is_copied_whole_and_made_again(stage: Stage):
    binary = {"blob": base64.b64encode(b"\x00\xff\x01").decode()}
    await make(stage, CONFIG_MAPS, "fixed", data={"a": "1"}, binaryData=binary, immutable=True)
    await make(
        stage,
        SECRETS,
        "typed",
        type="kubernetes.io/basic-auth",
        data={"username": encoded("u"), "password": encoded("p")},
        immutable=True,
    )
    for name in ("first", "second"):  # who share both
        await follow(stage, name, pods(name, **mounting("fixed"), **asking("typed")))
        await stage.place(name, m1=1)
    for name in ("first", "second"):
        await stage.propagated(name)
    fields = ("data", "binaryData", "immutable", "type")
    for name, kind in (("fixed", CONFIG_MAPS), ("typed", SECRETS)):
        here = await stage.hub.get(kind, name, namespace=stage.namespace)
        there = await stage.on("m1", name, kind=kind)
        assert {f: there.get(f) for f in fields} == {f: here.get(f) for f in fields}
    old = await stage.on("m1", "fixed", kind=CONFIG_MAPS)

    await stage.hub.delete(CONFIG_MAPS, "fixed", namespace=stage.namespace)
    await make(stage, CONFIG_MAPS, "fixed", data={"a": "2"}, immutable=True)
    await stage.hub.delete(SECRETS, "typed", namespace=stage.namespace)
    await make(stage, SECRETS, "typed", data={"username": encoded("v")})
    await data_on(stage, "m1", "fixed", {"a": "2"})
    await data_on(stage, "m1", "typed", {"username": encoded("v")}, SECRETS)
    new = await stage.on("m1", "fixed", kind=CONFIG_MAPS)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "binaryData" not in new
    typed = await stage.on("m1", "typed", kind=SECRETS)
    assert (typed["type"], typed.get("immutable")) == ("Opaque", None)
    for name in ("first", "second"):
        await stage.propagated(name)
        await says(stage, name, **{"ConfigMap/fixed": "Synced", "Secret/typed": "Synced"})


@pytest.mark.proves("DP5")
async def test_what_the_hub_loses_stays_on_the_members_until_it_is_back(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await follow(stage, "demo", pods(**mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    old = await stage.on("m1", "settings", kind=CONFIG_MAPS)
    await stage.hub.delete(CONFIG_MAPS, "settings", namespace=stage.namespace)
    await says(stage, "demo", **{"ConfigMap/settings": "Missing"})
    await stage.patch("demo", {"spec": {"replicas": 2}})  # another look at all of it
    await stage.propagated("demo")
    await settled(stage)
    assert await stage.on("m1", "settings", kind=CONFIG_MAPS) == old
    await stage.restarted()
    await settled(stage)
    assert await stage.on("m1", "settings", kind=CONFIG_MAPS) == old
    await says(stage, "demo", **{"ConfigMap/settings": "Missing"})
    await make(stage, CONFIG_MAPS, "settings", data={"color": "green"})
    await data_on(stage, "m1", "settings", {"color": "green"})
    await says(stage, "demo", **{"ConfigMap/settings": "Synced"})


@pytest.mark.proves("DP6")
async def test_what_is_named_no_more_goes_after_the_last_pod_that_names_it(stage: Stage):
    for name in ("old", "new"):
        await make(stage, CONFIG_MAPS, name, data={"which": name})
    await follow(stage, "demo", pods(**mounting("old")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    pod = await run_pod(stage, "m1", "demo", **mounting("old"))
    await stage.patch("demo", {"spec": {"template": pods(**mounting("new"))}})
    await stage.appears("m1", "new", kind=CONFIG_MAPS)
    await stage.propagated("demo")
    await stays(stage, "m1", "old")
    await says(stage, "demo", **{"ConfigMap/new": "Synced"})
    await end_pod(stage, "m1", pod)
    await stage.goes("m1", "old", kind=CONFIG_MAPS)
    assert await stage.on("m1", "new", kind=CONFIG_MAPS) is not None


@pytest.mark.proves("A15")
async def test_what_is_brought_along_no_more_goes_after_the_last_pod_that_names_it(
    stage_on: MakeStage,
):
    def brought(name: str) -> list[dict[str, Any]]:
        body = {"apiVersion": "v1", "metadata": {"name": name}}
        return [{"kind": "ConfigMap", "data": {"a": "b"}, **body}, {"kind": "Secret", **body}]

    async with stage_on() as stage:
        both = {**mounting("old"), **asking("old")}
        await stage.bring("demo", {"m1": 1}, template=pods(**both), manifests=brought("old"))
        marked = await run_pod(stage, "m1", "demo", **mounting("old"))
        taken_over = await run_pod(stage, "m1", "demo", marked=False, **asking("old"))
        after = {"template": pods(**mounting("new")), "manifests": brought("new")}
        await stage.patch("demo", {"spec": after})
        await stage.appears("m1", "new", kind=CONFIG_MAPS)
        await stage.propagated("demo")
        await stays(stage, "m1", "old")
        await stays(stage, "m1", "old", kind=SECRETS)
        await end_pod(stage, "m1", marked)
        await stage.goes("m1", "old", kind=CONFIG_MAPS)
        await stays(stage, "m1", "old", kind=SECRETS)
        await end_pod(stage, "m1", taken_over)
        await stage.goes("m1", "old", kind=SECRETS)


@pytest.mark.proves("DP7")
async def test_two_workloads_share_an_object(stage: Stage):
    await make(stage, SECRETS, "db", data={"password": encoded("one")})
    for name in ("first", "second"):
        await follow(stage, name, pods(name, **asking("db")))
        await stage.place(name, m1=1)
        await stage.propagated(name)
    await stage.end("first")
    found = await stage.on("m1", "db", kind=SECRETS)
    owners = [a for a in found["metadata"]["annotations"] if a.startswith("owner.stowage.dev/")]
    assert owners == [f"owner.stowage.dev/{await uid_of(stage, 'second')}"]
    await stage.delete("second")
    await stage.goes("m1", "db", kind=SECRETS)


@pytest.mark.long
@pytest.mark.proves("DP7")
@pytest.mark.parametrize("order", [("takes", "joins"), ("joins", "takes")])
async def test_an_object_that_was_there_is_taken_over_by_one_and_joined_by_the_other(
    stage: Stage, order: tuple[str, str]
):
    await stage.space_on("m1")
    await make(stage, SECRETS, "db", on=stage.members["m1"], data={"password": encoded("own")})
    await make(stage, SECRETS, "db", data={"password": encoded("hub")})
    adoption = {"takes": "IfUnowned", "joins": "Never"}
    for name in order:
        await follow(stage, name, pods(name, **asking("db")), adoption=adoption[name])
        await stage.place(name, m1=1)
        if name == "joins" and order[0] == name:
            said = await stage.refused(name, "AlreadyExists")
            assert "exists and is not ours" in said
            assert await stage.on("m1", name) is None, "it waits for what its pods need"
        else:
            await stage.propagated(name)
    for name in order:
        await stage.refused(name, "Propagated", within=60)
    found = await stage.on("m1", "db", kind=SECRETS)
    assert found["data"] == {"password": encoded("hub")}
    owners = {a for a in found["metadata"]["annotations"] if a.startswith("owner.stowage.dev/")}
    assert owners == {f"owner.stowage.dev/{await uid_of(stage, name)}" for name in order}


@pytest.mark.long
@pytest.mark.proves("DP8")
async def test_what_a_workload_brings_along_by_itself_wins(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "hub"})
    await make(stage, SECRETS, "db", data={"password": encoded("one")})
    await follow(
        stage,
        "demo",
        pods(**mounting("settings"), **asking("db")),
        manifests=[configmap("settings", color="manifest")],
        resources=[{"name": "db"}],
    )
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await settled(stage)
    found = await stage.on("m1", "settings", kind=CONFIG_MAPS)
    assert found["data"] == {"color": "manifest"}
    assert await states(stage, "demo") == {}
    # A Workload that follows what another one has as a resource writes the very same object.
    await follow(stage, "other", pods("other", **asking("db")))
    await stage.place("other", m1=1)
    await stage.propagated("other")
    await settled(stage)
    version = (await stage.on("m1", "db", kind=SECRETS))["metadata"]["resourceVersion"]
    for name in ("demo", "other"):
        await stage.patch(name, {"spec": {"replicas": 2}})
        await stage.becomes("m1", "web" if name == "demo" else name, 1, "replicas")
    await settled(stage)
    again = (await stage.on("m1", "db", kind=SECRETS))["metadata"]["resourceVersion"]
    assert again == version, "no fight"


@pytest.mark.long
@pytest.mark.proves("DP8")
async def test_what_another_workload_has_in_its_manifests_is_its_own(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "hub"})
    await stage.bring("owner", {"m1": 1}, manifests=[configmap("settings", color="manifest")])
    await follow(stage, "demo", pods("demo", **mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await says(stage, "demo", **{"ConfigMap/settings": "Refused"})
    await stage.propagated("owner")
    await settled(stage)
    found = await stage.on("m1", "settings", kind=CONFIG_MAPS)
    assert found["data"] == {"color": "manifest"}


@pytest.mark.proves("DP9")
async def test_a_share_that_moves_has_its_dependencies_first_and_leaves_them_last(
    stage: Stage,
):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await follow(stage, "demo", pods(**mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await stage.make_ready("m1")
    pod = await run_pod(stage, "m1", "demo", **mounting("settings"))
    await stage.place("demo", m2=1)
    main = await stage.appears("m2")
    found = await stage.on("m2", "settings", kind=CONFIG_MAPS)
    version, later = (int(each["metadata"]["resourceVersion"]) for each in (found, main))
    assert version < later
    await stage.make_ready("m2")
    await stage.goes("m1")
    await stays(stage, "m1", "settings")  # its pod ends, and still has it
    await end_pod(stage, "m1", pod)
    await stage.goes("m1", "settings", kind=CONFIG_MAPS)
    assert await stage.on("m2", "settings", kind=CONFIG_MAPS) is not None


@pytest.mark.long
@pytest.mark.proves("DP10")
async def test_an_owner_says_later_that_it_never_travels(stage: Stage):
    for name in ("kept", "closed"):
        await make(stage, SECRETS, name, data={"password": encoded("one")})
    await follow(stage, "demo", pods(**asking("kept", "closed")), resources=[{"name": "kept"}])
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await run_pod(stage, "m1", "demo", **asking("closed"))
    never = {"metadata": {"labels": {"stowage.dev/follow": "false"}}}
    for name in ("kept", "closed"):
        await stage.hub.merge_patch(SECRETS, name, never, namespace=stage.namespace)
    await stage.goes("m1", "closed", kind=SECRETS)
    await says(stage, "demo", **{"Secret/closed": "Refused"})
    (told_of,) = (await stage.status("demo"))["dependencies"]
    assert "stowage.dev/follow" in told_of["message"]
    assert await stage.on("m1", "kept", kind=SECRETS) is not None, "that was asked for by name"
    await stage.propagated("demo")


@pytest.mark.long
@pytest.mark.proves("DP11")
async def test_only_objects_of_the_workloads_own_namespace_are_read(stage: Stage):
    """The same names in the target namespace on the hub, and elsewhere, are another's."""
    target = f"{stage.namespace}-target"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}}
    await stage.hub.create(NAMESPACES, space)
    for name, namespace in (("db", target), ("other", target), ("db", stage.namespace)):
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": {"from": encoded(namespace)},
        }
        await stage.hub.create(SECRETS, body, namespace=namespace)
    template = pods(**asking("db", "other", "../../kube-system/secrets/x"))
    await follow(stage, "demo", template, targetNamespace=target)
    await stage.place("demo", m1=1)
    await stage.appears("m1", "db", kind=SECRETS, namespace=target)
    found = await stage.on("m1", "db", kind=SECRETS, namespace=target)
    assert found["data"] == {"from": encoded(stage.namespace)}
    await until(lambda: states(stage, "demo"))
    told_of = await states(stage, "demo")
    assert told_of["Secret/other"] == "Missing"
    assert await stage.on("m1", "other", kind=SECRETS, namespace=target) is None


@pytest.mark.proves("DP14")
async def test_what_is_missing_holds_nothing_back_and_comes_later(stage: Stage):
    await follow(stage, "demo", pods(**mounting("settings"), serviceAccountName="runner"))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    assert await stage.on("m1") is not None
    await says(
        stage, "demo", **{"ServiceAccount/runner": "Missing", "ConfigMap/settings": "Missing"}
    )

    async def noted() -> bool:
        return bool(await told(stage, "DependencyMissing"))

    await until(noted)
    (note,) = await told(stage, "DependencyMissing")
    assert note.startswith("not on the hub: ServiceAccount runner, ConfigMap settings; ")
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await data_on(stage, "m1", "settings", {"color": "blue"})
    # An account that comes brings its pull Secret.
    config = {".dockerconfigjson": encoded('{"auths": {}}')}
    await make(stage, SECRETS, "pull", type="kubernetes.io/dockerconfigjson", data=config)
    await make(stage, SERVICE_ACCOUNTS, "runner", imagePullSecrets=[{"name": "pull"}])
    await stage.appears("m1", "runner", kind=SERVICE_ACCOUNTS)
    await stage.appears("m1", "pull", kind=SECRETS)
    names = ("ServiceAccount/runner", "Secret/pull", "ConfigMap/settings")
    await says(stage, "demo", **dict.fromkeys(names, "Synced"))


@pytest.mark.proves("DP15")
async def test_an_edit_on_a_member_is_mended(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await follow(stage, "demo", pods(**mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    patch = {"data": {"color": "red"}}
    await stage.members["m1"].merge_patch(CONFIG_MAPS, "settings", patch, namespace=stage.namespace)
    await data_on(stage, "m1", "settings", {"color": "blue"})
    await stage.members["m1"].delete(CONFIG_MAPS, "settings", namespace=stage.namespace)
    await data_on(stage, "m1", "settings", {"color": "blue"})


@pytest.mark.proves("DP16")
async def test_of_65_objects_64_go_along_and_that_is_said(stage: Stage):
    names = [f"c{number:02}" for number in range(65)]
    for name in names:
        await make(stage, CONFIG_MAPS, name, data={"name": name})
    # In the order of the template, which is none of the names.
    await follow(stage, "demo", pods(**mounting(*reversed(names))))
    await stage.place("demo", m1=1)
    said = await stage.refused("demo", "Propagated", "only the first 64 of 65 objects")
    assert "in the order of the template" in said
    listed = await stage.members["m1"].list(CONFIG_MAPS, namespace=stage.namespace)
    there = {each["metadata"]["name"] for each in listed["items"]} & {*names}
    assert there == {*names} - {"c00"}
    await until(lambda: states(stage, "demo"))
    assert list(await states(stage, "demo")) == [f"ConfigMap/{n}" for n in names[:0:-1]]


@pytest.mark.long
@pytest.mark.proves("DP17")
async def test_a_cluster_gets_what_its_own_pods_name(stage: Stage):
    for name in ("settings", "settings-2"):
        await make(stage, CONFIG_MAPS, name, data={"which": name})
    another = {"op": "replace", "path": f"{_VOLUME}/configMap/name", "value": "settings-2"}
    override = {
        "name": "second",
        "clusterSelector": {"matchLabels": {"stowage.dev/cluster": "m2"}},
        "jsonPatch": [another],
    }
    await follow(stage, "demo", pods(**mounting("settings")), overrides=[override])
    await stage.place("demo", m1=1, m2=1)
    await stage.propagated("demo")
    for member, own, others in (
        ("m1", "settings", "settings-2"),
        ("m2", "settings-2", "settings"),
    ):
        assert await stage.on(member, own, kind=CONFIG_MAPS) is not None
        assert await stage.on(member, others, kind=CONFIG_MAPS) is None
    names = ("ConfigMap/settings", "ConfigMap/settings-2")
    await says(stage, "demo", **dict.fromkeys(names, "Synced"))


_VOLUME = "/spec/template/spec/volumes/0"


@pytest.mark.proves("DP19")
async def test_what_is_optional_and_missing_is_no_event(stage: Stage):
    await follow(stage, "demo", pods(**mounting("maybe", optional=True)))
    await follow(stage, "needs", pods("needs", **mounting("surely")))
    for name in ("demo", "needs"):
        await stage.place(name, m1=1)
        await stage.propagated(name)

    async def noted() -> bool:
        return bool(await told(stage, "DependencyMissing"))

    await until(noted)
    await settled(stage, told=True)
    (note,) = await told(stage, "DependencyMissing")
    assert "surely" in note
    await says(stage, "demo", **{"ConfigMap/maybe": "Missing"})


@pytest.mark.proves("DP20")
async def test_many_workloads_share_one_watch_and_one_write(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    """Ten of them: what each costs beside its own objects is nothing, so a thousand cost no more."""
    lists: list[str] = []
    request = ApiClient.request

    async def requested(self: ApiClient, method: str, path: str, **how: Any) -> Any:
        if self.connection.server == stage.hub.connection.server:
            lists.append(f"{method} {path}")
        return await request(self, method, path, **how)

    async with stage_on() as stage:
        monkeypatch.setattr(ApiClient, "request", requested)
        await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
        names = [f"web-{number}" for number in range(10)]
        for name in names:
            await follow(stage, name, pods(name, **mounting("settings")))
            await stage.place(name, m1=1)
        for name in names:
            await stage.propagated(name)
        await settled(stage)
        path = CONFIG_MAPS.path(stage.namespace)
        looks = LOOKS[stage.hub]["LIST", CONFIG_MAPS.plural]
        assert lists.count(f"GET {path}") - looks == 1, "each watch begins with a list"
        assert lists.count(f"GET {path}/settings") == 1, "and what is in it was read once"
        before = await stage.on("m1", "settings", kind=CONFIG_MAPS)
        writes: list[str] = []
        apply = ApiClient.apply

        async def applied(self: ApiClient, res: Resource, obj: Any, **how: Any) -> Any:
            writes.append(f"{res.plural}/{how['name']}")
            return await apply(self, res, obj, **how)

        monkeypatch.setattr(ApiClient, "apply", applied)
        patch = {"data": {"color": "red"}}
        await stage.hub.merge_patch(CONFIG_MAPS, "settings", patch, namespace=stage.namespace)
        await data_on(stage, "m1", "settings", {"color": "red"})
        await settled(stage)
        assert writes == ["configmaps/settings"]
        after = await stage.on("m1", "settings", kind=CONFIG_MAPS)
        owners = (
            {a for a in each["metadata"]["annotations"] if a.startswith("owner.stowage.dev/")}
            for each in (before, after)
        )
        assert [len(each) for each in owners] == [10, 10]


@pytest.mark.long
@pytest.mark.proves("DP2")
async def test_what_is_followed_no_more_goes(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    await follow(stage, "demo", pods(**mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await says(stage, "demo", **{"ConfigMap/settings": "Synced"})
    await stage.patch("demo", {"spec": {"dependencies": "None"}})
    await stage.goes("m1", "settings", kind=CONFIG_MAPS)
    await says(stage, "demo")


@pytest.mark.long
async def test_a_claim_is_not_followed_and_that_is_said(stage: Stage):
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await follow(stage, "demo", pods(volumes=[volume]))
    await stage.place("demo", m1=1)
    await stage.propagated("demo")
    await until(lambda: states(stage, "demo"))
    assert (await stage.status("demo"))["dependencies"] == [
        {
            "kind": "PersistentVolumeClaim",
            "name": "data",
            "state": "Refused",
            "message": "not followed, put it into spec.manifests",
        }
    ]


@pytest.mark.long
async def test_a_member_that_does_not_take_the_namespace_gets_nothing(stage: Stage):
    await make(stage, CONFIG_MAPS, "settings", data={"color": "blue"})
    allow = {"spec": {"namespaces": {"allow": ["elsewhere"]}}}
    await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", allow)
    await follow(stage, "demo", pods(**mounting("settings")))
    await stage.place("demo", m1=1)
    await stage.refused("demo", "NamespaceNotAllowed")
    with pytest.raises(NotFound):
        await stage.members["m1"].get(NAMESPACES, stage.namespace)
