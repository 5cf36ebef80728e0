"""What a person types. Commands read options and print; the work is done elsewhere and imported when it is needed."""

from pathlib import Path
from typing import Any

import click

PICTURES = (".png", ".pdf", ".svg")


class OneLineErrors(click.Group):
    """A group whose commands end in one line, not in a traceback, when the input or a file is at fault."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (ValueError, OSError, ImportError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wolf-filter", prog_name="wolf")
def main() -> None:
    """Filter time series with Kalman filters that outliers do not break."""


@main.command("methods")
def list_methods() -> None:
    """List the methods by name."""
    from wolf.cli.listing import describe_methods

    described = describe_methods()
    width = max(map(len, described)) + 2
    for name, words in described.items():
        click.echo(f"{name:<{width}}{words}")


@main.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="wolf-demo.png",
    show_default=True,
    help="Picture.",
)
@click.option("--steps", type=click.IntRange(min=2), default=1000, show_default=True, help="Length of a track.")
@click.option(
    "--trials", type=click.IntRange(min=1), default=50, show_default=True, help="Tracks of each kind of data."
)
@click.option("--seed", type=click.IntRange(min=0), default=314, show_default=True, help="Of all random numbers.")
def demo(out: Path, steps: int, trials: int, seed: int) -> None:
    """Compare a robust filter with a Kalman filter on dirty data: a table and a picture."""
    if out.suffix.lower() not in PICTURES:
        raise click.ClickException(f"--out must end in {', '.join(PICTURES)}; got {out.name}")
    if not out.parent.is_dir():
        raise click.ClickException(f"the folder {out.parent} does not exist; make it first, or choose another --out")
    from wolf.cli import demo as experiment

    config = experiment.Config(steps, trials, seed)
    click.echo(experiment.introduction(config))
    results = experiment.run(config, lambda words: click.echo(words, nl=False))
    click.echo(experiment.table(config, results.rows))
    try:
        experiment.picture(config, results.tracks).savefig(out)
    except ModuleNotFoundError as error:
        click.echo(f"No picture this time. {error}")
    else:
        click.echo(f"Picture: {out}")
