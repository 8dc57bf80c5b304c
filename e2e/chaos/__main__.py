"""The command: `python -m e2e.chaos [--seconds 300] [--seed N] [--runs 1] [--shards 1] [--pull]`.

See `run_seeds`.
"""

from __future__ import annotations

import click

from e2e.chaos.run import run
from e2e.chaos.seeds import run_seeds
from e2e.chaos.stage import MEMBERS


@click.command()
@click.option("--seconds", default=300.0, help="How long things break; all else comes on top.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
@click.option("--shards", default=1, help="Propagators share the members out; one is spare.")
@click.option("--pull", is_flag=True, help="The last member is in mode Pull, with two agents.")
def main(seconds: float, seed: int | None, runs: int, *, shards: int, pull: bool) -> None:
    """Break things while sixty Workloads are churned, and check what was promised."""
    run_seeds(
        "chaos",
        seed,
        runs,
        lambda clusters, logs, number: run(
            clusters,
            logs,
            seed=number,
            seconds=seconds,
            say=click.echo,
            shards=shards,
            pulled=MEMBERS[-1] if pull else "",
        ),
        f", {seconds:g} s, {shards} shards{', pull' if pull else ''}",
    )


if __name__ == "__main__":
    main()
