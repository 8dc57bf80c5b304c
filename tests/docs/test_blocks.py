"""Each fenced block of README and docs does what its info string says; see tests/docs/blocks.py.

The objects that stand on the hub meanwhile are in tests/docs/hub/, and files that commands read in
tests/docs/files/, by the page's name.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import msgspec
import pytest
import yaml

from controller import catalogue
from controller.config import parse
from controller.model.objects import Workload
from controller.model.unit import workload_info
from crds.names import SYSTEM_NAMESPACE
from machinery.clock import microtime
from stowage.playground.cluster import Cluster
from stowage.playground.processes import ProcessFailed
from tests.controller.live import world_on
from tests.docs import blocks as reading
from tests.docs.blocks import Block, blocks, pages, python_of
from tests.docs.conftest import ROOT
from tests.stowage.conftest import Stowage
from tests.web import showcase

pytestmark = pytest.mark.proves("DOC3")

HERE = Path(__file__).parent
ON_HUB = {"apply", "hub"}
MOST_SKIPPED = 0.05


@cache
def known() -> dict[str, list[Block]]:
    return {page: blocks(page) for page in pages()}


def found(*modes: str) -> list[Block]:
    return [each for listed in known().values() for each in listed if each.mode in modes]


def test_hardly_any_block_is_skipped_and_each_says_why() -> None:
    listed = [each for every in known().values() for each in every]
    assert {each.mode for each in listed} == set().union(*reading.MODES.values())
    skipped = [each for each in listed if each.mode == "skip"]
    assert all(len(each.argument) > 8 for each in skipped)
    assert len(skipped) <= MOST_SKIPPED * len(listed), [each.at(0) for each in skipped]


def test_what_a_command_names_is_there() -> None:
    assert [
        f"{block.at(offset)}: {each}"
        for block in found("usage")
        for offset, line in enumerate(joined(block.lines))
        for each in reading.misused(line)
    ] == []


def joined(lines: tuple[str, ...]) -> Iterator[str]:
    """Lines that go on are one, so that what follows is looked at with its command."""
    whole = ""
    for line in lines:
        whole += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        yield whole
        whole = ""


def test_the_words_are_those_of_the_code() -> None:
    wrong = []
    for block in found("said"):
        names = frozenset(block.argument.split())
        for offset, line in enumerate(block.lines):
            told = reading.misused(line) if line.startswith("$ ") else reading.unsaid(line, names)
            wrong += [f"{block.at(offset)}: {each}" for each in told]
    assert wrong == [], "\n".join(wrong)


def test_a_fragment_fits_its_schema() -> None:
    assert [
        f"{block.at(0)}: {each}"
        for block in found("fragment")
        for document, path in reading.fragments(block)
        for each in reading.misfits(document, reading.schema_at(path))
    ] == []


def test_python_runs() -> None:
    for page in {each.page for each in found("run")}:
        assert python_of(page), page


def test_a_configuration_is_read() -> None:
    whole = {"apiVersion": "stowage.dev/v1alpha1", "kind": "SchedulerConfiguration"}
    for block in found("config"):
        registry = catalogue.registry()
        for name, value in python_of(block.page).items():
            if getattr(value, "name", "") == name and isinstance(value, type):
                registry.with_plugin(name, value)
        # A fault names the file and the line of its block.
        parse(yaml.safe_dump(whole | yaml.safe_load(block.text)), registry, name=block.at(0))


def test_a_block_that_says_nothing_is_told_with_file_and_line() -> None:
    for fence in ("```", "```yaml", "```yaml {run}", "```console {look}"):
        with pytest.raises(ValueError, match=r"^x\.md:3: "):
            blocks("x.md", f"# Title\n\n{fence}\ntext\n```\n")
    with pytest.raises(ValueError, match=r"^x\.md:1: not a fence"):
        blocks("x.md", "``` yaml, apply\n")


def test_what_is_wrong_is_seen() -> None:
    said = "2 clusters: didn't match clusterSelector, and nobody knows why"
    assert next(reading.unsaid(said, frozenset())) == "no message says 'and nobody knows'"
    assert [*reading.unsaid("NAME   COLOUR", frozenset())] == ["no table has the column 'COLOUR'"]
    assert [*reading.misused("stowage drain m1 --gently")] == ["drain has no option --gently"]
    assert [*reading.misused("stowage pour m1")] == ["there is no command pour"]
    schema = reading.schema_at("Workload.spec")
    told = [*reading.misfits({"packing": "Fullest", "colour": 1, "priority": "high"}, schema)]
    assert [each.partition(":")[0] for each in told] == [".packing", ".colour", ".priority"]


# --- transcripts ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run: the repository's examples are there, and the fleet of the pictures."""
    showcase.written(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(page: str) -> str:
    return page.removeprefix("docs/").removesuffix(".md")


def files_of(page: str, folder: Path) -> None:
    for each in (HERE / "files" / name_of(page)).glob("*"):
        shutil.copy(each, folder)


def differences(block: Block, run: Callable[[list[str]], str], folder: Path) -> Iterator[str]:
    """Run the steps of a block; yield where one prints something else."""
    for step in reading.steps(block):
        words = shlex.split(step.command)
        target = words.pop() if words[-2:-1] == [">"] else ""
        printed = run(words[:-1] if target else words)
        if target:
            kept, _, printed = printed.rpartition("\0")
            (folder / target).write_text(printed)
            printed = kept
        wrong = reading.difference(step.expected, printed.replace("\0", ""))
        if wrong is not None:
            line, instead = wrong
            yield f"{block.at(step.offset + line)}: printed is {instead!r}\n{printed}"


def said(words: list[str], stowage: Stowage, **environment: str) -> str:
    """What a command prints: first what it notes."""
    assert words[0] == "stowage", words
    outcome = stowage(*words[1:], env={"COLUMNS": "500", **environment})
    return f"{outcome.err}\0{outcome.out}"


@pytest.mark.parametrize("block", found("files"), ids=lambda block: f"{block.page}:{block.line}")
def test_a_transcript_without_a_hub(block: Block, folder: Path) -> None:
    files_of(block.page, folder)
    stowage = Stowage()
    assert list(differences(block, lambda words: said(words, stowage), folder)) == []


def test_a_wrong_line_is_told_with_file_and_line(folder: Path) -> None:
    text = "```console {files}\n$ stowage plan \\\n  -f x\nright …\nsome …\n…\nlast\n```\n"
    (block,) = blocks("x.md", text)
    asked: list[list[str]] = []

    def told(output: str) -> list[str]:
        return list(differences(block, lambda words: asked.append(words) or output, folder))

    assert told("right 3m\nsome thing\nmore\nand more\nlast") == []
    assert asked == [["stowage", "plan", "-f", "x"]]
    assert told("right 3m\nanother thing\nlast")[0].startswith("x.md:5: printed is 'another thing'")
    assert told("wrong\nsome thing\n")[0].startswith("x.md:4: ")
    assert told("right 3m\nsome thing\nmore")[0].startswith("x.md:7: printed is 'nothing more'")
    assert told("right 3m\nsome thing\nlast\nbut one")[0].startswith("x.md:8: ")


async def emptied(hub: Cluster) -> None:
    async with world_on(hub, "shop"):
        pass


@pytest.fixture(scope="module")
def docs_hub(hub: Cluster) -> Iterator[Cluster]:
    """A hub with our kinds and policies, and no process: what a page shows is stored there."""
    for namespace in ("shop", "demo"):
        hub.kubectl("create", "namespace", namespace, check=False)
    asyncio.run(emptied(hub))  # of other tests, too
    hub.kubectl("delete", "leases", "--all", "-n", SYSTEM_NAMESPACE)
    context = ("config", "set-context", "--current")
    hub.kubectl(*context, "--namespace=shop")
    yield hub
    hub.kubectl(*context, "--namespace=default")


@contextmanager
def stored(hub: Cluster, name: str) -> Iterator[None]:
    """The objects of that file, statuses too, as long as a block runs.

    `NOW-60` in it is a minute ago; a decision gets the hash of its Workload's spec.
    """
    text = (HERE / "hub" / f"{name}.yaml").read_text()
    now = datetime.now(UTC)
    text = re.sub(r"\bNOW(?:-(\d+))?\b", lambda ago: f'"{microtime(now - seconds(ago[1]))}"', text)
    objects = list(yaml.safe_load_all(text))
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    hub.kubectl(*apply, input=yaml.safe_dump_all(objects))
    told = [each for each in objects if "status" in each]
    for each in told:
        if each["status"].get("decision"):
            where = ("-n", each["metadata"]["namespace"], f"workload/{each['metadata']['name']}")
            there = msgspec.json.decode(hub.kubectl("get", *where, "-o", "json"), type=Workload)
            each["status"]["decision"]["hash"] = workload_info(there).hash
    if told:
        hub.kubectl(*apply, "--subresource=status", input=yaml.safe_dump_all(told))
    try:
        yield
    finally:
        for each in objects:
            name, meta = f"{each['kind']}/{each['metadata']['name']}", each["metadata"]
            place = ("-n", meta.get("namespace", "shop"), name)
            hub.kubectl("delete", "--wait=false", *place)
            free = ("--type=merge", "-p", '{"metadata": {"finalizers": null}}')
            hub.kubectl("patch", *place, *free, check=False)


def seconds(text: str | None) -> timedelta:
    return timedelta(seconds=int(text or 0))


def on_hub() -> list[str]:
    return [page for page, listed in known().items() if any(each.mode in ON_HUB for each in listed)]


@pytest.mark.parametrize("page", on_hub())
def test_what_a_page_asks_of_a_hub(page: str, docs_hub: Cluster, folder: Path) -> None:
    files_of(page, folder)
    stowage = Stowage()

    def run(words: list[str]) -> str:
        if words[0] == "kubectl":
            return docs_hub.kubectl(*words[1:], check=False)
        return said(words, stowage, KUBECONFIG=str(docs_hub.kubeconfig))

    wrong: list[str] = []
    for block in known()[page]:
        if block.mode == "hub":
            with stored(docs_hub, block.argument or name_of(page)):
                wrong += differences(block, run, folder)
        elif block.mode == "apply":
            dry_run = ("apply", "--server-side", "--dry-run=server", "-f", "-")
            try:
                docs_hub.kubectl(*dry_run, input=block.text)
            except ProcessFailed as refused:
                wrong.append(f"{block.at(0)}: {refused}")
    assert wrong == [], "\n".join(wrong)
