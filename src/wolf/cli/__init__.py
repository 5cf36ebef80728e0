"""The command `wolf`."""
