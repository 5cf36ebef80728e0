"""Beliefs about a state, and the only Kalman algebra in the package.

A belief is a value with `push`, `cross`, `signal`, `innovation`, `inflate`, `where`, `replaced`, `condition` and
`pull`; `wolf.belief.updates` has the ways in which a measurement changes one.
"""

from wolf.belief.deferred import DeferredGaussian as DeferredGaussian
from wolf.belief.gaussian import Gaussian as Gaussian
from wolf.belief.root import RootGaussian as RootGaussian
from wolf.belief.view import Affine as Affine

Belief = Gaussian | RootGaussian | DeferredGaussian
