"""The API reference documents every public name."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import wolf

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {name for page in (DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)}


@pytest.mark.parametrize("name", sorted({*wolf.__all__, "OnlineClassifier", "OnlineRegressor"}))
def test_every_public_name_is_in_the_reference(name):
    found = getattr(wolf, name)
    home = found.__name__ if isinstance(found, ModuleType) else f"{found.__module__}.{found.__name__}"
    inside = any(shown.startswith(f"{home}.") for shown in SHOWN) and isinstance(found, ModuleType)
    assert inside or home in SHOWN or home.rpartition(".")[0] in SHOWN


@pytest.mark.parametrize("module", [wolf.models, wolf.simulate, wolf.plots])
def test_every_function_of_a_public_package_is_in_the_reference(module):
    found = [each for name, each in vars(module).items() if not name.startswith("_") and callable(each)]
    homes = {f"{each.__module__}.{each.__name__}" for each in found}
    missing = [home for home in homes if home not in SHOWN and home.rpartition(".")[0] not in SHOWN]
    assert homes
    assert not missing


def test_every_page_of_the_reference_is_listed():
    nav, overview = (DOCS.parent / "mkdocs.yml").read_text(), (DOCS / "api.md").read_text()
    for page in (DOCS / "api").glob("*.md"):
        assert f"api/{page.name}" in nav
        assert f"api/{page.name}" in overview
