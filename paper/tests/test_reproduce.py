"""`wolf reproduce`: verdicts, resumption, manifests, bad input, and the small scale of everything."""

import csv
import importlib.util
import json
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from wolf.cli.main import OneLineErrors
from wolf_paper import registry, rows, runner, verdict
from wolf_paper.command import reproduce
from wolf_paper.protocol import Experiment, NoData
from wolf_paper.runner import Request

PAPER = Path(__file__).parent.parent


@dataclass(frozen=True)
class Settings:
    trials: int = 3
    spread: float = 0.5


class Recorder:
    """A small experiment in two parts that remembers what was run, and can be told to break."""

    def __init__(self):
        self.ran = []
        self.breaks = None
        self.raises = KeyboardInterrupt

    def run(self, task):
        self.ran.append(task.part)
        if task.part == self.breaks:
            raise self.raises
        task.tell(1, 2)
        base = len(task.earlier.get("first", ()))
        return [{"trial": i, "value": 0.1 * (i + base), "label": f"t{i}"} for i in range(task.config.trials)]

    def experiment(self, **changes):
        told = {
            "name": "made-up",
            "title": "A made-up experiment",
            "shows": "nothing",
            "settings": {"small": Settings(), "paper": Settings(trials=5)},
            "parts": lambda config: ("first", "second"),
            "run": self.run,
            "measure": lambda done, config: {"total": sum(r["value"] for part in done.values() for r in part)},
            "draw": lambda done, config: {},
        }
        return Experiment(**(told | changes))


@pytest.fixture
def recorder():
    return Recorder()


SOURCES = {"paper": {"kind": "paper", "title": "the paper", "where": "table 1"}}
REASONS = {
    "rounding": {"cause": "paper", "text": "of rounding"},
    "made-up": {"cause": "choice", "text": "it was made up"},
}


def entry(**fields):
    tables = {"sources": SOURCES, "reasons": REASONS, "made-up": {"total": {"source": "paper"} | fields}}
    return verdict.parse(tables)["made-up"]


def judged(measured, **fields):
    (found,) = verdict.judge("made-up", measured, "small", entries=entry(**fields))
    return found.text


@pytest.mark.parametrize(
    ("fields", "measured", "expected"),
    [
        ({"value": 100.0, "tolerance": 0.03}, 102.9, "agrees"),
        ({"value": 100.0, "tolerance": 0.03}, 103.1, "differs, unexplained"),
        ({"value": -2.0, "tolerance": 0.1}, -2.1, "agrees"),
        ({"range": [1, 2]}, 2.0, "agrees"),
        ({"range": [1, 2]}, 2.1, "differs, unexplained"),
        ({"claim": True}, 1.0, "agrees"),
        ({"claim": True, "afterwards": True}, 1.0, "within a limit set afterwards"),
        ({"claim": True, "afterwards": True}, -1.0, "differs, unexplained"),
        ({"claim": True}, 0.0, "differs, unexplained"),
        ({"claim": True, "reason": "rounding"}, 0.0, "differs because of rounding"),
        ({"range": [1, 2], "reason": "rounding"}, 3.0, "differs because of rounding"),
        ({"range": [1, 2], "reason": "rounding", "ours": [2.9, 3.1]}, 3.0, "differs because of rounding"),
        ({"range": [1, 2], "reason": "rounding", "ours": [2.9, 3.1]}, 3.2, "differs, unexplained"),
        ({"range": [1, 2], "reason": "rounding"}, math.nan, "differs, unexplained"),
        ({}, 5.0, "paper gives no number"),
    ],
)
def test_a_verdict_is_what_the_entry_says(fields, measured, expected):
    assert judged({"total": measured}, **fields) == expected


def test_a_figure_that_nobody_measured_does_not_agree():
    assert judged({}, value=1.0) == "differs, unexplained"


def test_without_data_a_figure_was_not_run():
    (found,) = verdict.judge("made-up", {}, "small", complete=False, entries=entry(value=1.0))
    assert found.text == "not run: no data"


def test_an_entry_of_one_scale_is_judged_there_only():
    entries = entry(value=1.0, scale="paper")
    assert verdict.judge("made-up", {"total": 9.0}, "small", entries=entries) == []
    assert verdict.judge("made-up", {"total": 9.0}, "paper", sized=False, entries=entries) == []
    assert len(verdict.judge("made-up", {"total": 9.0}, "paper", entries=entries)) == 1


def test_a_misspelt_entry_is_refused():
    with pytest.raises(ValueError, match="toml: unknown"):
        entry(valu=1.0)
    with pytest.raises(ValueError, match="one of value, range and claim"):
        entry(value=1.0, claim=True)
    with pytest.raises(ValueError, match=r"source must be one of \['paper'\]"):
        entry(source="rumour")
    with pytest.raises(ValueError, match="reason must be one of"):
        entry(value=1.0, reason="chance")
    with pytest.raises(ValueError, match="a cause one of"):
        verdict.parse({"reasons": {"chance": {"cause": "luck", "text": ""}}})


def test_entries_speak_of_experiments_that_exist():
    assert verdict.expected().keys() <= registry.experiments().keys()


def test_rows_come_back_as_they_were_written(tmp_path):
    written = [{"name": "a, b", "n": 3, "x": 0.1 + 0.2, "ok": True, "gap": None}, {"name": "c", "n": 4, "x": math.inf}]
    rows.write(tmp_path / "rows.csv", written)
    assert rows.read(tmp_path / "rows.csv") == [{k: v for k, v in row.items() if v is not None} for row in written]


def test_no_rows_come_back_as_none(tmp_path):
    rows.write(tmp_path / "rows.csv", [])
    assert rows.read(tmp_path / "rows.csv") == []


def test_an_interrupt_in_the_second_part_keeps_the_first(tmp_path, recorder):
    request = Request(tmp_path)
    recorder.breaks = "second"
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(recorder.experiment(), request)
    recorder.breaks = None
    outcome = runner.reproduce(recorder.experiment(), request)
    assert recorder.ran == ["first", "second", "second"]
    assert outcome.fresh == ("second",)
    assert outcome.measured["total"] == pytest.approx(0.1 * (0 + 1 + 2 + 3 + 4 + 5))
    assert not list(tmp_path.rglob("*.part"))


def test_other_settings_seeds_or_broken_files_run_again(tmp_path, recorder):
    experiment = recorder.experiment()
    runner.reproduce(experiment, Request(tmp_path))
    assert runner.reproduce(experiment, Request(tmp_path)).fresh == ()
    assert runner.reproduce(experiment, Request(tmp_path, seed=1)).fresh == ("first", "second")
    assert runner.reproduce(experiment, Request(tmp_path, seed=1, trials=4)).fresh == ("first", "second")
    for name, content in (("first.json", "{"), ("first.json", "[]"), ("first.csv", "trial,value\n0,1\n")):
        (tmp_path / "made-up" / "parts" / name).write_text(content)
        assert runner.reproduce(experiment, Request(tmp_path, seed=1, trials=4)).fresh == ("first",)


def test_a_manifest_says_how_to_repeat_the_run(tmp_path, recorder):
    runner.reproduce(recorder.experiment(), Request(tmp_path, scale="paper", seed=7, trials=4))
    manifest = json.loads((tmp_path / "made-up" / "manifest.json").read_text())
    assert manifest["settings"] == {"trials": 4, "spread": 0.5}
    assert (manifest["seed"], manifest["scale"]) == (7, "paper")
    assert set(manifest["seconds"]) == {"first", "second", "total"}
    assert {"wolf", "jax", "numpy", "python"} <= manifest["versions"].keys()
    assert manifest["machine"]["cores"] >= 1
    with (tmp_path / "made-up" / "rows.csv").open() as file:
        assert [row["part"] for row in csv.DictReader(file)] == ["first"] * 4 + ["second"] * 4


@pytest.mark.parametrize("reason", [NoData("no set"), FileNotFoundError("no file"), ConnectionError("no network")])
def test_a_part_without_data_is_left_out(tmp_path, recorder, reason):
    recorder.breaks, recorder.raises = "second", reason
    outcome = runner.reproduce(recorder.experiment(requirements=("uci",)), Request(tmp_path))
    assert outcome.missing == ("second",)
    assert not outcome.failed


def test_a_missing_file_of_an_experiment_without_data_is_an_error(tmp_path, recorder):
    recorder.breaks, recorder.raises = "second", FileNotFoundError("no file")
    with pytest.raises(FileNotFoundError):
        runner.reproduce(recorder.experiment(), Request(tmp_path))


def command(*arguments):
    """Run `wolf reproduce` inside wolf's own group, whether or not the package is installed."""
    return CliRunner().invoke(OneLineErrors(commands={"reproduce": reproduce}), ["reproduce", *arguments])


@pytest.fixture
def only(monkeypatch, recorder):
    """Let the command know the made-up experiment alone."""
    known = {"made-up": recorder.experiment()}
    monkeypatch.setattr(registry, "experiments", lambda: known)
    return recorder


def test_the_command_lists_and_runs(tmp_path, only):
    assert command("--list").output.split() == ["made-up", "A", "made-up", "experiment"]
    result = command("--out", str(tmp_path / "new" / "folder"))
    assert result.exit_code == 0, result.output
    assert "nothing to compare with" in result.output
    assert (tmp_path / "new" / "folder" / "made-up" / "results.json").exists()
    assert command("--out", str(tmp_path), "--quiet").output == ""
    told = json.loads(command("--out", str(tmp_path), "--json").output)
    assert [each["name"] for each in told["experiments"]] == ["made-up"]


def test_the_command_ends_with_1_if_a_difference_is_unexplained(tmp_path, only, monkeypatch):
    monkeypatch.setattr(verdict, "expected", lambda: {"made-up": entry(value=1.0)})
    result = command("--out", str(tmp_path))
    assert result.exit_code == 1
    assert "Differs, unexplained" in result.output
    monkeypatch.setattr(verdict, "expected", lambda: {"made-up": entry(value=1.0, reason="made-up")})
    result = command("--out", str(tmp_path))
    assert result.exit_code == 0
    assert "Differs because it was made up." in result.output


def test_a_job_of_hours_is_run_only_if_it_is_named(monkeypatch, recorder):
    known = {"made-up": recorder.experiment(), "long": recorder.experiment(name="long", on_request=True)}
    monkeypatch.setattr(registry, "experiments", lambda: known)
    assert [each.name for each in registry.choose()] == ["made-up"]
    assert [each.name for each in registry.choose(("long",))] == ["long"]
    assert "(only if named)" in command("--list").output


def test_an_interrupted_command_says_how_to_go_on(tmp_path, only):
    only.breaks = "second"
    result = command("--out", str(tmp_path))
    assert result.exit_code == 130
    assert "the same command goes on" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mad-up",), "no experiment is called 'mad-up'. Did you mean 'made-up'?"),
        (("--scale", "huge"), "'huge' is not one of"),
        (("--trials", "0"), "0 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("--data", "nowhere"), "'nowhere' does not exist"),
    ],
)
def test_bad_input_ends_in_one_clear_line(tmp_path, only, arguments, words):
    result = command("--out", str(tmp_path), *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert only.ran == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, only):
    (tmp_path / "file").write_text("")
    result = command("--out", str(tmp_path / "file"))
    assert result.exit_code == 2


def test_two_experiments_run_from_end_to_end(tmp_path):
    result = command("intro", "weighted-likelihood", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "intro" / "intro.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "weighted-likelihood" / "weighted-likelihood.svg").read_bytes()[:2000]
    assert "2 agrees" in result.output


def the_generator():
    """Import the script that writes the pages."""
    spec = importlib.util.spec_from_file_location("make_reproduction", PAPER / "make_reproduction.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages


def test_the_pages_say_what_the_folder_says(tmp_path, only, monkeypatch):
    pages = the_generator()
    monkeypatch.setattr(pages, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(pages, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(pages, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(pages, "ANSWERS", tmp_path / "answers.toml")
    (tmp_path / "answers.toml").write_text('[made-up]\nanswer = "The total is %(total).1f: 100 %% of it."\n')
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "errata.md").write_text("kept")
    monkeypatch.setattr(verdict, "expected", lambda: {"made-up": entry(value=1.0, reason="made-up")})
    command("--out", str(tmp_path / "folder"))
    pages.main(tmp_path / "folder")
    index, page = ((tmp_path / "pages" / f"{name}.md").read_text() for name in ("index", "made-up"))
    assert "| [`made-up`](made-up.md): A made-up experiment (scale small) | 1 differs | - | 0 s |" in index
    assert "- Compared with the paper and its repository: 1 differs." in index
    assert "A choice of ours:\n\n- It was made up. *(made-up: total)*" in index
    assert page.startswith(
        "# made-up\n\nThe total is 1.5: 100 % of it.\n\n## Verdicts\n\nReported: the paper (table 1)."
    )
    assert "| total | 1.5 | 1 ± 0 % | differs (1) |" in page
    assert "(1) Differs by a choice of ours: it was made up." in page
    assert "wolf reproduce made-up --scale small --seed 314" in page
    pages.main(tmp_path / "empty")  # the pages and verdicts of earlier folders are kept
    assert (tmp_path / "pages" / "index.md").read_text() == index
    assert (tmp_path / "pages" / "made-up.md").read_text() == page


def test_the_index_counts_the_verdicts_that_are_kept():
    pages = the_generator()
    done = {name: pages._kept(name) for name in registry.experiments()}
    index = (pages.PAGES / "index.md").read_text()
    assert [line for line in pages._totals(done) if line not in index] == []
    for name, (results, _) in done.items():
        page = (pages.PAGES / f"{name}.md").read_text()
        assert [found["name"] for found in results["verdicts"] if f"| {found['name']} |" not in page] == []


def test_an_answer_without_its_figures_is_left_out():
    pages = the_generator()
    assert pages._filled("It is %(a).1f.", {"a": 2.0}) == "It is 2.0."
    assert pages._filled("It is %(a).1f.", {}) == pages._filled("It is %(a).1f.", {"a": None}) == ""


def test_every_experiment_has_an_answer_and_a_picture_below_it():
    pages = the_generator()
    answers = tomllib.loads(pages.ANSWERS.read_text())
    assert answers.keys() == registry.experiments().keys()
    assert [name for name, each in answers.items() if each.keys() != {"lead", "answer"}] == []


def test_a_picture_keeps_the_colours_of_methods(tmp_path):
    """A palette of 96 colours gave two methods one colour."""
    pages, shades = the_generator(), [tuple(np.random.default_rng(i).integers(0, 256, 3)) for i in range(600)]
    picture = np.repeat(np.array(shades, np.uint8)[None], 40, 0)
    for name, colors in (("many", picture), ("few", picture[:, :20])):
        Image.fromarray(colors).save(tmp_path / f"{name}.png")
        pages._shrink(tmp_path / f"{name}.png", tmp_path / f"{name}-short.png")
        kept = np.asarray(Image.open(tmp_path / f"{name}-short.png").convert("RGB"), int)
        assert np.abs(kept - colors).max() <= pages.LARGEST_SHIFT


def test_every_picture_is_described_as_in_the_table():
    pages = the_generator()
    shown = [line for page in pages.PAGES.glob("*.md") for line in page.read_text().splitlines() if line[:2] == "!["]
    told = tomllib.loads(pages.ALT_TEXTS.read_text())
    assert sorted(shown) == sorted(pages._shown(name) for name in told)
    assert {path.stem for path in pages.IMAGES.glob("*.png")} == set(told)
    assert [name for name, words in told.items() if not 8 <= len(words.split()) <= 25] == []


def test_every_page_is_in_the_navigation_and_every_experiment_in_the_verdicts():
    docs = PAPER.parent / "docs"
    pages = {path.stem for path in (docs / "reproduction").glob("*.md")}
    listed = re.findall(r"reproduction/([\w-]+)\.md", (PAPER.parent / "mkdocs.yml").read_text())
    assert sorted(listed) == sorted(pages)
    index = (docs / "reproduction" / "index.md").read_text()
    assert [name for name in registry.experiments() if f"`{name}`" not in index] == []
    assert pages - {"index"} == set(re.findall(r"\(([\w-]+)\.md\)", index))


def test_a_difference_that_is_known_is_known_within_a_range():
    """A note without a range would explain every regression away."""
    loose = [
        f"{experiment}.{each.name}"
        for experiment, entries in verdict.expected().items()
        for each in entries
        if each.reason and each.ours is None and (each.claim or each.range or each.value is not None)
    ]
    assert loose == []


@pytest.mark.slow
def test_the_small_scale_of_everything_agrees_or_says_why(tmp_path):
    """Minutes: every experiment, with made-up regression sets. Tiny runs and two whole ones are quick tests above."""
    result = command("--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    statuses = []
    for name in (each.name for each in registry.choose()):
        told = json.loads((tmp_path / name / "results.json").read_text())
        statuses += [found["status"] for found in told["verdicts"]]
        assert told["measured"] or not told["verdicts"], f"{name} measured nothing"
        assert told["missing"] == [], f"{name} has parts without data"
        assert told["pictures"], f"{name} drew nothing"
        for picture in told["pictures"]:
            for kind in ("png", "svg"):
                assert (tmp_path / name / f"{picture}.{kind}").stat().st_size > 1000
        assert json.loads((tmp_path / name / "manifest.json").read_text())["scale"] == "small"
    assert statuses.count(verdict.AGREES) > statuses.count(verdict.DIFFERS)
    assert verdict.UNEXPLAINED not in statuses
