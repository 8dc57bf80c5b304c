"""`stowage install` and `uninstall`: the kinds, policies and processes of a hub."""

from __future__ import annotations

from typing import Any

import click

from stowage.commands.options import (
    CLUSTER,
    HubOptions,
    home_options,
    timeout_option,
    with_hub,
)
from stowage.console.terminal import say


@click.command()
@home_options
@click.option("--dry-run", is_flag=True, help="Print what would be applied.")
@click.option(
    "--crds-only",
    is_flag=True,
    help="Only the kinds, their admission policies and the roles of users.",
)
@click.option(
    "--image",
    help="The image of both processes, as the hub's nodes have or pull it; "
    "stowage:VERSION when left out.",
)
@click.option(
    "--all-namespaces/--no-all-namespaces",
    default=None,
    help="Whether every namespace is a tenant (stowage tenant); at first none is.",
)
@click.option(
    "--argocd",
    is_flag=False,
    flag_value="argocd",
    metavar="[NAMESPACE]",
    help="Let ApplicationSets of the Argo CD there read ClusterDecisions; argocd when left out.",
)
@click.option(
    "--wait",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Wait until both processes run, and fail with their pods' reason when they do not.",
)
@timeout_option("5m")
@click.option("--ui", is_flag=True, help="The web page as well, for many readers.")
@click.option(
    "--adopt-helm",
    metavar="RELEASE",
    help="Install nothing: what is there becomes that release of Helm, which then takes the chart.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Share out the members among N propagators, and run one more; as it is when left out.",
)
@click.option(
    "--yes", is_flag=True, help="Also where it changes what becomes of what runs, as is listed."
)
def install(
    hub: HubOptions,
    dry_run: bool,
    crds_only: bool,
    image: str | None,
    all_namespaces: bool | None,
    argocd: str | None,
    wait: bool,
    timeout: float,
    ui: bool,
    adopt_helm: str | None,
    shards: int | None,
    yes: bool,
) -> None:
    """Install kinds, admission, RBAC and both processes on the hub."""
    from stowage.console import output
    from stowage.console.progress import Lines
    from stowage.setup import install as parts
    from stowage.setup import tenants

    if adopt_helm:
        _adopt(hub, adopt_helm, dry_run, crds_only, image, ui, argocd, shards, all_namespaces)
        return
    if ui and crds_only:
        raise click.UsageError("--ui is a process, and --crds-only installs none")
    image = image or parts.default_image()
    objects = [
        *parts.manifests(
            namespace=hub.system_namespace,
            image=image,
            crds_only=crds_only,
            all_namespaces=bool(all_namespaces),
            argocd=argocd,
            number=shards,
        ),
        *(parts.page_manifests(namespace=hub.system_namespace, image=image) if ui else ()),
    ]
    if dry_run:
        output.manifests(objects)
        if not crds_only:
            _foretell(hub, image)
        return
    written = hub.written()
    if not crds_only:
        _refuse_unless(hub, image, yes=yes)

    async def whole(client: Any) -> None:
        await parts.apply(client, objects, say=say)
        if ui:
            await parts.ensure_session_key(client, hub.system_namespace, say=say)
        if not crds_only:
            await tenants.settle(
                client, home=hub.system_namespace, all_namespaces=all_namespaces, say=say
            )
        if wait:
            await parts.until_running(client, objects, progress=Lines(), seconds=timeout)

    told = (
        "what is applied already stays, and its processes start by themselves; the same command "
        "goes on from there, and docs/uninstall.md has the commands that take it back"
    )
    with_hub(written, whole, interrupted=told)


@click.command()
@home_options
@click.option(
    "--confirm", metavar="DIGEST", help="Uninstall; the digest is that of what was shown."
)
@click.option(
    "--delete-workloads",
    is_flag=True,
    help="Delete the Workloads first, member by member, with what they run.",
)
@click.option(
    "--abandon",
    multiple=True,
    type=CLUSTER,
    metavar="MEMBER",
    help="Do not wait for that member: what runs there stays, with Stowage's marks.",
)
def uninstall(
    hub: HubOptions, confirm: str | None, delete_workloads: bool, abandon: tuple[str, ...]
) -> None:
    """Take Stowage off the hub; members keep what they run.

    Without --confirm it shows what each member runs, and changes nothing. A member that does not
    answer is waited for unless it is abandoned.
    """
    from datetime import UTC, datetime

    from stowage.report import fleet
    from stowage.setup import uninstall as parts

    plan = parts.Uninstall(
        namespace=hub.system_namespace,
        delete_workloads=delete_workloads,
        abandon=tuple(sorted({*abandon})),
    )
    if confirm is None:
        with_hub(hub.connection(), lambda client: parts.show(client, plan, say=say))
        return
    told = (
        "members go on letting go, and nothing is placed any more once that has begun; "
        "`stowage uninstall` shows what is left, and with its digest goes on from there"
    )

    async def whole(client: Any) -> None:
        unled = (await fleet.unled(client, datetime.now(UTC))).get("propagator", "")
        await parts.uninstall(client, plan, confirm, unled=unled, say=say)

    with_hub(hub.written(), whole, interrupted=told)


def _adopt(hub: HubOptions, name: str, *beside: object) -> None:
    """Make what is there the release of that name. `beside` are other options, which may not be."""
    if any(each not in (None, False) for each in beside) or beside[-1] is not None:
        raise click.UsageError("--adopt-helm changes nothing but whose it is: it goes alone")
    from machinery.release import release
    from stowage.setup import helm_release, upgrade

    home = hub.system_namespace

    async def whole(client: Any) -> None:
        ours = release()
        # the image is that of the objects that are there, which stay as they are
        found = await upgrade.wanted(client, home=home, image="present", ours=ours, running=())
        await helm_release.adopt(client, found, helm_release.Release(name, home), say)

    told = "what is marked already stays; the same command goes on from there"
    with_hub(hub.written(), whole, interrupted=told)
    say(f"Next: helm install {name} CHART -n {home}, with the values of this installation")


def _refuse_unless(hub: HubOptions, image: str, *, yes: bool) -> None:
    """Print what an install changes for what runs. Raises ConfigurationError without `yes`."""
    from machinery.errors import ConfigurationError

    told = _foretold(hub, image)
    if told and not yes:
        raise ConfigurationError(f"{told}\nNothing is installed: change that, or say --yes")
    if told:
        say(told)


def _foretell(hub: HubOptions, image: str) -> None:
    """Print what an install changes for what runs on standard error, if a hub can be asked."""
    from machinery.errors import StowageError

    try:
        told = _foretold(hub, image)
    except StowageError as e:
        told = f"What it would change for what runs is not known: {e}"
    if told:
        say(told, err=True)


def _foretold(hub: HubOptions, image: str) -> str:
    """Return what an install changes for what runs. Raises ConfigurationError, TransportError."""
    from stowage.hub import reader
    from stowage.setup import install as parts

    with reader(hub.quick()) as api:
        return parts.foretold(api, home=hub.system_namespace, image=image)
