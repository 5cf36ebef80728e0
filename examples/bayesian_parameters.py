"""Posterior of the variances of a model by NUTS, with NumPyro, of a series with outliers.

python examples/bayesian_parameters.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import wolf

TRUTH = {"level_var": 0.1, "obs_var": 1.0}
SPIKES = 0.05  # share of readings that are off by N(0, 20²)


def simulate(steps: int, seed: int) -> np.ndarray:
    """Draw a random walk with noise, and spikes on some readings."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(0.0, np.sqrt(TRUTH["level_var"]), steps))
    ys = level + rng.normal(0.0, np.sqrt(TRUTH["obs_var"]), steps)
    return ys + np.where(rng.random(steps) < SPIKES, rng.normal(0.0, 20.0, steps), 0.0)


def likelihood(ys: jax.Array, method: str) -> None:
    """State the prior and the density of the series: Gaussian for a Kalman filter, Student-t for a robust one."""
    level_var = numpyro.sample("level_var", dist.LogNormal(-1.0, 1.5))
    obs_var = numpyro.sample("obs_var", dist.LogNormal(-1.0, 1.5))
    model = wolf.models.local_level(level_var=level_var, obs_var=obs_var)
    saved = wolf.run_filter(model, ys, method)[1]
    residual, scale = saved["residuals"][:, 0], jnp.sqrt(saved["innovation_covs"][:, 0, 0])
    density = dist.Normal(0.0, scale) if method == "KF" else dist.StudentT(4.0, 0.0, scale)
    numpyro.factor("ys", density.log_prob(residual).sum())


def sample(ys: np.ndarray, method: str, warmup: int = 200, samples: int = 400) -> dict[str, np.ndarray]:
    """Sample the variances given a series."""
    sampler = MCMC(NUTS(likelihood), num_warmup=warmup, num_samples=samples, progress_bar=False)
    sampler.run(jax.random.key(0), jnp.asarray(ys), method)
    return {name: np.asarray(values) for name, values in sampler.get_samples().items()}


def main() -> None:
    """Print the posterior of both methods beside the truth."""
    numpyro.enable_x64()
    ys = simulate(400, seed=0)
    for method in ("KF", "WoLF"):
        found = sample(ys, method)
        for name, truth in TRUTH.items():
            low, middle, high = np.quantile(found[name], [0.05, 0.5, 0.95])
            print(f"{method:5} {name:10} {middle:7.3f}  90 % in {low:.3f} to {high:.3f}, truth {truth}")


if __name__ == "__main__":
    main()
