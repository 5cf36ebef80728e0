"""Noise levels and other parameters from the data: `wolf.fit(builder, ys)`.

The score is what matters. A Gaussian likelihood takes outliers for noise; the weighted likelihood of a robust filter is
degenerate, since refusing everything costs nothing; a Student-t likelihood is not consistent for R. Here the predictive
density has two parts, a Gaussian and a wide one whose share and width are fitted too
(`wolf.noise.ContaminatedGaussian`), so that good data decide about the parameters.
"""

from wolf.fitting.many_series import fit_many as fit_many
from wolf.fitting.maximum_likelihood import fit as fit
from wolf.fitting.noise_autocorrelation import fit_ar1_noise as fit_ar1_noise
from wolf.fitting.result import Fit as Fit
from wolf.fitting.result import Start as Start
