"""`stowage join`, `unjoin`, `rename` and `sweep`: the member clusters of a hub."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import (
    CLUSTER,
    OUTPUT,
    HubOptions,
    home_options,
    pairs,
    with_hub,
)
from stowage.console.terminal import say

if TYPE_CHECKING:
    from machinery.config.kubeconfig import Connection


def _resources(
    _: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]+/)?[A-Za-z0-9-]+|[A-Za-z0-9-]+\.[a-z0-9.-]+", text):
            raise click.BadParameter(
                f"{text!r} is not of the form group/resource, such as example.com/widgets",
                param=option,
            )
    return texts


def _profile(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[a-z0-9-]+/[a-z0-9.-]+", text):
        raise click.BadParameter(f"{text!r} is not of the form NAMESPACE/NAME", param=option)
    return text


@click.command()
@click.argument("name", required=False, type=CLUSTER)
@home_options
@click.option("--member-kubeconfig", type=click.Path(exists=True))
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option("--member-server", metavar="URL", help="Its address as the hub reaches it.")
@click.option("--member-tls-server-name", help="The name in its certificate, as the hub sees it.")
@click.option(
    "--label", "labels", multiple=True, metavar="K=V", callback=pairs, help="A cluster's label."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="[GROUP/]RESOURCE",
    callback=_resources,
    help="A further kind to manage, also as kubectl spells it; kept for later joins.",
)
@click.option(
    "--rights",
    type=click.Choice(["narrow", "cluster"]),
    default="narrow",
    show_default=True,
    help="narrow: only in namespaces that are given to it; cluster: in all but kube-*.",
)
@click.option(
    "--target-namespace",
    "targets",
    multiple=True,
    metavar="NAME",
    help="A namespace that is given to it, also one that exists.",
)
@click.option(
    "--new-namespaces/--no-new-namespaces",
    default=None,
    help="Whether it may make further namespaces; at first it may.",
)
@click.option(
    "--pod-security",
    type=click.Choice(["privileged", "baseline", "restricted"]),
    default="baseline",
    show_default=True,
    help="The standard of namespaces that it makes.",
)
@click.option("--replace", is_flag=True, help="The name is this cluster's from now on.")
@click.option("--anew", is_flag=True, help="Take up no --allow and namespace of an earlier join.")
@click.option("--pull", is_flag=True, help="An agent on the member connects to the hub.")
@click.option("--hub-server", metavar="URL", help="With --pull: the hub as the member reaches it.")
@click.option("--proxy", metavar="URL", help="With --pull: the proxy on the way to the hub.")
@click.option("--image", help="With --pull: the agent's image.  [default: of this release]")
@click.option("--itself", is_flag=True, help="The member is the hub itself, and that is meant.")
@click.option(
    "--from-clusterprofile",
    "profile",
    metavar="NAMESPACE/NAME",
    callback=_profile,
    help="Without a kubeconfig: the cluster of an inventory, its credentials come later.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME",
    help="A property of the ClusterProfile that becomes a label.",
)
def join(
    name: str | None,
    hub: HubOptions,
    member_kubeconfig: str | None,
    profile: str | None,
    properties: tuple[str, ...],
    **how: Any,
) -> None:
    """Register a cluster: a narrow service account there, a Secret here.

    With --pull nothing connects to the member: an agent there connects to the hub. On a member that
    is joined already, --pull or its absence switches the mode, and what runs there goes on.
    """
    if profile is None and name is None:
        raise click.MissingParameter(param_type="argument", param_hint="NAME")
    if (profile is None) == (member_kubeconfig is None):
        raise click.UsageError("say either --member-kubeconfig or --from-clusterprofile")
    at = hub.written()
    if profile is not None:
        _join_profile(at, profile, name or "", hub.system_namespace, properties)
    else:
        _join_member(at, str(name), hub.system_namespace, str(member_kubeconfig), **how)


def _join_profile(
    hub: Connection, profile: str, name: str, namespace: str, properties: tuple[str, ...]
) -> None:
    from stowage.setup import clusterprofile

    plan = clusterprofile.ProfileJoin(
        profile=profile, namespace=namespace, name=name, properties=properties
    )
    with_hub(hub, lambda client: clusterprofile.join(client, plan, say=say))


def _join_member(
    hub: Connection,
    name: str,
    namespace: str,
    member_kubeconfig: str,
    *,
    member_context: str | None,
    member_server: str | None,
    member_tls_server_name: str | None,
    pull: bool,
    hub_server: str | None,
    proxy: str | None,
    image: str | None,
    **how: Any,
) -> None:
    from propagator.credentials.credentials import PodSecurity, Rights
    from stowage.setup import install, join

    if not pull and (hub_server or proxy or image):
        raise click.UsageError("--hub-server, --proxy and --image are for --pull: say it as well")
    if pull and (member_server or member_tls_server_name):
        raise click.UsageError("nothing connects to a member in Pull: leave --member-… out")
    agent = join.Pull(image or install.default_image(), hub_server, proxy or "")
    plan = join.Join(
        name=name,
        namespace=namespace,
        member=HubOptions(member_kubeconfig, member_context).written(called="member"),
        server=member_server,
        tls_server_name=member_tls_server_name,
        pull=agent if pull else None,
        rights=Rights(how.pop("rights")),
        pod_security=PodSecurity(how.pop("pod_security")),
        **how,
    )
    told = (
        "what is made already stays, and a Secret on the hub registers the cluster; the same "
        f"command goes on from there, and `stowage unjoin {name} --member-kubeconfig "
        f"{member_kubeconfig}` takes it back"
    )
    with_hub(hub, lambda client: join.join(client, plan, say=say), interrupted=told)


@click.command()
@click.argument("name", type=CLUSTER)
@home_options
@click.option("--member-kubeconfig", type=click.Path(exists=True), help="Clean up there, too.")
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option("--force", is_flag=True, help="Also while Workloads have shares there.")
def unjoin(
    name: str,
    hub: HubOptions,
    member_kubeconfig: str | None,
    member_context: str | None,
    force: bool,
) -> None:
    """Take a cluster out of the fleet."""
    from stowage.setup import join

    at = hub.written()
    member = (
        HubOptions(member_kubeconfig, member_context).written(called="member")
        if member_kubeconfig
        else None
    )
    plan = join.Unjoin(name=name, namespace=hub.system_namespace, member=member, force=force)
    told = (
        f"what is taken away already stays so, and what {name} ran is placed elsewhere once it is "
        "marked as given up; the same command goes on from there, and "
        f"`stowage join {name} --member-kubeconfig FILE` takes it back"
    )
    with_hub(at, lambda client: join.unjoin(client, plan, say=say), interrupted=told)


@click.command()
@click.argument("cluster", required=False, type=CLUSTER)
@home_options
@click.option(
    "--confirm",
    is_flag=False,
    flag_value="",
    metavar="[DIGEST]",
    help="Let what is listed go; with the digest of what was shown, that alone.",
)
@click.option(
    "--orphan",
    is_flag=False,
    flag_value="",
    metavar="[DIGEST]",
    help="Leave what listed Workloads run, as onDelete: Orphan does; only without CLUSTER.",
)
@OUTPUT
def sweep(
    cluster: str | None,
    hub: HubOptions,
    confirm: str | None,
    orphan: str | None,
    output: str,
) -> None:
    """Show what a cluster holds for Workloads that the hub does not know, or let it go.

    The propagator removes such objects by itself, but not many at once, and none after the hub was
    set back: then MemberCluster says SweepHeld. Without CLUSTER: the Workloads that were deleted,
    and wait for a person as many were at once. Without --confirm and --orphan nothing is changed.
    """
    from stowage.setup import sweep as sweeping

    if orphan is not None and (cluster or confirm is not None):
        raise click.UsageError("--orphan is for deleted Workloads: leave CLUSTER and --confirm out")
    shown = orphan if confirm is None else confirm
    if shown is not None and output != "table":
        raise click.UsageError("-o is for what is shown: leave it or --confirm out")

    async def run(hub: Any) -> None:
        if cluster is None and shown is None:
            await sweeping.show_deleted(hub, output)
        elif cluster is None:
            await sweeping.decide_deleted(hub, shown or "", orphan=orphan is not None)
        elif shown is None:
            await sweeping.show(hub, cluster, output)
        else:
            await sweeping.confirm(hub, cluster, shown)

    with_hub(hub.connection() if shown is None else hub.written(), run)


@click.command()
@click.argument("old", type=CLUSTER)
@click.argument("new", type=CLUSTER)
@home_options
@click.option("--dry-run", is_flag=True, help="Only tell what would have the new name.")
@click.option("--force", is_flag=True, help="Also where specs name the old one.")
@OUTPUT
def rename(
    old: str,
    new: str,
    hub: HubOptions,
    dry_run: bool,
    force: bool,
    output: str,
) -> None:
    """Give a cluster another name: nothing is moved or restarted."""
    from stowage.setup import rename as renaming

    plan = renaming.Rename(old=old, new=new, namespace=hub.system_namespace, force=force)

    async def run(hub: Any) -> None:
        if dry_run:
            await renaming.dry_run(hub, plan, output)
        else:
            await renaming.rename(hub, plan, say=say)

    told = (
        ""
        if dry_run
        else (
            f"a rename that has begun is half done, and nothing stops; `stowage rename {old} "
            f"{new}` goes on to its end, after which `stowage rename {new} {old}` takes it back"
        )
    )
    with_hub(hub.connection() if dry_run else hub.written(), run, interrupted=told)
