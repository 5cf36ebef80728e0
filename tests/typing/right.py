"""Correct uses of all public names, with the types of their results. mypy and pyright must report no error.

This file is not run, but checked by `tests/project/test_typing.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np

import wolf
from wolf.diagnostics.attack import Attack
from wolf.diagnostics.faults import Explanation
from wolf.diagnostics.influence import pif
from wolf.diagnostics.metrics import Band
from wolf.inference.noise import NoiseEstimate
from wolf.interfaces import Filter
from wolf.models import Part
from wolf.online import LaggedEstimate, StepReport
from wolf.simulate import Simulation
from wolf.simulate.twin_experiment import Twin

level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
track = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
ys = np.zeros(10)


def models() -> None:
    assert_type(level, wolf.LinearModel)
    assert_type(track, wolf.LinearModel)
    linear = wolf.LinearModel(F=None, H=[[1.0]], Q=np.eye(1), R=jnp.eye(1), mean=np.zeros(1), cov=np.eye(1))
    assert_type(linear.state_dim, int)
    bent = wolf.StateSpaceModel(None, jnp.sin, np.eye(1), np.eye(1), wolf.Gaussian(np.zeros(1), np.eye(1)))
    wolf.filter(bent, ys, method="UKF")
    part: Part = wolf.models.level(var=0.1)
    wolf.filter(wolf.models.structural(part, obs_var=1.0), ys)


def filtering() -> None:
    out = wolf.filter(level, ys)
    assert_type(out, wolf.Filtered)
    assert_type(out.means, np.ndarray)
    assert_type(out.covs, np.ndarray)
    assert_type(out.variances, np.ndarray)
    assert_type(out.predicted_means, np.ndarray)
    assert_type(out.predicted_covs, np.ndarray)
    assert_type(out.residuals, np.ndarray)
    assert_type(out.innovation_covs, np.ndarray)
    assert_type(out.weights, np.ndarray)
    assert_type(out.outliers, np.ndarray)
    assert_type(out.nis, np.ndarray)
    assert_type(out.log_liks, np.ndarray)
    assert_type(out.weighted_log_liks, np.ndarray)
    assert_type(out.outlier_probabilities, np.ndarray)
    assert_type(out.inflations, np.ndarray)
    assert_type(out.ys, np.ndarray)
    assert_type(out.log_likelihood, float | np.ndarray)
    assert_type(out.missing, int)
    assert_type(out[100:200], wolf.Filtered)
    assert_type(out.final.mean, Any)
    out.to_frame("polars")


def measurements_of_any_kind() -> None:
    wolf.filter(level, [1.0, 2.0, float("nan")])
    wolf.filter(level, [[1], [2]])
    wolf.filter(level, jnp.zeros(3))
    wolf.filter(level, np.ma.masked_invalid(ys))
    wolf.filter(level, np.asarray([1, 2], np.float32))
    wolf.filter_many(level, [ys, ys[:3]])
    wolf.filter_many([level, level], np.zeros((2, 10)))
    wolf.filter_many((level, level), np.zeros((2, 10)), threads=1)
    for part in wolf.filter_chunks(level, np.split(ys, 2)):
        assert_type(part, wolf.Filtered)
    wolf.filter_chunks(level, [(ys, ys), (ys, ys)])


def options() -> None:
    def keep(state: Any, info: Any) -> dict[str, Any]:
        return {"mean": state.mean}

    wolf.filter(level, ys, key=0, dtype="float32", save="means", update_first=True, inputs=None)
    wolf.filter(level, ys, key=jax.random.key(0), save=keep)
    wolf.filter(level, ys, key=np.int64(3), save=lambda state, info: state.mean)


def methods() -> None:
    assert_type(wolf.KF(form="sqrt"), wolf.GaussianFilter)
    assert_type(wolf.EKF(linearization=wolf.linearization.Unscented()), wolf.GaussianFilter)
    assert_type(wolf.EKF(noise=wolf.noise.BetaBernoulli()), wolf.GaussianFilter)
    assert_type(wolf.IEKF(3), wolf.GaussianFilter)
    assert_type(wolf.Learned("factor 10", sensors=(0, 0, 1)), wolf.GaussianFilter)
    assert_type(wolf.Learned(0.7, sensors="each", form="joseph"), wolf.GaussianFilter)
    assert_type(wolf.methods.default(level), wolf.GaussianFilter)
    assert_type(wolf.methods.names(), list[str])
    made = wolf.methods.make("WoLF-TMD", c=9.5)
    assert_type(made, Filter)
    every: list[str | Filter | None] = [None, "KF", made, wolf.KF(), wolf.WoLF(), wolf.LowRank(rank=3)]
    every += [wolf.EnsembleFilter(num_members=10), wolf.filters.IMM(), wolf.filters.ParticleFilter()]
    every += [wolf.filters.RaoBlackwellFilter(), wolf.filters.GradientFilter(), wolf.filters.CovarianceReset(wolf.KF())]
    for method in every:
        wolf.filter(level, ys, method=method, key=0)
        wolf.Online(level, method, key=0)


def weights() -> None:
    def own(residual: jax.Array, obs_cov: jax.Array, innovation_cov: jax.Array) -> jax.Array:
        return jnp.exp(-jnp.abs(residual))

    assert_type(wolf.IMQ(c=4), wolf.IMQ)
    assert_type(wolf.MahalanobisIMQ.calibrated(dim=2), wolf.MahalanobisIMQ)
    wolf.IMQ(c=np.linspace(1.0, 5.0, 9))
    wolf.IMQ(c=np.float32(3.0))
    wolf.MahalanobisThreshold(c=jnp.asarray(9.0), metric="S")
    for weight in (
        wolf.Huber(),
        wolf.Tukey(5.0),
        wolf.Welsch(metric="R"),
        wolf.StudentWeight(dof=5),
        wolf.Unweighted(),
    ):
        assert_type(wolf.WoLF(weight), wolf.GaussianFilter)
        wolf.WoLF(wolf.PerCoordinate(weight), iterations=2, form="symmetric")
        wolf.WoLF(wolf.PerGroup(weight, (0, 0, 1)))
    wolf.WoLF(own)
    wolf.WoLF(lambda e, r, s: 1.0)
    wolf.influence.weight_map(wolf.IMQ(), np.eye(1), [[1.0]], np.zeros((5, 1)))


def looking_back_and_ahead() -> None:
    out = wolf.filter(level, ys)
    smoothed = wolf.smooth(out)
    assert_type(smoothed, wolf.Smoothed)
    assert_type(smoothed.means, np.ndarray)
    assert_type(smoothed.covs, np.ndarray)
    assert_type(smoothed.filtered, wolf.Filtered)
    assert_type(wolf.smooth(level, out, reweight=True), wolf.Smoothed)
    assert_type(wolf.smooth([level, level], wolf.filter_many([level, level], np.zeros((2, 10)))), wolf.Smoothed)
    ahead = wolf.forecast(out, steps=20)
    assert_type(ahead, wolf.Forecast)
    assert_type(ahead.upper, np.ndarray)
    assert_type(ahead.obs_means, np.ndarray)
    assert_type(wolf.forecast(out, 20, level=0.8), wolf.Forecast)
    assert_type(wolf.forecast(level, out, 20, inputs=None), wolf.Forecast)
    assert_type(wolf.forecast(level, out, steps=20), wolf.Forecast)
    assert_type(wolf.sample_paths(out, num=5, key=0), np.ndarray)
    assert_type(wolf.sample_paths(level, out, 5, 0), np.ndarray)


def online(path: Path) -> None:
    live = wolf.Online(track, "Learned", horizon=3)
    info = live.step([1.0, 2.0], R=np.eye(2), F=track.F)
    assert_type(info, StepReport)
    assert_type(info.weight, float | np.ndarray)
    assert_type(info.outlier, bool | np.ndarray | Any)
    assert_type(info.residual, np.ndarray)
    assert_type(info.innovation_cov, np.ndarray | Any)
    assert_type(info.nis, float | Any)
    assert_type(info.log_likelihood, float | Any)
    assert_type(info.weighted_log_likelihood, float | Any)
    assert_type(info.predicted, wolf.Gaussian)
    assert_type(info.outlier_probability, float | np.ndarray | None)
    assert_type(info.inflation, float | np.ndarray | None)
    if info.outlier and info.nis > 9.0:
        total: float = 0.0
        total += info.log_likelihood
    assert_type(live.late(None, t=0), StepReport)
    assert_type(live.mean, np.ndarray)
    assert_type(live.cov, np.ndarray)
    assert_type(live.t, int)
    assert_type(live.learned_noise, NoiseEstimate | Any)
    assert_type(wolf.Bank(level)["a"].learned_noise, NoiseEstimate | Any)
    live.save(path)
    assert_type(wolf.Online.load("filter.npz", track), wolf.Online)
    assert_type(wolf.FixedLag(level, lag=5, dtype="float32").step(1.0), LaggedEstimate)


def fitting(builder: Callable[..., wolf.LinearModel]) -> None:
    found = wolf.fit(builder, ys, start={"level_var": 0.1}, bounds={"level_var": "positive", "phi": (-1.0, 1.0)})
    assert_type(found, wolf.Fit)
    assert_type(found.parameters, dict[str, float])
    wolf.fit(wolf.models.local_level, [ys, ys], score="gaussian", method="UKF")
    wolf.filter(found.model, ys)
    tuned = wolf.tune(level, ys, "WoLF-TMD", low=1.0)
    assert_type(tuned, wolf.TuningResult)
    assert_type(tuned.value, float)


def judging() -> None:
    out = wolf.filter(level, ys)
    assert_type(wolf.certify(level, "WoLF", trials=8), wolf.Certificate)
    assert_type(wolf.attack(level, "KF", ys), Attack)
    assert_type(wolf.explain(out), Explanation)
    assert_type(pif(level, "KF", ys, [[0.0], [1.0]]), np.ndarray)
    assert_type(wolf.metrics.rmse(out.means, ys[:, None]), np.ndarray)
    assert_type(wolf.metrics.nis_band(out), Band)
    data = wolf.simulate.trajectory(level, 100, key=0, outliers=wolf.simulate.StudentT(2.01))
    assert_type(data, Simulation)
    assert_type(data.measurements, np.ndarray)
    assert_type(wolf.twin.run(level, "ETKF", steps=40, key=0), Twin)
    wolf.plots.series(out, ys).savefig("series.png")
    wolf.plot.series(out)
    wolf.OnlineRegressor().fit(np.zeros((9, 1)), ys[:9]).predict(np.zeros((2, 1)))


def the_pure_core() -> None:
    method = wolf.KF()
    state = wolf.init(level, method)
    state, _ = wolf.step(level, method, state, jnp.zeros(1))
    wolf.run_filter(level, jnp.zeros((5, 1)), method)
    wolf.run_many(level, jnp.zeros((2, 5, 1)), method)
