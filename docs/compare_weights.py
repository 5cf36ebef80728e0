"""Print the table of docs/choosing-a-weight.md: every weight on the tracking problem of `wolf demo`, and after a jump.

python docs/compare_weights.py
"""

import numpy as np

import wolf
from wolf.cli.commands import demo

TRIALS, STEPS = 200, 1000
JUMPS, WAIT = (50.0, 200.0), 100  # the object is moved by this in both coordinates, half-way; judged so much later
LOST = 20.0  # position error that counts as lost

METHODS = {
    "KF": "KF",
    "`MahalanobisIMQ`, S (WoLF)": "WoLF",
    "`MahalanobisIMQ`, R (WoLF-MD)": "WoLF-MD",
    "`IMQ` (WoLF-IMQ)": "WoLF-IMQ",
    "`MahalanobisThreshold`, S": wolf.WoLF(wolf.MahalanobisThreshold(metric="S")),
    "`MahalanobisThreshold`, R (WoLF-TMD)": "WoLF-TMD",
    "`Welsch`, S": "WoLF-Welsch",
    "`Tukey`, S": "WoLF-Tukey",
    "`Huber`, S": "WoLF-Huber",
    "`StudentWeight`, S": "WoLF-StudentT",
}


def main():
    """Run every weight on every kind of data."""
    model = demo.make_model()
    config = demo.Config(steps=STEPS, trials=TRIALS)
    data = {name: demo.simulate(model, kind.process, config) for name, kind in demo.SCENARIOS.items()}
    truth, ys, _ = data["clean"]
    jumps = [np.where(np.arange(STEPS) >= STEPS // 2, size, 0.0)[:, None] for size in JUMPS]
    columns = [*data, *(f"lost after a jump of {size:.0f}" for size in JUMPS)]
    print(f"| weight | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, method in METHODS.items():
        cells = []
        for states, measured, _ in data.values():
            out = wolf.filter_many(model, measured, method=method)
            error = np.median(demo.position_error(out.means, states))
            cells.append(f"{error:.2f} ({wolf.metrics.coverage(out.means, out.covs, states)[:, :2].mean():.0%})")
        for jump in jumps:
            out = wolf.filter_many(model, ys + jump, method=method)
            miss = np.linalg.norm((out.means[..., :2] - truth[..., :2] - jump)[:, STEPS // 2 + WAIT], axis=1)
            cells.append(f"{np.mean(miss > LOST):.0%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
