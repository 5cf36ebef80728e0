"""Corrupted regression sets learned by a network online: figure "RMedSE versus time per step", and the table of sets.

Expected: the WoLF filters are as accurate as EKF-B and EKF-IW at the price of an EKF, and both EKF and OGD are several
times less accurate. At the paper's scale an estimated 15 minutes on one core as printed (`uci`), and as many as it was
run (`uci-as-run`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wolf_paper import learning, rounded_regression
from wolf_paper import uci_sets as uci
from wolf_paper.learning import CALIBRATED, CLEAN, CORRECTED, LEARNED, RIVALS, ROBUST
from wolf_paper.protocol import Experiment, Rows, Task
from wolf_paper.uci_data import AS_RUN, HIDDEN, PAPER_TABLE, PRINTED, SAVED, as_saved, load, network, streams
from wolf_paper.uci_figures import draw_errors, draw_relative, draw_sets, mean_by_method
from wolf_paper.verdict import matches

LOST = 1.0  # RMedSE of a trial, in units of a target whose range is 1, above which EKF-IW has diverged


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
    """List the parts: the table, then what is tuned, run and, as run, rounded, small sets first; what is timed last."""
    kinds = {PRINTED: ("tuning", "trials"), AS_RUN: ("tuning", "trials", "rounded")}
    pairs = [(v, name) for v in config.variants for name in sorted(config.sets, key=lambda each: uci.SETS[each].rows)]
    found = [f"{variant}-{name}-{kind}" for variant, name in pairs for kind in kinds[variant]]
    return ["sets", *found, *(f"{variant}-{name}-times" for variant, name in pairs)]


def run(task: Task) -> Rows:
    """Run one part."""
    config: Settings = task.config
    if task.part == "sets":
        return [_describe(name) for name in config.sets]
    front, kind = task.part.rsplit("-", 1)
    variant, name = front.rsplit("-", 1)
    as_run = variant == AS_RUN
    data = load(name, task.data, config.made_up_rows)
    model_of = network(data.features.shape[1], config.obs_var, as_run)

    def make(which: range) -> learning.Trials:
        return streams(data, variant, which, task.seed, config.outlier_prob)

    label = {"variant": variant, "set": name}
    saved = SAVED.get(name, {}) if as_run and config.made_up_rows is None else {}
    search: dict[str, Any] = {"initial": config.initial, "iterations": config.iterations, "seed": task.seed}
    count = min(config.trials, dict(config.fewer).get(name, config.trials))
    if kind == "tuning":
        found = as_saved(name) if saved else _tune(make(range(1)), model_of, search, config, task, as_run)
        return [label | row for row in found]
    chosen = learning.values_of(task.earlier[f"{front}-tuning"], () if as_run else learning.UNTUNED)
    if kind == "rounded":
        found = _round(chosen, make(range(count)), model_of, config, task)
        return [label | row for row in found]
    if kind == "times":
        timed = learning.time_trials(chosen, model_of, make, 1, config.rounds, task.tell, as_run)
        return [label | {name: row[name] for name in ("method", "seconds_per_step")} for row in timed]
    found = learning.run_trials(chosen, model_of, make, count, task.tell, as_run)
    return [label | row for row in found]


def _tune(
    trial: learning.Trials,
    model_of: learning.ModelOf,
    search: dict[str, Any],
    config: Settings,
    task: Task,
    as_run: bool,
) -> Rows:
    """Choose hyper-parameters; as run in the arithmetic of the published runs where it is emulated."""
    if not as_run:
        return learning.tune(model_of, trial, **search, tell=task.tell)
    start = np.asarray(model_of(1.0, 0).mean)
    rest = {name: box for name, box in learning.BOUNDS_AS_RUN.items() if name not in rounded_regression.METHODS}
    found = rounded_regression.tune(start, trial, search, config.obs_var, task.tell)
    return found + learning.tune(model_of, trial, **search, tell=task.tell, bounds=rest, as_run=True)


def _round(
    chosen: Mapping[str, Mapping[str, Any]],
    trials: learning.Trials,
    model_of: learning.ModelOf,
    config: Settings,
    task: Task,
) -> Rows:
    """Run trials with the operands of all products rounded to bfloat16."""
    start, rows = np.asarray(model_of(1.0, 0).mean), []
    for place, name in enumerate(rounded_regression.METHODS):
        found = rounded_regression.errors(name, chosen[name], start, trials, True, config.obs_var)
        rows += [{"method": name, "trial": trial, "rmedse": float(error)} for trial, error in enumerate(found)]
        task.tell(place + 1, len(rounded_regression.METHODS))
    return rows


def measure(rows: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Average the errors over trials, without the one that was tuned on; compare methods over sets."""
    found: dict[str, float] = {f"{row['set']}: parameters": row["parameters"] for row in rows.get("sets", [])}
    for variant in config.variants:
        means = {name: mean_by_method(rows.get(f"{variant}-{name}-trials", []), "rmedse") for name in config.sets}
        means = {name: each for name, each in means.items() if each}
        for name, each in means.items():
            found |= {f"{name}: {method}": value for method, value in each.items()}
            found |= _rounded(name, rows.get(f"{variant}-{name}-rounded", []))
            lost = [row.get("rmedse", np.nan) for row in rows[f"{variant}-{name}-trials"] if row["method"] == "EKF-IW"]
            found[f"{name}: EKF-IW: share of trials lost"] = float(np.mean(~(np.array(lost) < LOST)))
        if means:
            found |= _compare(means)
            if all(f"{variant}-{name}-times" in rows for name in config.sets):
                found["sets on which a WoLF filter is faster than OGD"] = _count_faster(rows, variant, config.sets)
    return found


def _rounded(name: str, rows: Rows) -> dict[str, float]:
    """Average the errors in bfloat16 over all trials but the first."""
    return {f"{name}: {method}, bfloat16": value for method, value in mean_by_method(rows, "rmedse").items()}


def _count(means: Mapping[str, Mapping[str, float]], rivals: Sequence[str]) -> int:
    """Count the sets where the better WoLF matches or outperforms all rivals; a rival without an error is beaten."""
    count = 0
    for each in means.values():
        errors = [each[rival] for rival in rivals if np.isfinite(each[rival])]
        count += matches(min(each["WoLF-IMQ"], each["WoLF-TMD"]), errors) >= 0.0
    return count


def _compare(means: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Find how well the worst set bears out what the paper says about accuracy."""
    worse = {name: max(each["WoLF-IMQ"], each["WoLF-TMD"]) for name, each in means.items()}
    better = {name: min(each["WoLF-IMQ"], each["WoLF-TMD"]) for name, each in means.items()}
    margin = min(min(each["EKF"], each["OGD"]) / worse[name] for name, each in means.items())
    corrected = [CORRECTED if rival == "EKF-IW" else rival for rival in RIVALS]
    counts = {"": RIVALS} | ({", EKF-IW corrected": corrected} if CORRECTED in next(iter(means.values())) else {})
    title = f"sets on which the better WoLF matches or outperforms every rival, of {len(means)}"
    return {
        "WoLF is more accurate than EKF and OGD on every set": margin - 1.0,
        **{f"{title}{suffix}": _count(means, rivals) for suffix, rivals in counts.items()},
        **{f"sets that WoLF matches{suffix}": _count(means, rivals) for suffix, rivals in counts.items()},
        "sets that were run": len(means),
        "better WoLF over EKF-B, worst set": max(better[name] / each["EKF-B"] for name, each in means.items()),
        "better WoLF over EKF-IW, worst set": max(better[name] / each["EKF-IW"] for name, each in means.items()),
    } | (_compare_untuned(means, better) if CLEAN in next(iter(means.values())) else {})


def _compare_untuned(means: Mapping[str, Mapping[str, float]], better: Mapping[str, float]) -> dict[str, float]:
    """Compare what is not in the paper with WoLF, and the best robust method with clean targets."""
    found = {
        f"{untuned} over better WoLF, worst set": max(each[untuned] / better[name] for name, each in means.items())
        for untuned in (CALIBRATED, LEARNED)
    }
    clean = max(min(each[method] for method in ROBUST) / each[CLEAN] for each in means.values())
    return found | {"best robust method over clean targets, worst set": clean}


def _count_faster(rows: Mapping[str, Rows], variant: str, sets: tuple[str, ...]) -> int:
    """Count the sets where a WoLF filter takes less time than OGD."""
    count = 0
    for name in sets:
        times = {row["method"]: row["seconds_per_step"] for row in rows.get(f"{variant}-{name}-times", [])}
        count += min(times["WoLF-IMQ"], times["WoLF-TMD"]) < times["OGD"]
    return count


def draw(rows: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the paper's figure, the errors by set, and the table of sets."""
    timed = all(f"{variant}-{name}-times" in rows for variant in config.variants for name in config.sets)
    figures = {"relative": draw_relative(rows, config.variants, config.sets)} if timed else {}
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
    "As run, trials and initial weights are the published ones, number for number: NumPy's legacy generator in the "
    "order of the code, and what Flax 0.8 drew. All of it is float32; 'bfloat16' repeats EKF, EKF-B and WoLF with "
    "the operands of every product rounded, as on the accelerator of the published runs, and their hyper-parameters "
    "are chosen in that arithmetic. Those of kin8nm and protein are the saved ones. 'EKF-IW' is the published "
    "iteration, 'EKF-IW (corrected)' the library's, which linearises once.",
    "The network starts from the same weights in all trials, and the draw matters: with twelve draws and the "
    "thresholds found as run the errors of WoLF were 0.041 to 0.055 on Energy, 0.093 to 0.133 on Yacht and 0.127 to "
    "0.178 on Naval.",
    "As run, EKF-IW on naval and EKF-B and EKF in bfloat16 there are unexplained (3 trials judged; one of EKF came to "
    "NaN). Wine's EKF-IW is, too: 0.606 is reported, and here it is 0.11 for every ℓ from 0.56 to 5 with 2, 5 "
    "and 9 iterations (20 trials each), with none of 99 trials lost; one lost trial could make that mean.",
    "The errors are means over all trials but the first, on which the hyper-parameters were chosen. As printed "
    "Power has 30 trials, Naval 20, Protein 10 and all others 100; as run Kin8nm and Power have 10, Naval 4, "
    "Protein 3 and all others 40, where the published ones are 99.",
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
            Settings(
                trials=40, variants=(AS_RUN,), fewer=(("kin8nm", 10), ("power", 10), ("naval", 4), ("protein", 3))
            ),
        ),
    )
)
