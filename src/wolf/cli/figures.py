"""Writing of figures."""

from pathlib import Path
from typing import Any

from wolf.runtime.checkpoints import atomic


def save(figure: Any, path: Path) -> None:
    """Write a figure atomically.

    Args:
        figure: of matplotlib.
        path: of the file; its suffix selects the format.
    """
    with atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
