"""Counts in the text form that Prometheus reads (exposition format 0.0.4)."""

from collections import Counter

import numpy as np

from wolf_fleet.service import responses
from wolf_fleet.service.service import Service

TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "rows": "Rows that were read.",
    "used": "Rows that went through a filter.",
    "outliers": "Rows that were flagged.",
    "late": "Rows that came too late to be used.",
    "repeated": "Rows whose key had a row of the same time.",
}
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds


class Timings:
    """How long requests took, and how they ended."""

    def __init__(self) -> None:
        self._counts, self._sum = np.zeros(len(BOUNDS) + 1, int), 0.0
        self.codes: Counter[int] = Counter()

    def add(self, code: int, seconds: float) -> None:
        """Count a request for measurements."""
        self.codes[code] += 1
        self._counts[np.searchsorted(BOUNDS, seconds)] += 1
        self._sum += seconds

    def lines(self) -> list[str]:
        """Write them."""
        name = "wolf_request_seconds"
        told = [f"# HELP {name} Time until a request was on disk and answered.", f"# TYPE {name} histogram"]
        totals = np.cumsum(self._counts)
        for bound, total in zip((*map(str, BOUNDS), "+Inf"), totals, strict=True):
            told.append(f'{name}_bucket{{le="{bound}"}} {total}')
        told += [f"{name}_sum {self._sum:.6f}", f"{name}_count {totals[-1]}"]
        told += [
            "# HELP wolf_requests_total Requests for measurements, by their answer.",
            "# TYPE wolf_requests_total counter",
        ]
        return told + [f'wolf_requests_total{{code="{code}"}} {total}' for code, total in sorted(self.codes.items())]


def text(service: Service, timings: Timings) -> str:
    """Write all of a service."""
    told = responses.fleet(service)
    lines = []
    for name, words in TOTALS.items():
        lines += _lines(f"wolf_{name}_total", "counter", words, told["counts"][name])
    lines += _lines("wolf_commits_total", "counter", "Commits since the state began.", told["counts"]["epoch"])
    lines += _lines("wolf_keys", "gauge", "Filters.", told["counts"]["keys"])
    lines += _lines("wolf_waiting_rows", "gauge", "Rows that wait for older ones.", told["counts"]["waiting"])
    lines += _lines("wolf_journal_bytes", "gauge", "Requests that no commit has yet.", told["journal"])
    lines += _lines("wolf_last_commit_seconds", "gauge", "Time of the last commit, since 1970.", told["committed"])
    lines += _lines("wolf_healthy", "gauge", "1 if rows are taken and commits succeed.", int(not told["problem"]))
    lines += ["# HELP wolf_keys_in_trouble Keys that have to be looked at.", "# TYPE wolf_keys_in_trouble gauge"]
    kinds = {"any" if kind == "trouble" else kind: total for kind, total in told["in_trouble"].items()}
    lines += [f'wolf_keys_in_trouble{{kind="{kind}"}} {total}' for kind, total in kinds.items()]
    return "\n".join([*lines, *timings.lines(), ""])


def _lines(name: str, kind: str, words: str, value: float) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name} {value}"]
