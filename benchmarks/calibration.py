"""Coverage of prediction intervals, of the model and calibrated by adaptive conformal inference.

    python benchmarks/calibration.py --page docs/diagnostics.md
    python benchmarks/calibration.py --uwb RUN [RUN ...]      # with ranges of anchors, see worlds_real.py

Worlds of `worlds.py` on a fast level, 1,000 steps: shares of measurements inside 95 % intervals given the past, the
ratio of the mean widths, and the share of the steps at which the 95 % interval of the state holds the truth, which
calibration does not change.
"""

import argparse
from pathlib import Path

import numpy as np
import worlds_real
from timing import write_page
from worlds_data import SYSTEMS, WORLDS

import wolf

CELLS = ("clean", "spikes 5 %", "R x 10", "Q / 10", "t3 noise", "AR(1) .5", "AR(1) .9", "jumps of 20")
METHODS = ("KF", "Adaptive")
STEPS = 1000


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20_261_118)
    parser.add_argument("--uwb", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--page", type=Path, help="Markdown page to write the table into")
    options = parser.parse_args(arguments)
    lines = ["| series | " + " | ".join(f"{m}: model | calibrated | width | state" for m in METHODS) + " |"]
    lines.append("|---|" + "---|" * (4 * len(METHODS)))
    for k, name in enumerate(CELLS):
        drawn = WORLDS[name].draw(SYSTEMS["level1"], options.runs, STEPS, np.random.default_rng([options.seed, k]))
        outs = [wolf.filter_many(drawn.given, drawn.ys, method=m, calibrate="conformal", threads=1) for m in METHODS]
        lines.append(f"| {name} | " + " | ".join(figures(out, out.means - drawn.clean) for out in outs) + " |")
        print(lines[-1], flush=True)
    for name, model, ys, _, truth in worlds_real.uwb_runs(options.uwb):
        outs = [wolf.filter(model, ys, method={"KF": "EKF"}.get(m, m), calibrate="conformal") for m in METHODS]
        lines.append(f"| {name} | " + " | ".join(figures(out, out.means[:, :2] - truth) for out in outs) + " |")
        print(lines[-1], flush=True)
    if options.page:
        write_page("calibration", lines, options.page)


def figures(out, error):
    """Return coverage by the model and calibrated, the ratio of the widths, and the coverage of the state."""
    held, widths = [], []
    for calibrated in (False, True):
        lower, upper = out.prediction_interval(calibrated=calibrated)
        known = np.isfinite(lower)
        held.append(((out.ys >= lower) & (out.ys <= upper))[known].mean())
        widths.append((upper - lower)[known].mean())
    spread = np.sqrt(np.diagonal(out.covs, axis1=-2, axis2=-1))[..., : error.shape[-1]]
    state = (np.abs(error) < worlds_real.NORMAL_95 * spread).mean()
    return f"{held[0]:.3f} | {held[1]:.3f} | {widths[1] / widths[0]:.2f} | {state:.2f}"


if __name__ == "__main__":
    main()
