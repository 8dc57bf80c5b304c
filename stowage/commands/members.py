"""`stowage install`, `join` and `unjoin`: what stands on the hub, and who belongs to it."""

from __future__ import annotations

import re

import click

from stowage.commands.options import hub_connection, hub_options, with_hub


def _pairs(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in texts if not text.partition("=")[0] or "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form key=value", param=option)
    return dict(text.split("=", 1) for text in texts)


def _resources(
    _: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]+/)?[a-z0-9-]+", text):
            raise click.BadParameter(
                f"{text!r} is not of the form group/resource, such as example.com/widgets",
                param=option,
            )
    return texts


@click.command()
@hub_options
@click.option("--dry-run", is_flag=True, help="Print what would be applied.")
@click.option("--crds-only", is_flag=True, help="Only the kinds and their admission policies.")
@click.option("--image", default="stowage:latest", help="The image of both processes.")
def install(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    dry_run: bool,
    crds_only: bool,
    image: str,
) -> None:
    """Install kinds, admission, RBAC and both processes on the hub."""
    from stowage import install as parts  # noqa: PLC0415 - see stowage.cli

    manifests = parts.manifests(namespace=namespace, image=image, crds_only=crds_only)
    if dry_run:
        click.echo(parts.as_yaml(manifests), nl=False)
        return
    with_hub(
        hub_connection(kubeconfig, context),
        lambda client: parts.apply(client, manifests, say=click.echo),
    )


@click.command()
@click.argument("name")
@hub_options
@click.option("--member-kubeconfig", required=True, type=click.Path(exists=True))
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option(
    "--label", "labels", multiple=True, metavar="K=V", callback=_pairs, help="A cluster's label."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="[GROUP/]RESOURCE",
    callback=_resources,
    help="A further kind to manage.",
)
@click.option("--impersonate", is_flag=True, help="Let the propagator act as service accounts.")
def join(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    member_kubeconfig: str,
    member_context: str | None,
    labels: dict[str, str],
    allow: tuple[str, ...],
    impersonate: bool,
) -> None:
    """Register a cluster: a narrow service account there, a Secret here."""
    from stowage import membership  # noqa: PLC0415 - see stowage.cli

    plan = membership.Join(
        name=name,
        namespace=namespace,
        member=hub_connection(member_kubeconfig, member_context),
        labels=labels,
        allow=allow,
        impersonate=impersonate,
    )
    with_hub(
        hub_connection(kubeconfig, context), lambda hub: membership.join(hub, plan, say=click.echo)
    )


@click.command()
@click.argument("name")
@hub_options
@click.option("--member-kubeconfig", type=click.Path(exists=True), help="Clean up there, too.")
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option("--force", is_flag=True, help="Also while Workloads have shares there.")
def unjoin(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    member_kubeconfig: str | None,
    member_context: str | None,
    force: bool,
) -> None:
    """Take a cluster out of the fleet."""
    from stowage import membership  # noqa: PLC0415 - see stowage.cli

    member = hub_connection(member_kubeconfig, member_context) if member_kubeconfig else None
    plan = membership.Unjoin(name=name, namespace=namespace, member=member, force=force)
    with_hub(
        hub_connection(kubeconfig, context),
        lambda hub: membership.unjoin(hub, plan, say=click.echo),
    )
