"""Bad arguments of what is made and what is scored: models, methods, weights, families, processes, metrics, twins."""

# ruff: noqa: E501  (a door a line)

from functools import partial

import numpy as np
import pytest
from tests.attack import odd

import wolf
from wolf import families, models, simulate
from wolf.diagnostics import influence, metrics
from wolf.inference import registry
from wolf.simulate import twin_experiment

LEVEL = models.local_level(level_var=0.1, obs_var=1.0)
RING = models.lorenz96(8)
YS = np.array([1.0, 2.0, 1.5, 0.5, 1.0])
ONE = wolf.Gaussian(np.zeros(1), np.eye(1))
FOUR = wolf.Gaussian(np.zeros(4), np.eye(4))
LINEAR = {name: np.eye(1) for name in "FHQR"} | {"mean": np.zeros(1), "cov": np.eye(1)}
CURVED = {"dynamics": np.sin, "observe": np.sin, "dynamics_cov": np.eye(1), "obs_cov": np.eye(1), "prior": ONE}
MEANS, COVS = np.zeros((5, 1)), np.ones((5, 1, 1))
FRESH = simulate.Simulation(MEANS, MEANS, np.zeros(5, bool), np.ones(5))
OUT = wolf.filter(LEVEL, YS, method="KF")
BAD = odd.without(odd.SERIES, "too many columns", "four axes")  # as arrays of numbers of any shape
ARRAYS = odd.without(BAD, "empty", "no rows") | {"one row": np.zeros(1)}
SENSORS = odd.without(odd.FEW, "None") | {"empty": (), "floats": (0.0, 1.0), "bools": (True, False)}
SENSORS |= {"matrix": np.zeros((2, 2), int)}
UNCERTAINTY = odd.without(odd.NOT_A_NUMBER, "None") | {"negative": -0.1, "above": 4.5, "inf": np.inf, "bool": True}
UNCERTAINTY |= {"words": "factor 2", "one in a list": [1.0], "masked": np.ma.masked}
COEFFICIENTS = odd.FEW | {"nan": [np.nan], "matrix": np.eye(2)}


def change(make, known, name):
    return lambda v: make(**known | {name: v})


def doors(make, known, kinds):
    """Spoil one argument after the other."""
    label = getattr(make, "__name__", str(make))
    return [(label, name, values, change(make, known, name)) for name, values in kinds.items()]


# fmt: off
MODELS = odd.table(
    *doors(wolf.LinearModel, LINEAR, {"F": odd.without(odd.MATRIX, "None"), "H": odd.MATRIX, "Q": odd.COVARIANCE, "R": odd.COVARIANCE, "cov": odd.COVARIANCE}),
    *doors(wolf.LinearModel, LINEAR, {"mean": odd.SERIES | {"nan": [np.nan]}, "B": odd.without(odd.MATRIX, "None", "wide"), "residual": odd.FUNCTION}),
    *doors(wolf.StateSpaceModel, CURVED, {"dynamics": odd.FUNCTION, "observe": odd.NONE | odd.FUNCTION, "residual": odd.FUNCTION, "prior": odd.NONE | odd.without(odd.PRIOR, "wrong size")}),
    *doors(wolf.StateSpaceModel, CURVED, {"dynamics_cov": odd.COVARIANCE, "obs_cov": odd.without(odd.COVARIANCE, "vector")}),
    *doors(wolf.ParameterModel, {"observe": np.sin, "family": families.Poisson(), "mean": np.zeros(1), "cov": 1.0}, {"observe": odd.NONE | odd.FUNCTION, "family": odd.FEW | {"class": families.Poisson}, "mean": odd.SERIES | {"nan": [np.nan]}, "cov": odd.without(odd.COVARIANCE, "number"), "drift": odd.without(odd.COVARIANCE, "number", "None")}),
    *doors(models.local_level, {"level_var": 0.1, "obs_var": 1.0}, {"level_var": odd.without(odd.VARIANCE, "None"), "obs_var": odd.NOISE, "prior": odd.PRIOR}),
    *doors(models.local_trend, {"level_var": 0.1, "slope_var": 0.1, "obs_var": 1.0}, {"slope_var": odd.without(odd.VARIANCE, "None"), "obs_var": odd.NOISE, "prior": odd.PRIOR}),
    ("structural", "parts", odd.FEW | {"class": models.Part, "model": LEVEL}, lambda v: models.structural(v, obs_var=1.0)),
    ("structural", "times", odd.without(odd.SERIES, "None", "dates", "pandas dates") | {"back": [2.0, 1.0], "nan": [0.0, np.nan]}, lambda v: models.structural(models.level(0.1), obs_var=1.0, times=v)),
    ("structural", "start", odd.without(odd.NOT_A_NUMBER, "None") | {"late": 9.0}, lambda v: models.structural(models.level(0.1), obs_var=1.0, times=[0.0, 1.0], start=v)),
    ("level", "level_var", odd.without(odd.VARIANCE, "None"), models.level),
    ("seasonal", "period", odd.NUMBER | {"one": 1}, models.seasonal),
    ("seasonal", "harmonics", odd.without(odd.COUNT, "None") | {"many": 9}, lambda v: models.seasonal(12, 0.1, harmonics=v)),
    ("cycle", "period", odd.NUMBER | {"two": 2.0}, models.cycle),
    ("cycle", "damping", odd.NUMBER | {"above": 1.5}, lambda v: models.cycle(5.0, 0.1, damping=v)),
    ("ar", "coefficients", COEFFICIENTS, lambda v: models.ar(v, 1.0)),
    ("ar", "shock_var", odd.VARIANCE, lambda v: models.ar([0.5], v)),
    ("arma", "coefficients", COEFFICIENTS, lambda v: models.arma([0.5], v, 1.0)),
    ("regression", "design", odd.without(BAD, "0-d") | {"0-d": 1.0, "nan": [np.nan]}, models.regression),
    ("regression", "var", odd.FEW | {"negative": -1.0, "size": [1.0, 2.0, 3.0], "nan": np.nan}, lambda v: models.regression(np.ones((5, 2)), v)),
    *doors(models.constant_velocity, {"dims": 2, "dt": 1.0, "dynamics_var": 0.1, "obs_var": 1.0}, {"dims": odd.COUNT, "dt": odd.NUMBER, "dynamics_var": odd.without(odd.VARIANCE, "None"), "obs_var": odd.NOISE, "prior": odd.PRIOR}),
    *doors(models.constant_acceleration, {"dims": 2, "dt": 1.0, "jerk_rate": 0.1, "obs_var": 1.0}, {"dims": odd.COUNT, "dt": odd.NUMBER, "jerk_rate": odd.VARIANCE, "prior": odd.PRIOR}),
    *doors(models.singer, {"dims": 2, "dt": 1.0, "maneuver_time": 1.0, "accel_var": 0.1, "obs_var": 1.0}, {"maneuver_time": odd.NUMBER, "accel_var": odd.VARIANCE}),
    *doors(models.range_bearing, {"dt": 1.0, "dynamics_var": 0.1, "range_var": 1.0, "bearing_var": 1.0, "prior": FOUR}, {"dt": odd.NUMBER, "range_var": odd.NOISE, "bearing_var": odd.NOISE, "prior": odd.NONE | odd.PRIOR, "sensor": odd.FEW | {"three": (0.0, 0.0, 0.0), "nan": (np.nan, 0.0)}}),
    *doors(models.coordinated_turn, {"dt": 1.0, "speed_var": 0.1, "turn_var": 0.1, "obs_var": 1.0, "prior": wolf.Gaussian(np.zeros(5), np.eye(5))}, {"dt": odd.NUMBER, "turn_var": odd.VARIANCE, "prior": odd.NONE | odd.PRIOR}),
    *doors(models.gps_odometry, {"dt": 1.0, "position_var": 0.1, "heading_var": 0.1, "gps_var": 1.0, "prior": wolf.Gaussian(np.zeros(3), np.eye(3))}, {"dt": odd.NUMBER, "gps_var": odd.NOISE, "prior": odd.NONE | odd.PRIOR}),
    *doors(models.lorenz63, {}, {"dt": odd.NUMBER, "steps": odd.COUNT, "obs_var": odd.NOISE, "sigma": odd.FEW, "rho": odd.FEW, "beta": odd.FEW, "prior": odd.PRIOR}),
    *doors(models.lorenz96, {}, {"dim": odd.COUNT | {"three": 3}, "dt": odd.NUMBER, "forcing": odd.FEW, "noise": odd.CHOICE, "noise_std": odd.VARIANCE, "prior": odd.PRIOR}),
    *doors(models.kuramoto_sivashinsky, {}, {"dim": odd.COUNT | {"uneven": 9}, "length": odd.NUMBER, "dt": odd.NUMBER, "steps": odd.COUNT}),
    *doors(models.linear_advection, {"dim": 10, "waves": 2}, {"dim": odd.COUNT, "shift": odd.without(odd.WHOLE, "negative"), "damping": odd.FEW, "num_observed": odd.COUNT | {"many": 11}, "waves": odd.COUNT, "prior": odd.PRIOR}),
    *doors(models.wiener_level, {"times": YS.cumsum(), "var_rate": 0.1, "obs_var": 1.0, "prior": ONE}, {"times": odd.without(odd.SERIES, "dates", "pandas dates"), "var_rate": odd.VARIANCE, "obs_var": odd.NOISE, "prior": odd.NONE | odd.PRIOR, "start": odd.without(odd.NOT_A_NUMBER, "None")}),
    *doors(models.wiener_velocity, {"times": YS.cumsum(), "dims": 2, "accel_rate": 0.1, "obs_var": 1.0, "prior": FOUR}, {"dims": odd.COUNT, "accel_rate": odd.VARIANCE, "prior": odd.NONE | odd.PRIOR}),
    *doors(models.ornstein_uhlenbeck, {"times": YS.cumsum(), "rate": 1.0, "stationary_var": 0.1, "obs_var": 1.0}, {"rate": odd.NUMBER, "stationary_var": odd.VARIANCE, "prior": odd.PRIOR}),
    *doors(models.discretise, {"drift": np.eye(1), "diffusion": np.eye(1), "dt": 1.0}, {"drift": odd.MATRIX, "diffusion": odd.COVARIANCE, "dt": odd.FEW | {"negative": -1.0, "nan": np.nan, "inf": np.inf}}),
    ("time_steps", "times", odd.without(odd.SERIES, "dates", "pandas dates"), models.time_steps),
    ("merge_sensors", "readings", odd.without(odd.FEW, "texts") | {"three": (YS, YS, YS), "array": YS}, models.merge_sensors),
    ("merge_sensors", "values", BAD, lambda v: models.merge_sensors((YS.cumsum(), v))),
    ("merge_sensors", "times", odd.without(odd.SERIES, "dates", "pandas dates"), lambda v: models.merge_sensors((v, YS))),
    *doors(models.diffuse_prior, {"size": 2, "variance": 1.0}, {"size": odd.COUNT, "variance": odd.NUMBER, "mean": odd.FEW | {"size": np.zeros(3), "nan": np.nan}}),
    ("models.make", "name", odd.without(odd.CHOICE, "text", "digits"), lambda v: models.make(v, obs_var=1.0)),
    *doors(models.make, {"name": "local-level", "level_var": 0.1, "obs_var": 1.0}, {"dims": odd.COUNT, "prior": odd.PRIOR, "obs_var": odd.NOISE, "times": odd.without(odd.SERIES, "None", "dates", "pandas dates")}),
    *doors(models.mlp, {"features": 2}, {"features": odd.COUNT, "hidden": odd.FEW | {"number": 3, "zero": (0,), "floats": (2.5,)}, "outputs": odd.COUNT, "activation": odd.without(odd.CHOICE, "class"), "key": odd.KEY | odd.NONE, "obs_var": odd.FEW | {"zero": 0.0, "size": [1.0, 1.0]}, "prior_var": odd.FEW | {"negative": -1.0, "nan": np.nan}, "drift_var": odd.FEW | {"negative": -1.0, "nan": np.nan}, "family": odd.without(odd.FEW, "None") | {"class": families.Poisson}, "params": odd.without(odd.SERIES, "None"), "learn": odd.CHOICE}),
    *doors(models.glm, {"features": 2, "family": families.Poisson()}, {"features": odd.COUNT, "family": odd.FEW | {"class": families.Poisson}, "mean": odd.without(odd.SERIES, "None"), "prior_var": odd.FEW | {"negative": -1.0}}),
    *doors(models.from_function, {"fn": np.sin, "params": np.ones(2)}, {"fn": odd.NONE | odd.FUNCTION, "params": odd.without(odd.FEW, "dict") | {"ints": [1, 2], "nan": [np.nan]}, "outputs": odd.COUNT, "obs_var": odd.FEW | {"zero": 0.0}}),
)
# fmt: on

# fmt: off
METHODS = odd.table(
    ("methods.make", "method", odd.CHOICE, registry.make),
    ("methods.default", "model", odd.MODEL, registry.default),
    *((build.__name__, name, values, partial(lambda build, name, v: build(**{name: v}), build, name)) for build in (wolf.KF, wolf.EKF, wolf.IEKF, wolf.WoLF, wolf.Learned, wolf.Adaptive) for name, values in {"linearization": odd.FEW | {"class": wolf.linearization.Cubature}, "form": odd.CHOICE, "iterations": odd.COUNT}.items()),
    *doors(wolf.GaussianFilter, {}, {"linearization": odd.FEW, "noise": odd.FEW | {"weight": wolf.IMQ(), "class": wolf.noise.StudentNoise}, "form": odd.CHOICE, "iterations": odd.COUNT}),
    ("WoLF", "weight", odd.without(odd.FEW, "None") | {"class": wolf.IMQ, "number": 4.0}, wolf.WoLF),
    *doors(wolf.Learned, {}, {"patience": odd.POSITIVE | odd.NONE | {"one": 1}, "sensors": SENSORS, "strength": odd.POSITIVE, "r_uncertainty": odd.FEW | {"zero": 0.0}}),
    *doors(wolf.Adaptive, {}, {"patience": odd.POSITIVE | odd.NONE | {"one": 1, "below two": 1.9}, "sensors": SENSORS, "q_uncertainty": UNCERTAINTY, "r_uncertainty": UNCERTAINTY}),
    *doors(wolf.noise.AdaptiveNoiseScales, {}, {"q_uncertainty": UNCERTAINTY, "r_uncertainty": UNCERTAINTY, "forgetting": odd.NONE | odd.SHARE, "sizes": odd.FEW | {"empty": (), "zero": (0.0, 1.0), "falling": (2.0, 1.0), "nan": (np.nan, 1.0)}}),
    *doors(wolf.LowRank, {}, {"weight": odd.without(odd.FEW, "None"), "rank": odd.WHOLE}),
    *doors(wolf.EnsembleFilter, {}, {"num_members": odd.COUNT | {"one": 1}, "analysis": odd.FEW, "inflation": odd.FEW, "localisation": odd.without(odd.FEW, "None"), "weight": odd.FEW, "scope": odd.CHOICE, "patience": odd.WHOLE}),
    *((cls.__name__, "c", odd.POSITIVE, cls) for cls in (wolf.IMQ, wolf.MahalanobisIMQ, wolf.MahalanobisThreshold, wolf.Welsch, wolf.Tukey, wolf.Huber)),
    *((cls.__name__, "metric", odd.CHOICE, partial(lambda cls, v: cls(metric=v), cls)) for cls in (wolf.MahalanobisIMQ, wolf.MahalanobisThreshold, wolf.Welsch, wolf.Tukey, wolf.Huber, wolf.StudentWeight)),
    ("calibrated", "dim", odd.COUNT, lambda v: wolf.Welsch.calibrated(v)),
    ("calibrated", "efficiency", odd.LEVEL, lambda v: wolf.Welsch.calibrated(2, v)),
    ("StudentWeight", "dof", odd.NONE | odd.POSITIVE, wolf.StudentWeight),
    ("PerCoordinate", "weight", odd.FEW | {"class": wolf.IMQ}, wolf.PerCoordinate),
    ("PerGroup", "weight", odd.FEW, lambda v: wolf.PerGroup(v, (0, 1))),
    ("PerGroup", "groups", odd.FEW | {"empty": (), "floats": (0.0, 1.0), "bools": (True, False), "0-d": np.array(1)}, lambda v: wolf.PerGroup(wolf.IMQ(), v)),
    ("Normal", "obs_cov", odd.without(odd.COVARIANCE, "number"), families.Normal),
    ("Categorical", "classes", odd.COUNT | {"one": 1}, families.Categorical),
    ("Gamma", "shape", odd.NONE | odd.POSITIVE, families.Gamma),
    ("Beta", "precision", odd.NONE | odd.POSITIVE, families.Beta),
    *((family, "y", odd.without(BAD, "0-d", "empty", "no rows", "no columns"), value.statistic) for family, value in {"Poisson": families.Poisson(), "Categorical": families.Categorical(3), "Bernoulli": families.Bernoulli(), "Beta": families.Beta(2.0), "Gamma": families.Gamma(2.0)}.items()),
    ("Unscented", "alpha", odd.NUMBER, lambda v: wolf.linearization.Unscented(alpha=v)),
    ("GaussHermite", "order", odd.COUNT, wolf.linearization.GaussHermite),
)
# fmt: on

# fmt: off
SIMULATED = odd.table(
    *doors(simulate.trajectory, {"model": LEVEL, "steps": 5, "key": 0}, {"model": odd.MODEL, "steps": odd.COUNT, "key": odd.NONE | odd.KEY, "outliers": odd.without(odd.FEW, "None") | {"class": simulate.StudentT, "number": 0.1}, "initial": odd.without(odd.SERIES, "None") | {"nan": [np.nan]}}),
    *((cls.__name__, "prob", odd.NONE | odd.SHARE, partial(lambda cls, rest, v: cls(v, *rest), cls, rest)) for cls, rest in {simulate.Mixture: (), simulate.Additive: (0.0, 1.0), simulate.Spikes: (1.0,), simulate.ReplacedMeasurements: (1.0,), simulate.Stuck: (3,), simulate.Burst: (3,), simulate.Missing: ()}.items()),
    ("StudentT", "dof", odd.NONE | odd.POSITIVE, simulate.StudentT),
    ("Mixture", "factor", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Mixture(0.1, v)),
    ("Additive", "low", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Additive(0.1, v, 1.0)),
    ("Additive", "high", odd.without(odd.NOT_A_NUMBER, "list") | {"below": -1.0}, lambda v: simulate.Additive(0.1, 0.0, v)),
    ("Spikes", "size", odd.NONE | odd.POSITIVE, lambda v: simulate.Spikes(0.1, v)),
    ("ReplacedMeasurements", "value", odd.without(odd.NOT_A_NUMBER, "nan", "list"), lambda v: simulate.ReplacedMeasurements(0.1, v)),
    ("EachSensor", "process", odd.FEW | {"class": simulate.StudentT}, simulate.EachSensor),
    ("EachSensor", "sensors", odd.without(odd.FEW, "None") | {"floats": (0.0, 1.0), "number": 3}, lambda v: simulate.EachSensor(simulate.Missing(0.1), v)),
    ("Stuck", "length", odd.COUNT, lambda v: simulate.Stuck(0.1, v)),
    ("Burst", "length", odd.COUNT, lambda v: simulate.Burst(0.1, v)),
    ("Burst", "size", odd.NONE | odd.POSITIVE, lambda v: simulate.Burst(0.1, 3, v)),
    ("Drift", "start", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Drift(v, 1.0)),
    ("Drift", "rate", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Drift(1, v)),
    ("Gap", "start", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Gap(v, 1)),
    ("Gap", "length", odd.without(odd.NOT_A_NUMBER, "list"), lambda v: simulate.Gap(1, v)),
    ("Sequence", "processes", odd.FEW | {"empty": (), "one": simulate.Missing(0.1), "class": (simulate.StudentT,)}, simulate.Sequence),
    ("with_true_noise", "model", odd.MODEL, lambda v: simulate.with_true_noise(v, FRESH)),
    ("tell", "data", odd.RESULT, lambda v: simulate.tell(LEVEL, v)),
    *doors(twin_experiment.run, {"model": RING, "method": "ETKF", "steps": 5, "key": 0}, {"model": odd.MODEL, "method": odd.METHOD, "steps": odd.COUNT, "key": odd.NONE | odd.KEY, "outliers": odd.without(odd.FEW, "None"), "data": odd.without(odd.FEW, "None"), "initial": odd.without(odd.SERIES, "None"), "burn_in": odd.without(odd.WHOLE, "None") | {"all": 5}, "progress": odd.without(odd.FEW, "None")}),
    ("datasets.load", "name", odd.CHOICE, wolf.datasets.load),
    ("datasets.path", "name", odd.CHOICE, wolf.datasets.path),
)
# fmt: on

# fmt: off
SCORES = odd.table(
    *((score, "means", odd.without(ARRAYS, "no columns"), partial(lambda score, v: getattr(metrics, score)(v, MEANS), score)) for score in ("rmse", "rmedse", "j_score")),
    *((score, "truth", odd.without(ARRAYS, "no columns"), partial(lambda score, v: getattr(metrics, score)(MEANS, v), score)) for score in ("rmse", "rmedse", "j_score")),
    *((score, "means", ARRAYS, partial(lambda score, v: getattr(metrics, score)(v, COVS, MEANS), score)) for score in ("coverage", "crps", "log_score", "nees", "nees_band")),
    *((score, "covs", ARRAYS | {"means": MEANS}, partial(lambda score, v: getattr(metrics, score)(MEANS, v, MEANS), score)) for score in ("coverage", "crps", "log_score", "nees", "nees_band")),
    *((score, "covs", {"negative": -COVS, "nan": np.nan * COVS}, partial(lambda score, v: getattr(metrics, score)(MEANS, v, MEANS), score)) for score in ("log_score", "nees", "nees_band")),
    ("coverage", "level", odd.LEVEL, lambda v: metrics.coverage(MEANS, COVS, MEANS, v)),
    ("nees_band", "level", odd.LEVEL, lambda v: metrics.nees_band(MEANS, COVS, MEANS, v)),
    ("nis_band", "out", odd.RESULT, metrics.nis_band),
    ("nis_band", "level", odd.LEVEL, lambda v: metrics.nis_band(OUT, v)),
    ("whiteness", "out", odd.RESULT, metrics.whiteness),
    ("whiteness", "lags", odd.COUNT | {"many": 5}, lambda v: metrics.whiteness(OUT, v)),
    ("ensemble_crps", "members", odd.without(ARRAYS, "no columns"), lambda v: metrics.ensemble_crps(v, np.zeros(1))),
    ("ensemble_crps", "truth", odd.without(ARRAYS, "no columns", "one row"), lambda v: metrics.ensemble_crps(np.zeros((4, 1)), v)),
    ("rank_histogram", "members", odd.without(ARRAYS, "no columns"), lambda v: metrics.rank_histogram(v, np.zeros(1))),
    *doors(influence.pif, {"model": LEVEL, "method": "KF", "ys": YS, "contaminations": MEANS}, {"model": odd.MODEL, "method": odd.METHOD, "ys": odd.SERIES, "contaminations": odd.without(odd.SERIES, "no rows", "four axes"), "dtype": odd.CHOICE}),
    ("wasserstein2", "first", odd.SERIES | {"nan": [[np.nan]]}, lambda v: influence.wasserstein2(v, [[1.0]])),
    ("wasserstein2", "second", odd.SERIES | {"nan": [[np.nan]]}, lambda v: influence.wasserstein2([[1.0]], v)),
    *doors(influence.weight_map, {"weight": wolf.IMQ(c=1.0), "obs_cov": np.eye(1), "innovation_cov": np.eye(1), "residuals": MEANS}, {"weight": odd.FEW | {"class": wolf.IMQ}, "obs_cov": odd.COVARIANCE, "innovation_cov": odd.COVARIANCE, "residuals": odd.without(BAD, "no columns")}),
)
# fmt: on


@pytest.mark.parametrize(("argument", "values", "call"), MODELS + METHODS + SIMULATED + SCORES)
def test_odd_values_are_refused_by_the_name_of_their_argument(argument, values, call):
    odd.ask(argument, values, call)
