"""The corrupted regression sets of the paper's section 4.2: as it prints the protocol, and as it was run.

The two differ in which rows set the scale and in what an outlier is: uniform in [-50, 50] in the text, +50 or -50 in
the published code; `uci_sets.prepare` says how. As run, trials and initial weights are the published ones, number for
number. Hyper-parameters marked as saved are those that the authors'
repository keeps for the published runs (https://github.com/gerdm/weighted-likelihood-filter).
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from wolf.models import mlp
from wolf_paper import uci_sets as uci
from wolf_paper.learning import CORRECTED, ModelOf, Trials
from wolf_paper.published_weights import published_weights

PRINTED, AS_RUN = "printed", "as-run"
VARIANTS = {PRINTED: ("uniform", "paper"), AS_RUN: ("two-sided", "code")}  # outliers and protocol of `uci.prepare`
HIDDEN = 20
WEIGHTS_SEED = 314  # of the initial weights, the same in every trial
PAPER_TABLE = {  # features and parameters as the paper's table gives them
    "boston": (14, 321),
    "concrete": (9, 221),
    "energy": (9, 221),
    "kin8nm": (9, 221),
    "naval": (18, 401),
    "power": (5, 141),
    "protein": (10, 241),
    "wine": (12, 281),
    "yacht": (7, 181),
}
SAVED: dict[str, dict[str, dict[str, float]]] = {
    "kin8nm": {
        "EKF": {"log_lr": -2.8688},
        "EKF-B": {"alpha": 5.0, "beta": 3.9923, "log_lr": 0.0, "iterations": 10},
        "EKF-IW": {"log_lr": -2.1057, "iterations": 6, "scaling": 0.21255},
        "OGD": {"log_lr": -4.43715, "iterations": 1},
        "WoLF-IMQ": {"log_lr": 0.0, "c": 5.69258},
        "WoLF-TMD": {"log_lr": 0.0, "c": 8.05798},
    },
    "protein": {
        "EKF": {"log_lr": -3.710},
        "EKF-B": {"alpha": 4.937, "beta": 1.321, "log_lr": 0.0, "iterations": 5},
        "EKF-IW": {"log_lr": -3.832, "iterations": 1, "scaling": 4.045},
        "OGD": {"log_lr": -5.0, "iterations": 1},
        "WoLF-IMQ": {"log_lr": -0.001, "c": 5.254},
        "WoLF-TMD": {"log_lr": -0.0053, "c": 9.614},
    },
}


def load(name: str, data: Path | None, made_up_rows: int | None) -> uci.RegressionSet:
    """Load a set, or make one of its shape up where a number of rows is given."""
    return uci.made_up(name, made_up_rows) if made_up_rows is not None else _read(name, data)


@cache
def _read(name: str, data: Path | None) -> uci.RegressionSet:
    return uci.load(name, data)


def streams(data: uci.RegressionSet, variant: str, which: range, seed: int, outlier_prob: float) -> Trials:
    """Make trials: each shuffled, scaled and corrupted by its own seed, `seed + number`."""
    outliers, protocol = VARIANTS[variant]
    made = [uci.prepare(data, seed + i, outlier_prob=outlier_prob, outliers=outliers, protocol=protocol) for i in which]
    return Trials(*(np.stack([getattr(each, name) for each in made]) for name in ("features", "targets", "clean")))


def network(features: int, obs_var: float, as_run: bool = False) -> ModelOf:
    """Make the paper's network: one hidden layer of 20, a static state, R = 1 for targets scaled to [0, 1].

    Args:
        features: number of inputs.
        obs_var: R.
        as_run: whether it starts from the published weights, and not from those of `wolf.models.mlp`.
    """
    ours = mlp(features, (HIDDEN,), key=WEIGHTS_SEED).mean
    start = published_weights((features, HIDDEN, 1), WEIGHTS_SEED) if as_run else np.asarray(ours)

    def model_of(prior_var: float, trial: int) -> Any:
        return mlp(features, (HIDDEN,), params=start, obs_var=obs_var, prior_var=prior_var)

    return model_of


def as_saved(name: str) -> list[dict[str, Any]]:
    """Give the saved hyper-parameters of a set as rows of a tuning part; both versions of EKF-IW take the same."""
    saved = SAVED[name] | {CORRECTED: SAVED[name]["EKF-IW"]}
    return [{"method": method, "saved": True} | values for method, values in saved.items()]
