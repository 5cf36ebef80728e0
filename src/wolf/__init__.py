"""WoLF: outlier-robust Bayesian filtering.

import wolf

model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
out = wolf.filter(model, ys)          # robust, nothing to tune
out.means, out.covs, out.outliers
"""

from typing import Any as _Any

from wolf import datasets as datasets
from wolf import ensembles as ensembles
from wolf import influence as influence
from wolf import methods as methods
from wolf import metrics as metrics
from wolf import models as models
from wolf import plots as plots
from wolf import simulate as simulate
from wolf import twin as twin
from wolf import weights as weights
from wolf.api import filter as filter
from wolf.api import filter_chunks as filter_chunks
from wolf.api import filter_many as filter_many
from wolf.api import forecast as forecast
from wolf.api import sample_paths as sample_paths
from wolf.api import smooth as smooth
from wolf.belief import Gaussian as Gaussian
from wolf.engine.run import init as init
from wolf.engine.run import run_chunks as run_chunks
from wolf.engine.run import run_each as run_each
from wolf.engine.run import run_filter as run_filter
from wolf.engine.run import run_many as run_many
from wolf.engine.run import step as step
from wolf.entry import package_version as _package_version
from wolf.filters import EnsembleFilter as EnsembleFilter
from wolf.filters import GaussianFilter as GaussianFilter
from wolf.fitting import Fit as Fit
from wolf.fitting import fit as fit
from wolf.fitting.tuning import Tuned as Tuned
from wolf.fitting.tuning import tune as tune
from wolf.methods import EKF as EKF
from wolf.methods import IEKF as IEKF
from wolf.methods import KF as KF
from wolf.methods import Learned as Learned
from wolf.methods import LowRank as LowRank
from wolf.methods import WoLF as WoLF
from wolf.online import Online as Online
from wolf.online.lagged import FixedLag as FixedLag
from wolf.readings.frames import filter_frame as filter_frame
from wolf.results import Filtered as Filtered
from wolf.results import Forecast as Forecast
from wolf.results import Smoothed as Smoothed
from wolf.statespace import LinearModel as LinearModel
from wolf.statespace import ParameterModel as ParameterModel
from wolf.statespace import StateSpaceModel as StateSpaceModel
from wolf.statespace import families as families
from wolf.weights import IMQ as IMQ
from wolf.weights import Huber as Huber
from wolf.weights import MahalanobisIMQ as MahalanobisIMQ
from wolf.weights import MahalanobisThreshold as MahalanobisThreshold
from wolf.weights import PerCoordinate as PerCoordinate
from wolf.weights import PerGroup as PerGroup
from wolf.weights import StudentT as StudentT
from wolf.weights import Tukey as Tukey
from wolf.weights import Unweighted as Unweighted
from wolf.weights import Welsch as Welsch

plot = plots  # wolf.plot.series(out)
__version__ = _package_version()


_ELSEWHERE = {
    "certify": "wolf.audit",
    "Certificate": "wolf.audit",
    "attack": "wolf.audit",
    "explain": "wolf.audit",
}


def __getattr__(name: str) -> _Any:
    """Bring in what few need, and what needs scikit-learn, only when it is asked for."""
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name)
    if name in ("OnlineClassifier", "OnlineRegressor"):
        from wolf.integrations import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'wolf' has no attribute {name!r}")
