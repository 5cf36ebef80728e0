"""Kernels of the inverses of A + s I for several s: their shapes, and how they are added to a graph.

The algebra is in `wolf.numerics.linalg.shifted_inverse`, the LLVM functions in `shifted_inverse_llvm`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wolf.native.ir.graph import Graph
from wolf.native.kernels.registry import implements
from wolf.native.kernels.vector_builder import NUM_LANES

MIN_ROWS = 3  # rows from which a loop is faster than straight-line code


class Inverses(NamedTuple):
    """The kernel of `shifted_inverses`; its parts are the solutions, the distances and the pivots, in this order.

    Attributes:
        size: M.
        shifts: K, a multiple of four.
    """

    size: int
    shifts: int

    @property
    def moved(self) -> int:
        """Numbers that are stored to and loaded from memory, by one instruction each."""
        return self.size * self.size + (2 * self.size + 2) * self.shifts

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"shifted_{self.size}_{self.shifts}"

    @property
    def entries(self) -> int:
        """Entries of the lower half, which comes first in memory; then half, solutions, pivots and distances."""
        return self.size * (self.size + 1) // 2

    @property
    def room(self) -> int:
        """Numbers in its memory."""
        return (self.entries + 3 * self.size + 1) * self.shifts

    def place(self, part: int, lanes: int) -> int:
        """Return the offset of a part in memory."""
        return part

    @property
    def pulls(self) -> int:
        """Entry at which the solutions begin."""
        return self.entries + self.size

    def parts(self, count: int) -> list[int]:
        """List the offsets of the parts, for the actual number of shifts."""
        rows = [self.pulls + i for i in range(self.size)]
        rows += [self.entries + 3 * self.size]
        rows += [self.entries + 2 * self.size + i for i in range(self.size)]
        return [row * self.shifts + k for row in rows for k in range(count)]


class WeightedSum(NamedTuple):
    """The kernel of `weighted_inverses`, or of `scattered_pulls`: the lower half of a sum over the shifts.

    Attributes:
        size: M.
        shifts: K, a multiple of four.
        centred: for `scattered_pulls`, the covariance of solutions; their means follow it in memory.
    """

    size: int
    shifts: int
    centred: bool

    @property
    def moved(self) -> int:
        """Numbers that are stored to and loaded from memory, by one instruction each."""
        return self.shifts + self.entries

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"{'scattered' if self.centred else 'weighted'}_{self.size}_{self.shifts}"

    @property
    def entries(self) -> int:
        """Entries of the lower half."""
        return self.size * (self.size + 1) // 2

    @property
    def room(self) -> int:
        """Numbers in its memory."""
        return self.entries + self.size * self.centred

    def place(self, part: int, lanes: int) -> int:
        """Return the offset of a part in memory."""
        return part


@implements("shifted_inverses")
def translate_inverses(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Add the inverses of A + s I for all shifts to a graph as one loop.

    Args:
        graph: of the step.
        inputs: node numbers of A, (M, M), the shifts, (K,), and the right-hand side b, (M,).

    Returns:
        Node numbers of what `ShiftedInverses` holds. Those of the inverses are the loop itself: their entries stay in
        its memory, for `translate_average`. None for few rows.
    """
    matrix, shifts, rhs = inputs
    size, count = len(matrix), shifts.size
    if not graph.loops or size < MIN_ROWS:
        return None
    padded = _padded(count)
    shape, ones = Inverses(size, padded), [graph.constant(1.0, "f")] * (padded - count)
    lower = np.tril(matrix) + np.triu(matrix.T, 1)
    args = (*lower.ravel().tolist(), *shifts.tolist(), *ones, *rhs.tolist())
    loop, parts = graph.loop(shape, args, shape.parts(count))
    solutions, distances, pivots = np.split(parts, [size * count, (size + 1) * count])
    opaque = np.full((size, size, count), loop, np.int64)
    return [opaque, solutions.reshape(size, count), distances, pivots.reshape(size, count)]


@implements("weighted_inverses")
def translate_average(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Add a weighted sum of inverses to a graph as one loop.

    Args:
        graph: of the step.
        inputs: node numbers of the inverses, (M, M, K), and of the weights, (K,).

    Returns:
        Node numbers of the sum, (M, M); None where no loop made the inverses.
    """
    inverses, weights = inputs
    return _add_sum(graph, inverses, int(inverses.flat[0]), weights)


@implements("scattered_pulls")
def translate_scatter(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Add the covariance of weighted solutions to a graph as one loop.

    Args:
        graph: of the step.
        inputs: node numbers of the solutions, (M, K), of their weights, (K,), and of the weight of zero.

    Returns:
        Node numbers of the covariance, (M, M); None where no loop made the solutions.
    """
    solutions, weights, zero = inputs
    first = int(solutions.flat[0])
    loop = int(graph.nodes[first].args[0]) if graph.nodes[first].op == "part" else first
    return _add_sum(graph, solutions, loop, weights, zero)


def _padded(count: int) -> int:
    """Round the number of shifts up to whole registers."""
    return -(-count // NUM_LANES) * NUM_LANES


def _add_sum(
    graph: Graph, source: np.ndarray, loop: int, weights: np.ndarray, zero: np.ndarray | None = None
) -> list[np.ndarray] | None:
    """Add a weighted sum over the results of a loop; None if that loop did not make them.

    Args:
        graph: of the step.
        source: results of the loop, with M rows.
        loop: node number of the loop.
        weights: node numbers of the weights, (K,).
        zero: node number of the weight of zero, for a covariance.
    """
    if not graph.loops or len(source) < MIN_ROWS or not isinstance(graph.nodes[loop].value, Inverses):
        return None
    kernel = WeightedSum(len(source), _padded(weights.size), zero is not None)
    zeros = [graph.constant(0.0, "f")] * (kernel.shifts - weights.size)
    args = (loop, *weights.tolist(), *zeros, *([] if zero is None else [int(zero)]))
    return [_both_halves(graph.loop(kernel, args, list(range(kernel.entries)))[1], kernel.size)]


def _both_halves(parts: np.ndarray, size: int) -> np.ndarray:
    """Expand the lower half of a symmetric matrix."""
    rows, columns = np.indices((size, size))
    rows, columns = np.maximum(rows, columns), np.minimum(rows, columns)
    return parts[rows * (rows + 1) // 2 + columns]
