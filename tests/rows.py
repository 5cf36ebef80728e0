"""Rows of the registry of methods, with the test tier of each.

A row is a filter, a linearization and a noise model. A property that holds for each part holds for other rows of the
same parts too; these are tested by `make check-all` only.
"""

import pytest

QUICK = {"KF", "WoLF", "KF-B", "Learned", "Adaptive"}
PARTS = QUICK | {"EKF", "IEKF", "UKF", "WoLF-TMD", "WoLF-PerCoordinate", "KF-IW", "KF-Ting", "KF-Student", "KF-Huang"}
PARTS |= {"RSTKF", "Huber-KF", "MCKF", "ADF", "IMM", "OGD", "Beta-PF", "Beta-RBPF"}
# Parts of their own whose contract only `make check-all` tests; tests/unit/inference/test_successors.py has the rest.
SUCCESSORS = {"ST-RCGP", "OIKF", "RoLF", "STKF", "STKF-AR", "RunLength"}
SLOW_GRADIENTS = {"IMM", "ADF", "RSTKF", "Huber-KF", "MCKF", "KF-Huang", "KF-Student", "KF-IW"}  # seconds to compile


def mark(name, but=()):
    """Return the marker of a row: none, `thorough` or `slow`; rows in `but` are slow."""
    if name in QUICK:
        return ()
    return pytest.mark.thorough if name in PARTS - set(but) else pytest.mark.slow


def rows(names, but=(), slow=()):
    """Parametrise a test over rows by tier; rows in `but` are slow, and so are further rows in `slow`."""
    further = [pytest.param(name, marks=pytest.mark.slow) for name in slow]
    return pytest.mark.parametrize("name", [pytest.param(name, marks=mark(name, but)) for name in names] + further)
