"""Manual of all commands, generated from their help: for `man`, and as a page of the documentation."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import click

SUMMARY = "filter time series with outlier-robust Kalman filters"
VARIABLES = {
    "WOLF_CACHE": "Folder for compiled programs, or off for none. Default: ~/.cache/wolf, or below XDG_CACHE_HOME.",
    "WOLF_TRACEBACK": "If set, errors show a traceback.",
}
CODES = {
    "0": "Success.",
    "1": "A series of --by could not be filtered, with --strict.",
    "2": "Invalid option or file; one line names it.",
    "70": "Internal error.",
    "130": "Interrupted by Ctrl-C; no incomplete file is left.",
}


class CommandEntry(NamedTuple):
    """Manual entry of one command.

    Attributes:
        name: of the command.
        usage: arguments after its name.
        paragraphs: description.
        options: syntax and meaning of each.
        examples: command lines.
    """

    name: str
    usage: str
    paragraphs: list[str]
    options: list[tuple[str, str]]
    examples: list[str]


def entries(group: click.Group) -> Iterator[CommandEntry]:
    """List the commands of a group, without those of other packages."""
    for name in sorted(group.commands):
        command = group.commands[name]
        ctx = click.Context(command, info_name=f"wolf {name}", help_option_names=["-h", "--help"])
        paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
        records = [parameter.get_help_record(ctx) for parameter in command.get_params(ctx)]
        lines = (command.epilog or "").splitlines()
        yield CommandEntry(
            name,
            " ".join(command.collect_usage_pieces(ctx)),
            [" ".join(each.replace("\b", "").split()) for each in paragraphs],
            [(_short(left), " ".join(right.split())) for left, right in filter(None, records) if right],
            [line.strip() for line in lines if line.startswith("  ")],
        )


def _short(option: str) -> str:
    """Remove the remark that a number has a range."""
    return option.replace(" RANGE", "")


def roff(group: click.Group) -> str:
    """Format the page for `man`."""
    lines = ['.TH WOLF 1 "" "" "wolf"', ".SH NAME", f"wolf \\- {_plain(SUMMARY)}"]
    lines += [".SH SYNOPSIS", ".B wolf", "COMMAND [OPTIONS] ...", ".SH COMMANDS"]
    for entry in entries(group):
        lines += [f".SS wolf {_plain(entry.name)} {_plain(entry.usage)}"]
        lines += [line for paragraph in entry.paragraphs for line in (".PP", _plain(paragraph))]
        lines += [line for left, right in entry.options for line in (".TP", f".B {_plain(left)}", _plain(right))]
        if entry.examples:
            lines += [".PP", "Examples:", ".nf", *(f"    {_plain(each)}" for each in entry.examples), ".fi"]
    for title, rows in (("ENVIRONMENT", VARIABLES), ("EXIT STATUS", CODES)):
        lines += [f".SH {title}"]
        lines += [line for left, right in rows.items() for line in (".TP", f".B {left}", _plain(right))]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Escape text for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def markdown(group: click.Group) -> str:
    """Format the sections of the page in the documentation."""
    lines = []
    for entry in entries(group):
        lines += ["", f"## wolf {entry.name}", "", f"    wolf {entry.name} {entry.usage}"]
        lines += [line for paragraph in entry.paragraphs for line in ("", paragraph)]
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
