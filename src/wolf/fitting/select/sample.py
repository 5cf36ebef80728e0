"""Sample of a long series: pieces of consecutive rows, spread evenly over all of it.

One piece from the middle does not represent a year: noise and dynamics differ by season and weather.
"""

import numpy as np

SAMPLE_ROWS = 4_096  # rows of all pieces together; a shorter series is its own sample
PIECE_ROWS = 512  # rows of the shortest piece


def pieces_of(count: int, min_rows: float = PIECE_ROWS) -> list[tuple[int, int]]:
    """List the pieces of a sample, first and last row (exclusive).

    Args:
        count: rows of the series.
        min_rows: rows of a piece, at least.

    Example:
        >>> pieces_of(1_000), pieces_of(100_000, 2_000)
        ([(0, 1000)], [(0, 2048), (97952, 100000)])
        >>> len(pieces_of(100_000)), pieces_of(100_000)[1]
        (8, (14212, 14724))
    """
    if count <= SAMPLE_ROWS:
        return [(0, count)]
    number = max(1, int(SAMPLE_ROWS // max(min_rows, PIECE_ROWS)))
    length = SAMPLE_ROWS // number
    firsts = np.linspace(0, count - length, number).astype(int) if number > 1 else [(count - length) // 2]
    return [(int(first), int(first) + length) for first in firsts]


def stack_pieces(values: np.ndarray, pieces: list[tuple[int, int]]) -> np.ndarray:
    """Stack the pieces of a series, (pieces, rows)."""
    return np.stack([values[first:stop] for first, stop in pieces])
