"""Correlation of innovations with a fault signature, the numerator of the GLR statistic, by fast Fourier transforms."""

import numpy as np

SAMPLES_AT_ONCE = 65_536  # samples that are transformed in one call, which bounds the memory for long series


def correlate(errors: np.ndarray, signature: np.ndarray, count: int, size: int) -> np.ndarray:
    """Compute `G(s) = Σ_k g(k)ᵀ e(s + k)` for the steps 0 <= s < count, by overlap-save blocks.

    Args:
        errors: innovations e, (M, n); 0 after the end.
        signature: signature g, (K, M, p).
        count: number of steps s.
        size: length of a block, a power of two of at least K.

    Returns:
        G, (p, count).

    Example:
        >>> step = np.array([1.0, 0.5]).reshape(2, 1, 1)
        >>> correlate(np.array([[1.0, 2.0, 3.0]]), step, 3, 4).round(6).tolist()
        [[2.0, 3.5, 3.0]]
    """
    hop = size - len(signature) + 1  # steps per block that are free of wrap-around
    blocks_at_once = max(1, SAMPLES_AT_ONCE // size)
    spectrum = np.conj(np.fft.rfft(signature, size, axis=0)).transpose(2, 1, 0)
    statistic = np.empty((len(spectrum), count))
    for first in range(0, count, hop * blocks_at_once):
        stop = min(first + hop * blocks_at_once, count)
        padded = np.zeros((len(errors), (-(-(stop - first) // hop) - 1) * hop + size))
        part = errors[:, first : first + padded.shape[1]]
        padded[:, : part.shape[1]] = part
        windows = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)[:, ::hop])
        product = np.stack([sum(windows[j] * row[j] for j in range(len(errors))) for row in spectrum])
        blocks = np.fft.irfft(product, size)[:, :, :hop]
        statistic[:, first:stop] = blocks.reshape(len(spectrum), -1)[:, : stop - first]
    return statistic


def correlate_series(errors: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Compute `G(s) = Σ_k g(k) e(s + k)` of one series for 0 <= s <= T, (T + 1,).

    Args:
        errors: innovations e, (T,).
        step: signature g, (K,).

    Example:
        >>> correlate_series(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5])).round(6)[:3].tolist()
        [2.0, 3.5, 3.0]
    """
    count = len(errors)
    size = 1 << (min(SAMPLES_AT_ONCE, count + 2 * len(step)) - 1).bit_length()
    return correlate(errors[None], step[:, None, None], count + 1, size)[0]
