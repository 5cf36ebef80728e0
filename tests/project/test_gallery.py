"""Every example of the gallery runs, is better than its baseline, has a picture and converts to a notebook."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
CELLS = [name for name, path in EXAMPLES.items() if "# %%" in path.read_text()]
GALLERY = (ROOT / "docs" / "gallery.md").read_text()
PICTURES = dict(re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", GALLERY))
PAGES = [path for folder in ("", "reproduction") for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
MAX_LINES = 100
SLOW = pytest.mark.slow
NEEDS = {"coming_from_filterpy": "filterpy", "coming_from_statsmodels": "statsmodels", "changepoints": "ruptures"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name == "online_mlp" else ()) for name in CELLS])
def test_an_example_runs_and_the_robust_filter_is_better(name, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot", reason="the examples draw with matplotlib")
    pytest.importorskip(NEEDS.get(name, "wolf"), reason=f"{name} compares with another library")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    errors = runpy.run_path(str(EXAMPLES[name]))["errors"]
    plt.close("all")
    first, *_, last = errors.values()
    assert last < 0.5 * first
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_there_are_a_dozen_short_examples():
    assert len(CELLS) >= 12
    for name in CELLS:
        assert len(EXAMPLES[name].read_text().splitlines()) < MAX_LINES, name


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_in_the_gallery(name):
    assert f"](../examples/{name}.py)" in GALLERY


def test_every_picture_of_the_gallery_exists_and_has_a_description():
    assert len(PICTURES) >= len(CELLS)
    for words, picture in PICTURES.items():
        assert len(words.split()) >= 8, picture
        assert (ROOT / "docs" / picture).exists()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_every_picture_of_the_pages_has_a_description(path):
    for words, picture in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", path.read_text()):
        assert len(words.split()) >= 8, picture
        assert (path.parent / picture).exists()


@pytest.mark.parametrize("name", CELLS)
def test_an_example_converts_to_a_notebook_with_text_and_code(name):
    jupytext = pytest.importorskip("jupytext", reason="notebooks are made by jupytext, of docs/requirements.txt")
    cells = jupytext.read(EXAMPLES[name]).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    assert sum(cell.cell_type == "code" for cell in cells) >= 3
