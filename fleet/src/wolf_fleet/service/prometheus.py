"""Metrics in the Prometheus text format (exposition format 0.0.4)."""

from collections import Counter

import numpy as np

from wolf_fleet.service import responses
from wolf_fleet.service.service import Service
from wolf_fleet.streaming.incidents.incident_log import KINDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "rows": "Rows that were read.",
    "used": "Rows that were filtered.",
    "outliers": "Rows that were flagged as outliers.",
    "late": "Rows discarded because they arrived too late.",
    "ahead": "Rows discarded because their time is too far in the future.",
    "repeated": "Rows discarded because their key had a row of the same time.",
}
MAX_KEY_SERIES = 20  # time series by key, so that their number stays bounded
BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class RequestTimings:
    """Durations and status codes of requests."""

    def __init__(self) -> None:
        self._counts, self._sum = np.zeros(len(BUCKET_SECONDS) + 1, int), 0.0
        self.codes: Counter[int] = Counter()

    def add(self, code: int, seconds: float) -> None:
        """Count a request that posted measurements."""
        self.codes[code] += 1
        self._counts[np.searchsorted(BUCKET_SECONDS, seconds)] += 1
        self._sum += seconds

    def lines(self) -> list[str]:
        """Format the histogram and the counts."""
        name = "wolf_request_seconds"
        lines = [f"# HELP {name} Time until a request was durable and answered.", f"# TYPE {name} histogram"]
        totals = np.cumsum(self._counts)
        for bound, total in zip((*map(str, BUCKET_SECONDS), "+Inf"), totals, strict=True):
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        lines += [f"{name}_sum {self._sum:.6f}", f"{name}_count {totals[-1]}"]
        lines += [
            "# HELP wolf_requests_total Requests that posted measurements, by status code.",
            "# TYPE wolf_requests_total counter",
        ]
        return lines + [f'wolf_requests_total{{code="{code}"}} {total}' for code, total in sorted(self.codes.items())]


def text(service: Service, timings: RequestTimings) -> str:
    """Format all metrics of a service."""
    status = responses.fleet(service)
    counts, lines = status["counts"], []
    for name, words in TOTALS.items():
        lines += _metric(f"wolf_{name}_total", "counter", words, counts[name])
    lines += _metric("wolf_commits_total", "counter", "Commits since the state was created.", counts["epoch"])
    lines += _metric("wolf_keys", "gauge", "Number of filters.", counts["keys"])
    lines += _metric(
        "wolf_waiting_rows",
        "gauge",
        "Rows in the reorder buffer, and of keys whose model is not learned yet.",
        counts["waiting"],
    )
    lines += _metric("wolf_journal_bytes", "gauge", "Size of the write-ahead log.", status["journal"])
    lines += _metric("wolf_last_commit_seconds", "gauge", "Time of the last commit, since 1970.", status["committed"])
    lines += _metric("wolf_healthy", "gauge", "1 if rows are accepted and commits succeed.", int(not status["message"]))
    lines += ["# HELP wolf_problem_keys Keys with a problem, by kind.", "# TYPE wolf_problem_keys gauge"]
    lines += [f'wolf_problem_keys{{kind="{kind}"}} {total}' for kind, total in status["problem_keys"].items()]
    lines += ["# HELP wolf_open_incidents Open incidents that are not acknowledged, by kind."]
    lines += ["# TYPE wolf_open_incidents gauge"]
    with service.lock:
        kinds = Counter(each.kind for each in service.incidents.open if not each.acknowledged)
        undelivered = service.incidents.num_undelivered
    lines += [f'wolf_open_incidents{{kind="{kind}"}} {kinds[kind]}' for kind in KINDS]
    lines += _metric("wolf_undelivered_alerts", "gauge", "Incidents whose alert was not delivered.", undelivered)
    lines += [f"# HELP wolf_key_score Score of the {MAX_KEY_SERIES} worst keys.", "# TYPE wolf_key_score gauge"]
    worst = status["worst"][:MAX_KEY_SERIES]
    lines += [f'wolf_key_score{{key="{_escape(row["key"])}"}} {row["score"]:.4g}' for row in worst]
    return "\n".join([*lines, *timings.lines(), ""])


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metric(name: str, kind: str, words: str, value: float) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name} {value}"]
