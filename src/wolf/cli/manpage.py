"""The manual, written from the commands themselves: for `man`, and as a page of the documentation."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import click

SUMMARY = "filter time series with Kalman filters that outliers do not break"
VARIABLES = {
    "WOLF_CACHE": "Folder for compiled programs, or off for none. Default: ~/.cache/wolf, or below XDG_CACHE_HOME.",
    "WOLF_TRACEBACK": "Set it to see where an error comes from.",
}
CODES = {
    "0": "All is well.",
    "1": "A series of --by could not be filtered, with --strict.",
    "2": "An option or a file is at fault; one line says which.",
    "70": "A bug.",
    "130": "Ended by Ctrl-C; no file is left behind.",
}


class CommandEntry(NamedTuple):
    """One command.

    Attributes:
        name: of the command.
        usage: what follows after its name.
        words: what it does, in paragraphs.
        options: how each is written, and what it means.
        examples: commands to type.
    """

    name: str
    usage: str
    words: list[str]
    options: list[tuple[str, str]]
    examples: list[str]


def entries(group: click.Group) -> Iterator[CommandEntry]:
    """Go through the commands of a group, those of other packages aside."""
    for name in sorted(group.commands):
        command = group.commands[name]
        ctx = click.Context(command, info_name=f"wolf {name}", help_option_names=["-h", "--help"])
        paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
        told = [parameter.get_help_record(ctx) for parameter in command.get_params(ctx)]
        lines = (command.epilog or "").splitlines()
        yield CommandEntry(
            name,
            " ".join(command.collect_usage_pieces(ctx)),
            [" ".join(each.replace("\b", "").split()) for each in paragraphs],
            [(_short(left), " ".join(right.split())) for left, right in filter(None, told) if right],
            [line.strip() for line in lines if line.startswith("  ")],
        )


def _short(option: str) -> str:
    """Leave out that a number has limits: the text beside it tells them."""
    return option.replace(" RANGE", "")


def roff(group: click.Group) -> str:
    """Write the page for `man`."""
    lines = ['.TH WOLF 1 "" "" "wolf"', ".SH NAME", f"wolf \\- {_plain(SUMMARY)}"]
    lines += [".SH SYNOPSIS", ".B wolf", "COMMAND [OPTIONS] ...", ".SH COMMANDS"]
    for entry in entries(group):
        lines += [f".SS wolf {_plain(entry.name)} {_plain(entry.usage)}"]
        lines += [line for words in entry.words for line in (".PP", _plain(words))]
        lines += [line for left, right in entry.options for line in (".TP", f".B {_plain(left)}", _plain(right))]
        if entry.examples:
            lines += [".PP", "Examples:", ".nf", *(f"    {_plain(each)}" for each in entry.examples), ".fi"]
    for title, rows in (("ENVIRONMENT", VARIABLES), ("EXIT STATUS", CODES)):
        lines += [f".SH {title}"]
        lines += [line for left, right in rows.items() for line in (".TP", f".B {left}", _plain(right))]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Say it so that roff takes no letter for a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def markdown(group: click.Group) -> str:
    """Write the sections of the page in the documentation."""
    lines = []
    for entry in entries(group):
        lines += ["", f"## wolf {entry.name}", "", f"    wolf {entry.name} {entry.usage}"]
        lines += [line for words in entry.words for line in ("", words)]
        if entry.options:
            lines += ["", "| option | |", "|---|---|"]
            lines += [f"| `{left.replace('|', chr(92) + '|')}` | {_cell(right)} |" for left, right in entry.options]
        if entry.examples:
            lines += ["", *(f"    {each}" for each in entry.examples)]
    for title, rows in (("Environment", VARIABLES), ("Exit status", CODES)):
        lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        lines += [f"| `{left}` | {_cell(right)} |" for left, right in rows.items()]
    return "\n".join(lines).strip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
