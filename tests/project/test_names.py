"""Names: no two public classes share a name, and docs/architecture.md names all folders and only existing files."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import wolf

MAX_ATTRIBUTE_PROBES = 40
SOURCE = Path(wolf.__file__).parent
PROJECT = Path(__file__).parents[2]


def public_classes():
    """List where each public class is defined."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_no_two_public_classes_share_a_name():
    assert {name: places for name, places in public_classes().items() if len(places) > 1} == {}


def test_the_architecture_page_names_existing_files():
    text = (PROJECT / "docs" / "architecture.md").read_text()
    paths = set(re.findall(r"`((?:src/wolf|fleet|paper|benchmarks|examples|docs|tests|tools)/[\w/.]*)`", text))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (PROJECT / path).exists()] == []


def test_every_folder_and_module_is_on_the_architecture_page():
    text = (PROJECT / "docs" / "architecture.md").read_text()
    entries = {path.name for path in SOURCE.iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert [name for name in sorted(entries) if name.removesuffix(".py") not in text] == []


def is_probe(node):
    """Return whether a call asks if an object has an attribute: hasattr, or getattr with a default."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and (node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3))


def test_few_attributes_are_probed_by_name():
    nodes = (node for path in SOURCE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    assert sum(map(is_probe, nodes)) <= MAX_ATTRIBUTE_PROBES
