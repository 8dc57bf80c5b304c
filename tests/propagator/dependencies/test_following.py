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
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from machinery.errors import AlreadyExists
from tests.propagator.stage import (
    DEPLOYMENTS,
    MakeStage,
    Stage,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import LOOKS, until

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


@pytest.mark.proves("DP15", "C32")
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
    await stage.stop()
    seven = {"spec": {"replicas": 7}}
    await stage.members["m1"].merge_patch(DEPLOYMENTS, "web", seven, namespace=stage.namespace)
    stage.start()
    await stage.becomes("m1", "web", 1, "replicas")


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
