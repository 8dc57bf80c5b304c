"""KUBECONFIG with several files means the cluster, user and namespace that kubectl shows for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.config.hub_config import hub_connection
from machinery.errors import ConfigurationError
from stowage.toolchain import binaries

pytestmark = pytest.mark.proves("RB23")

MEANT = (
    "{.current-context}|{.clusters[0].cluster.server}"
    "|{.contexts[0].context.namespace}|{.users[0].user.token}"
)


def config(name: str, current: str | None, **changes: Any) -> str:
    """A kubeconfig with two contexts: `NAME` of its own, `shared` whose parts all files have."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "shared", "cluster": {"server": f"https://shared-{name}.example"}},
            {"name": name, "cluster": {"server": f"https://{name}.example"}},
        ],
        "users": [
            {"name": "shared", "user": {"token": f"token-{name}"}},
            {"name": name, "user": {"token": f"own-{name}"}},
        ],
        "contexts": [
            {
                "name": "shared",
                "context": {"cluster": "shared", "user": "shared", "namespace": f"of-{name}"},
            },
            {
                "name": name,
                "context": {"cluster": name, "user": "shared", "namespace": f"own-{name}"},
            },
        ],
        **changes,
    }
    if current is not None:
        content["current-context"] = current
    return yaml.safe_dump(content)


FILES = {
    "a": config("a", "a"),
    "b": config("b", "b"),
    "c": config("c", "shared"),
    "without": config("without", None),
    "silent": config("silent", ""),
    "unknown": config("unknown", "nowhere"),
    "server-less": config(
        "server-less", "shared", clusters=[{"name": "shared", "cluster": {"server": ""}}]
    ),
    "of-b": yaml.safe_dump({"current-context": "b"}),
    "nothing": "",
    "comment": "# nothing yet\n",
    "null": "null\n",
    "twice": config(
        "twice",
        "twice",
        users=[
            {"name": "shared", "user": {"token": "one"}},
            {"name": "shared", "user": {"token": "two"}},
        ],
    ),
    "broken": "a: [",
    "words": "just words",
}


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return binaries.path("kubectl")  # looked for in the home of the user, which is not the tests'


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def theirs(kubectl: Path, listed: str) -> str | None:
    """What kubectl means by that KUBECONFIG; None where it refuses it."""
    shown = subprocess.run(
        [kubectl, "config", "view", "--raw", "--minify", "-o", f"jsonpath={MEANT}"],
        env={**os.environ, "KUBECONFIG": listed},
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout if shown.returncode == 0 else None


async def ours() -> str | None:
    try:
        found = hub_connection()
    except ConfigurationError:
        return None
    token = await found.token_source() if found.token_source else ""
    return f"{found.context}|{found.server}|{found.namespace}|{token}"


@pytest.mark.parametrize(
    ("listed", "meant"),
    [
        ("a:b", "a|https://a.example|own-a|token-a"),
        ("b:a", "b|https://b.example|own-b|token-b"),
        ("a:b:c", "a|https://a.example|own-a|token-a"),
        ("c:b:a", "shared|https://shared-c.example|of-c|token-c"),
        ("without:b:c", "b|https://b.example|own-b|token-without"),
        ("silent:c:a", "shared|https://shared-silent.example|of-silent|token-silent"),
        ("missing:b:a", "b|https://b.example|own-b|token-b"),
        ("b:missing:a", "b|https://b.example|own-b|token-b"),
        ("nothing:comment:null:b:a", "b|https://b.example|own-b|token-b"),
        (":b::a:", "b|https://b.example|own-b|token-b"),
        ("of-b:a:b", "b|https://b.example|own-b|token-a"),
        ("unknown:a", None),
        ("silent:without", None),
        ("missing:nothing", None),
        ("a:twice", None),
        ("a:broken", None),
        ("words:a", None),
        ("a:.", None),
    ],
)
def test_the_first_file_that_says_it_counts_as_with_kubectl(
    kubectl: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, listed: str, meant: str | None
) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.setenv("KUBECONFIG", listed)
    assert theirs(kubectl, listed) == meant
    assert asyncio.run(ours()) == meant


def test_an_entry_of_the_first_file_is_not_filled_from_another(
    kubectl: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{directory}/server-less:{directory}/a")
    assert theirs(kubectl, os.environ["KUBECONFIG"]) == "shared||of-server-less|token-server-less"
    with pytest.raises(ConfigurationError, match="gives no server for context 'shared'"):
        hub_connection()


def test_two_entries_of_one_name_in_a_file_are_told(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{directory}/a:{directory}/twice")
    with pytest.raises(ConfigurationError, match=f"two users .* 'shared', in {directory}/twice"):
        hub_connection()
