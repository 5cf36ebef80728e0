"""Commands about the command: its completion for a shell, and its manual."""

import click

from wolf.cli.options import InputError, examples

SHELLS = {
    "bash": "wolf completion bash >> ~/.bashrc",
    "zsh": "wolf completion zsh >> ~/.zshrc",
    "fish": "wolf completion fish > ~/.config/fish/completions/wolf.fish",
}


@click.command(epilog=examples(*SHELLS.values()))
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print what makes the TAB key of a SHELL complete commands, options, files, columns, methods and models."""
    from click.shell_completion import get_completion_class

    from wolf.cli.main import main

    made = get_completion_class(shell)
    if made is None:
        raise InputError(f"there is no completion for {shell}; there is one for {', '.join(SHELLS)}")
    click.echo(made(main, {}, "wolf", "_WOLF_COMPLETE").source())


@click.command(epilog=examples("wolf manual | man -l -", "wolf manual --markdown > commands.md"))
@click.option("--markdown", is_flag=True, help="Print Markdown instead of a page for man.")
def manual(markdown: bool) -> None:
    """Print the manual of all commands."""
    from wolf.cli import manpage
    from wolf.cli.main import main

    click.echo(manpage.markdown(main) if markdown else manpage.roff(main), nl=False)
