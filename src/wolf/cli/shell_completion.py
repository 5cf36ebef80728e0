"""Shell completion of files, methods, models and the columns of the named file.

It must respond at once, so nothing here imports JAX, which takes a second: the names of methods and models are read
from the source text of their tables.
"""

import ast
import csv
import re
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

PACKAGE = Path(__file__).parents[1]
MAX_HEAD_LINES = 50  # of a file, among which its column names are searched


@cache
def method_names() -> list[str]:
    """Read the names of the methods from the registry's source.

    Example:
        >>> method_names()[:3]
        ['KF', 'EKF', 'IEKF']
    """
    return _first_arguments("inference/registry.py", "Row")


@cache
def model_names() -> list[str]:
    """Read the names of the models and their components from the source of the model grammar.

    Example:
        >>> model_names()[0]
        'local-level'
    """
    return [word.partition(":")[0] for word in _first_arguments("models/grammar.py", "Word")]


def _first_arguments(path: str, constructor: str) -> list[str]:
    """List the literal first arguments of the calls of a constructor, in the order of the file."""
    calls = (node for node in ast.walk(ast.parse((PACKAGE / path).read_text("utf-8"))) if isinstance(node, ast.Call))
    named = (node for node in calls if isinstance(node.func, ast.Name) and node.func.id == constructor)
    firsts = (node.args[0] for node in named if node.args)
    return [str(first.value) for first in firsts if isinstance(first, ast.Constant)]


def files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Delegate file names to the shell."""
    return [CompletionItem(incomplete, type="file")]


def methods(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List methods, however their letters are written."""
    return [CompletionItem(name) for name in method_names() if name.lower().startswith(incomplete.lower())]


def models(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List models, components after a +, and files."""
    before, plus, word = incomplete.rpartition("+")
    found = [CompletionItem(f"{before}{plus}{name}") for name in ["auto", *model_names()] if name.startswith(word)]
    return found if plus else [*found, CompletionItem(incomplete, type="file")]


def columns(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List the columns of the CSV file on the command line; click leaves it in `args` of an incomplete line."""
    given = [ctx.params.get("source"), *ctx.args]
    names = next((found for found in map(column_names, given) if found), [])
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def column_names(source: Any) -> list[str]:
    """Read the column names of a text table: the first line with several words.

    Example:
        >>> column_names("nowhere.csv")
        []
    """
    with suppress(OSError, UnicodeDecodeError, TypeError), Path(source).open(encoding="utf-8-sig") as file:
        for line in islice(file, MAX_HEAD_LINES):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            mark = max(",;\t", key=re.sub(r'"[^"]*"', "", text).count)
            words = [word.strip() for word in next(csv.reader([text], delimiter=mark))]
            return [word for word in words if re.search(r"[^\W\d]", word)]
    return []
