"""Maximum likelihood for noise variances and other parameters: `wolf.fit(builder, ys)`.

The choice of the score matters. A Gaussian likelihood attributes outliers to the noise; the weighted likelihood of a
robust filter is degenerate, since rejecting all measurements costs nothing; a Student-t likelihood is not consistent
for R. The score used here is a contaminated Gaussian, a mixture of a Gaussian and a wide one whose share and width are
fitted too (`wolf.noise.ContaminatedGaussian`), so that good measurements determine the parameters.
"""

from wolf.fitting.many_series import fit_many as fit_many
from wolf.fitting.maximum_likelihood import fit as fit
from wolf.fitting.noise_autocorrelation import fit_ar1_noise as fit_ar1_noise
from wolf.fitting.result import Fit as Fit
from wolf.fitting.result import Start as Start
