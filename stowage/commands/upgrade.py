"""`stowage upgrade`: a hub to the release of this command."""

from __future__ import annotations

from typing import Any

import click

from stowage.commands.options import HubOptions, home_options, timeout_option, with_hub
from stowage.console.terminal import say


@click.command()
@home_options
@click.option(
    "--check", is_flag=True, help="Print what would change; exit code 1 where anything would."
)
@click.option(
    "--image",
    help="The image of both processes; that of the hub with the tag of this version when left out.",
)
@timeout_option("5m")
@click.pass_context
def upgrade(
    command: click.Context, hub: HubOptions, check: bool, image: str | None, timeout: float
) -> None:
    """Bring the hub to the release of this command, step by step.

    Kinds, policies, rights, processes, and objects stored in an older version; members whose
    account lacks a right are named. No replica moves, and no pod on a member restarts. Run it
    again where it was interrupted.
    """
    from machinery.release import release
    from stowage.console import output
    from stowage.console.progress import Lines
    from stowage.setup import helm_release
    from stowage.setup import upgrade as steps

    at = hub.quick() if check else hub.written()
    home, ours = hub.system_namespace, release()

    async def whole(client: Any) -> list[steps.Change]:
        running = await steps.releases(client, home)
        steps.refuse(ours, running.values())
        objects = await steps.wanted(
            client, home=home, image=image, ours=ours, running=running.values()
        )
        rows = await steps.planned(client, objects, home, lambda text: say(text, err=True))
        say(f"hub {await client.version()} runs {_told(running)}; this is {ours}")
        if rows:
            table = [{"step": r.step, "object": r.object, "change": r.change} for r in rows]
            say(output.table(table, ("step", "object", "change")))
        helm = await helm_release.of_hub(client, home)
        if helm:
            say(
                f"note: this is the release {helm} of Helm: `helm upgrade` keeps its values",
                err=True,
            )
        if not check:
            await steps.run(
                client, objects, say=say, progress=Lines(), seconds=timeout, release=helm
            )
        return rows

    told = "each step that was carried out stays; the same command goes on from there"
    rows = with_hub(at, whole, interrupted="" if check else told)
    number = f"{len(rows)} change{'' if len(rows) == 1 else 's'}" if rows else "nothing to change"
    say(f"{number}; no replica moves, no pod on a member restarts" if rows else number)
    command.exit(1 if check and rows else 0)


def _told(running: dict[str, str]) -> str:
    """Return `0.1.0 (controller, propagator)`."""
    if not running:
        return "no process that has led"
    names = {
        release: [name for name, each in running.items() if each == release]
        for release in running.values()
    }
    return ", ".join(f"{release} ({', '.join(each)})" for release, each in names.items())
