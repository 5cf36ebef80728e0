"""The list of mutations stays in step with the code: each can be applied, in one place, and has tests."""

from pathlib import Path

import pytest
from tests.attack.mutate import ROOT, mutations

import wolf

SOURCE = Path(wolf.__file__).parent


@pytest.mark.parametrize("name", mutations())
def test_a_mutation_can_be_applied(name):
    entry = mutations()[name]
    assert (SOURCE / entry["file"]).read_text(encoding="utf-8").count(entry["old"]) == 1
    assert entry["new"] != entry["old"]
    assert entry["tests"]
    assert all((ROOT / "tests" / f"test_{each}.py").exists() for each in entry["tests"])
