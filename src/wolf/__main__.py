"""The command as a module: `python -m wolf`."""

from wolf.cli import main

if __name__ == "__main__":
    main(prog_name="wolf")
