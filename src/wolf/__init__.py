"""WoLF: outlier-robust Bayesian filtering.

import wolf

model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
out = wolf.filter(model, ys)          # robust, nothing to tune
out.means, out.covs, out.outliers
"""

from typing import TYPE_CHECKING

from wolf import interrupts as interrupts  # before all that takes long to import

# isort: split
from wolf import (
    datasets,
    ensembles,
    filters,
    influence,
    methods,
    metrics,
    models,
    moments,
    noise,
    plots,
    simulate,
    twin,
    weights,
)
from wolf.api import filter, filter_chunks, filter_many, forecast, sample_paths, smooth
from wolf.belief import Gaussian
from wolf.choosing import Choice, choose
from wolf.engine.run import init, run_chunks, run_each, run_filter, run_many, step
from wolf.entry import package_version as _package_version
from wolf.filters import EnsembleFilter, GaussianFilter
from wolf.fitting import Fit, fit
from wolf.fitting.tuning import Tuned, tune
from wolf.methods import EKF, IEKF, KF, Learned, LowRank, WoLF
from wolf.online import FixedLag, Online
from wolf.readings.frames import filter_frame
from wolf.results import Filtered, Forecast, Smoothed
from wolf.statespace import LinearModel, ParameterModel, StateSpaceModel, families
from wolf.weights import (
    IMQ,
    Huber,
    MahalanobisIMQ,
    MahalanobisThreshold,
    PerCoordinate,
    PerGroup,
    StudentWeight,
    Tukey,
    Unweighted,
    Welsch,
)

if TYPE_CHECKING:
    from wolf.audit.attack import attack
    from wolf.audit.certificate import Certificate, certify
    from wolf.audit.explain import explain
    from wolf.integrations.estimators import OnlineClassifier as OnlineClassifier
    from wolf.integrations.estimators import OnlineRegressor as OnlineRegressor

plot = plots  # wolf.plot.series(out)
__version__ = _package_version()

__all__ = ["Gaussian", "LinearModel", "ParameterModel", "StateSpaceModel"]
__all__ += ["filter", "filter_chunks", "filter_frame", "filter_many", "forecast", "sample_paths", "smooth"]
__all__ += ["Choice", "choose"]
__all__ += ["Filtered", "Fit", "FixedLag", "Forecast", "Online", "Smoothed", "Tuned", "fit", "tune"]
__all__ += ["Certificate", "attack", "certify", "explain"]
__all__ += ["EKF", "IEKF", "KF", "EnsembleFilter", "GaussianFilter", "Learned", "LowRank", "WoLF"]
__all__ += ["IMQ", "Huber", "MahalanobisIMQ", "MahalanobisThreshold", "PerCoordinate", "PerGroup", "StudentWeight"]
__all__ += ["Tukey", "Unweighted", "Welsch"]
__all__ += ["init", "run_chunks", "run_each", "run_filter", "run_many", "step"]
__all__ += ["datasets", "ensembles", "families", "filters", "influence", "methods", "metrics", "models", "moments"]
__all__ += ["noise", "plot", "plots", "simulate", "twin", "weights"]

_ELSEWHERE = {
    "attack": "wolf.audit.attack",
    "Certificate": "wolf.audit.certificate",
    "certify": "wolf.audit.certificate",
    "explain": "wolf.audit.explain",
    "OnlineClassifier": "wolf.integrations.estimators",
    "OnlineRegressor": "wolf.integrations.estimators",
}

if not TYPE_CHECKING:  # a checker would take it for leave to misspell every name

    def __getattr__(name):
        """Bring in what few need, and what needs scikit-learn, only when it is asked for."""
        from importlib import import_module

        if name in _ELSEWHERE:
            return getattr(import_module(_ELSEWHERE[name]), name)
        raise AttributeError(f"module 'wolf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is for people; the estimators only where scikit-learn is there to bring them in."""
    from importlib.util import find_spec

    learners = ["OnlineClassifier", "OnlineRegressor"] if find_spec("sklearn") else []
    return sorted([*__all__, *learners, *(name for name in globals() if name.startswith("__"))])
