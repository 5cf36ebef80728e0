"""Beliefs about a state, and the only Kalman algebra in the package.

A belief is a value with `propagate`, `cross_covariance`, `signal`, `innovation`, `inflate`, `where`, `replaced`,
`condition` and `condition_on_mixture`; `wolf.beliefs.updates` has the kinds of measurement update.
"""

from wolf.beliefs.affine import Affine as Affine
from wolf.beliefs.gaussian import Gaussian as Gaussian
from wolf.beliefs.lazy_gaussian import LazyGaussian as LazyGaussian
from wolf.beliefs.sqrt_gaussian import SqrtGaussian as SqrtGaussian

Belief = Gaussian | SqrtGaussian | LazyGaussian
