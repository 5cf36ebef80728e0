"""Line sources."""

import pytest

from wolf_fleet.streaming.sources import Source

pytestmark = pytest.mark.thorough


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("wolf_fleet.streaming.sources.MAX_LINE_BYTES", 100)
    (tmp_path / "rows.csv").write_text("x" * 300)
    with pytest.raises(ValueError, match="a line of more than 100 bytes"):
        Source(str(tmp_path / "rows.csv")).take(1, 0.0)
