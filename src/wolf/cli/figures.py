"""Writing of figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from wolf.runtime.checkpoints import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure atomically.

    Args:
        figure: of matplotlib.
        path: of the file; its suffix selects the format.
    """
    with atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
