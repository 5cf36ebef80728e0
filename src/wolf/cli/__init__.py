"""The command `wolf`."""

from wolf.cli.main import main as main
