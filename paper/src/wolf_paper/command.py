"""The command `wolf reproduce`, which wolf finds by an entry point; what it does is imported when it runs."""

from pathlib import Path
from typing import Any

import click

from wolf.cli.options import examples, talk_options


@click.command(epilog=examples("wolf reproduce --list", "wolf reproduce intro --scale small --out reproduction"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the experiments and end.")
@click.option(
    "--scale",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="Size of the experiments: minutes in all, or as in the paper.",
)
@click.option("--trials", type=click.IntRange(min=2), help="Number of trials of each experiment; default: its scale's.")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=314, show_default=True, help="Seed of all random numbers."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="reproduction",
    show_default=True,
    help="Folder of rows, figures and manifests. What is finished there is not run again.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the regression sets; default: they are downloaded.",
)
@talk_options
@click.pass_context
def reproduce(context: click.Context, names: tuple[str, ...], listed: bool, **options: Any) -> None:
    """Run the paper's experiments (all, or by NAME) and compare them with what the paper reports.

    Ends with exit code 1 if a figure differs and no reason is recorded.
    """
    from wolf_paper import reproducing

    if listed:
        click.echo(reproducing.listing())
        return
    context.exit(reproducing.reproduce(names, **options))
