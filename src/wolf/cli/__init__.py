"""The command `wolf`."""

from wolf.cli.commands import main as main
