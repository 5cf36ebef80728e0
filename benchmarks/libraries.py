"""Kalman filters of other libraries, each used as its users use it, for one linear model.

Several of them begin with a measurement, not with a prediction: they are given the prior after one prediction, so that
all compute the same.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

import wolf

PACKAGES = {
    "OpenCV": ("cv2", "opencv-python-headless"),
    "filterpy": ("filterpy", "filterpy"),
    "simdkalman": ("simdkalman", "simdkalman"),
    "statsmodels": ("statsmodels", "statsmodels"),
    "dynamax": ("dynamax", "dynamax"),
    "pykalman": ("pykalman", "pykalman"),
}


def installed() -> dict[str, str]:
    """Give the versions of the libraries that are there."""
    from importlib.util import find_spec

    return {name: version(package) for name, (module, package) in PACKAGES.items() if find_spec(module)}


def predicted(model: wolf.LinearModel) -> tuple[np.ndarray, np.ndarray]:
    """Give the prior of the first measurement: mean and covariance after one prediction."""
    return model.F @ model.mean, model.F @ model.cov @ model.F.T + model.Q


class OpenCV:
    """`cv2.KalmanFilter`: predict and correct, one measurement at a time."""

    def __init__(self, model: wolf.LinearModel):
        import cv2

        self.kf = cv2.KalmanFilter(model.state_dim, model.obs_dim, 0, cv2.CV_64F)
        self.kf.transitionMatrix, self.kf.measurementMatrix = np.array(model.F), np.array(model.H)
        self.kf.processNoiseCov, self.kf.measurementNoiseCov = np.array(model.Q), np.array(model.R)
        self.kf.statePost, self.kf.errorCovPost = np.array(model.mean)[:, None], np.array(model.cov)

    def step(self, y: np.ndarray, R: np.ndarray | None = None) -> np.ndarray:
        """Take in one measurement."""
        if R is not None:
            self.kf.measurementNoiseCov = R
        self.kf.predict()
        return self.kf.correct(y[:, None])[:, 0]

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series; OpenCV has no function for that, and gives its own memory out."""
        return np.array([self.step(y).copy() for y in ys])


class FilterPy:
    """`filterpy.kalman.KalmanFilter`."""

    def __init__(self, model: wolf.LinearModel):
        from filterpy.kalman import KalmanFilter

        self.kf = KalmanFilter(model.state_dim, model.obs_dim)
        self.kf.x, self.kf.P = np.array(model.mean), np.array(model.cov)
        self.kf.F, self.kf.H, self.kf.Q, self.kf.R = (np.array(each) for each in (model.F, model.H, model.Q, model.R))

    def step(self, y: np.ndarray, R: np.ndarray | None = None) -> np.ndarray:
        """Take in one measurement."""
        self.kf.predict()
        self.kf.update(y, R=R)
        return self.kf.x

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series."""
        return self.kf.batch_filter(ys)[0]

    def smooth(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series and smooth it."""
        means, covs, _, _ = self.kf.batch_filter(ys)
        return self.kf.rts_smoother(means, covs)[0]


class SimdKalman:
    """`simdkalman.KalmanFilter`: many series at once, in NumPy."""

    def __init__(self, model: wolf.LinearModel):
        import simdkalman

        noise = {"process_noise": np.array(model.Q), "observation_noise": np.array(model.R)}
        matrices = {"state_transition": np.array(model.F), "observation_model": np.array(model.H)}
        self.kf = simdkalman.KalmanFilter(**matrices, **noise)
        self.model, self.state = model, (np.array(model.mean)[:, None], np.array(model.cov))

    def step(self, y: np.ndarray, R: np.ndarray | None = None) -> np.ndarray:
        """Take in one measurement, or one for each of many series, (N, M)."""
        if R is not None:
            self.kf.observation_noise = R
        mean, cov = self.kf.predict_next(*self.state)
        self.state = self.kf.update(mean, cov, y[..., None])[:2]
        return self.state[0][..., 0]

    def start_many(self, count: int) -> None:
        """Start so many series at the prior."""
        self.state = tuple(np.repeat(each[None], count, axis=0) for each in self.state)

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series, (T, M), or many, (N, T, M)."""
        mean, cov = predicted(self.model)
        data = ys if ys.ndim == 3 else ys[None]
        options: Any = {"initial_value": mean, "initial_covariance": cov, "filtered": True, "smoothed": False}
        means = self.kf.compute(data, 0, **options, observations=False).filtered.states.mean
        return means if ys.ndim == 3 else means[0]

    def smooth(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series and smooth it."""
        mean, cov = predicted(self.model)
        options: Any = {"initial_value": mean, "initial_covariance": cov, "observations": False}
        return self.kf.smooth(ys[None], **options).states.mean[0]


class StatsModels:
    """The state space core of statsmodels, which is compiled."""

    def __init__(self, model: wolf.LinearModel):
        from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

        self.kf = KalmanSmoother(model.obs_dim, model.state_dim)
        parts = {"design": model.H, "transition": model.F, "state_cov": model.Q, "obs_cov": model.R}
        for name, part in (parts | {"selection": np.eye(model.state_dim)}).items():
            self.kf[name] = np.array(part)
        self.kf.initialize_known(*predicted(model))

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series."""
        self.kf.bind(np.ascontiguousarray(ys.T).copy(order="F"))
        return self.kf.filter().filtered_state.T

    def smooth(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series and smooth it."""
        self.kf.bind(np.ascontiguousarray(ys.T).copy(order="F"))
        return self.kf.smooth().smoothed_state.T


class Dynamax:
    """dynamax's linear Gaussian model, compiled by `jax.jit`, in double precision."""

    def __init__(self, model: wolf.LinearModel):
        import jax
        from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_filter, lgssm_smoother

        mean, cov = predicted(model)
        parts = {"dynamics_weights": model.F, "dynamics_covariance": model.Q, "emission_weights": model.H}
        parts |= {"emission_covariance": model.R, "initial_mean": mean, "initial_covariance": cov}
        ssm = LinearGaussianSSM(model.state_dim, model.obs_dim)
        arrays = {name: jax.numpy.asarray(part) for name, part in parts.items()}
        self.params, _ = ssm.initialize(jax.random.PRNGKey(0), **arrays)
        self.one, self.back, self.wait = jax.jit(lgssm_filter), jax.jit(lgssm_smoother), jax.block_until_ready
        self.many = jax.jit(jax.vmap(lambda params, ys: lgssm_filter(params, ys)[1:3], in_axes=(None, 0)))

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series, (T, M), or many, (N, T, M)."""
        if ys.ndim == 3:
            return np.asarray(self.wait(self.many(self.params, ys))[0])
        return np.asarray(self.wait(self.one(self.params, ys)).filtered_means)

    def smooth(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series and smooth it."""
        return np.asarray(self.wait(self.back(self.params, ys)).smoothed_means)


class PyKalman:
    """`pykalman.KalmanFilter`."""

    def __init__(self, model: wolf.LinearModel):
        from pykalman import KalmanFilter

        mean, cov = predicted(model)
        matrices = {"transition_matrices": model.F, "observation_matrices": model.H}
        noise = {"transition_covariance": model.Q, "observation_covariance": model.R}
        prior = {"initial_state_mean": mean, "initial_state_covariance": cov}
        self.kf = KalmanFilter(**{name: np.array(part) for name, part in (matrices | noise | prior).items()})
        self.state = np.array(model.mean), np.array(model.cov)

    def step(self, y: np.ndarray, R: np.ndarray | None = None) -> np.ndarray:
        """Take in one measurement."""
        self.state = self.kf.filter_update(*self.state, y, observation_covariance=R)
        return self.state[0]

    def filter(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series."""
        return np.asarray(self.kf.filter(ys)[0])

    def smooth(self, ys: np.ndarray) -> np.ndarray:
        """Take in a series and smooth it."""
        return np.asarray(self.kf.smooth(ys)[0])


LIBRARIES: dict[str, Callable[[wolf.LinearModel], Any]] = {
    "OpenCV": OpenCV,
    "filterpy": FilterPy,
    "simdkalman": SimdKalman,
    "statsmodels": StatsModels,
    "dynamax": Dynamax,
    "pykalman": PyKalman,
}
