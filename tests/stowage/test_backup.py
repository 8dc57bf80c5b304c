"""A backup as a file, and what a restore makes of it, on a hub in memory."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import crds
from crds.names import (
    ANNOTATION_RESTORED,
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    LABEL_MIGRATION,
    LABEL_REGISTER,
    LABEL_WORKLOAD_UID,
    RESTORED,
    SYSTEM_NAMESPACE,
)
from crds.restored import RestoredMark
from machinery.api import resources as of
from machinery.api.resources import CONFIG_MAPS, MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from machinery.errors import ConfigurationError, NotFound, StowageError, Unreachable
from stowage.cli import cli
from stowage.setup import backup_file, restore
from stowage.setup.backup import RULES, Backup
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

EXAMPLES = Path(__file__).parents[2] / "examples"
CANARY = "Y2FuYXJ5LWluLWEtc2VjcmV0"
Json = dict[str, Any]


def body(res: Any, name: str, **rest: Any) -> Json:
    meta = {"name": name, **rest.pop("metadata", {})}
    if res.namespaced:
        meta.setdefault("namespace", "shop")
    return {"apiVersion": res.api_version, "kind": res.kind, "metadata": meta, **rest}


def filled() -> MemoryHub:
    """A hub with an object of each kind."""
    hub = MemoryHub(clock=FakeClock())
    for name in ("kube-system", SYSTEM_NAMESPACE, "shop"):
        hub.put(NAMESPACES, body(NAMESPACES, name))
    hub.put(of.WORKLOAD_KINDS, body(of.WORKLOAD_KINDS, "widgets", spec={}))
    names = {"metadata": {"name": "stowage-propagator-tenant"}}
    hub.put(of.ROLE_BINDINGS, body(of.ROLE_BINDINGS, "x", **names))
    hub.put(MEMBER_CLUSTERS, body(MEMBER_CLUSTERS, "m1", spec={"secretRef": {"name": "m1"}}))
    registered = {"namespace": SYSTEM_NAMESPACE, "labels": {LABEL_REGISTER: "true"}}
    hub.put(SECRETS, body(SECRETS, "m1", metadata=registered, data={"token": CANARY}))
    hub.put(SECRETS, body(SECRETS, "creds", data={"password": CANARY}, type="Opaque"))
    spec = {"resources": [{"name": "creds"}], "replicas": 3}
    web = hub.put(WORKLOADS, body(WORKLOADS, "web", spec=spec))
    kept = {"name": f"migration-{web['metadata']['uid']}", "namespace": SYSTEM_NAMESPACE}
    labels = {LABEL_MIGRATION: "true"}
    hub.put(SECRETS, body(SECRETS, "x", metadata={**kept, "labels": labels}, data={"a": "b"}))
    for _ in range(2):  # its third generation
        spec = {**spec, "replicas": spec["replicas"] + 1}
        hub.edit(WORKLOADS, "web", {"spec": spec})
    hub.edit(WORKLOADS, "web", {"status": STATUS}, status=True)
    owner = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "name": "web"}
    meta = {
        "labels": {LABEL_WORKLOAD_UID: web["metadata"]["uid"]},
        "ownerReferences": [{**owner, "uid": web["metadata"]["uid"]}],
    }
    hub.put(of.CONTROLLER_REVISIONS, body(of.CONTROLLER_REVISIONS, "web-1", metadata=meta, data={}))
    for res in RULES:
        status = {"observedGeneration": 1, "uid": web["metadata"]["uid"]}
        hub.put(res, body(res, "rule", spec={}, status=status))
    hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"clusterID": "c1"}}, status=True)
    return hub


STATUS = {
    "placements": [{"cluster": "m1", "replicas": 5}],
    "ordinals": [{"cluster": "m1", "start": 7}],
    "observed": {"controller": 3, "propagator": 2},
    "clusters": [{"name": "m1", "observedGeneration": 2, "capacityVersion": "99"}],
    "conditions": [{"type": "Ready", "observedGeneration": 3}],
}


def bare() -> MemoryHub:
    hub = MemoryHub(clock=FakeClock())
    for name in ("kube-system", SYSTEM_NAMESPACE):
        hub.put(NAMESPACES, body(NAMESPACES, name))
    return hub


async def written(hub: MemoryHub, folder: Path, *, secrets: bool = True) -> Path:
    file = folder / "backup.json"
    with backup_file.private(file) as opened:
        await Backup(hub, opened, home=SYSTEM_NAMESPACE, secrets=secrets).write()  # type: ignore[arg-type] # it only reads
    return file


def restoring(hub: MemoryHub, file: Path, say: Callable[[str], Any] = len) -> restore.Restore:
    return restore.Restore(hub, restore.content(file), SYSTEM_NAMESPACE, say)  # type: ignore[arg-type] # as above


@pytest.mark.proves("PK28")
async def test_a_backup_is_a_private_list_of_everything_with_statuses(tmp_path: Path) -> None:
    hub = filled()
    file = await written(hub, tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    items = json.loads(file.read_text())["items"]
    kinds = [each["kind"] for each in items]
    ours = {each["spec"]["names"]["kind"] for each in crds.manifests() if "names" in each["spec"]}
    ours -= {"Assignment", "MemberReport"}  # both are made again, for the credentials of that day
    others = {"Namespace", "RoleBinding", "Secret", "ControllerRevision", "ConfigMap"}
    assert {*kinds} == ours | others
    assert kinds.index("WorkloadKind") < kinds.index("Namespace") < kinds.index("MemberCluster")
    assert kinds.index("MemberCluster") < kinds.index("Workload")
    assert kinds.index("Workload") < kinds.index("ControllerRevision")
    by_kind = {each["kind"]: each for each in items}
    assert by_kind["Workload"]["status"] == STATUS
    assert {each["metadata"]["name"] for each in items if each["kind"] == "Secret"} == {
        "m1",
        "creds",
        f"migration-{hub.read(WORKLOADS, 'web')['metadata']['uid']}",
    }
    note = items[-1]["data"]
    assert note["hub"] == hub.read(NAMESPACES, "kube-system")["metadata"]["uid"]
    versions = json.loads(note["resourceVersions"])
    assert {"workloads.stowage.dev", "memberclusters.stowage.dev"} <= versions.keys()
    assert CANARY in file.read_text()


@pytest.mark.proves("PK28", "PK29")
async def test_a_namespace_comes_before_whatever_is_in_it(tmp_path: Path) -> None:
    hub = filled()
    for name in ("tenant", "keys", "web"):
        hub.put(NAMESPACES, body(NAMESPACES, name))
    binding = {"metadata": {"name": "stowage-propagator-tenant", "namespace": "tenant"}}
    hub.put(of.ROLE_BINDINGS, body(of.ROLE_BINDINGS, "x", **binding))
    ref = {"secretRef": {"name": "m2", "namespace": "keys"}}
    hub.put(MEMBER_CLUSTERS, body(MEMBER_CLUSTERS, "m2", spec=ref))
    hub.put(SECRETS, body(SECRETS, "m2", metadata={"namespace": "keys"}, data={"token": "a"}))
    hub.put(WORKLOADS, body(WORKLOADS, "other", metadata={"namespace": "web"}, spec={}))
    there, spaces = {SYSTEM_NAMESPACE, ""}, list[str]()
    for each in json.loads((await written(hub, tmp_path)).read_text())["items"]:
        if each["kind"] == "Namespace":
            spaces.append(each["metadata"]["name"])
        assert each["metadata"].get("namespace", "") in {*there, *spaces}
    assert sorted(spaces) == ["keys", "shop", "tenant", "web"]


@pytest.mark.proves("PK28")
async def test_what_followed_a_workload_is_in_it_whoever_has_named_it(tmp_path: Path) -> None:
    """An override of one cluster, an account's pull secrets, the pods of a kind of one's own."""
    hub = filled()
    kind = yaml.safe_load((EXAMPLES / "kinds/gadget-kind.yaml").read_text())
    hub.put(of.WORKLOAD_KINDS, kind)
    for name in ("named", "brought", "ran", "nobodys"):
        hub.put(CONFIG_MAPS, body(CONFIG_MAPS, name, data={"a": "b"}))
    volume = {"name": "v", "configMap": {"name": "named"}}
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    template = {**gadget, "spec": {"core": {"spec": {"volumes": [volume]}}}}
    spec = {"template": template, "dependencies": "Follow"}
    hub.put(WORKLOADS, body(WORKLOADS, "g", spec=spec))
    volume = {"name": "v", "configMap": {"name": "ran"}}
    alone = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    alone["spec"] = {"template": {"spec": {"volumes": [volume]}}}
    spec = {"manifests": [alone], "dependencies": "Follow"}
    hub.put(WORKLOADS, body(WORKLOADS, "alone", spec=spec))
    entries = [{"kind": "ConfigMap", "name": "brought", "state": "Synced"}]
    hub.edit(WORKLOADS, "g", {"status": {"dependencies": entries}}, status=True)
    items = json.loads((await written(hub, tmp_path)).read_text())["items"][:-1]
    found = {each["metadata"]["name"] for each in items if each["kind"] == "ConfigMap"}
    assert found == {"named", "brought", "ran"}


@pytest.mark.proves("PK28")
async def test_without_secrets_no_value_of_one_is_in_it(tmp_path: Path) -> None:
    hub = filled()
    notes = {"kubectl.kubernetes.io/last-applied-configuration": CANARY}
    hub.edit(SECRETS, "creds", {"metadata": {"annotations": notes}})
    inner = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": CANARY}}
    hub.put(WORKLOADS, body(WORKLOADS, "carries", spec={"manifests": [inner]}))
    file = io.BytesIO()
    one = Backup(hub, file, home=SYSTEM_NAMESPACE, secrets=False)  # type: ignore[arg-type] # as above
    await one.write()
    assert CANARY.encode() not in file.getvalue()
    assert one.left_out == ["Workload shop/carries"]
    path = tmp_path / "backup.json"
    path.write_bytes(file.getvalue())
    new, told = bare(), list[str]()
    await restoring(new, path, told.append).run()
    assert [each for each in told if "Secret shop/creds" in each and "no values" in each]
    with pytest.raises(KeyError):
        new.read(SECRETS, "creds")


@pytest.mark.proves("PK29")
async def test_a_restore_brings_statuses_back_as_of_the_new_objects(tmp_path: Path) -> None:
    old = filled()
    file = await written(old, tmp_path)
    hub = bare()
    await restoring(hub, file).run()
    web = hub.read(WORKLOADS, "web")
    uid, before = web["metadata"]["uid"], old.read(WORKLOADS, "web")["metadata"]["uid"]
    assert uid != before
    status = web["status"]
    assert (status["placements"], status["ordinals"]) == (STATUS["placements"], STATUS["ordinals"])
    assert status["observed"] == {"controller": 1, "propagator": 0}
    assert status["clusters"] == [{"name": "m1", "observedGeneration": 0}]
    assert status["conditions"] == [{"type": "Ready", "observedGeneration": 1}]
    assert web["metadata"]["annotations"]["stowage.dev/restored"].endswith("/1")
    assert hub.read(MEMBER_CLUSTERS, "m1")["status"]["clusterID"] == "c1"
    assert hub.read(SECRETS, f"migration-{uid}", SYSTEM_NAMESPACE)["data"] == {"a": "b"}
    revision = hub.read(of.CONTROLLER_REVISIONS, "web-1")["metadata"]
    assert revision["labels"] == {LABEL_WORKLOAD_UID: uid}
    assert [each["uid"] for each in revision["ownerReferences"]] == [uid]
    assert hub.read(of.WORKLOAD_GROUPS, "rule")["status"]["uid"] == uid
    note = hub.read(CONFIG_MAPS, RESTORED, SYSTEM_NAMESPACE)["data"]
    assert (note["state"], note["resourceVersion"].isdigit()) == ("restored", True)


@pytest.mark.proves("PK29", "E25")
async def test_a_restored_workload_is_inside_the_reservation_that_was_restored(
    tmp_path: Path,
) -> None:
    old = filled()
    uid = old.read(of.RESERVATIONS, "rule")["metadata"]["uid"]
    share = {"namespace": "shop", "name": "rule", "cluster": "m1", "replicas": 5}
    old.edit(WORKLOADS, "web", {"status": {"reservations": [{**share, "uid": uid}]}}, status=True)
    hub = bare()
    await restoring(hub, await written(old, tmp_path)).run()
    now = hub.read(of.RESERVATIONS, "rule")["metadata"]["uid"]
    assert now != uid
    assert hub.read(WORKLOADS, "web")["status"]["reservations"] == [{**share, "uid": now}]


@pytest.mark.proves("PK29")
async def test_a_restore_that_is_interrupted_anywhere_ends_as_one_that_was_not(
    tmp_path: Path,
) -> None:
    file = await written(filled(), tmp_path)
    whole = bare()
    await restoring(whole, file).run()
    writes = len(whole.writes(""))
    assert writes > 20
    for last in range(writes):
        hub, left = bare(), [last]

        async def dies(method: str, _path: str, _body: Any, left: list[int] = left) -> None:
            if method != "GET":
                left[0] -= 1
                if left[0] < 0:
                    raise Unreachable("the hub went away")

        hub.faults.append(dies)
        with pytest.raises(Unreachable):
            await restoring(hub, file).run()
        acted = [each for each in hub.all(WORKLOADS) if not _incomplete(each)]
        assert not acted or all(each.get("status") for each in acted)
        hub.faults.clear()
        await restoring(hub, file).run()
        assert _plain(hub) == _plain(whole)


def _incomplete(found: Json) -> bool:
    return str(found["metadata"]["annotations"].get("stowage.dev/restored")).endswith("/restoring")


def _plain(hub: MemoryHub) -> list[Json]:
    found = [each for res in (WORKLOADS, MEMBER_CLUSTERS, *RULES) for each in hub.all(res)]
    for each in found:
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            each["metadata"].pop(key)
        each["metadata"].get("annotations", {}).pop("stowage.dev/restored", None)
        each.get("status", {}).pop("uid", None)
    return found


@pytest.mark.proves("PK29")
async def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    file = await written(filled(), tmp_path)
    hub = bare()
    theirs = hub.put(WORKLOADS, body(WORKLOADS, "web", spec={"replicas": 1}))
    secret = hub.put(SECRETS, body(SECRETS, "creds", data={"a": "b"}))
    one = restoring(hub, file)
    await one.run()
    assert hub.read(WORKLOADS, "web") == theirs
    assert hub.read(SECRETS, "creds") == secret
    assert one.counts["there"] == 2
    with pytest.raises(StowageError, match="another backup"):
        await restoring(hub, await written(hub, tmp_path)).run()


@pytest.mark.proves("PK28")
async def test_a_file_that_is_cut_off_or_no_backup_is_refused_before_anything(
    tmp_path: Path,
) -> None:
    file = await written(filled(), tmp_path)
    text = file.read_bytes()
    other = tmp_path / "other.json"
    for cut in (text[: len(text) // 2], text[: text.rindex(b",\n")], b"", b"a: b\n", b"{"):
        other.write_bytes(cut)
        with pytest.raises(ConfigurationError, match=r"backup|cut off"):
            restore.content(other)
    pretty = json.dumps(json.loads(text), indent=2)
    other.write_text(pretty)
    assert restore.content(other).counts == restore.content(file).counts


@pytest.mark.proves("PK28")
@pytest.mark.parametrize(
    ("theirs", "ours", "refused"),
    [("0.3.0", "0.2.0", True), ("0.2.0", "0.2.0", False), ("0.1.0", "0.2.0", False)],
)
async def test_a_backup_of_a_newer_release_is_refused(
    tmp_path: Path, theirs: str, ours: str, *, refused: bool
) -> None:
    file = await written(filled(), tmp_path)
    found = restore.content(file)
    origin = backup_file.Origin(
        found.origin.hub, found.origin.versions, theirs, found.origin.taken, secrets=True
    )
    content = restore.Content(found.path, origin, found.digest, found.counts)
    words = "was written by 0.3.0" if refused else "stowage install"  # it serves no kinds
    with pytest.raises(StowageError, match=words):
        await restore.check(bare(), content, ours=ours, home=SYSTEM_NAMESPACE)  # type: ignore[arg-type] # as above


@pytest.mark.proves("PK32")
async def test_the_restore_is_over_when_all_is_accepted_and_no_member_holds_more(
    tmp_path: Path,
) -> None:
    hub = bare()
    await restoring(hub, await written(filled(), tmp_path)).run()
    told = list[str]()
    held = {"type": "SweepHeld", "status": "True", "reason": "HubRestored", "message": "later"}
    hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": [held]}}, status=True)
    await restore.show_left(hub, SYSTEM_NAMESPACE, say=told.append)  # type: ignore[arg-type] # as above
    assert "m1" in "\n".join(told)
    await restore.accept_all(hub, SYSTEM_NAMESPACE, say=told.append)  # type: ignore[arg-type] # as above
    assert "stowage sweep" in told[-1]
    web = hub.read(WORKLOADS, "web")
    assert web["metadata"]["annotations"]["stowage.dev/restored"].endswith("/accepted")
    assert await restore.note(hub, SYSTEM_NAMESPACE)  # type: ignore[arg-type] # as above
    ready = {"type": "Ready", "status": "True"}
    hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": [ready]}}, status=True)
    await restore.accept_all(hub, SYSTEM_NAMESPACE, say=told.append)  # type: ignore[arg-type] # as above
    assert not await restore.note(hub, SYSTEM_NAMESPACE)  # type: ignore[arg-type] # as above
    with pytest.raises(ConfigurationError, match="no Workload shop/none"):
        await restore.accept(hub, ["none"], "shop", say=told.append)  # type: ignore[arg-type] # as above


@pytest.mark.proves("PK31")
async def test_the_restore_is_not_over_while_it_is_unknown_what_a_member_holds(
    tmp_path: Path,
) -> None:
    """What was made there after the backup would be swept once it answers."""
    hub, told = bare(), list[str]()
    await restoring(hub, await written(filled(), tmp_path)).run()
    for status, over in (("False", False), ("Unknown", False), ("True", True)):
        ready = {"type": "Ready", "status": status, "message": "no answer"}
        hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": [ready]}}, status=True)
        await restore.accept_all(hub, SYSTEM_NAMESPACE, say=told.append)  # type: ignore[arg-type] # as above
        assert (not await restore.note(hub, SYSTEM_NAMESPACE)) is over  # type: ignore[arg-type] # as above
        assert over or "m1" in told[-1]
        await restore.show_left(hub, SYSTEM_NAMESPACE, say=told.append)  # type: ignore[arg-type] # as above
        assert over or "as they are not Ready: m1" in told[-2]


@pytest.mark.proves("PK31")
@pytest.mark.parametrize("why", ["given up", "never seen"])
async def test_a_member_that_holds_nothing_for_this_hub_keeps_no_restore_from_its_end(
    tmp_path: Path, why: str
) -> None:
    hub = bare()
    await restoring(hub, await written(filled(), tmp_path)).run()
    hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": []}}, status=True)
    if why == "given up":
        mark = {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}
        hub.edit(MEMBER_CLUSTERS, "m1", {"metadata": mark})
    else:
        hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"clusterID": None}}, status=True)
    await restore.accept_all(hub, SYSTEM_NAMESPACE, say=len)  # type: ignore[arg-type] # as above
    assert not await restore.note(hub, SYSTEM_NAMESPACE)  # type: ignore[arg-type] # as above


@pytest.mark.proves("PK29")
async def test_a_restore_that_is_run_again_after_its_end_is_under_way_again(
    tmp_path: Path,
) -> None:
    """Else `--accept --all` would end it halfway, and no process act on the rest for good."""
    hub, file = bare(), await written(filled(), tmp_path)
    await restoring(hub, file).run()
    hub.remove(WORKLOADS, "web")

    async def cut(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and path.endswith("/web/status"):
            raise Unreachable("the hub does not answer")

    hub.faults.append(cut)
    with pytest.raises(Unreachable):
        await restoring(hub, file).run()
    hub.faults.clear()
    with pytest.raises(ConfigurationError, match="not complete"):
        await restore.accept_all(hub, SYSTEM_NAMESPACE, say=len)  # type: ignore[arg-type] # as above
    await restoring(hub, file).run()
    web = hub.read(WORKLOADS, "web")
    assert not RestoredMark.of(web["metadata"]["annotations"]).incomplete
    assert web["status"]["placements"] == STATUS["placements"]


@pytest.mark.proves("PK32")
async def test_a_workload_that_is_not_complete_cannot_be_accepted() -> None:
    hub, told = bare(), list[str]()
    mark = {"annotations": {ANNOTATION_RESTORED: str(RestoredMark.restoring("a"))}}
    half = hub.put(WORKLOADS, body(WORKLOADS, "web", metadata=mark, spec={}))
    with pytest.raises(ConfigurationError, match="shop/web is not complete: run the same"):
        await restore.accept(hub, ["web"], "shop", say=told.append)  # type: ignore[arg-type] # as above
    assert not told
    assert hub.read(WORKLOADS, "web") == half


@pytest.mark.proves("PK28")
@pytest.mark.parametrize(
    "args",
    [
        ["restore"],
        ["restore", "a", "b"],
        ["restore", "--status", "a"],
        ["restore", "--accept"],
        ["restore", "--all", "a"],
        ["restore", "--status", "--accept", "--all"],
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(args: list[str]) -> None:
    assert CliRunner().invoke(cli, args).exit_code == 2


def test_a_name_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["restore", str(tmp_path / "none.json")])
    assert isinstance(ran.exception, OSError | NotFound | StowageError)
