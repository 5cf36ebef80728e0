"""The choices of an ensemble filter: how to analyse, inflate, localise and weigh.

`wolf.EnsembleFilter(num_members=40, analysis=wolf.ensembles.ETKF(rotate=True), inflation=...)` puts them together.
"""

from wolf.ensembles.analysis import ETKF as ETKF
from wolf.ensembles.analysis import DEnKF as DEnKF
from wolf.ensembles.analysis import Stochastic as Stochastic
from wolf.ensembles.inflation import RTPP as RTPP
from wolf.ensembles.inflation import RTPS as RTPS
from wolf.ensembles.inflation import Adaptive as Adaptive
from wolf.ensembles.inflation import Inflation as Inflation
from wolf.ensembles.inflation import Multiplicative as Multiplicative
from wolf.ensembles.local import LETKF as LETKF
from wolf.ensembles.local import EnSRF as EnSRF
from wolf.ensembles.localisation import Distances as Distances
from wolf.ensembles.localisation import Grid as Grid
from wolf.ensembles.localisation import Ring as Ring
from wolf.ensembles.localisation import gaspari_cohn as gaspari_cohn
from wolf.ensembles.printed import AveragedParticle as AveragedParticle
from wolf.ensembles.printed import Clipped as Clipped
from wolf.ensembles.printed import PerParticle as PerParticle
from wolf.ensembles.printed import SampledGain as SampledGain
from wolf.ensembles.protocol import Analysis as Analysis
from wolf.ensembles.protocol import AnalysisNeeds as AnalysisNeeds
from wolf.ensembles.weighing import ROBUST as ROBUST
