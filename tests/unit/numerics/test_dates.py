"""Dates of Python, pandas and NumPy, with time zones and without, as `datetime64`; other times are left alone."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

import wolf
from wolf.numerics.dates import date_stamps

EAST = timezone(timedelta(hours=2))
NOON = np.datetime64("2026-01-01T12:00")
DATES = {
    "Python's": [datetime(2026, 1, 1, 12)],
    "a zone": [datetime(2026, 1, 1, 14, tzinfo=EAST)],
    "the last year": [datetime(9999, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC)],
    "pandas": [pd.Timestamp("2026-01-01 12:00"), pd.NaT],
    "pandas with a zone": pd.Series(pd.to_datetime(["2026-01-01 14:00"])).dt.tz_localize(EAST),
    "NaT beside a zone": [pd.NaT, pd.Timestamp("2026-01-01 14:00", tz=EAST)],
    "NumPy": np.array([NOON]),
    "mixed kinds": [NOON, datetime(2026, 1, 2)],
}
OTHERS = {
    "numbers": [1.0, 2.0],
    "nothing": [],
    "text": ["2026-01-01"],
    "with a zone and without": [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)],
    "a date beside text": np.array([datetime(2026, 1, 1, tzinfo=UTC), "x"], object),
    "missing numbers": np.array([1.0, pd.NA], object),
    "masked dates": np.ma.masked_array(np.array([NOON]), [False]),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_of_any_kind_become_stamps_in_utc(name):
    found = date_stamps(DATES[name])
    assert np.issubdtype(found.dtype, np.datetime64)
    assert NOON in found


@pytest.mark.parametrize("name", OTHERS)
def test_other_times_are_not_dates(name):
    assert date_stamps(OTHERS[name]) is None


def test_a_bank_and_models_take_dates_of_python():
    bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0), "KF")
    bank.step(["a", "b"], [[1.0], [2.0]], times=[date(1970, 1, 2), date(1970, 1, 3)])
    assert bank.last_times(["a", "b"]).tolist() == [86400.0, 2 * 86400.0]
    assert wolf.models.time_steps([datetime(2026, 1, 1), datetime(2026, 1, 1, 1)]).tolist() == [0.0, 3600.0]
