"""Initial weights of the published regression runs: what Flax 0.8 draws from JAX 0.4's default random numbers.

Flax folds the SHA-1 digest of a layer's name and of a counter into the key of the network. Checked against Flax 0.8.0
with JAX 0.4.23: equal to 6e-8 for the eight numbers of features that the regression sets have.
"""

import hashlib
import itertools
from collections.abc import Sequence

import jax
import numpy as np

from wolf.models.network import TRUNCATED_STD

DRAWS_OF_A_LAYER = 1  # the counter of the first parameter that a layer draws


def published_weights(sizes: Sequence[int], seed: int) -> np.ndarray:
    """Draw LeCun normal weights with zero biases, in the order of `wolf.models.mlp`.

    Args:
        sizes: of the layers, the inputs first.
        seed: of the network's key.

    Example:
        >>> published_weights((8, 20, 1), 314)[:2].round(4)
        array([ 0.0125, -0.3191])
    """
    parts = []
    with jax.threefry_partitionable(False):
        for layer, (wide, high) in enumerate(itertools.pairwise(sizes)):
            digest = hashlib.sha1(f"Dense_{layer}".encode() + bytes([DRAWS_OF_A_LAYER]), usedforsecurity=False).digest()
            key = jax.random.fold_in(jax.random.PRNGKey(seed), np.uint32(int.from_bytes(digest[:4], "big")))
            drawn = jax.random.truncated_normal(key, -2.0, 2.0, (wide, high), np.float32)
            parts += [np.asarray(drawn, np.float64).ravel() / (TRUNCATED_STD * np.sqrt(wide)), np.zeros(high)]
    return np.concatenate(parts)
