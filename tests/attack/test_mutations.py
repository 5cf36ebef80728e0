"""The list of mutations stays in step with the code: each can be applied, in one place, and has tests."""

from pathlib import Path

import pytest
from tests.attack.mutate import ROOT, mutations
from tests.attack.mutate import test_file as path_of

import wolf

SOURCE = Path(wolf.__file__).parent


@pytest.mark.parametrize("name", mutations())
def test_a_mutation_can_be_applied(name):
    entry = mutations()[name]
    assert (SOURCE / entry["file"]).read_text(encoding="utf-8").count(entry["old"]) == 1
    assert entry["new"] != entry["old"]
    assert entry["tests"]
    assert all((ROOT / path_of(each)).exists() for each in entry["tests"])
