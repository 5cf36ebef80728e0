"""WoLF: outlier-robust Bayesian filtering.

import wolf

model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
out = wolf.filter(model, ys)          # robust, nothing to tune
out.means, out.covs, out.outliers

A name is brought in when it is first asked for: `import wolf` itself imports neither JAX nor NumPy.
"""

from typing import TYPE_CHECKING

from wolf import interrupts as interrupts  # before all that takes long to import

if TYPE_CHECKING:  # what a checker sees; `_HOMES` below says the same to Python
    from wolf import (
        arrow,
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
    from wolf.audit.attack import attack
    from wolf.audit.certificate import Certificate, certify
    from wolf.audit.explain import explain
    from wolf.belief import Gaussian
    from wolf.changing import Changes, changepoints
    from wolf.choosing import Choice, choose
    from wolf.engine.run import run_chunks, run_each, run_filter, run_many
    from wolf.engine.steps import init, step
    from wolf.exporting import export_c
    from wolf.filters import Bounded, EnsembleFilter, GaussianFilter
    from wolf.fitting import Fit, fit, fit_many, fit_noise_memory
    from wolf.fitting.tuning import Tuned, tune
    from wolf.integrations.estimators import OnlineClassifier as OnlineClassifier
    from wolf.integrations.estimators import OnlineRegressor as OnlineRegressor
    from wolf.methods import EKF, IEKF, KF, Adaptive, Learned, LowRank, WoLF
    from wolf.online import Bank, FixedLag, Online, Sensor
    from wolf.readings.folders import filter_folder
    from wolf.readings.frames import filter_frame
    from wolf.reports import report
    from wolf.results import Filtered, Forecast, Smoothed, States
    from wolf.statespace import LinearModel, ParameterModel, StateSpaceModel, families
    from wolf.streaming import stream
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

    plot = plots  # wolf.plot.series(out)
    __version__: str

__all__ = ["Gaussian", "LinearModel", "ParameterModel", "StateSpaceModel"]
__all__ += ["filter", "filter_chunks", "filter_folder", "filter_frame", "filter_many", "forecast", "sample_paths"]
__all__ += ["smooth", "stream"]
__all__ += ["Changes", "Choice", "changepoints", "choose"]
__all__ += ["Bank", "Filtered", "Fit", "FixedLag", "Forecast", "Online", "Sensor", "Smoothed", "States", "Tuned"]
__all__ += ["fit", "fit_many", "fit_noise_memory", "tune"]
__all__ += ["Certificate", "attack", "certify", "explain", "export_c", "report"]
__all__ += [
    "EKF",
    "IEKF",
    "KF",
    "Adaptive",
    "Bounded",
    "EnsembleFilter",
    "GaussianFilter",
    "Learned",
    "LowRank",
    "WoLF",
]
__all__ += ["IMQ", "Huber", "MahalanobisIMQ", "MahalanobisThreshold", "PerCoordinate", "PerGroup", "StudentWeight"]
__all__ += ["Tukey", "Unweighted", "Welsch"]
__all__ += ["init", "run_chunks", "run_each", "run_filter", "run_many", "step"]
__all__ += ["datasets", "ensembles", "families", "filters", "influence", "methods", "metrics", "models", "moments"]
__all__ += ["arrow", "noise", "plot", "plots", "simulate", "twin", "weights"]

_HOMES = {
    "wolf.api": "filter filter_chunks filter_many forecast sample_paths smooth",
    "wolf.audit.attack": "attack",
    "wolf.audit.certificate": "Certificate certify",
    "wolf.audit.explain": "explain",
    "wolf.belief": "Gaussian",
    "wolf.changing": "Changes changepoints",
    "wolf.choosing": "Choice choose",
    "wolf.engine.run": "run_chunks run_each run_filter run_many",
    "wolf.engine.steps": "init step",
    "wolf.exporting": "export_c",
    "wolf.filters": "Bounded EnsembleFilter GaussianFilter",
    "wolf.fitting": "Fit fit fit_many fit_noise_memory",
    "wolf.fitting.tuning": "Tuned tune",
    "wolf.integrations.estimators": "OnlineClassifier OnlineRegressor",
    "wolf.methods": "EKF IEKF KF Adaptive Learned LowRank WoLF",
    "wolf.online": "Bank FixedLag Online Sensor",
    "wolf.readings.folders": "filter_folder",
    "wolf.readings.frames": "filter_frame",
    "wolf.reports": "report",
    "wolf.results": "Filtered Forecast Smoothed States",
    "wolf.statespace": "LinearModel ParameterModel StateSpaceModel families",
    "wolf.streaming": "stream",
    "wolf.weights": (
        "IMQ Huber MahalanobisIMQ MahalanobisThreshold PerCoordinate PerGroup StudentWeight Tukey Unweighted Welsch"
    ),
}

if not TYPE_CHECKING:  # a checker would take it for leave to misspell every name

    def __getattr__(name):
        """Bring in a name or a module of ours when it is first asked for."""
        from importlib import import_module
        from importlib.util import find_spec

        from wolf.numerics.importing import uncollected

        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if name == "__version__":
            found = _version()
        elif home is not None:
            with uncollected():
                found = getattr(import_module(home), name)
        elif name == "plot":  # wolf.plot.series(out)
            found = import_module("wolf.plots")
        elif not name.startswith("_") and find_spec(f"wolf.{name}"):
            with uncollected():
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


def __dir__() -> list[str]:
    """List what is for people; the estimators only where scikit-learn is there to bring them in."""
    from importlib.util import find_spec

    learners = ["OnlineClassifier", "OnlineRegressor"] if find_spec("sklearn") else []
    return sorted([*__all__, *learners, "__version__", *(name for name in globals() if name.startswith("__"))])
