"""Settings of the paper's tests: what is compiled in one file does not pile up in the next."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def drop_programs():
    """Forget compiled programs between two files: a process may only hold so many, and these files share none."""
    yield
    jax.clear_caches()
