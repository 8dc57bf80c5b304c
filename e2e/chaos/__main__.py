"""The command: `python -m e2e.chaos [--seconds 300] [--seed N] [--runs 1]`. See `run_seeds`."""

from __future__ import annotations

import click

from e2e.chaos.run import run
from e2e.chaos.seeds import run_seeds


@click.command()
@click.option("--seconds", default=300.0, help="How long things break; all else comes on top.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
def main(seconds: float, seed: int | None, runs: int) -> None:
    """Break things while sixty Workloads are churned, and check what was promised."""
    run_seeds(
        "chaos",
        seed,
        runs,
        lambda clusters, logs, number: run(
            clusters, logs, seed=number, seconds=seconds, say=click.echo
        ),
        f", {seconds:g} s",
    )


if __name__ == "__main__":
    main()
