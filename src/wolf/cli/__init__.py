"""The command `wolf`."""

from wolf.cli.main import main as main
from wolf.cli.shell_commands import completion, manual

main.add_command(completion)
main.add_command(manual)
