"""The list of mutations matches the code: each applies in exactly one place, and names tests."""

import pytest
from tests.attack.mutate import ROOT, mutations, path_of_tests, source_of


@pytest.mark.parametrize("name", mutations())
def test_a_mutation_can_be_applied(name):
    entry = mutations()[name]
    assert (ROOT / source_of(entry)).read_text(encoding="utf-8").count(entry["old"]) == 1
    assert entry["new"] != entry["old"]
    assert entry["tests"]
    for each in entry["tests"]:
        _, _, test = each.partition("::")
        assert f"def {test}" in (ROOT / path_of_tests(each)).read_text(encoding="utf-8")
