"""WoLF: outlier-robust Bayesian filtering.

import wolf

model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
out = wolf.filter(model, ys)          # robust, nothing to tune
out.means, out.covs, out.outliers

A name is brought in when it is first asked for: `import wolf` itself imports neither JAX nor NumPy.
"""

import sys
from typing import TYPE_CHECKING

from wolf.runtime import signals as signals  # before all that takes long to import

if TYPE_CHECKING:  # for type checkers; `_MODULES` and `_HOMES` below state the same for the interpreter
    from wolf import models, plots, simulate
    from wolf.api import filter, filter_chunks, filter_many, forecast, sample_paths, smooth
    from wolf.api.pure import run_chunks, run_each, run_filter, run_many
    from wolf.beliefs import Gaussian
    from wolf.cleaning.frames import filter_frame
    from wolf.cleaning.incident_table import incidents
    from wolf.diagnostics import influence, metrics
    from wolf.diagnostics.attack import attack
    from wolf.diagnostics.certificate import Certificate, certify
    from wolf.diagnostics.changepoints import Changepoints, changepoints
    from wolf.diagnostics.faults import explain
    from wolf.engine.step import init, step
    from wolf.fitting import Fit, fit, fit_ar1_noise, fit_many
    from wolf.fitting.backtest import backtest
    from wolf.fitting.select import Choice, choose
    from wolf.fitting.tuning import TuningResult, tune
    from wolf.inference import ensembles, filters, linearization, noise, weights
    from wolf.inference import registry as methods
    from wolf.inference.filters import EnsembleFilter, GaussianFilter, TruncatedFilter
    from wolf.inference.registry import EKF, IEKF, KF, Adaptive, Learned, LowRank, WoLF
    from wolf.inference.weights import (
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
    from wolf.integrations.export_c import export_c
    from wolf.integrations.online_estimators import OnlineClassifier as OnlineClassifier
    from wolf.integrations.online_estimators import OnlineRegressor as OnlineRegressor
    from wolf.online import Bank, FixedLag, Online, Sensor, filter_batches
    from wolf.reports import report
    from wolf.results import ConformalIntervals, Filtered, Forecast, Smoothed, States
    from wolf.simulate import datasets
    from wolf.simulate import twin_experiment as twin
    from wolf.statespace import LinearModel, ParameterModel, StateSpaceModel, families

    plot = plots  # wolf.plot.series(out)
    __version__: str

__all__ = ["Gaussian", "LinearModel", "ParameterModel", "StateSpaceModel"]
__all__ += [
    "filter",
    "filter_batches",
    "filter_chunks",
    "filter_frame",
    "filter_many",
    "forecast",
    "incidents",
    "sample_paths",
]
__all__ += ["smooth"]
__all__ += ["ConformalIntervals"]
__all__ += ["Changepoints", "Choice", "changepoints", "choose"]
__all__ += ["Bank", "Filtered", "Fit", "FixedLag", "Forecast", "Online", "Sensor", "Smoothed", "States", "TuningResult"]
__all__ += ["backtest", "fit", "fit_ar1_noise", "fit_many", "tune"]
__all__ += ["Certificate", "attack", "certify", "explain", "export_c", "report"]
__all__ += [
    "EKF",
    "IEKF",
    "KF",
    "Adaptive",
    "EnsembleFilter",
    "GaussianFilter",
    "Learned",
    "LowRank",
    "TruncatedFilter",
    "WoLF",
]
__all__ += ["IMQ", "Huber", "MahalanobisIMQ", "MahalanobisThreshold", "PerCoordinate", "PerGroup", "StudentWeight"]
__all__ += ["Tukey", "Unweighted", "Welsch"]
__all__ += ["init", "run_chunks", "run_each", "run_filter", "run_many", "step"]
__all__ += [
    "datasets",
    "ensembles",
    "families",
    "filters",
    "influence",
    "linearization",
    "methods",
    "metrics",
    "models",
]
__all__ += ["noise", "plot", "plots", "simulate", "twin", "weights"]

_MODULES = {  # public name of a module -> where it is
    "datasets": "wolf.simulate.datasets",
    "ensembles": "wolf.inference.ensembles",
    "filters": "wolf.inference.filters",
    "influence": "wolf.diagnostics.influence",
    "linearization": "wolf.inference.linearization",
    "methods": "wolf.inference.registry",
    "metrics": "wolf.diagnostics.metrics",
    "noise": "wolf.inference.noise",
    "plot": "wolf.plots",
    "twin": "wolf.simulate.twin_experiment",
    "weights": "wolf.inference.weights",
}

_HOMES = {  # module -> the public names that it defines
    "wolf.api": "filter filter_chunks filter_many forecast sample_paths smooth",
    "wolf.api.pure": "run_chunks run_each run_filter run_many",
    "wolf.beliefs": "Gaussian",
    "wolf.cleaning.frames": "filter_frame",
    "wolf.cleaning.incident_table": "incidents",
    "wolf.diagnostics.attack": "attack",
    "wolf.diagnostics.certificate": "Certificate certify",
    "wolf.diagnostics.changepoints": "Changepoints changepoints",
    "wolf.diagnostics.faults": "explain",
    "wolf.engine.step": "init step",
    "wolf.fitting": "Fit fit fit_many fit_ar1_noise",
    "wolf.fitting.backtest": "backtest",
    "wolf.fitting.select": "Choice choose",
    "wolf.fitting.tuning": "TuningResult tune",
    "wolf.inference.filters": "TruncatedFilter EnsembleFilter GaussianFilter",
    "wolf.inference.registry": "EKF IEKF KF Adaptive Learned LowRank WoLF",
    "wolf.inference.weights": (
        "IMQ Huber MahalanobisIMQ MahalanobisThreshold PerCoordinate PerGroup StudentWeight Tukey Unweighted Welsch"
    ),
    "wolf.integrations.export_c": "export_c",
    "wolf.integrations.online_estimators": "OnlineClassifier OnlineRegressor",
    "wolf.online": "Bank FixedLag Online Sensor filter_batches",
    "wolf.reports": "report",
    "wolf.results": "ConformalIntervals Filtered Forecast Smoothed States",
    "wolf.statespace": "LinearModel ParameterModel StateSpaceModel families",
}

if not TYPE_CHECKING:  # a checker would take it for leave to misspell every name

    def __getattr__(name):
        """Bring in a name or a module of ours when it is first asked for."""
        from importlib import import_module
        from importlib.util import find_spec

        from wolf.runtime.gc_pause import gc_paused

        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if name == "__version__":
            found = _version()
        elif home is not None:
            with gc_paused():
                found = getattr(import_module(home), name)
        elif name in _MODULES:
            with gc_paused():
                found = import_module(_MODULES[name])
        elif not name.startswith("_") and find_spec(f"wolf.{name}"):
            with gc_paused():
                found = import_module(f"wolf.{name}")
        else:
            raise AttributeError(f"module 'wolf' has no attribute {name!r}")
        globals()[name] = found
        return found


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wolf-filter")
    except PackageNotFoundError:
        return "not installed"


if not {"pandas", "polars"}.isdisjoint(sys.modules):  # df.wolf; where they are imported later: see the module
    from wolf.integrations import accessor_registration

    accessor_registration.register_imported()


def __dir__() -> list[str]:
    """List what is for people; the estimators only where scikit-learn is there to bring them in."""
    from importlib.util import find_spec

    learners = ["OnlineClassifier", "OnlineRegressor"] if find_spec("sklearn") else []
    return sorted([*__all__, *learners, "__version__", *(name for name in globals() if name.startswith("__"))])
