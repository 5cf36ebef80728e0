"""The work behind the commands, one module each."""
