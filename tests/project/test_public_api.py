"""Public names and signatures change only where the record of them changes too."""

import difflib

from tests.project import public_api


def test_public_names_and_signatures_are_those_of_the_record():
    before, now = public_api.RECORD.read_text().splitlines(), list(public_api.lines())
    changes = [line for line in difflib.ndiff(before, now) if line[0] in "+-"]
    assert not changes, "if this is meant, run: python tests/project/public_api.py --write"
