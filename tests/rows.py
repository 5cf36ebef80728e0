"""Rows of the table of methods, chosen by their parts: what every tier of the tests asks of them.

A row is a filter, moments and a noise rule. A property that holds for each part holds for rows that are made of the
same parts, and is asked of those in `make check-all` only.
"""

import pytest

QUICK = {"KF", "WoLF", "KF-B", "Learned", "Adaptive"}
PARTS = QUICK | {"EKF", "IEKF", "UKF", "WoLF-TMD", "WoLF-PerCoordinate", "KF-IW", "KF-Ting", "KF-Student", "KF-Huang"}
PARTS |= {"RSTKF", "Huber-KF", "MCKF", "ADF", "IMM", "OGD", "Beta-PF", "Beta-RBPF"}
LONG = {"RSTKF", "Huber-KF", "MCKF", "KF-Huang", "KF-Student", "KF-IW"}  # whose gradient takes seconds to compile


def mark(name, but=()):
    """Say in which tier a row is: in all, from `make check` on, or in the last one."""
    if name in QUICK:
        return ()
    return pytest.mark.thorough if name in PARTS - set(but) else pytest.mark.slow


def rows(names, but=()):
    """Parametrise a test over rows, by tier; some parts may be left to the last one."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=mark(name, but)) for name in names])
