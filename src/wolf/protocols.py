"""The few values that the layers hand to each other. No logic lives here.

Dimensions: D state, M observation, T time, B series. Inside the engine coordinates come first and a trailing axis,
if there is one, holds the series.
"""

from typing import Any, NamedTuple

from jax import Array

from wolf.numerics import linalg


class Affine(NamedTuple):
    """A function seen by a belief: `h(x) ≈ mean + jac (x - m)`, leftover covariance `root rootᵀ`.

    Attributes:
        mean: h at the belief, (M,).
        jac: slope, (M, D). None stands for the identity.
        root: root of what a straight line leaves unexplained, (M, K). None stands for zero.
    """

    mean: Any
    jac: Any
    root: Any = None


class Measurement(NamedTuple):
    """One cleaned measurement; what can be known before the filter runs is worked out once, outside its loop.

    Attributes:
        value: (M,), zero where there is nothing to use.
        observed: (M,), 1 where there is a usable number, 0 where not.
        num_observed: how many coordinates are usable.
        present: (M,) bool, False for NaN.
        came: whether any coordinate is present.
        wild: whether any coordinate is infinite, or too large to square.
    """

    value: Array
    observed: Array
    num_observed: Array
    present: Array
    came: Array
    wild: Array


class Evidence(NamedTuple):
    """What a noise rule looks at.

    Attributes:
        residual: `y - prediction`, (M,), zero where nothing was measured.
        view: the observation function seen by the belief; its rows are zero where nothing was measured.
        belief: predicted.
        obs_cov: R, (M, M); what was not measured has unit noise of its own.
        observed: (M,), 1 where there is a number, 0 where not.
        innovation: factor of the covariance S of the residual.
        memory: what the rule returned last, for rules that learn the noise.
        t: how many measurements came before.
    """

    residual: Array
    view: Affine
    belief: Any
    obs_cov: Array
    observed: Array
    innovation: linalg.Cholesky
    memory: Any = ()
    t: Any = None


class Pull(NamedTuple):
    """How hard a measurement pulls, where a rule knows it: `K = P Hᵀ A`, in the coordinates of its weight.

    Attributes:
        gain: A, (M, M), the inverse of the covariance that the residual has for the rule, noise included.
        rest: `C = I - A S`, with S what the state explains of that covariance; found without a difference.
        doubt: Σ, (M, M): the posterior covariance gains `P Hᵀ Σ H P`, since it is open which noise it was.
    """

    gain: Array
    rest: Array
    doubt: Array


class Believed(NamedTuple):
    """How much of a measurement to believe: what a noise rule returns.

    Attributes:
        weight: w. A number for the whole measurement, (M,) for each coordinate, or a matrix (M, M) that maps the
            measurement to whitened coordinates and weighs them there, so that its information is `Wᵀ W`.
        spread: root (D, K) of a positive term that the posterior covariance gains. None stands for zero.
        prior: belief to learn from instead of the predicted one, for rules that doubt the dynamics too. None keeps it.
        nominal: `()` if the posterior covariance is that of the estimate under the nominal model, whatever prior and
            weight gave the estimate; None if not. Part of the structure, so that it may cross a jit.
        memory: what the rule carries to its next measurement, for rules that learn the noise.
        outlier: probability of being an outlier, for rules that work it out. None leaves it to the weight.
        inflation: factor on the predicted covariance, for rules that let the state jump. None stands for 1.
        posterior: `(belief, log N(e; 0, S))` of rules that learn by themselves, from one sensor after the other; the
            weight is then for people to read.
        pull: for rules that average over several noises, instead of a weight that makes up one noise; the weight then
            only whitens.
    """

    weight: Array
    spread: Array | None = None
    prior: Any = None
    nominal: tuple[()] | None = None
    memory: Any = ()
    outlier: Array | None = None
    inflation: Array | None = None
    posterior: tuple[Any, Array] | None = None
    pull: Pull | None = None


class Info(NamedTuple):
    """What one step tells about itself. A filter leaves out (None) what it does not have.

    Attributes:
        predicted: mean and covariance before the measurement; inflated, where a rule found that the state jumped.
        residual: `y - prediction`, (M,), zero where y is missing.
        innovation_cov: covariance S of the residual under the nominal model, (M, M).
        weight: w, one number or one for each coordinate; 0 where nothing was used.
        outlier: True where a measurement came and `w² < 1/2`, or is more likely an outlier than not.
        nis: `eᵀ S⁻¹ e` over the coordinates that were measured.
        log_likelihood: log density of y under the predictive Gaussian.
        weighted_log_likelihood: `log ∫ p(y|x)^{w²} p(x) dx`, the evidence of generalised Bayes. Not a score to
            tune by: a weight of zero always costs nothing.
        outlier_probability: for methods that learn the noise.
        inflation: factor on the predicted covariance; above 1 where the state was found to have jumped.
    """

    predicted: Any = None
    residual: Any = None
    innovation_cov: Any = None
    weight: Any = None
    outlier: Any = None
    nis: Any = None
    log_likelihood: Any = None
    weighted_log_likelihood: Any = None
    outlier_probability: Any = None
    inflation: Any = None
