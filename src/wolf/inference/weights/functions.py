"""Weight functions of a residual. They return w; the likelihood is raised to the power w².

A weight is a callable `weight(residual, obs_cov, innovation_cov)` that returns a scalar, or one value per coordinate.
The paper's families (Duran-Martin et al. 2024, section 3.2) are IMQ, MahalanobisIMQ (MD) and MahalanobisThreshold
(TMD); the others are classical M-estimators (Huber 1964; Beaton & Tukey 1974; Dennis & Welsch 1978; Lange et al. 1989).

`metric` is the covariance of the Mahalanobis distance: "R", the noise covariance, as in the paper, or "S", the
innovation covariance. In the S metric the squared distance of clean data is χ² with d degrees of freedom at every step,
after a gap and at the start as well, so one threshold fits all. `c=None` is the threshold with 95 % efficiency on
clean data, for the number of coordinates that were measured (see `calibration.py`).

A user's weight needs only those three arguments. A built-in one is a `Weight`: coordinates are on the first axis and
all further axes are batch axes, so it sums over axis 0 and uses `wolf.numerics.linalg`; `observed` is (M,) ones and
zeros, and a missing coordinate has residual 0 and unit variance.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import interfaces, validation
from wolf.inference.weights import calibration
from wolf.inference.weights.noise_factor import noise_factor
from wolf.interfaces import Metric, Number
from wolf.numerics import linalg
from wolf.numerics.jax_compat import with_own_arrays
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import function, pytree, static

EFFICIENCY = calibration.DEFAULT_EFFICIENCY  # of the calibrated threshold that c=None stands for
__all__ = [
    "EFFICIENCY",
    "IMQ",
    "DistanceWeight",
    "Huber",
    "MahalanobisIMQ",
    "MahalanobisThreshold",
    "PerCoordinate",
    "PerGroup",
    "StudentWeight",
    "Tukey",
    "Unweighted",
    "Weight",
    "Welsch",
    "evaluate",
]
STUDENT_DOF = 4.0  # recommended by Lange, Little & Taylor (1989) for many data sets


class Weight:
    """Base of the built-in weights, which accept trailing batch axes, a Cholesky factor and missing coordinates."""

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute w, a scalar or one value per coordinate."""
        raise NotImplementedError

    def noise_factor(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array | None:
        """Compute 1 / w² for the update, where it is cheaper than w and always finite; None elsewhere."""
        return None


@pytree
class Unweighted(Weight):
    """Weight 1 for every measurement: the Kalman filter."""

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Return ones."""
        return jnp.ones(residual.shape[1:], residual.dtype)


@pytree
class IMQ(Weight):
    """Inverse multi-quadric in the Euclidean norm: `w² = 1 / (1 + ‖e‖² / c²)`, the paper's WoLF-IMQ.

    Args:
        c: in the units of y. None stands for the calibrated constant times the root mean variance in R.

    Example:
        >>> round(float(IMQ(c=4.0)(jnp.array([3.0]), jnp.eye(1), jnp.eye(1))), 6)
        0.8
    """

    c: Number | None = None

    def __post_init__(self) -> None:
        """Validate c."""
        validation.positive("c", self.c)

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute w from the Euclidean norm of the residual."""
        scale = self.c
        if scale is None:
            count, total = _total_variance(obs_cov, residual, observed)
            scale = _threshold(self, MahalanobisIMQ, residual, observed) * jnp.sqrt(total / count)
        return MahalanobisIMQ.profile(*_distance(residual, scale))

    def noise_factor(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute 1 + ‖e‖² / c²."""
        scale = _inverse_square(self, MahalanobisIMQ, residual, observed)
        if self.c is None:
            count, total = _total_variance(obs_cov, residual, observed)
            scale = scale * count / total
        return noise_factor(linalg.sum_leading(residual**2) * scale)


class DistanceWeight(Weight):
    """Base of the families in a Mahalanobis distance: whitening, calibration and validation of the fields.

    A family is a subclass with the fields `c` and `metric` and a `profile`; everything below has a default.

    Attributes:
        THRESHOLDS: calibrated c for 1, 2, ... coordinates at the default efficiency. Without them, or beyond them, c
            is solved for numerically, which imports scipy.
    """

    THRESHOLDS: ClassVar[tuple[float, ...]] = ()

    c: Number | None
    metric: Metric

    def __post_init__(self) -> None:
        validation.positive("c", self.c)
        _check_metric(self.metric)

    @classmethod
    def calibrated(cls, dim: int, efficiency: float = EFFICIENCY) -> Self:
        """Return the weight in the S metric that keeps a share of the Kalman variance reduction on clean Gaussian data.

        Args:
            dim: number of coordinates, M.
            efficiency: share to keep, in the worst case of a small gain; between 0 and 1.
        """
        validation.count("dim", dim)
        validation.confidence_level(efficiency, "efficiency")
        family: Any = cls  # a dataclass with the two fields
        return family(c=calibration.threshold(family, dim, efficiency), metric="S")

    @classmethod
    def exact_threshold(cls, dim: int, efficiency: float) -> float | None:
        """Return c in closed form, or None to solve for it."""
        return None

    @classmethod
    def exact_efficiency(cls, c: float, dim: int) -> float | None:
        """Return the efficiency of c in closed form, or None to integrate."""
        return None

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute w from the squared distance of the residual."""
        radius = self._radius(_threshold(self, type(self), residual, observed))
        return self.profile(*_distance(residual, radius, obs_cov if self.metric == "R" else innovation_cov))

    def _square(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, scale: Array | float = 1.0
    ) -> Array:
        """Compute the squared distance times `scale`, infinite where it overflows."""
        cov = obs_cov if self.metric == "R" else innovation_cov
        return (cov if isinstance(cov, Cholesky) else linalg.cholesky(cov)).square(residual, scale)

    @staticmethod
    def _radius(c: Number) -> Number:
        return c

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Compute w from a squared distance; the true distance is `scale` times larger."""
        raise NotImplementedError


@pytree
class MahalanobisIMQ(DistanceWeight):
    """Inverse multi-quadric in a Mahalanobis distance: `w² = 1 / (1 + d² / c²)`, the paper's WoLF-MD.

    Args:
        c: distance at which w² is one half. None is calibrated.
        metric: "R" (the paper) or "S".

    Example:
        >>> round(MahalanobisIMQ.calibrated(dim=2).c, 2)
        3.85
    """

    THRESHOLDS: ClassVar = calibration.IMQ_THRESHOLDS

    c: Number | None = None
    metric: Metric = static(default="R")

    def noise_factor(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute 1 + d² / c²."""
        scale = _inverse_square(self, type(self), residual, observed)
        return noise_factor(self._square(residual, obs_cov, innovation_cov, scale))

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Return w, which decreases as 1 / d."""
        return radius / jnp.sqrt(radius**2 + square) / scale


@pytree
class MahalanobisThreshold(DistanceWeight):
    """Hard gate: w = 1 while the *squared* distance is at most c, else 0; the paper's WoLF-TMD.

    Args:
        c: largest squared distance that is accepted. None is calibrated: the χ²_{d+2} quantile.
        metric: "R" (the paper) or "S".

    Example:
        >>> gate = MahalanobisThreshold(c=9.0)
        >>> [float(gate(jnp.array([e]), jnp.eye(1), jnp.eye(1))) for e in (2.9, 3.1)]
        [1.0, 0.0]
    """

    THRESHOLDS: ClassVar = calibration.GATE_THRESHOLDS

    c: Number | None = None
    metric: Metric = static(default="R")

    @classmethod
    def exact_threshold(cls, dim: int, efficiency: float) -> float:
        """Return the quantile of χ² with d + 2 degrees of freedom."""
        from scipy.special import gammaincinv  # here: importing scipy costs as much as the rest of wolf

        return float(2.0 * gammaincinv(0.5 * dim + 1.0, efficiency))

    @classmethod
    def exact_efficiency(cls, c: float, dim: int) -> float:
        """Return the distribution function of χ² with d + 2 degrees of freedom."""
        from scipy.special import gammainc

        return float(gammainc(0.5 * dim + 1.0, 0.5 * c))

    def accepts(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Return whether the squared distance is at most c."""
        return self._square(residual, obs_cov, innovation_cov) <= _threshold(self, type(self), residual, observed)

    @staticmethod
    def _radius(c: Number) -> Number:
        return jnp.sqrt(c)

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Return 1 inside the radius and 0 outside."""
        return jnp.where(square <= radius**2, 1.0, 0.0).astype(square.dtype)


@pytree
class Welsch(DistanceWeight):
    """Gaussian-shaped weight, also known as correntropy: `w² = exp(-d² / c²)`.

    Args:
        c: distance scale. None is calibrated.
        metric: "R" or "S".
    """

    THRESHOLDS: ClassVar = calibration.WELSCH_THRESHOLDS

    c: Number | None = None
    metric: Metric = static(default="S")

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Return w, which decreases faster than any power of d."""
        return jnp.exp(-0.5 * square / radius**2)


@pytree
class Tukey(DistanceWeight):
    """Tukey's biweight: `w² = (1 - d² / c²)²` inside the radius c, 0 outside.

    Args:
        c: radius beyond which measurements are rejected. None is calibrated.
        metric: "R" or "S".
    """

    THRESHOLDS: ClassVar = calibration.TUKEY_THRESHOLDS

    c: Number | None = None
    metric: Metric = static(default="S")

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Return w, which decreases to 0 at the radius."""
        return jnp.maximum(1.0 - square / radius**2, 0.0)


@pytree
class Huber(DistanceWeight):
    """Huber's weight: 1 up to a distance c, then `w² = c / d`; bounded influence that does not vanish far away.

    Args:
        c: distance up to which the weight is 1. None is calibrated.
        metric: "R" or "S".
    """

    THRESHOLDS: ClassVar = calibration.HUBER_THRESHOLDS

    c: Number | None = None
    metric: Metric = static(default="S")

    @staticmethod
    def profile(radius: Array, square: Array, scale: Array) -> Array:
        """Return w, which decreases as 1 / √d."""
        return jnp.sqrt(radius / jnp.sqrt(jnp.maximum(square, radius**2)) / scale)


@pytree
class StudentWeight(Weight):
    """Weight of a Student-t error: `w² = (ν + d) / (ν + distance²)`; near the centre above 1, up to √((ν+d)/ν).

    Args:
        dof: degrees of freedom ν.
        metric: "R" or "S".
    """

    dof: Number = STUDENT_DOF
    metric: Metric = static(default="S")

    def __post_init__(self) -> None:
        """Validate dof and metric."""
        validation.positive("dof", self.dof, needed=True)
        _check_metric(self.metric)

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute w from the squared distance and the number of measured coordinates."""
        dim = residual.shape[0] if observed is None else observed.sum(0)
        radius, square, scale = _distance(
            residual, jnp.sqrt(self.dof), obs_cov if self.metric == "R" else innovation_cov
        )
        return jnp.sqrt((radius**2 + dim) / (radius**2 + square)) / scale


@pytree
class PerCoordinate(Weight):
    """One weight per coordinate: an outlier in one does not affect the others.

    Args:
        weight: any scalar weight; its c is that for one coordinate.

    Example:
        >>> PerCoordinate(IMQ(c=3.0))(jnp.array([0.0, 4.0]), jnp.eye(2), jnp.eye(2))
        Array([1. , 0.6], dtype=float32)
    """

    weight: interfaces.WeightFunction = function()

    def __post_init__(self) -> None:
        """Validate the weight."""
        validation.weight(self.weight)

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Evaluate the weight with the coordinates as a batch axis."""
        obs_var = linalg.diagonal(obs_cov)[None, None]
        innovation_var = linalg.diagonal(_dense(innovation_cov))[None, None]
        observed = None if observed is None else observed[None]
        return evaluate(self.weight, residual[None], obs_var, innovation_var, observed)


@pytree
class PerGroup(Weight):
    """One weight per group of coordinates, for sensors that measure several quantities.

    Args:
        weight: any scalar weight.
        groups: number of the group of each coordinate, as (0, 0, 1).

    Example:
        >>> PerGroup(IMQ(c=3.0), (0, 1, 1))(jnp.array([4.0, 0.0, 0.0]), jnp.eye(3), jnp.eye(3))
        Array([0.6, 1. , 1. ], dtype=float32)
    """

    weight: interfaces.WeightFunction = function()
    groups: tuple[int, ...] = static()

    def __post_init__(self) -> None:
        """Validate the weight and convert the groups to a hashable tuple."""
        validation.weight(self.weight)
        object.__setattr__(self, "groups", validation.groups("groups", self.groups))

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute the weight of each group and assign it to the coordinates of the group."""
        if len(self.groups) != residual.shape[0]:
            raise ValueError(
                f"groups must have one entry for each of {residual.shape[0]} coordinates; got {len(self.groups)}"
            )
        innovation_cov = _dense(innovation_cov)
        weights: dict[int, Array] = {}
        for group in set(self.groups):
            rows = np.flatnonzero(np.equal(self.groups, group))
            block = np.ix_(rows, rows)
            measured = None if observed is None else observed[rows]
            weights[group] = evaluate(self.weight, residual[rows], obs_cov[block], innovation_cov[block], measured)
        return jnp.stack([weights[group] for group in self.groups])


def evaluate(
    weight: interfaces.WeightFunction,
    residual: Array,
    obs_cov: Array,
    innovation_cov: Array | Cholesky,
    observed: Array | None,
) -> Array:
    """Evaluate a weight: a built-in one on all series at once, a user's function under `vmap` over the series."""
    if isinstance(weight, Weight):
        return weight(residual, obs_cov, innovation_cov, observed)
    fn: Callable = with_own_arrays(weight)
    covs = [jnp.broadcast_to(c, c.shape[:2] + residual.shape[1:]) for c in (obs_cov, _dense(innovation_cov))]
    for _ in range(residual.ndim - 1):
        fn = jax.vmap(fn, in_axes=-1, out_axes=-1)
    return jnp.asarray(fn(residual, *covs), residual.dtype)


def _check_metric(metric: object) -> None:
    if not isinstance(metric, str) or metric not in ("R", "S"):
        raise ValueError(f'metric must be "R" (noise) or "S" (innovation); got {validation.short_repr(metric)}')


def _threshold(weight: IMQ | DistanceWeight, family: type, residual: Array, observed: Array | None) -> Number | Array:
    """Return c, or the calibrated constant for the number of coordinates that were measured."""
    if weight.c is not None:
        return weight.c
    return _by_count(_calibrated(family, residual), residual, observed)


def _inverse_square(weight: IMQ | DistanceWeight, family: type, residual: Array, observed: Array | None) -> Array:
    """Return 1 / c², with c as `_threshold` returns it and `_distance` limits it."""
    if weight.c is not None:
        info = jnp.finfo(residual.dtype)
        return 1.0 / jnp.clip(jnp.asarray(weight.c, residual.dtype), info.tiny**0.45, info.max**0.45) ** 2
    return _by_count([1.0 / c**2 for c in _calibrated(family, residual)], residual, observed)


def _calibrated(family: type, residual: Array) -> list[float]:
    return [calibration.threshold(family, dim, EFFICIENCY) for dim in range(1, residual.shape[0] + 1)]


def _by_count(table: list[float], residual: Array, observed: Array | None) -> Array:
    """Select the entry of a table for the number of coordinates that were measured; 1 for none."""
    if observed is None or len(table) == 1:
        return jnp.asarray(table[-1], residual.dtype)
    count = observed.sum(0)
    return sum(jnp.where(count == dim, c, 0.0) for dim, c in enumerate(table, 1)) + jnp.where(count == 0, 1.0, 0.0)


def _total_variance(obs_cov: Array, residual: Array, observed: Array | None) -> tuple[Array | int, Array]:
    """Count the coordinates that were measured, and sum their variances in R; for none both are 1."""
    variances = linalg.diagonal(obs_cov)
    if observed is None:
        return residual.shape[0], variances.sum(0)
    total = (variances * observed).sum(0)
    return jnp.maximum(observed.sum(0), 1), jnp.where(total > 0, total, 1.0)


def _distance(residual: Array, radius: Number, cov: Array | Cholesky | None = None) -> tuple[Array, Array, Array]:
    """Compute the squared distance of a residual without overflow.

    Returns:
        The clipped radius, the squared distance divided by scale², and the scale, which is 1 unless a square would
        overflow.
    """
    info = jnp.finfo(residual.dtype)
    largest = info.max**0.45  # its square, times any M, is finite: 1e138 in float64, 2e17 in float32
    radius = jnp.clip(jnp.asarray(radius, residual.dtype), info.tiny**0.45, largest)  # c = inf is the Kalman filter
    white = residual if cov is None else (cov if isinstance(cov, Cholesky) else linalg.cholesky(cov)).half(residual)
    white = jnp.clip(white, -info.max, info.max)
    scale = jax.lax.stop_gradient(jnp.maximum(linalg.max_leading(jnp.abs(white)) / largest, 1.0))
    return radius, linalg.sum_leading((white / scale[None]) ** 2), scale


def _dense(cov: Array | Cholesky) -> Array:
    return cov.product() if isinstance(cov, Cholesky) else cov
