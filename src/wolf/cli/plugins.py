"""Commands of other packages: an entry point in the group `wolf.commands` is a command of `wolf`.

Entry points are read only for a name that is no command of `wolf` itself, and for the list of `wolf --help`.
"""

from importlib import metadata

import click

GROUP = "wolf.commands"
COMMANDS_OF_OTHER_PACKAGES = {  # of this project: summary, and how to install them
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


class PluginGroup(click.Group):
    """A group with the commands of other packages; its own commands take precedence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of all commands."""
        others = (point.name for point in metadata.entry_points(group=GROUP))
        return sorted({*super().list_commands(ctx), *COMMANDS_OF_OTHER_PACKAGES, *others})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by name."""
        return super().get_command(ctx, cmd_name) or load(cmd_name)


def load(name: str) -> click.Command | None:
    """Find a command of another package; one that is missing or broken raises its error when it is run.

    Args:
        name: of the command.

    Returns:
        The command, or None if there is none of that name.

    Example:
        >>> load("nonsense") is None
        True
    """
    for point in metadata.entry_points(group=GROUP, name=name):
        try:
            return point.load()
        except Exception as error:  # a broken plugin must not break `wolf --help`
            return _failing_command(name, "Broken.", f"wolf {name} could not be loaded from {point.value}: {error!r}")
    return _failing_command(name, *COMMANDS_OF_OTHER_PACKAGES[name]) if name in COMMANDS_OF_OTHER_PACKAGES else None


def _failing_command(name: str, summary: str, message: str) -> click.Command:
    """Create a command that raises an error with a message, whatever its arguments; its help has the message too."""

    def fail(**options: object) -> None:
        raise ImportError(message)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, anything, fail, help=f"{summary}\n\n{message}", short_help=summary)
