"""Entries of a certificate from simulated trials: efficiency, false alarms, recovery from jumps, breakdown."""

from typing import Any, TypedDict

import numpy as np

from wolf.diagnostics.certificate import monte_carlo
from wolf.diagnostics.certificate.certificate import CertificateEntry, format_number
from wolf.diagnostics.certificate.monte_carlo_trials import GROSS_ERROR_SIZES
from wolf.interfaces import Filter


class Sample(TypedDict):
    """Trials per level, and the seed that reproduces them."""

    trials: int
    seed: str


def simulated_entries(
    steady: monte_carlo.SteadyState,
    plain: Filter,
    matrices: tuple[np.ndarray, np.ndarray],
    user_jumps: dict[str, np.ndarray] | None,
    sample: Sample,
) -> tuple[list[CertificateEntry], dict[str, Any]]:
    """Simulate trials with clean data, jumps and outliers.

    Args:
        steady: trials at steady state.
        plain: the filter without weights.
        matrices: Jacobians of the observation function and of the dynamics.
        user_jumps: directions of jumps given by the user.
        sample: number of trials per level, and the seed.
    """
    clean = monte_carlo.simulate_clean_data(steady, plain)
    whole_sample: Sample = {"trials": clean.trials, "seed": sample["seed"]}
    description = "squared error of the filter without weights over that of the method, on clean data"
    if clean.lost:
        description += f"; {clean.lost} of {clean.trials} trials diverged"
    entries = [
        CertificateEntry(
            "efficiency", clean.efficiency, "share", "simulated", description, clean.efficiency_error, **whole_sample
        )
    ]
    description = "of clean measurements are flagged as outliers"
    entries.append(
        CertificateEntry(
            "false alarms", clean.alarms, "share", "simulated", description, clean.alarms_error, **whole_sample
        )
    )
    curves: dict[str, Any] = {"jumps": {}}
    selected = (
        monte_carlo.jump_directions(steady, *matrices)
        if user_jumps is None
        else _normalise_jumps(steady, matrices, user_jumps)
    )
    for name, direction in selected.items():
        jump = monte_carlo.simulate_jumps(steady, direction, clean.usual)
        entries.append(_jump_entry(name, jump, steady.steps, sample))
        curves["jumps"][name] = (jump.sizes, jump.steps, jump.largest)
    outliers = monte_carlo.simulate_outliers(steady)
    suffix = " (the largest tested)" if outliers.largest == monte_carlo.OUTLIER_SHARES[-1] else ""
    description = (
        f"of gross outliers{suffix}: error of 95 % of trials below {monte_carlo.MAX_ERROR_RATIO:g} x the clean error"
    )
    details = {"multiple": monte_carlo.MAX_ERROR_RATIO, "sizes": list(GROSS_ERROR_SIZES)}
    entries.append(
        CertificateEntry("breakdown", outliers.largest, "share", "simulated", description, details=details, **sample)
    )
    curves["breakdown"] = (outliers.shares, outliers.ratios, outliers.largest)
    return entries, curves


def _normalise_jumps(
    steady: monte_carlo.SteadyState, matrices: tuple[np.ndarray, np.ndarray], user_jumps: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Scale the user's jumps so that the prediction moves by one standard deviation, now or in the next step."""
    jacobian, dynamics = matrices
    scaled = {}
    for name, direction in user_jumps.items():
        moved = [np.linalg.solve(steady.scale.innovation_root, h @ direction) for h in (jacobian, jacobian @ dynamics)]
        lengths = [float(np.linalg.norm(each)) for each in moved]
        gain = lengths[0] if lengths[0] > 1e-9 * lengths[1] else lengths[1]
        if gain == 0.0:
            raise ValueError(f"jumps[{name!r}] does not change the measurement, now or in the next step")
        scaled[name] = direction / gain
    return scaled


def _jump_entry(name: str, jump: monte_carlo.Jump, steps: int, sample: Sample) -> CertificateEntry:
    within = jump.steps[jump.sizes <= jump.largest]
    longest = float(within.max()) if len(within) else np.inf
    moved = np.flatnonzero(jump.direction)
    state = f"state {moved[0]}" if len(moved) == 1 else "the state"
    size = jump.largest * float(np.linalg.norm(jump.direction))
    if jump.largest == 0.0:
        description = f"of {state}: 5 % of trials do not recover from the smallest size tested"
    else:
        suffix = ", the largest tested" if jump.largest == jump.sizes[-1] else ""
        description = f"of {state}, {format_number(jump.largest)} sd{suffix}: 95 % recover within {longest:.0f} steps"
    details = {"deviations": jump.largest, "steps": longest, "horizon": steps, "direction": jump.direction}
    return CertificateEntry(name, size, "units", "simulated", description, details=details, **sample)
