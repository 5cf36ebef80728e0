"""Commands that come with other packages: an entry point in the group `wolf.commands` is a command of `wolf`.

Entry points are read only for a name that `wolf` itself does not have, and for the list of `wolf --help`.
"""

from importlib import metadata
from typing import Any

import click

GROUP = "wolf.commands"
ELSEWHERE = {  # commands that belong to the project and not to this package: what they do, and how to get them
    "reproduce": (
        "Run the paper's experiments (with the package wolf-paper).",
        "wolf reproduce comes with the package wolf-paper: run `pip install . ./paper` in a clone of the repository, "
        "or `make reproduce` there",
    ),
    **{
        name: (
            f"{summary} (with the package wolf-fleet).",
            f"wolf {name} comes with the package wolf-fleet: run `pip install . ./fleet` in a clone of the repository",
        )
        for name, summary in {
            "stream": "Filter the rows of a stream, each key by itself",
            "serve": "Filter measurements that arrive by HTTP",
            "dataset": "Filter a folder of Parquet files that may be larger than memory",
            "pipe": "Filter the rows of a pipe as they arrive",
        }.items()
    },
}


class Pluggable(click.Group):
    """A group that also has the commands of other packages; its own come first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of all commands."""
        others = (point.name for point in metadata.entry_points(group=GROUP))
        return sorted({*super().list_commands(ctx), *ELSEWHERE, *others})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by name."""
        return super().get_command(ctx, cmd_name) or load(cmd_name)


def load(name: str) -> click.Command | None:
    """Find a command of another package; one that is missing or broken says so when it is run.

    Args:
        name: as it is typed after `wolf`.

    Returns:
        The command, or None if nobody has one of that name.

    Example:
        >>> load("nonsense") is None
        True
    """
    for point in metadata.entry_points(group=GROUP, name=name):
        try:
            return point.load()
        except Exception as error:  # what others install must not take `wolf --help` down
            return _excuse(name, "Broken.", f"wolf {name} could not be loaded from {point.value}: {error!r}")
    return _excuse(name, *ELSEWHERE[name]) if name in ELSEWHERE else None


def _excuse(name: str, summary: str, message: str) -> click.Command:
    """Make a command that, whatever its arguments, ends with a message."""

    def say(**given: Any) -> None:
        raise ImportError(message)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, anything, say, help=summary, add_help_option=False)
