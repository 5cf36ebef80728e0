"""Options of quality control: rules, labels, maintenance, the output grid; and the configuration file that has them."""

from typing import Any

import click
from click.core import ParameterSource

from wolf.cli import shell_completion
from wolf.cli.options import Command, add_options

RULES = ("min", "max", "max_rate", "flat_for")


def quality_options(command: Command) -> Command:
    """Add the options of quality control."""
    files = shell_completion.files
    return add_options(
        [
            click.option("--min", multiple=True, metavar="COLUMN=NUMBER", help="Smallest reading, such as temp=-20."),
            click.option("--max", multiple=True, metavar="COLUMN=NUMBER", help="Largest reading."),
            click.option(
                "--max-rate", multiple=True, metavar="COLUMN=RATE", help="Largest rate of change, such as temp=5/h."
            ),
            click.option(
                "--flat-for",
                multiple=True,
                metavar="COLUMN=TIME",
                help="Time after which repeats of one value are a fault, such as temp=6h or temp=12 rows.",
            ),
            click.option(
                "--config",
                "rules",
                help="TOML file with options and rules, which options of the command line replace.",
                shell_complete=files,
            ),
            click.option("--record", help="TOML file to write: options and results of this run.", shell_complete=files),
            click.option(
                "--labels",
                help="Table of intervals labelled by hand: start, end, label (fault or good); a report exports it.",
                shell_complete=files,
            ),
            click.option(
                "--maintenance",
                help="Table of known events: start, end; without an end a calibration. They are no faults.",
                shell_complete=files,
            ),
            click.option(
                "--correction",
                type=click.Choice(["offset", "drift"]),
                help="Correct the readings before each calibration by its error, as a constant or growing from 0.",
            ),
            click.option("--every", help="Write rows on a regular grid, such as 15min, instead of those of FILE."),
            click.option("--max-gap", help="Longest gap that is filled in `cleaned`, such as 3h or 12 rows."),
            click.option(
                "--incidents",
                help="Table of incidents to write: start, end, kind, severity, confidence, reason.",
                shell_complete=files,
            ),
        ],
        command,
    )


def merge_config(options: dict[str, Any]) -> dict[str, Any]:
    """Read the configuration, and merge it with the options of the command line, which have precedence.

    Args:
        options: of the command; `rules` is the name of the configuration.

    Returns:
        The options, with the limits as `rules` and the name of the configuration as `config`.
    """
    from wolf.cleaning.config import read_config

    merged = dict(options)
    config = {} if options["rules"] is None else read_config(options["rules"])
    rules = config.pop("rules", {})
    if not any(isinstance(each, dict) for each in rules.values()):
        rules = {"": rules} if rules else {}
    limits: dict[str, dict[str, Any]] = {column: dict(each) for column, each in rules.items()}
    for name, value in config.items():
        if name == "parameters":
            given = {pair.partition("=")[0].strip() for pair in options["settings"]}
            more = (f"{key}={number}" for key, number in value.items() if key not in given)
            merged["settings"] = (*options["settings"], *more)
        elif click.get_current_context().get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            merged[name] = value
    for name in RULES:
        for pair in options[name]:
            column, _, value = pair.rpartition("=")
            limits.setdefault(column.strip(), {})[name] = _number_or_text(value.strip())
    merged |= {"rules": limits or None, "config": options["rules"]}
    return merged


def _number_or_text(cell: str) -> float | str:
    """Convert a number; other text is left for the check of the rules."""
    try:
        return float(cell)
    except ValueError:
        return cell
