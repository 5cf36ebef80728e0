"""Runs of a mask: their ends, their counts, and ranges that overlap."""

import numpy as np

from wolf.numerics.runs import counts_in, merge_ranges, run_ends, runs_of


def test_runs_cover_the_true_rows_and_nothing_else():
    mask = np.random.default_rng(0).random(200) < 0.4
    covered = np.zeros(200, bool)
    for first, stop in runs_of(mask):
        assert stop > first
        covered[first:stop] = True
    np.testing.assert_array_equal(covered, mask)
    firsts, stops = run_ends(mask)
    np.testing.assert_array_equal(counts_in(mask, firsts, stops), stops - firsts)


def test_runs_at_both_ends_and_none():
    assert runs_of(np.array([True, False, True])) == [(0, 1), (2, 3)]
    assert runs_of(np.zeros(3, bool)) == []


def test_touching_ranges_are_merged():
    assert merge_ranges([(3, 5), (0, 3), (7, 8)]) == [(0, 5), (7, 8)]
