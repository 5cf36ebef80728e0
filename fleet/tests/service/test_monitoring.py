"""The dashboard and the alert rules use metrics that the service has."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from fleet.tests.service.helpers import body, open_service

from wolf_fleet.service import prometheus

pytestmark = pytest.mark.thorough
FOLDER = Path(__file__).parents[2] / "monitoring"


def test_all_metrics_of_the_dashboard_and_the_rules_exist(tmp_path):
    with open_service(tmp_path) as service:
        service.post("json", body([("a", 1.0, 1.0)]))
        text = prometheus.text(service, prometheus.RequestTimings())
    known = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "sum", "count")}
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += re.findall(r"expr: (.*)", (FOLDER / "prometheus-rules.yaml").read_text())
    used = set(re.findall(r"\bwolf_\w+", " ".join(queries)))
    assert len(queries) >= 14
    assert used <= known


def test_panels_have_what_grafana_needs_and_do_not_overlap():
    panels = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert {"id", "type", "title", "datasource", "targets"} <= panel.keys()
