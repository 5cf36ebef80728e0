"""The benchmarks: the C++ baseline and another library compute what wolf does; tables are written to the pages."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import wolf

FOLDER = Path(__file__).parents[2] / "benchmarks"
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
CELL_OPTIONS = SimpleNamespace(seed=0, runs=3, methods=["KF"])
YS = 3.0 * np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("floor", "libraries", "readme_figures", "timing", "worlds", "worlds_data", "worlds_errors"):
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
    from readme_figures import README, lines, write_readme
    from timing import PAGE

    figures = "\n".join(lines(PAGE.read_text()))
    assert figures in README.read_text(), "run `make bench`, or benchmarks/readme_figures.py's write_readme()"
    copy, page = tmp_path / "README.md", tmp_path / "page.md"
    copy.write_text(README.read_text())
    page.write_text(
        PAGE.read_text().replace("| (4, 2), means and covariances kept | ", "| (4, 2), means and covariances kept | 9")
    )
    write_readme(page, copy)
    changed = set(README.read_text().splitlines()) ^ set(copy.read_text().splitlines())
    assert changed
    assert figures not in copy.read_text()


def test_a_cell_of_the_worlds_depends_on_its_name_and_seed_alone(tmp_path):
    from worlds import applicable, cells, main, read

    assert len(cells()) >= 600
    assert {"KF", "WoLF", "Learned", "Adaptive", "KF-B"} <= set(applicable())
    files = [tmp_path / name for name in ("one.csv", "all.csv")]
    for prefix, file in zip(("sensors6/one sensor noisy/200", "sensors6/one sensor"), files, strict=True):
        main(["--cells", prefix, "--methods", "KF", "--runs", "3", "--csv", str(file)])
    one, *_ = read(files[0])
    assert one[:-2] in [each[:-2] for each in read(files[1])]  # without the recovery, NaN
    assert one.ratio > 0  # over an oracle that skips the noisy sensor


def test_in_a_clean_world_the_kalman_filter_is_the_oracle_of_the_worlds():
    from worlds import SYSTEMS, WORLDS, cell

    found = cell("sensors6/all", SYSTEMS["sensors6"], WORLDS["all sensors right"], 200, CELL_OPTIONS)[0]
    assert (found.ratio, found.lost) == (0.0, 0.0)
    assert found.coverage == pytest.approx(0.95, abs=0.03)


def test_the_worlds_list_what_is_worse_than_simpler_methods():
    from worlds import Score, report

    ratios = {"KF": 50.0, "WoLF": 5.0, "Learned": 7.0, "Adaptive": 16.0}
    scores = [
        Score(f"trend/{world}/200", name, ratio + shift * (name == "Adaptive"), 0.0, 0.9, 0.0, recovery, recovery)
        for world, shift, recovery in (("clean", 0.0, np.nan), ("stuck", -2.0, np.nan), ("step of 20", 0.0, 3.0))
        for name, ratio in ratios.items()
    ]
    lines = report(scores)
    assert "| Adaptive | 0 | 0 | 1 | +15 0.90 | 0.0% |" in lines
    assert "| trend/clean/200 | +50 0.90 | +5 0.90 | +7 0.90 | +16 0.90 |" in lines
    assert "| stuck | +5 / +14 0.90 |" in lines
    assert "| step of 20 | 3-3 / 3-3 / 3-3 / 3-3 |" in lines
