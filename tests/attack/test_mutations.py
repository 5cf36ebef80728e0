"""The list of mutations matches the code: each applies in exactly one place, and names tests."""

from pathlib import Path

import pytest
from tests.attack.mutate import ROOT, mutations
from tests.attack.mutate import path_of_tests as path_of

import wolf

SOURCE = Path(wolf.__file__).parent


@pytest.mark.parametrize("name", mutations())
def test_a_mutation_can_be_applied(name):
    entry = mutations()[name]
    assert (SOURCE / entry["file"]).read_text(encoding="utf-8").count(entry["old"]) == 1
    assert entry["new"] != entry["old"]
    assert entry["tests"]
    assert all((ROOT / path_of(each)).exists() for each in entry["tests"])
