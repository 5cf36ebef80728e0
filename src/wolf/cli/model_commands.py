"""Commands about models and methods: `wolf simulate`, `certify`, `export`, `models`, `methods`, `demo`, `manual`."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from wolf.cli import shell_completion
from wolf.cli.options import METHOD_HELP, InputError, echo_summary, examples, input_files, talk_options
from wolf.cli.progress import progress_bar

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


@click.command(
    epilog=examples(
        "wolf simulate --steps 500 --missing 0.02 --out readings.csv",
        "wolf simulate --model wiener-velocity --columns 2 --out track.csv",
    )
)
@click.option(
    "--model",
    default="local-level",
    show_default=True,
    help="Name of a model; `wolf models` lists them.",
    shell_complete=shell_completion.models,
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Variance. Default: 1 for the noise, 0.1 for others.",
)
@click.option("--steps", type=click.IntRange(min=2), default=1000, show_default=True, help="Number of rows.")
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option(
    "--outliers", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of rows that are outliers."
)
@click.option(
    "--size",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Size of an outlier, in standard deviations of the noise.",
)
@click.option(
    "--missing", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of rows that are missing."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--out",
    default="-",
    show_default=True,
    help="Output file; - for standard output.",
    shell_complete=shell_completion.files,
)
@talk_options
def simulate(out: str, settings: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> None:
    """Simulate measurements with known truth and outliers."""
    from wolf.cleaning import io
    from wolf.cli.commands import filter
    from wolf.cli.commands import simulate as simulating

    io.check_table(out)
    io.check_apart(input_files(options["model"]), {"--out": out})
    table = simulating.simulate(parameters=filter.parse_settings(settings), **options)
    simulating.write(out, table)
    text = f"{out}: {table.num_rows:,} rows, columns {', '.join(table.column_names)}"
    facts = {"wrote": out, "rows": table.num_rows, "columns": table.column_names}
    echo_summary(text, facts, as_json, quiet or out == "-", err=out == "-")


@click.command(
    epilog=examples(
        "wolf certify local-level --set level_var=0.1 --set obs_var=1",
        "wolf certify local-level --set level_var=0.1 --set obs_var=1 --trials 0 --out certificate.json",
    )
)
@click.argument("model", shell_complete=shell_completion.models)
@click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance of the model.")
@click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods)
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option("--out", help="JSON file for the certificate.", shell_complete=shell_completion.files)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Figure to write: .png, .pdf or .svg.")
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    help="Number of Monte Carlo trials at each level; 0 for none.",
)
@click.option(
    "--steps", type=click.IntRange(min=20), default=300, show_default=True, help="Number of steps of a trial."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@talk_options
def certify(
    model: str, out: str | None, plot: Path | None, seed: int, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Certify the robustness of a method on MODEL (see `wolf models`): bounds, recovery, breakdown."""
    if plot is not None and plot.suffix.lower() not in FIGURE_SUFFIXES:
        raise InputError(f"--plot must end in {', '.join(FIGURE_SUFFIXES)}; got {plot.name}")
    from wolf.cleaning import io
    from wolf.cli.commands import certify as certifying

    target = None if plot is None else str(plot)
    for path in (target, out):
        if path is not None:
            io.check_target(path)
    io.check_apart(input_files(model), {"--out": out, "--plot": target})
    if out is not None and Path(out).suffix.lower() != ".json":
        raise InputError(f"--out must end in .json; got {out}. --json prints the certificate instead")
    with progress_bar("Certifying", quiet=quiet):
        text, facts = certifying.run(model, out=out, plot=target, key=seed, **options)
    echo_summary(text, facts, as_json, quiet)


@click.command(
    epilog=examples("wolf export constant-velocity --columns 2 --set dynamics_var=0.1 --set obs_var=1 --out tracker.c")
)
@click.argument("model", shell_complete=shell_completion.models)
@click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance of the model.")
@click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods)
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option(
    "--argument",
    "arguments",
    multiple=True,
    type=click.Choice(["R", "H", "F", "Q", "dt"]),
    help="What a step takes as an argument, instead of the number in the model; repeat for several.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Floating-point type of the C code.",
)
@click.option(
    "--out",
    default="filter.c",
    show_default=True,
    help="C file to write, with its header in the same folder.",
    shell_complete=shell_completion.files,
)
@talk_options
def export(model: str, settings: tuple[str, ...], columns: int, out: str, **options: Any) -> None:
    """Write the filter of a MODEL as C, for a machine without Python."""
    from wolf.cleaning import io
    from wolf.cli.commands import export as exporting
    from wolf.cli.commands import filter

    io.check_apart(input_files(model), {"--out": out})
    given = filter.parse_settings(settings)
    how = {name: options[name] for name in ("method", "dtype", "arguments")}
    made = exporting.export(model, given, columns, out, **how)
    echo_summary(repr(made), dataclasses.asdict(made), options["as_json"], options["quiet"])


@click.command("models", epilog=examples("wolf models"))
@click.option("--json", "as_json", is_flag=True, help="Print the names as JSON.")
def list_models(as_json: bool) -> None:
    """List the models by name, with their parameters."""
    from wolf.models import names
    from wolf.models.registry import describe

    echo_summary(describe(), {"models": names()}, as_json, False)


@click.command("methods", epilog=examples("wolf methods"))
@click.option("--json", "as_json", is_flag=True, help="Print names and descriptions as JSON.")
def list_methods(as_json: bool) -> None:
    """List the methods by name."""
    from wolf.inference.registry import rows

    described = {row.name: row.description for row in rows()}
    width = max(map(len, described)) + 2
    echo_summary("\n".join(f"{name:<{width}}{text}" for name, text in described.items()), described, as_json, False)


@click.command(epilog=examples("wolf demo --out demo.png"))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="wolf-demo.png",
    show_default=True,
    help="Figure to write: .png, .pdf or .svg.",
)
@click.option(
    "--steps", type=click.IntRange(min=2), default=1000, show_default=True, help="Number of steps of a track."
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Number of tracks per data set.",
)
@click.option("--seed", type=click.IntRange(min=0), default=314, show_default=True, help="Seed of all random numbers.")
@talk_options
def demo(out: Path, steps: int, trials: int, seed: int, as_json: bool, quiet: bool) -> None:
    """Compare robust filters with the Kalman filter on data with outliers: a table and a figure."""
    if out.suffix.lower() not in FIGURE_SUFFIXES:
        raise InputError(f"--out must end in {', '.join(FIGURE_SUFFIXES)}; got {out.name}")
    from wolf.cleaning import io
    from wolf.cli.commands import demo as experiment
    from wolf.cli.figures import save

    io.check_target(str(out))
    config = experiment.Config(steps, trials, seed)

    def echo(text: str, newline: bool = True) -> None:
        if not (as_json or quiet):
            click.echo(text, nl=newline)

    echo(experiment.introduction(config))
    results = experiment.run(config, lambda text: echo(text, newline=False))
    try:
        save(experiment.picture(config, results.tracks), out)
        drawn = f"Figure: {out}"
    except ModuleNotFoundError as error:
        drawn = f"No figure: {error}"
    facts = {"rows": [row._asdict() for row in results.rows], "picture": drawn.removeprefix("Figure: ")}
    echo_summary(f"{experiment.table(config, results.rows)}\n{drawn}", facts, as_json, quiet)


@click.command(epilog=examples("wolf manual | man -l -", "wolf manual --markdown > commands.md"))
@click.option("--markdown", is_flag=True, help="Print Markdown instead of a page for man.")
def manual(markdown: bool) -> None:
    """Print the manual of all commands."""
    from wolf.cli import manpage
    from wolf.cli.main import main

    click.echo(manpage.markdown(main) if markdown else manpage.roff(main), nl=False)
