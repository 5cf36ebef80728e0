"""The benchmarks: the C++ baseline and another library compute what wolf does; tables are written to the pages."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import wolf

FOLDER = Path(__file__).parents[2] / "benchmarks"
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
YS = 3.0 * np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("floor", "libraries", "short", "timing"):
        sys.modules.pop(name, None)


@pytest.mark.skipif(not (shutil.which("c++") or shutil.which("g++")), reason="no C++ compiler")
def test_the_cpp_baseline_computes_what_wolf_does():
    from floor import Floor

    floor = Floor([(4, 2)])
    out = wolf.filter(TRACK, YS, method="KF")
    for found, expected in ((floor.filter(TRACK, YS), out), (floor.filter(TRACK, YS, smooth=True), wolf.smooth(out))):
        np.testing.assert_allclose(found[:, :4], expected.means, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[:, 4:].reshape(-1, 4, 4), expected.covs, rtol=1e-9, atol=1e-12)
    states = np.tile(np.concatenate([TRACK.mean, TRACK.cov.ravel()]), (3, 1))
    floor.step_keys(TRACK, np.repeat(YS[:1], 3, axis=0), states)
    np.testing.assert_allclose(states[:, :4], np.repeat(out.means[:1], 3, axis=0), rtol=1e-9)


def test_without_a_compiler_the_error_says_so(monkeypatch):
    from floor import Floor

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler was found"):
        Floor([(4, 2)])


def test_a_disagreement_ends_the_run():
    from libraries import FilterPy
    from timing import check_agreement

    means = wolf.filter(TRACK, YS, method="KF").means
    check_agreement("series", means, {"filterpy": FilterPy(TRACK).filter(YS)})
    with pytest.raises(SystemExit, match="series: filterpy differs"):
        check_agreement("series", means + 1e-3, {"filterpy": FilterPy(TRACK).filter(YS)})


def test_tables_are_written_between_their_marks(tmp_path):
    from timing import Section, part_lines, write_page

    lines = part_lines(Section("One series", "ns", 1e9, {"(4, 2)": {"KF": 1e-7, "filterpy": 2e-5}}))
    assert lines[1].split("|")[1:3] == [" (4, 2) ", " 100 "]
    assert "20,000 (200x)" in lines[1]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench: one -->\nold\n<!-- end of bench: one -->\nafter\n")
    for _ in range(2):
        write_page("one", lines, page)
    assert page.read_text().count("20,000 (200x)") == 1
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    with pytest.raises(SystemExit, match="lacks the marks"):
        write_page("two", lines, page)


def test_the_readme_has_the_figures_of_the_benchmarks_page(tmp_path):
    from short import README, lines, write_readme
    from timing import PAGE

    figures = "\n".join(lines(PAGE.read_text()))
    assert figures in README.read_text(), "run `make bench`, or benchmarks/short.py's write_readme()"
    copy, page = tmp_path / "README.md", tmp_path / "page.md"
    copy.write_text(README.read_text())
    page.write_text(
        PAGE.read_text().replace("| (4, 2), means and covariances kept | ", "| (4, 2), means and covariances kept | 9")
    )
    write_readme(page, copy)
    changed = set(README.read_text().splitlines()) ^ set(copy.read_text().splitlines())
    assert changed
    assert figures not in copy.read_text()
