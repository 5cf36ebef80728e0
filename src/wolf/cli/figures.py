"""Pictures as files."""

from pathlib import Path
from typing import Any

from wolf.runtime.checkpoints import atomic


def save(figure: Any, path: Path) -> None:
    """Write a figure, whole or not at all.

    Args:
        figure: of matplotlib.
        path: its ending says which kind.
    """
    with atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
