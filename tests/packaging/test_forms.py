"""One manifest list in four forms: what is written below deploy/ is what `stowage install` applies."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import crds
from crds.definition import KEPT
from machinery.api.resources import CRDS
from stowage.cli import cli
from stowage.packaging import chart, forms, values
from stowage.packaging.__main__ import main
from stowage.packaging.template import Holes, when
from stowage.setup import install
from stowage.setup.images import Image

from .rendering import CHART, DEPLOY, HOME, kustomized, listed, read

ANOTHER = "registry.example:5000/apps/stowage:7"
TEMPLATES = {
    path.relative_to(CHART / "templates").as_posix(): path.read_text()
    for path in sorted((CHART / "templates").rglob("*.*"))
}


def dry_run(*arguments: str) -> dict[Any, Any]:
    run = CliRunner().invoke(
        cli, ["install", "--dry-run", "--kubeconfig=/none", *arguments], catch_exceptions=False
    )
    return read(run.stdout)


@pytest.mark.proves("PK1")
def test_install_yaml_and_kustomize_have_the_objects_of_the_command(kubectl: Path) -> None:
    ours = dry_run()
    assert len(ours) > 50
    assert read((DEPLOY / "install/install.yaml").read_text()) == ours
    assert kustomized(DEPLOY / "kustomize/base") == ours


@pytest.mark.proves("PK1")
def test_another_image_reaches_each_form(kubectl: Path, tmp_path: Path) -> None:
    ours = dry_run(f"--image={ANOTHER}")
    assert ours != dry_run()
    assert read(forms.printed(ANOTHER)["install/install.yaml"]) == ours
    shutil.copytree(DEPLOY / "install", tmp_path / "install")
    image = {"name": "stowage", "newName": "registry.example:5000/apps/stowage", "newTag": "7"}
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": ["install"], "images": [image]})
    )
    assert kustomized(tmp_path) == ours


@pytest.mark.proves("PK1")
def test_the_chart_has_a_template_of_each_object_but_the_namespace() -> None:
    """That Helm renders them to the same is a test of its own, as it takes Helm."""
    text = "\n".join(TEMPLATES.values()).replace("{{ .Release.Namespace | quote }}", HOME)
    documents = [part.partition("{{- end }}\n{{- if")[0] for part in text.split("---\n")]
    templates = {
        (kind[1], name[1])
        for each in documents
        if (kind := re.search(r"(?m)^kind: (\S+)$", each))
        and (name := re.search(r"(?m)^  name: (\S+)$", each))
    }
    wanted = {(kind, name) for kind, _, name in dry_run() if kind != "Namespace"}
    assert wanted - templates == set()


def test_the_overlays_build_on_the_base(kubectl: Path) -> None:
    base = dry_run()
    page = listed(
        install.page_manifests(namespace=HOME, image=install.default_image()),
    )
    assert kustomized(DEPLOY / "kustomize/overlays/ui") == {**base, **page}
    spread = kustomized(DEPLOY / "kustomize/overlays/ha")
    assert spread.keys() == base.keys()
    for name in ("stowage-controller", "stowage-propagator"):
        spec = spread["Deployment", HOME, name]["spec"]
        assert spec["replicas"] == 3
        constraints = spec["template"]["spec"]["topologySpreadConstraints"]
        assert {each["whenUnsatisfiable"] for each in constraints} == {"DoNotSchedule"}


# --- generated ------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What a checkout has written."""
    for name in forms.printed():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DEPLOY / name, tmp_path / name)
    return tmp_path


@pytest.mark.proves("PK2")
def test_the_check_names_what_is_not_as_its_source(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (written / "charts/stowage/templates/old.yaml").write_text("")
    (written / "install/kustomization.yaml").unlink()
    assert main(["--check"], written) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "charts/stowage/templates/old.yaml",
        "install/kustomization.yaml",
    ]
    assert main([], written) == 0
    assert main(["--check"], written) == 0

    source = tuple(name for name in install._PARTS if name != "priority.yaml")
    monkeypatch.setattr(install, "_PARTS", source)
    assert main(["--check"], written) == 1
    changed = capsys.readouterr().out
    for name in ("install/install.yaml", "install/install-1.30.yaml", "templates/stowage.yaml"):
        assert name in changed


# --- kept kinds -----------------------------------------------------------------------------------


@pytest.mark.proves("PK6")
def test_each_kind_is_kept_in_each_form(kubectl: Path) -> None:
    names = {each["metadata"]["name"] for each in crds.manifests() if each["kind"] == CRDS.kind}
    assert len(names) >= 8
    shapes = (
        dry_run(),
        dry_run("--crds-only"),
        read((DEPLOY / "install/install.yaml").read_text()),
        read((DEPLOY / "install/install-1.30.yaml").read_text()),
        kustomized(DEPLOY / "kustomize/base"),
        read(
            "".join(
                f"---\n{text.partition(chr(10))[2].removesuffix('{{- end }}' + chr(10))}"
                for name, text in TEMPLATES.items()
                if name.startswith("crds/")
            )
        ),
    )
    for shape in shapes:
        kept = {
            name
            for (kind, _, name), each in shape.items()
            if kind == CRDS.kind and each["metadata"]["annotations"].items() >= KEPT.items()
        }
        assert kept == names


def test_policies_come_after_the_kinds() -> None:
    """`delete -f` goes in the order of the file, and a guard that went first would guard nothing."""
    for name in ("install.yaml", "install-1.30.yaml"):
        kinds = [kind for kind, _, _ in read((DEPLOY / "install" / name).read_text())]
        last = max(index for index, kind in enumerate(kinds) if kind == CRDS.kind)
        assert last < min(index for index, kind in enumerate(kinds) if "AdmissionPolicy" in kind)


# --- hubs of Kubernetes ---------------------------------------------------------------------------


@pytest.mark.proves("PK4")
def test_policies_go_by_the_version_of_kubernetes_alone() -> None:
    admission = TEMPLATES["admission.yaml"]
    parts = admission.split("---\n")
    assert admission.count("---\n") == len([o for o in crds.manifests() if o["kind"] != CRDS.kind])
    for condition, part in itertools.pairwise(parts):
        mutating = re.search(r"(?m)^kind: Mutating", part) is not None
        wanted = chart._MUTATING if mutating else chart._VALIDATING
        assert condition.splitlines()[-1] == f"{{{{- if {wanted} }}}}"
    assert TEMPLATES["defaults.yaml"].startswith(f"{{{{- if not ({chart._MUTATING}) }}}}")
    assert 'semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version' in chart.HELPERS
    assert 'semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version' in chart.HELPERS
    assert "APIVersions" not in "".join(TEMPLATES.values())


# --- values ---------------------------------------------------------------------------------------


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, values.Value]]:
    for name, each in tree.items():
        if isinstance(each, values.Value):
            yield f"{path}{name}", each
        else:
            yield from _leaves(each, f"{path}{name}.")


@functools.cache
def table() -> Mapping[str, Any]:
    return values.table(Image("stowage"), chart._deployments())


def leaves() -> dict[str, values.Value]:
    return dict(_leaves(table()))


SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.proves("PK5")
def test_a_template_reads_each_value_and_no_other() -> None:
    text = "\n".join(TEMPLATES.values()).replace("$image.", ".Values.image.")
    read_there = set(re.findall(r"\.Values\.([\w.]*\w)", text))
    assert read_there - leaves().keys() == {"image"}
    assert leaves().keys() - read_there == set()


@pytest.mark.proves("PK5")
def test_the_schema_has_each_value_and_refuses_any_other() -> None:
    def described(schema: Mapping[str, Any], tree: Mapping[str, Any]) -> None:
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert schema["properties"].keys() - {"global"} == tree.keys()
        for name, each in tree.items():
            found = schema["properties"][name]
            if isinstance(each, values.Value):
                assert {"type", "enum", "anyOf"} & found.keys(), name
            else:
                described(found, each)

    described(SCHEMA, table())
    configuration = SCHEMA["$defs"]["Configuration"]
    assert configuration["additionalProperties"] is False
    assert "schedulerName" in SCHEMA["$defs"]["_Profile"]["properties"]


def _set(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of what is set, down to the leaves of the table."""
    for name, each in tree.items():
        here = f"{path}{name}"
        if here not in leaves() and isinstance(each, Mapping):
            yield from _set(each, f"{here}.")
        else:
            yield here


@pytest.mark.proves("PK5")
def test_the_examples_for_argo_cd_and_flux_name_values_that_there_are() -> None:
    (argo,) = yaml.safe_load_all((DEPLOY / "gitops/argocd.yaml").read_text())
    _, flux = yaml.safe_load_all((DEPLOY / "gitops/flux.yaml").read_text())
    for given in (argo["spec"]["source"]["helm"]["valuesObject"], flux["spec"]["values"]):
        named = list(_set(given))
        assert len(named) >= 2
        assert set(named) <= leaves().keys()


@pytest.mark.proves("PK9")
def test_the_web_page_needs_a_secret_and_nothing_is_drawn_anew() -> None:
    text = TEMPLATES["ui.yaml"]
    refusal = text.index("{{- if not .Values.ui.session.existingSecret }}{{ fail (")
    assert text.startswith("{{- if .Values.ui.enabled }}")
    assert refusal < text.index("---")
    assert "create secret generic stowage-ui-session" in text
    for drawn in ("rand", "uuidv4", "genCA", "genSelf", "genPrivateKey", "now", "lookup"):
        found = re.search(rf"\{{\{{[^}}]*\b{drawn}\w*\b(?! -base64)", "".join(TEMPLATES.values()))
        assert found is None, drawn


# --- holes ----------------------------------------------------------------------------------------


def test_holes_are_lines_values_and_words_and_other_braces_stay() -> None:
    holes = Holes()
    body = {
        "a": holes.value(".Values.a"),
        "b": {holes.lines("{{- x | nindent @2 }}"): None},
        "c": ["d", holes.lines("- e")],
        "namespace": "hole-namespace",
        "f": "--in=hole-namespace {{state}}",
    }
    assert when("y", holes.text([body])) == (
        "{{- if y }}\n"
        "a: {{ .Values.a }}\n"
        "b:\n"
        "  {{- x | nindent 4 }}\n"
        "c:\n"
        "- d\n"
        "- e\n"
        "namespace: {{ .Release.Namespace | quote }}\n"
        'f: "--in={{ .Release.Namespace }} {{ "{{" }}state}}"\n'
        "{{- end }}\n"
    )


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("stowage", ("stowage", "", "")),
        ("r:5000/a/stowage", ("r:5000/a/stowage", "", "")),
        ("r:5000/stowage:1", ("r:5000/stowage", "1", "")),
        ("r/stowage@sha256:0", ("r/stowage", "", "sha256:0")),
        ("r/stowage:1@sha256:0", ("r/stowage", "1", "sha256:0")),
    ],
)
def test_an_image_has_parts(reference: str, parts: tuple[str, str, str]) -> None:
    assert Image.of(reference) == parts


def test_without_uv_it_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(forms, "ROOT", Path("/none"))
    monkeypatch.setenv("PATH", "/none")
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(chart, "files", lambda **_: {})
    assert main(["--check"]) == 1
    assert "uv is not at hand" in capsys.readouterr().err
    monkeypatch.setenv("UV", shutil.which("false", path="/bin:/usr/bin") or "/bin/false")
    assert main(["--check"]) == 1
    assert "uv export failed" in capsys.readouterr().err


@pytest.mark.proves("PK7")
def test_the_pods_keep_to_the_standard_restricted() -> None:
    """Those of the page as well. That a server takes them is a test of its own (e2e)."""
    listed_ = [*dry_run().values(), *install.page_manifests(namespace=HOME, image="x")]
    found = [each["spec"]["template"]["spec"] for each in listed_ if each["kind"] == "Deployment"]
    assert len(found) == 3
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert not [each for each in pod.get("volumes", ()) if "hostPath" in each]
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
