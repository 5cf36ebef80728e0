"""The command without its script: `python -m wolf.cli`."""

from wolf.cli import main

main(prog_name="wolf")
