"""Progress bars of the command line."""

import sys

from tqdm import tqdm

DELAY_SECONDS = 2.0  # a shorter run shows no bar


def progress_bar(label: str, total: int | None = None, quiet: bool = False) -> tqdm:
    """Create a progress bar, shown on a terminal after two seconds and removed at the end.

    Args:
        label: description of the work.
        total: number of steps; None if unknown.
        quiet: show nothing.

    Example:
        >>> with progress_bar("Filtering", total=10) as bar:
        ...     _ = bar.update(3)
    """
    disable = True if quiet or sys.stderr is None else None  # None: unless standard error is a terminal
    return tqdm(total=total, desc=label, delay=DELAY_SECONDS, disable=disable, leave=False, unit_scale=True)
