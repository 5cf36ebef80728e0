"""Components of an ensemble filter: analysis, inflation, localisation and weights.

`wolf.EnsembleFilter(num_members=40, analysis=wolf.ensembles.ETKF(rotate=True), inflation=...)` combines them.
"""

from wolf.inference.ensembles.analysis import ETKF as ETKF
from wolf.inference.ensembles.analysis import DEnKF as DEnKF
from wolf.inference.ensembles.analysis import Stochastic as Stochastic
from wolf.inference.ensembles.as_published import AveragedParticle as AveragedParticle
from wolf.inference.ensembles.as_published import Clipped as Clipped
from wolf.inference.ensembles.as_published import PerParticle as PerParticle
from wolf.inference.ensembles.as_published import SampledGain as SampledGain
from wolf.inference.ensembles.inflation import RTPP as RTPP
from wolf.inference.ensembles.inflation import RTPS as RTPS
from wolf.inference.ensembles.inflation import Adaptive as Adaptive
from wolf.inference.ensembles.inflation import Inflation as Inflation
from wolf.inference.ensembles.inflation import Multiplicative as Multiplicative
from wolf.inference.ensembles.inflation import default_inflation as default_inflation
from wolf.inference.ensembles.interfaces import Analysis as Analysis
from wolf.inference.ensembles.interfaces import AnalysisRequirements as AnalysisRequirements
from wolf.inference.ensembles.local_analysis import LETKF as LETKF
from wolf.inference.ensembles.local_analysis import EnSRF as EnSRF
from wolf.inference.ensembles.localisation import Distances as Distances
from wolf.inference.ensembles.localisation import Grid as Grid
from wolf.inference.ensembles.localisation import Ring as Ring
from wolf.inference.ensembles.localisation import gaspari_cohn as gaspari_cohn
from wolf.inference.ensembles.robust_weights import ROBUST as ROBUST
