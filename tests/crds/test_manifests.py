"""The manifests are what the models say, come in order, and travel with the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import crds
from crds import generate, names

FOLDER = Path(crds.__file__).parent


def test_the_files_are_what_the_models_generate(capsys):
    assert generate.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.long
def test_a_difference_is_shown_and_fails(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "crds"
    for name in generate.rendered():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((FOLDER / name).read_text())
    (folder / "workload.yaml").write_text(
        (FOLDER / "workload.yaml").read_text().replace("maximum: 100", "maximum: 1000")
    )
    monkeypatch.setattr(generate, "__file__", str(folder / "generate.py"))
    assert generate.main(["--check"]) == 1
    shown = capsys.readouterr().out
    changed = [line.split() for line in shown.splitlines() if line.startswith(("-  ", "+  "))]
    assert ["-", "maximum:", "1000"] in changed
    assert ["+", "maximum:", "100"] in changed
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_manifests_come_in_the_order_in_which_they_are_applied():
    assert [(m["kind"], m["metadata"]["name"]) for m in crds.manifests()] == [
        ("CustomResourceDefinition", "memberclusters.stowage.dev"),
        ("CustomResourceDefinition", "workloadkinds.stowage.dev"),
        ("CustomResourceDefinition", "workloads.stowage.dev"),
        ("CustomResourceDefinition", "workloadpolicies.stowage.dev"),
        ("CustomResourceDefinition", "workloadspreads.stowage.dev"),
        ("CustomResourceDefinition", "reservations.stowage.dev"),
        ("CustomResourceDefinition", "workloadgroups.stowage.dev"),
        ("CustomResourceDefinition", "workloadquotas.stowage.dev"),
        ("CustomResourceDefinition", "clusterdecisions.stowage.dev"),
        ("CustomResourceDefinition", "assignments.stowage.dev"),
        ("CustomResourceDefinition", "memberreports.stowage.dev"),
        ("MutatingAdmissionPolicy", names.ADMISSION_POLICY),
        ("MutatingAdmissionPolicyBinding", names.ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.MARKS_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.MARKS_ADMISSION_POLICY),
        ("MutatingAdmissionPolicy", names.POLICY_ADMISSION_POLICY),
        ("MutatingAdmissionPolicyBinding", names.POLICY_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.RESERVATION_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.RESERVATION_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.PRIORITY_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.PRIORITY_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.MEMBERSHIP_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.MEMBERSHIP_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.PULL_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.PULL_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.PULLED_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.PULLED_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.MODE_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.MODE_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicy", names.GUARD_ADMISSION_POLICY),
        ("ValidatingAdmissionPolicyBinding", names.GUARD_ADMISSION_POLICY),
    ]


@pytest.mark.proves("D5")
def test_a_folder_of_the_installed_package_is_enough(tmp_path):
    """As from a wheel: the package in an archive, nothing else of ours beside it."""
    archive = tmp_path / "crds.zip"
    with zipfile.ZipFile(archive, "w") as wheel:
        for path in FOLDER.iterdir():
            if path.suffix in {".py", ".yaml"}:
                wheel.write(path, f"crds/{path.name}")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import crds; print(len(crds.manifests()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{len(crds.manifests())}\n"


def versions() -> dict[str, dict[str, Any]]:
    return {
        m["spec"]["names"]["kind"]: m["spec"]["versions"][0]
        for m in crds.manifests()
        if m["kind"] == "CustomResourceDefinition"
    }


def test_every_field_says_what_it_is_and_every_status_field_who_writes_it():
    def fields(schema: dict[str, Any], path: str) -> Any:
        for name, child in schema.get("properties", {}).items():
            yield f"{path}.{name}", child
            yield from fields(child, f"{path}.{name}")
            yield from fields(child.get("items", {}), f"{path}.{name}[]")

    for kind, version in versions().items():
        root = version["schema"]["openAPIV3Schema"]["properties"]
        for part in ("spec", "status"):
            for path, field in fields(root.get(part, {}), f"{kind}.{part}"):
                assert field.get("description"), path
        for name, field in root["status"]["properties"].items():
            if name != "conditions" or kind == "MemberCluster":
                assert "Writer: " in field["description"], (kind, name)
