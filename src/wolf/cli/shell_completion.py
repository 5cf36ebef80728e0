"""Shell completion of files, methods, models, and the columns of the file on the command line.

click provides the rest: `_WOLF_COMPLETE=bash_source wolf` prints the script for a shell. Nothing here imports JAX,
which would delay every completion: the names are listed here, and a test compares them with the registry.
"""

import csv
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_METHODS = (
    "KF EKF IEKF WoLF WoLF-IMQ WoLF-MD WoLF-TMD WoLF-Welsch WoLF-Tukey WoLF-Huber WoLF-StudentT "
    "WoLF-PerCoordinate WoLF-IEKF UKF CKF GHKF WoLF-UKF WoLF-CKF WoLF-GHKF KF-B KF-IW EKF-B EKF-IW KF-Ting "
    "KF-Student EKF-Student KF-Huang RSTKF Huber-KF MCKF ADF ADF-Student Learned Adaptive IMM OGD PF Beta-PF "
    "Beta-RBPF EnKF AP-EnKF PP-EnKF Hub-EnKF EnKF-Exact ETKF DEnKF EnSRF LETKF WoLF-EnKF WoLF-ETKF WoLF-DEnKF "
    "WoLF-EnSRF WoLF-LETKF "
)
_MODELS = "local-level local-trend wiener-velocity constant-velocity level trend damped-trend ar-noise seasonal cycle"
METHODS, MODELS = _METHODS.split(), _MODELS.split()
MAX_HEAD_LINES = 50  # of a file, among which its column names are searched


def files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Delegate file names to the shell."""
    return [CompletionItem(incomplete, type="file")]


def methods(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List methods, ignoring case."""
    return [CompletionItem(name) for name in METHODS if name.lower().startswith(incomplete.lower())]


def models(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List models, components after a +, and files."""
    before, plus, word = incomplete.rpartition("+")
    found = [CompletionItem(f"{before}{plus}{name}") for name in ["auto", *MODELS] if name.startswith(word)]
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
