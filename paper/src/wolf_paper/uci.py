"""Corrupted regression sets learned by a network online: figure "RMedSE versus time per step", and the table of sets.

Expected: the WoLF filters are as accurate as EKF-B and EKF-IW at the price of an EKF, and both EKF and OGD are several
times less accurate. At the paper's scale an estimated 15 minutes on one core as printed (`uci`), and as many as it was
run (`uci-as-run`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wolf_paper import learning
from wolf_paper import uci_sets as uci
from wolf_paper.learning import CALIBRATED, CLEAN, LEARNED, METHODS, ROBUST
from wolf_paper.protocol import Experiment, Rows, Task
from wolf_paper.uci_data import AS_RUN, HIDDEN, PAPER_TABLE, PRINTED, SAVED, as_saved, load, network, streams
from wolf_paper.uci_figures import draw_errors, draw_relative, draw_sets, mean_by_method
from wolf_paper.verdict import matches

RIVALS = ("EKF", "EKF-B", "EKF-IW", "OGD")


@dataclass(frozen=True)
class Settings:
    """What is run.

    Attributes:
        sets: names of the regression sets.
        trials: of each set.
        fewer: sets with fewer trials, and how many.
        variants: "printed" and "as-run".
        outlier_prob: share of the targets that are replaced.
        obs_var: R, of all methods.
        initial: random points of the search for hyper-parameters.
        iterations: points of its surrogate.
        rounds: of the timing, of which the best counts.
        made_up_rows: rows of sets that are made up; None takes the real ones.
    """

    sets: tuple[str, ...] = tuple(uci.SETS)
    trials: int = 100
    fewer: tuple[tuple[str, int], ...] = (("power", 30), ("naval", 20), ("protein", 10))
    variants: tuple[str, ...] = (PRINTED,)
    outlier_prob: float = 0.1
    obs_var: float = 1.0
    initial: int = 5
    iterations: int = 25
    rounds: int = 5
    made_up_rows: int | None = None


SMALL = Settings(("yacht",), trials=2, initial=1, iterations=1, rounds=1, made_up_rows=220)


def parts(config: Settings) -> list[str]:
    """List the parts: the table, then for each variant and set what is tuned, run and timed."""
    return [
        "sets",
        *(
            f"{variant}-{name}-{kind}"
            for variant in config.variants
            for name in config.sets
            for kind in ("tuning", "trials", "times")
        ),
    ]


def run(task: Task) -> Rows:
    """Run one part."""
    config: Settings = task.config
    if task.part == "sets":
        return [_describe(name) for name in config.sets]
    front, kind = task.part.rsplit("-", 1)
    variant, name = front.rsplit("-", 1)
    as_run = variant == AS_RUN
    data = load(name, task.data, config.made_up_rows)
    model_of = network(data.features.shape[1], config.obs_var)

    def make(which: range) -> learning.Trials:
        return streams(data, variant, which, task.seed, config.outlier_prob)

    label = {"variant": variant, "set": name}
    if kind == "tuning":
        if as_run and name in SAVED and config.made_up_rows is None:
            return [label | row for row in as_saved(name)]
        search: dict[str, Any] = {
            "initial": config.initial,
            "iterations": config.iterations,
            "seed": task.seed,
            "tell": task.tell,
        }
        return [label | row for row in learning.tune(METHODS, model_of, make(range(1)), **search, as_run=as_run)]
    chosen = learning.values_of(task.earlier[f"{front}-tuning"])
    if kind == "times":
        timed = learning.time_trials(chosen, model_of, make, 1, config.rounds, task.tell, as_run)
        return [label | {name: row[name] for name in ("method", "seconds_per_step")} for row in timed]
    count = min(config.trials, dict(config.fewer).get(name, config.trials))
    found = learning.run_trials(chosen, model_of, make, count, task.tell, as_run)
    return [label | row for row in found]


def measure(rows: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Average the errors over trials, without the one that was tuned on; compare methods over sets."""
    found: dict[str, float] = {f"{row['set']}: parameters": row["parameters"] for row in rows.get("sets", [])}
    for variant in config.variants:
        means = {name: mean_by_method(rows.get(f"{variant}-{name}-trials", []), "rmedse") for name in config.sets}
        means = {name: each for name, each in means.items() if each}
        for name, each in means.items():
            found |= {f"{name}: {method}": value for method, value in each.items()}
        if means:
            found |= _compare(means)
            found["sets on which a WoLF filter is faster than OGD"] = _count_faster(rows, variant, config.sets)
    return found


def _compare(means: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Find how well the worst set bears out what the paper says about accuracy."""
    worse = {name: max(each["WoLF-IMQ"], each["WoLF-TMD"]) for name, each in means.items()}
    better = {name: min(each["WoLF-IMQ"], each["WoLF-TMD"]) for name, each in means.items()}
    margin = min(min(each["EKF"], each["OGD"]) / worse[name] for name, each in means.items())
    alike = [matches(better[name], (each[rival] for rival in RIVALS)) >= 0.0 for name, each in means.items()]
    return {
        "WoLF is more accurate than EKF and OGD on every set": margin - 1.0,
        f"sets on which the better WoLF matches or outperforms every rival, of {len(means)}": sum(alike),
        "better WoLF over EKF-B, worst set": max(better[name] / each["EKF-B"] for name, each in means.items()),
        "better WoLF over EKF-IW, worst set": max(better[name] / each["EKF-IW"] for name, each in means.items()),
        **{
            f"{untuned} over better WoLF, worst set": max(each[untuned] / better[name] for name, each in means.items())
            for untuned in (CALIBRATED, LEARNED)
        },
        "best robust method over clean targets, worst set": max(
            min(each[method] for method in ROBUST) / each[CLEAN] for each in means.values()
        ),
    }


def _count_faster(rows: Mapping[str, Rows], variant: str, sets: tuple[str, ...]) -> int:
    """Count the sets where a WoLF filter takes less time than OGD."""
    count = 0
    for name in sets:
        times = {row["method"]: row["seconds_per_step"] for row in rows.get(f"{variant}-{name}-times", [])}
        count += bool(times) and min(times["WoLF-IMQ"], times["WoLF-TMD"]) < times["OGD"]
    return count


def draw(rows: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the paper's figure, the errors by set, and the table of sets."""
    figures = {"relative": draw_relative(rows, config.variants, config.sets)}
    for variant in config.variants:
        figures[f"errors-{variant}"] = draw_errors(rows, variant, config.sets)
    return figures | {"sets": draw_sets(rows["sets"])}


def _describe(name: str) -> dict[str, Any]:
    source = uci.SETS[name]
    features, (paper_features, paper_parameters) = source.columns - 1, PAPER_TABLE[name]
    return {
        "set": name,
        "rows": source.rows,
        "features": features,
        "parameters": (features + 1) * HIDDEN + HIDDEN + 1,
        "paper_features": paper_features,
        "paper_parameters": paper_parameters,
    }


REMARKS = (
    "As printed: the rows are shuffled, the first tenth sets the scale and is not learned from, and a tenth of the "
    "targets is replaced by draws from U[-50, 50]. As run: the first tenth of the file is dropped, the first rows "
    "of the shuffled rest set the scale and are learned from too, and outliers are +50 or -50.",
    "The paper's table counts the target as a feature, so its numbers of parameters are 20 too large.",
    "Times relative to OGD depend on how each filter is written. Here an inner iteration of EKF-B and EKF-IW works "
    "on the one measured number and costs next to nothing, the EKF never multiplies by F = I, and a step of Adam "
    "is a few microseconds: so no filter is faster than one step of OGD, and EKF-B and EKF-IW are not ten times "
    "slower than the EKF.",
    "Every EKF-type method also tunes the prior variance of the weights, which the paper's count of "
    "hyper-parameters leaves out. Our default and learned noise tune nothing: their prior variance is 1.",
    "The network starts from the same weights in all trials, one draw. The published draw is that of another random "
    "stream, and matters: with twelve draws of `key` and the thresholds found here, as run, the errors of WoLF were "
    "0.041 to 0.055 on Energy (5 trials each), 0.093 to 0.133 on Yacht (10) and 0.127 to 0.178 on Naval (2), where the "
    "published ones are 0.043 to 0.048, 0.12 and 0.103 to 0.107. What else differs on Naval is not known.",
    "The errors are means over all trials but the first, on which the hyper-parameters were chosen. Power has 30 "
    "trials, Naval 20 and Protein 10; all others 100.",
)
EXPERIMENTS = tuple(
    Experiment(
        name=name,
        title=title,
        shows='Figure "RMedSE versus time per step (relative to the OGD minus 1) across the corrupted UCI datasets" '
        'and table "Description of UCI datasets"',
        settings={"small": small, "paper": config},
        parts=parts,
        run=run,
        measure=measure,
        draw=draw,
        requirements=("uci",),
        remarks=REMARKS,
    )
    for name, title, small, config in (
        ("uci", "Networks that learn online from corrupted regression sets", SMALL, Settings()),
        (
            "uci-as-run",
            "The same as it was run: outliers of 50, other rows set the scale",
            replace(SMALL, variants=(AS_RUN,)),
            Settings(variants=(AS_RUN,)),
        ),
    )
)
