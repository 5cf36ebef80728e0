"""Invalid arguments of constructors and scores: models, methods, weights, families, simulation, metrics."""

# ruff: noqa: E501  (one argument a line)

from functools import partial

import numpy as np
import pytest
from tests.attack import invalid_values as invalid

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
NONLINEAR = {"dynamics": np.sin, "observe": np.sin, "dynamics_cov": np.eye(1), "obs_cov": np.eye(1), "prior": ONE}
MEANS, COVS = np.zeros((5, 1)), np.ones((5, 1, 1))
SIMULATION = simulate.Simulation(MEANS, MEANS, np.zeros(5, bool), np.ones(5))
OUT = wolf.filter(LEVEL, YS, method="KF")
ANY_SHAPE = invalid.without(invalid.SERIES, "too many columns", "four axes")
ARRAYS = invalid.without(ANY_SHAPE, "empty", "no rows") | {"one row": np.zeros(1)}
SENSORS = invalid.without(invalid.FEW, "None") | {"empty": (), "floats": (0.0, 1.0), "bools": (True, False)}
SENSORS |= {"matrix": np.zeros((2, 2), int)}
UNCERTAINTY = invalid.without(invalid.NOT_A_NUMBER, "None") | {
    "negative": -0.1,
    "above": 4.5,
    "inf": np.inf,
    "bool": True,
}
UNCERTAINTY |= {"words": "factor 2", "one in a list": [1.0], "masked": np.ma.masked}
COEFFICIENTS = invalid.FEW | {"nan": [np.nan], "matrix": np.eye(2)}


def change(make, known, name):
    return lambda v: make(**known | {name: v})


def arguments_of(make, known, kinds):
    """List the invalid values of each argument of a call whose other arguments are valid."""
    label = getattr(make, "__name__", str(make))
    return [(label, name, values, change(make, known, name)) for name, values in kinds.items()]


# fmt: off
MODELS = invalid.make_cases(
    *arguments_of(wolf.LinearModel, LINEAR, {"F": invalid.without(invalid.MATRIX, "None"), "H": invalid.MATRIX, "Q": invalid.COVARIANCE, "R": invalid.COVARIANCE, "cov": invalid.COVARIANCE}),
    *arguments_of(wolf.LinearModel, LINEAR, {"mean": invalid.SERIES | {"nan": [np.nan]}, "B": invalid.without(invalid.MATRIX, "None", "wide"), "residual": invalid.FUNCTION}),
    *arguments_of(wolf.StateSpaceModel, NONLINEAR, {"dynamics": invalid.FUNCTION, "observe": invalid.NONE | invalid.FUNCTION, "residual": invalid.FUNCTION, "prior": invalid.NONE | invalid.without(invalid.PRIOR, "wrong size")}),
    *arguments_of(wolf.StateSpaceModel, NONLINEAR, {"dynamics_cov": invalid.COVARIANCE, "obs_cov": invalid.without(invalid.COVARIANCE, "vector")}),
    *arguments_of(wolf.ParameterModel, {"observe": np.sin, "family": families.Poisson(), "mean": np.zeros(1), "cov": 1.0}, {"observe": invalid.NONE | invalid.FUNCTION, "family": invalid.FEW | {"class": families.Poisson}, "mean": invalid.SERIES | {"nan": [np.nan]}, "cov": invalid.without(invalid.COVARIANCE, "number"), "drift": invalid.without(invalid.COVARIANCE, "number", "None")}),
    *arguments_of(models.local_level, {"level_var": 0.1, "obs_var": 1.0}, {"level_var": invalid.without(invalid.VARIANCE, "None"), "obs_var": invalid.NOISE, "prior": invalid.PRIOR}),
    *arguments_of(models.local_trend, {"level_var": 0.1, "slope_var": 0.1, "obs_var": 1.0}, {"slope_var": invalid.without(invalid.VARIANCE, "None"), "obs_var": invalid.NOISE, "prior": invalid.PRIOR}),
    ("structural", "parts", invalid.FEW | {"class": models.Part, "model": LEVEL}, lambda v: models.structural(v, obs_var=1.0)),
    ("structural", "times", invalid.without(invalid.SERIES, "None", "dates", "pandas dates") | {"back": [2.0, 1.0], "nan": [0.0, np.nan]}, lambda v: models.structural(models.level(0.1), obs_var=1.0, times=v)),
    ("structural", "start", invalid.without(invalid.NOT_A_NUMBER, "None") | {"late": 9.0}, lambda v: models.structural(models.level(0.1), obs_var=1.0, times=[0.0, 1.0], start=v)),
    ("level", "level_var", invalid.without(invalid.VARIANCE, "None"), models.level),
    ("seasonal", "period", invalid.NUMBER | {"one": 1}, models.seasonal),
    ("seasonal", "harmonics", invalid.without(invalid.COUNT, "None") | {"many": 9}, lambda v: models.seasonal(12, 0.1, harmonics=v)),
    ("cycle", "period", invalid.NUMBER | {"two": 2.0}, models.cycle),
    ("cycle", "damping", invalid.NUMBER | {"above": 1.5}, lambda v: models.cycle(5.0, 0.1, damping=v)),
    ("ar", "coefficients", COEFFICIENTS, lambda v: models.ar(v, 1.0)),
    ("ar", "shock_var", invalid.VARIANCE, lambda v: models.ar([0.5], v)),
    ("arma", "coefficients", COEFFICIENTS, lambda v: models.arma([0.5], v, 1.0)),
    ("regression", "design", invalid.without(ANY_SHAPE, "0-d") | {"0-d": 1.0, "nan": [np.nan]}, models.regression),
    ("regression", "var", invalid.FEW | {"negative": -1.0, "size": [1.0, 2.0, 3.0], "nan": np.nan}, lambda v: models.regression(np.ones((5, 2)), v)),
    *arguments_of(models.constant_velocity, {"dims": 2, "dt": 1.0, "dynamics_var": 0.1, "obs_var": 1.0}, {"dims": invalid.COUNT, "dt": invalid.NUMBER, "dynamics_var": invalid.without(invalid.VARIANCE, "None"), "obs_var": invalid.NOISE, "prior": invalid.PRIOR}),
    *arguments_of(models.constant_acceleration, {"dims": 2, "dt": 1.0, "jerk_rate": 0.1, "obs_var": 1.0}, {"dims": invalid.COUNT, "dt": invalid.NUMBER, "jerk_rate": invalid.VARIANCE, "prior": invalid.PRIOR}),
    *arguments_of(models.singer, {"dims": 2, "dt": 1.0, "maneuver_time": 1.0, "accel_var": 0.1, "obs_var": 1.0}, {"maneuver_time": invalid.NUMBER, "accel_var": invalid.VARIANCE}),
    *arguments_of(models.range_bearing, {"dt": 1.0, "dynamics_var": 0.1, "range_var": 1.0, "bearing_var": 1.0, "prior": FOUR}, {"dt": invalid.NUMBER, "range_var": invalid.NOISE, "bearing_var": invalid.NOISE, "prior": invalid.NONE | invalid.PRIOR, "sensor": invalid.FEW | {"three": (0.0, 0.0, 0.0), "nan": (np.nan, 0.0)}}),
    *arguments_of(models.coordinated_turn, {"dt": 1.0, "speed_var": 0.1, "turn_var": 0.1, "obs_var": 1.0, "prior": wolf.Gaussian(np.zeros(5), np.eye(5))}, {"dt": invalid.NUMBER, "turn_var": invalid.VARIANCE, "prior": invalid.NONE | invalid.PRIOR}),
    *arguments_of(models.gps_odometry, {"dt": 1.0, "position_var": 0.1, "heading_var": 0.1, "gps_var": 1.0, "prior": wolf.Gaussian(np.zeros(3), np.eye(3))}, {"dt": invalid.NUMBER, "gps_var": invalid.NOISE, "prior": invalid.NONE | invalid.PRIOR}),
    *arguments_of(models.lorenz63, {}, {"dt": invalid.NUMBER, "steps": invalid.COUNT, "obs_var": invalid.NOISE, "sigma": invalid.FEW, "rho": invalid.FEW, "beta": invalid.FEW, "prior": invalid.PRIOR}),
    *arguments_of(models.lorenz96, {}, {"dim": invalid.COUNT | {"three": 3}, "dt": invalid.NUMBER, "forcing": invalid.FEW, "noise": invalid.CHOICE, "noise_std": invalid.VARIANCE, "prior": invalid.PRIOR}),
    *arguments_of(models.kuramoto_sivashinsky, {}, {"dim": invalid.COUNT | {"uneven": 9}, "length": invalid.NUMBER, "dt": invalid.NUMBER, "steps": invalid.COUNT}),
    *arguments_of(models.linear_advection, {"dim": 10, "waves": 2}, {"dim": invalid.COUNT, "shift": invalid.without(invalid.WHOLE, "negative"), "damping": invalid.FEW, "num_observed": invalid.COUNT | {"many": 11}, "waves": invalid.COUNT, "prior": invalid.PRIOR}),
    *arguments_of(models.wiener_level, {"times": YS.cumsum(), "var_rate": 0.1, "obs_var": 1.0, "prior": ONE}, {"times": invalid.without(invalid.SERIES, "dates", "pandas dates"), "var_rate": invalid.VARIANCE, "obs_var": invalid.NOISE, "prior": invalid.NONE | invalid.PRIOR, "start": invalid.without(invalid.NOT_A_NUMBER, "None")}),
    *arguments_of(models.wiener_velocity, {"times": YS.cumsum(), "dims": 2, "accel_rate": 0.1, "obs_var": 1.0, "prior": FOUR}, {"dims": invalid.COUNT, "accel_rate": invalid.VARIANCE, "prior": invalid.NONE | invalid.PRIOR}),
    *arguments_of(models.ornstein_uhlenbeck, {"times": YS.cumsum(), "rate": 1.0, "stationary_var": 0.1, "obs_var": 1.0}, {"rate": invalid.NUMBER, "stationary_var": invalid.VARIANCE, "prior": invalid.PRIOR}),
    *arguments_of(models.discretise, {"drift": np.eye(1), "diffusion": np.eye(1), "dt": 1.0}, {"drift": invalid.MATRIX, "diffusion": invalid.COVARIANCE, "dt": invalid.FEW | {"negative": -1.0, "nan": np.nan, "inf": np.inf}}),
    ("time_steps", "times", invalid.without(invalid.SERIES, "dates", "pandas dates"), models.time_steps),
    ("merge_sensors", "readings", invalid.without(invalid.FEW, "texts") | {"three": (YS, YS, YS), "array": YS}, models.merge_sensors),
    ("merge_sensors", "values", ANY_SHAPE, lambda v: models.merge_sensors((YS.cumsum(), v))),
    ("merge_sensors", "times", invalid.without(invalid.SERIES, "dates", "pandas dates"), lambda v: models.merge_sensors((v, YS))),
    *arguments_of(models.diffuse_prior, {"size": 2, "variance": 1.0}, {"size": invalid.COUNT, "variance": invalid.NUMBER, "mean": invalid.FEW | {"size": np.zeros(3), "nan": np.nan}}),
    ("models.make", "name", invalid.without(invalid.CHOICE, "text", "digits"), lambda v: models.make(v, obs_var=1.0)),
    *arguments_of(models.make, {"name": "local-level", "level_var": 0.1, "obs_var": 1.0}, {"dims": invalid.COUNT, "prior": invalid.PRIOR, "obs_var": invalid.NOISE, "times": invalid.without(invalid.SERIES, "None", "dates", "pandas dates")}),
    *arguments_of(models.mlp, {"features": 2}, {"features": invalid.COUNT, "hidden": invalid.FEW | {"number": 3, "zero": (0,), "floats": (2.5,)}, "outputs": invalid.COUNT, "activation": invalid.without(invalid.CHOICE, "class"), "key": invalid.KEY | invalid.NONE, "obs_var": invalid.FEW | {"zero": 0.0, "size": [1.0, 1.0]}, "prior_var": invalid.FEW | {"negative": -1.0, "nan": np.nan}, "drift_var": invalid.FEW | {"negative": -1.0, "nan": np.nan}, "family": invalid.without(invalid.FEW, "None") | {"class": families.Poisson}, "params": invalid.without(invalid.SERIES, "None"), "learn": invalid.CHOICE}),
    *arguments_of(models.glm, {"features": 2, "family": families.Poisson()}, {"features": invalid.COUNT, "family": invalid.FEW | {"class": families.Poisson}, "mean": invalid.without(invalid.SERIES, "None"), "prior_var": invalid.FEW | {"negative": -1.0}}),
    *arguments_of(models.from_function, {"fn": np.sin, "params": np.ones(2)}, {"fn": invalid.NONE | invalid.FUNCTION, "params": invalid.without(invalid.FEW, "dict") | {"ints": [1, 2], "nan": [np.nan]}, "outputs": invalid.COUNT, "obs_var": invalid.FEW | {"zero": 0.0}}),
)
# fmt: on

# fmt: off
METHODS = invalid.make_cases(
    ("methods.make", "method", invalid.CHOICE, registry.make),
    ("methods.default", "model", invalid.MODEL, registry.default),
    *((build.__name__, name, values, partial(lambda build, name, v: build(**{name: v}), build, name)) for build in (wolf.KF, wolf.EKF, wolf.IEKF, wolf.WoLF, wolf.Learned, wolf.Adaptive) for name, values in {"linearization": invalid.FEW | {"class": wolf.linearization.Cubature}, "form": invalid.CHOICE, "iterations": invalid.COUNT}.items()),
    *arguments_of(wolf.GaussianFilter, {}, {"linearization": invalid.FEW, "noise": invalid.FEW | {"weight": wolf.IMQ(), "class": wolf.noise.StudentNoise}, "form": invalid.CHOICE, "iterations": invalid.COUNT}),
    ("WoLF", "weight", invalid.without(invalid.FEW, "None") | {"class": wolf.IMQ, "number": 4.0}, wolf.WoLF),
    *arguments_of(wolf.Learned, {}, {"patience": invalid.POSITIVE | invalid.NONE | {"one": 1}, "sensors": SENSORS, "strength": invalid.POSITIVE, "r_uncertainty": invalid.FEW | {"zero": 0.0}}),
    *arguments_of(wolf.Adaptive, {}, {"patience": invalid.POSITIVE | invalid.NONE | {"one": 1, "below two": 1.9}, "sensors": SENSORS, "q_uncertainty": UNCERTAINTY, "r_uncertainty": UNCERTAINTY}),
    *arguments_of(wolf.noise.AdaptiveNoiseScales, {}, {"q_uncertainty": UNCERTAINTY, "r_uncertainty": UNCERTAINTY, "forgetting": invalid.NONE | invalid.SHARE, "sizes": invalid.FEW | {"empty": (), "zero": (0.0, 1.0), "falling": (2.0, 1.0), "nan": (np.nan, 1.0)}}),
    *arguments_of(wolf.LowRank, {}, {"weight": invalid.without(invalid.FEW, "None"), "rank": invalid.WHOLE}),
    *arguments_of(wolf.EnsembleFilter, {}, {"num_members": invalid.COUNT | {"one": 1}, "analysis": invalid.FEW, "inflation": invalid.FEW, "localisation": invalid.without(invalid.FEW, "None"), "weight": invalid.FEW, "scope": invalid.CHOICE, "patience": invalid.WHOLE}),
    *((cls.__name__, "c", invalid.POSITIVE, cls) for cls in (wolf.IMQ, wolf.MahalanobisIMQ, wolf.MahalanobisThreshold, wolf.Welsch, wolf.Tukey, wolf.Huber)),
    *((cls.__name__, "metric", invalid.CHOICE, partial(lambda cls, v: cls(metric=v), cls)) for cls in (wolf.MahalanobisIMQ, wolf.MahalanobisThreshold, wolf.Welsch, wolf.Tukey, wolf.Huber, wolf.StudentWeight)),
    ("calibrated", "dim", invalid.COUNT, lambda v: wolf.Welsch.calibrated(v)),
    ("calibrated", "efficiency", invalid.LEVEL, lambda v: wolf.Welsch.calibrated(2, v)),
    ("StudentWeight", "dof", invalid.NONE | invalid.POSITIVE, wolf.StudentWeight),
    ("PerCoordinate", "weight", invalid.FEW | {"class": wolf.IMQ}, wolf.PerCoordinate),
    ("PerGroup", "weight", invalid.FEW, lambda v: wolf.PerGroup(v, (0, 1))),
    ("PerGroup", "groups", invalid.FEW | {"empty": (), "floats": (0.0, 1.0), "bools": (True, False), "0-d": np.array(1)}, lambda v: wolf.PerGroup(wolf.IMQ(), v)),
    ("Normal", "obs_cov", invalid.without(invalid.COVARIANCE, "number"), families.Normal),
    ("Categorical", "classes", invalid.COUNT | {"one": 1}, families.Categorical),
    ("Gamma", "shape", invalid.NONE | invalid.POSITIVE, families.Gamma),
    ("Beta", "precision", invalid.NONE | invalid.POSITIVE, families.Beta),
    *((family, "y", invalid.without(ANY_SHAPE, "0-d", "empty", "no rows", "no columns"), value.statistic) for family, value in {"Poisson": families.Poisson(), "Categorical": families.Categorical(3), "Bernoulli": families.Bernoulli(), "Beta": families.Beta(2.0), "Gamma": families.Gamma(2.0)}.items()),
    ("Unscented", "alpha", invalid.NUMBER, lambda v: wolf.linearization.Unscented(alpha=v)),
    ("GaussHermite", "order", invalid.COUNT, wolf.linearization.GaussHermite),
)
# fmt: on

# fmt: off
SIMULATED = invalid.make_cases(
    *arguments_of(simulate.trajectory, {"model": LEVEL, "steps": 5, "key": 0}, {"model": invalid.MODEL, "steps": invalid.COUNT, "key": invalid.NONE | invalid.KEY, "outliers": invalid.without(invalid.FEW, "None") | {"class": simulate.StudentT, "number": 0.1}, "initial": invalid.without(invalid.SERIES, "None") | {"nan": [np.nan]}}),
    *((cls.__name__, "prob", invalid.NONE | invalid.SHARE, partial(lambda cls, rest, v: cls(v, *rest), cls, rest)) for cls, rest in {simulate.Mixture: (), simulate.Additive: (0.0, 1.0), simulate.Spikes: (1.0,), simulate.ReplacedMeasurements: (1.0,), simulate.Stuck: (3,), simulate.Burst: (3,), simulate.Missing: ()}.items()),
    ("StudentT", "dof", invalid.NONE | invalid.POSITIVE, simulate.StudentT),
    ("Mixture", "factor", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Mixture(0.1, v)),
    ("Additive", "low", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Additive(0.1, v, 1.0)),
    ("Additive", "high", invalid.without(invalid.NOT_A_NUMBER, "list") | {"below": -1.0}, lambda v: simulate.Additive(0.1, 0.0, v)),
    ("Spikes", "size", invalid.NONE | invalid.POSITIVE, lambda v: simulate.Spikes(0.1, v)),
    ("ReplacedMeasurements", "value", invalid.without(invalid.NOT_A_NUMBER, "nan", "list"), lambda v: simulate.ReplacedMeasurements(0.1, v)),
    ("EachSensor", "process", invalid.FEW | {"class": simulate.StudentT}, simulate.EachSensor),
    ("EachSensor", "sensors", invalid.without(invalid.FEW, "None") | {"floats": (0.0, 1.0), "number": 3}, lambda v: simulate.EachSensor(simulate.Missing(0.1), v)),
    ("Stuck", "length", invalid.COUNT, lambda v: simulate.Stuck(0.1, v)),
    ("Burst", "length", invalid.COUNT, lambda v: simulate.Burst(0.1, v)),
    ("Burst", "size", invalid.NONE | invalid.POSITIVE, lambda v: simulate.Burst(0.1, 3, v)),
    ("Drift", "start", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Drift(v, 1.0)),
    ("Drift", "rate", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Drift(1, v)),
    ("Gap", "start", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Gap(v, 1)),
    ("Gap", "length", invalid.without(invalid.NOT_A_NUMBER, "list"), lambda v: simulate.Gap(1, v)),
    ("Sequence", "processes", invalid.FEW | {"empty": (), "one": simulate.Missing(0.1), "class": (simulate.StudentT,)}, simulate.Sequence),
    ("with_true_noise", "model", invalid.MODEL, lambda v: simulate.with_true_noise(v, SIMULATION)),
    ("with_true_noise", "data", invalid.RESULT, lambda v: simulate.with_true_noise(LEVEL, v)),
    *arguments_of(twin_experiment.run, {"model": RING, "method": "ETKF", "steps": 5, "key": 0}, {"model": invalid.MODEL, "method": invalid.METHOD, "steps": invalid.COUNT, "key": invalid.NONE | invalid.KEY, "outliers": invalid.without(invalid.FEW, "None"), "data": invalid.without(invalid.FEW, "None"), "initial": invalid.without(invalid.SERIES, "None"), "burn_in": invalid.without(invalid.WHOLE, "None") | {"all": 5}, "progress": invalid.without(invalid.FEW, "None")}),
    ("datasets.load", "name", invalid.CHOICE, wolf.datasets.load),
    ("datasets.path", "name", invalid.CHOICE, wolf.datasets.path),
)
# fmt: on

# fmt: off
SCORES = invalid.make_cases(
    *((score, "means", invalid.without(ARRAYS, "no columns"), partial(lambda score, v: getattr(metrics, score)(v, MEANS), score)) for score in ("rmse", "rmedse", "j_score")),
    *((score, "truth", invalid.without(ARRAYS, "no columns"), partial(lambda score, v: getattr(metrics, score)(MEANS, v), score)) for score in ("rmse", "rmedse", "j_score")),
    *((score, "means", ARRAYS, partial(lambda score, v: getattr(metrics, score)(v, COVS, MEANS), score)) for score in ("coverage", "crps", "log_score", "nees", "nees_band")),
    *((score, "covs", ARRAYS | {"means": MEANS}, partial(lambda score, v: getattr(metrics, score)(MEANS, v, MEANS), score)) for score in ("coverage", "crps", "log_score", "nees", "nees_band")),
    *((score, "covs", {"negative": -COVS, "nan": np.nan * COVS}, partial(lambda score, v: getattr(metrics, score)(MEANS, v, MEANS), score)) for score in ("log_score", "nees", "nees_band")),
    ("coverage", "level", invalid.LEVEL, lambda v: metrics.coverage(MEANS, COVS, MEANS, v)),
    ("nees_band", "level", invalid.LEVEL, lambda v: metrics.nees_band(MEANS, COVS, MEANS, v)),
    ("nis_band", "out", invalid.RESULT, metrics.nis_band),
    ("nis_band", "level", invalid.LEVEL, lambda v: metrics.nis_band(OUT, v)),
    ("whiteness", "out", invalid.RESULT, metrics.whiteness),
    ("whiteness", "lags", invalid.COUNT | {"many": 5}, lambda v: metrics.whiteness(OUT, v)),
    ("ensemble_crps", "members", invalid.without(ARRAYS, "no columns"), lambda v: metrics.ensemble_crps(v, np.zeros(1))),
    ("ensemble_crps", "truth", invalid.without(ARRAYS, "no columns", "one row"), lambda v: metrics.ensemble_crps(np.zeros((4, 1)), v)),
    ("rank_histogram", "members", invalid.without(ARRAYS, "no columns"), lambda v: metrics.rank_histogram(v, np.zeros(1))),
    *arguments_of(influence.pif, {"model": LEVEL, "method": "KF", "ys": YS, "contaminations": MEANS}, {"model": invalid.MODEL, "method": invalid.METHOD, "ys": invalid.SERIES, "contaminations": invalid.without(invalid.SERIES, "no rows", "four axes"), "dtype": invalid.CHOICE}),
    ("wasserstein2", "first", invalid.SERIES | {"nan": [[np.nan]]}, lambda v: influence.wasserstein2(v, [[1.0]])),
    ("wasserstein2", "second", invalid.SERIES | {"nan": [[np.nan]]}, lambda v: influence.wasserstein2([[1.0]], v)),
    *arguments_of(influence.weight_map, {"weight": wolf.IMQ(c=1.0), "obs_cov": np.eye(1), "innovation_cov": np.eye(1), "residuals": MEANS}, {"weight": invalid.FEW | {"class": wolf.IMQ}, "obs_cov": invalid.COVARIANCE, "innovation_cov": invalid.COVARIANCE, "residuals": invalid.without(ANY_SHAPE, "no columns")}),
)
# fmt: on


@pytest.mark.parametrize(("argument", "values", "call"), MODELS + METHODS + SIMULATED + SCORES)
def test_invalid_values_are_refused_by_the_name_of_their_argument(argument, values, call):
    invalid.check_refused(argument, values, call)
