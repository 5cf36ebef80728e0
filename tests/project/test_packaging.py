"""Facts about the package that are written in several places agree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
yaml = pytest.importorskip("yaml")
# Those with a marker are of one system only, which a recipe without an architecture cannot name.
DEPENDENCIES = [each for each in PROJECT["dependencies"] if ";" not in each]
RECIPE = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())


def spaced(requirement):
    """Write a requirement as conda does: a name, then its versions."""
    return re.sub(r"^([\w.-]+)\s*(.*)$", r"\1 \2", requirement).strip()


def test_the_conda_recipe_requires_what_pyproject_requires():
    needed = [f"python {PROJECT['requires-python']}", *map(spaced, DEPENDENCIES)]
    assert RECIPE["requirements"]["run"] == needed
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert {*map(spaced, build["requires"])} <= {*RECIPE["requirements"]["host"]}


def test_the_conda_recipe_has_version_commands_licence_and_summary_of_pyproject():
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert RECIPE["package"]["name"] == PROJECT["name"]
    commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == commands
    about = RECIPE["about"]
    assert (about["summary"], about["license"]) == (PROJECT["description"], PROJECT["license"])
    assert [about["license_file"]] == PROJECT["license-files"]
    assert (ROOT / about["license_file"]).is_file()


def test_rattler_build_reads_the_conda_recipe_and_refuses_unknown_fields():
    rattler = pytest.importorskip("rattler_build", reason="pip install py-rattler-build, which make check-all does")
    path = ROOT / "conda" / "recipe.yaml"
    (variant,) = rattler.Stage0Recipe.from_file(path).render()
    rendered = variant.recipe.to_dict()
    assert rendered["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    assert rendered["requirements"]["run"] == RECIPE["requirements"]["run"]
    assert (path.parent / rendered["source"][0]["path"] / "pyproject.toml").is_file()
    with pytest.raises(rattler.RecipeParseError, match="unknown field"):
        rattler.Stage0Recipe.from_yaml(path.read_text().replace("noarch:", "noarc:"))


def test_the_commands_of_the_recipe_run():
    for command in (line.split() for test in RECIPE["tests"] for line in test.get("script", [])):
        module = [sys.executable, *command[1:]] if command[0] == "python" else [sys.executable, "-m", *command]
        assert subprocess.run(module, capture_output=True).returncode == 0, command


def test_the_versions_page_has_the_requirements_of_pyproject():
    page = (ROOT / "docs" / "versions.md").read_text()
    for name, least in (re.split(">=", each) for each in DEPENDENCIES):
        row = next(line for line in page.splitlines() if line.startswith("|") and name.lower() in line.lower())
        assert re.search(rf"\b{re.escape(least)}\b", row), f"{name} {least} is not in: {row}"


def test_the_oldest_versions_are_those_of_pyproject():
    done = subprocess.run([sys.executable, ROOT / "tests" / "oldest.py"], capture_output=True, text=True, check=True)
    lines = done.stdout.split()
    assert f"jax=={dict(each.split('>=') for each in DEPENDENCIES)['jax']}.*" in lines
    assert any(line.startswith("matplotlib==") for line in lines)
    assert not any("wolf" in line or ">=" in line for line in lines)


def test_citation_and_all_distributions_have_one_version():
    files = [ROOT / "pyproject.toml", ROOT / "fleet" / "pyproject.toml", ROOT / "paper" / "pyproject.toml"]
    versions = {tomllib.loads(each.read_text())["project"]["version"] for each in files}
    assert {*versions, yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]} == {PROJECT["version"]}


def test_actions_of_workflows_are_pinned_to_commits_with_their_version():
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for each in workflows for line in each.read_text().splitlines() if "uses:" in line]
    assert used
    assert all(re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v[0-9.]+$", line) for line in used)


def test_targets_of_make_in_workflows_exist():
    makefile = (ROOT / "Makefile").read_text()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for run in (step["run"] for step in job["steps"] if step.get("run", "").startswith("make ")):
                targets = [word for word in run.split()[1:] if re.fullmatch(r"[a-z-]+", word)]
                assert targets
                assert all(f"\n{target}:" in makefile for target in targets), run


def test_the_readme_has_at_most_100_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_links_of_the_description_are_absolute_or_plain_text():
    """On a package index relative links lead nowhere; once there is a public repository they lead there."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    readme = shown = (ROOT / "README.md").read_text()
    for each in settings["fancy-pypi-readme"]["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    link = r"\[([^\]]+)\]\(([^)]+)\)"
    before, after = re.findall(link, readme), dict(re.findall(link, shown))
    public = PROJECT["urls"].get("Repository")
    assert all(target.startswith("https://") for target in after.values())
    for words, target in before:
        if target.startswith("https://"):
            assert after[words] == target
        elif public:
            assert after[words].startswith(public)
            assert after[words].endswith(target)
        elif not target.endswith(".png"):
            assert words in shown


def test_extras_and_packages_that_are_named_exist():
    """The package is not published: a message names the missing package itself, or an extra of a clone."""
    extras = {
        ".": set(PROJECT["optional-dependencies"]),
        "./fleet": set(
            tomllib.loads((ROOT / "fleet" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        ),
    }
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "fleet" / "README.md"]
    for path in [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "fleet" / "src").rglob("*.py")]:
        text = path.read_text()
        assert not re.findall(r"(?:wolf-filter|wolf-fleet|wolf-paper)\[", text), path
        assert not re.findall(r"pip install (?:wolf-|\S*wolf_)", text), path
        for place, names in re.findall(r"""pip install [^`\n]*?["'](\.|\./fleet)\[([\w,]+)\]""", text):
            assert set(names.split(",")) <= extras[place], path
