"""The experiments by name. A new one is a module with an `EXPERIMENT` (or several, `EXPERIMENTS`), and a row here."""

from difflib import get_close_matches
from functools import cache
from importlib import import_module

from wolf_paper.protocol import Experiment

MODULES: tuple[str, ...] = (
    "intro",
    "pif",
    "weighted_likelihood",
    "map_weight",
    "ensemble_influence",
    "tracking_trials",
    "tracking_tuning",
    "tracking_stress",
    "tracking_rbpf",
    "complexity",
    "uci",
    "kin8nm",
    "outlier_rate",
    "lorenz96",
    "online_mlp",
)


@cache
def experiments() -> dict[str, Experiment]:
    """Find all experiments, in the order of the paper."""
    found: dict[str, Experiment] = {}
    for name in MODULES:
        module = import_module(f"wolf_paper.{name}")
        for each in getattr(module, "EXPERIMENTS", None) or (module.EXPERIMENT,):
            if each.name in found:
                raise ValueError(f"two experiments are called {each.name!r}")
            found[each.name] = each
    return found


def choose(names: tuple[str, ...] = ()) -> list[Experiment]:
    """Find experiments by name; without any all of them, but for those that have to be asked for.

    Args:
        names: as `wolf reproduce --list` shows them.
    """
    known = experiments()
    for name in names:
        if name not in known:
            close = get_close_matches(name.lower(), known, n=1, cutoff=0.4)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"no experiment is called {name!r}.{hint} There are: {', '.join(known)}")
    usual = [name for name, each in known.items() if not each.on_request]
    return [known[name] for name in dict.fromkeys(names or usual)]
