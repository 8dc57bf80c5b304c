"""A Docker engine and kind to test against where there is neither.

`docker`, `kind` and `kubectl` are real programs: they write down how they were called, keep the
clusters in a folder, and answer and fail in the words of the real ones.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path

from stowage.playground import kind

NODE_IMAGE = kind.NODE_IMAGE
NO_ENGINE = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?"
)

_PROGRAM = """#!{python} -IS
import os, sys  # what else it imported would be most of its time

HERE = {folder!r}
TOOL, ARGS = os.path.basename(sys.argv[0]), sys.argv[1:]
LINE = " ".join([TOOL, *ARGS])

def end(code=0, out="", err=""):
    print(out, end="")
    print(err, end="", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(code)

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def add(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text)

def option(name):
    for number, argument in enumerate(ARGS):
        if argument == name:
            return ARGS[number + 1]
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
    return ""

def node(name):
    return name + "-control-plane"

add("calls", repr([TOOL, *ARGS]) + "\\n")
for wanted, (code, text) in eval(read("faults")).items():
    if wanted in LINE:
        end(code, err=text + "\\n")
there, images = sorted(os.listdir(os.path.join(HERE, "clusters"))), set(read("images").split())
name = option("--name")

if TOOL == "kind" and ARGS[:2] == ["get", "clusters"]:
    if not there:
        end(err="No kind clusters found.\\n")
    end(out="".join(each + "\\n" for each in there))
if TOOL == "kind" and ARGS[:2] == ["create", "cluster"]:
    if name in there:
        end(1, err="ERROR: failed to create cluster: node(s) already exist for a cluster with "
            + 'the name "' + name + '"\\n')
    add("clusters/" + name, str(len(there) + 2))
    if os.path.exists(os.path.join(HERE, "slow")):
        import time

        add("pids", str(os.getpid()) + "\\n")
        time.sleep(600)
    open(option("--kubeconfig"), "w").close()
    end(err='Creating cluster "' + name + '" ...\\nHave a nice day!\\n')
if TOOL == "kind" and ARGS[:2] == ["delete", "cluster"]:
    if name in there:
        os.unlink(os.path.join(HERE, "clusters", name))
    end(err='Deleting cluster "' + name + '" ...\\n')
if TOOL == "docker" and ARGS[0] == "version":
    end(out="29.1.3\\n")
if TOOL == "docker" and ARGS[:2] == ["image", "inspect"]:
    if ARGS[-1] in images:
        end(out="sha256:" + "c" * 64 + "\\n")
    end(1, out="\\n", err="Error response from daemon: No such image: " + ARGS[-1] + "\\n")
if TOOL == "docker" and ARGS[0] == "pull":
    add("images", ARGS[-1] + "\\n")
    end(out="docker.io/" + ARGS[-1] + "\\n")
if TOOL == "docker" and ARGS[0] == "build":
    end(out="sha256:" + "b" * 64 + "\\n")
end(64, err="the test's " + TOOL + " does not know " + LINE + "\\n")
"""


class Engine:
    """A fake of docker and kind; the test looks into it and makes it fail."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        (folder / "clusters").mkdir(parents=True)
        (folder / "images").write_text(f"{NODE_IMAGE}\n")
        (folder / "calls").touch()
        self.fail({})
        program = _PROGRAM.format(python=sys.executable, folder=str(folder))
        for tool in ("docker", "kind", "kubectl"):
            (tools / tool).write_text(program)
            (tools / tool).chmod(0o755)

    @property
    def clusters(self) -> list[str]:
        """The clusters that exist, by the name that kind knows them by."""
        return sorted(each.name for each in (self.folder / "clusters").iterdir())

    def calls(self, *beginning: str) -> list[list[str]]:
        """The calls that began so, in their order; the program's name first."""
        lines = (self.folder / "calls").read_text().splitlines()
        calls: list[list[str]] = [ast.literal_eval(line) for line in lines]
        return [call for call in calls if call[: len(beginning)] == list(beginning)]

    def forget(self) -> None:
        """Forget the calls until now."""
        (self.folder / "calls").write_text("")

    def fail(self, faults: Mapping[str, tuple[int, str]]) -> None:
        """Let every call whose line holds that text end with that code and these words."""
        (self.folder / "faults").write_text(repr(dict(faults)))

    def add_image(self, image: str) -> None:
        """Have that image."""
        with (self.folder / "images").open("a") as images:
            images.write(f"{image}\n")

    def add_cluster(self, name: str) -> None:
        """Have a cluster that somebody else made."""
        (self.folder / "clusters" / name).write_text("250")
