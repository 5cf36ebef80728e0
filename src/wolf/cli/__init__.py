"""The command `wolf`."""

from wolf.cli.commands import main as main
from wolf.cli.shells import completion, manual

main.add_command(completion)
main.add_command(manual)
