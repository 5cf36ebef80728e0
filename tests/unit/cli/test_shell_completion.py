"""Shell completion, and the manual, which are generated from the commands, without JAX."""

import os
import shutil
import stat
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from wolf import models
from wolf.cli import main, manpage, shell_completion
from wolf.inference import registry


def complete(*words):
    """List the completions of the last word, and their types."""
    found = ShellComplete(main, {}, "wolf", "_WOLF_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found if item.type == "plain"], {item.type for item in found}


def test_completion_does_not_import_jax_or_numpy():
    variables = os.environ | {"_WOLF_COMPLETE": "bash_complete", "COMP_WORDS": "wolf filter --method WoLF-T"}
    run = [sys.executable, "-X", "importtime", "-m", "wolf"]
    done = subprocess.run(run, env=variables | {"COMP_CWORD": "3"}, capture_output=True, text=True)
    assert done.stdout.split() == ["plain,WoLF-TMD", "plain,WoLF-Tukey"]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"jax", "numpy"} & imported


def test_names_are_those_of_the_tables():
    assert registry.names() == shell_completion.method_names()
    assert models.names() == shell_completion.model_names()


def test_methods_models_and_files():
    assert complete("filter", "--method", "wolf-t") == (["WoLF-TMD", "WoLF-Tukey"], {"plain"})
    assert complete("compare", "x.csv", "--method", "KF-B") == (["KF-B"], {"plain"})
    assert complete("filter", "--model", "loc") == (["local-level", "local-trend"], {"plain", "file"})
    assert complete("filter", "--model", "trend+sea") == (["trend+seasonal"], {"plain"})
    assert complete("certify", "wie") == (["wiener-velocity"], {"plain", "file"})
    for command in ("filter", "inspect", "compare", "tune", "stream"):
        assert complete(command, "")[1] == {"file"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("time,temperature,id\n1,2,a\n", ["time", "temperature"]),
        ("# a logger\n\ntemperature;Zeit;t 2\n1,5;2;3\n", ["temperature", "t 2"]),
        ('"t, inside"\ttemperature\n', ["t, inside", "temperature"]),
        ("1,2\n3,4\n", []),
    ],
)
def test_columns_of_the_file_that_was_named(text, columns, tmp_path):
    path = tmp_path / "readings.csv"
    path.write_text(text)
    assert complete("filter", str(path), "--value", "t")[0] == columns
    assert complete("filter", str(path), "--causal", "--by", "t")[0] == columns


def test_columns_of_no_file_are_none(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1\xff\xfe\x00")
    assert complete("filter", str(tmp_path / "x.parquet"), "--value", "")[0] == []
    assert complete("filter", str(tmp_path), "--value", "")[0] == []


SHELLS = {
    "bash": "source ./script; COMP_WORDS=(wolf filter --method WoLF-T); COMP_CWORD=3; _wolf_completion ./wolf; "
    'echo "${COMPREPLY[@]}"',
    "zsh": "autoload -U compinit; compinit -u; source ./script; whence -w _wolf_completion",
    "fish": 'source ./script; complete -C "wolf filter --method WoLF-T"',
}


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_work_in_their_shells(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    variables = os.environ | {"_WOLF_COMPLETE": f"{shell}_source"}
    script = subprocess.run([sys.executable, "-m", "wolf"], env=variables, capture_output=True, text=True, check=True)
    (tmp_path / "script").write_text(script.stdout)
    program = tmp_path / "wolf"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wolf "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    line = f'PATH="{tmp_path}:$PATH"; ' if shell != "fish" else f"set -x PATH {tmp_path} $PATH; "
    run = subprocess.run([shell, "-c", line + SHELLS[shell]], cwd=tmp_path, capture_output=True, text=True)
    output = run.stdout.split()
    assert output[:2] == ["WoLF-TMD", "WoLF-Tukey"] if shell != "zsh" else "function" in output, run.stderr


def test_the_manual_has_every_command_and_every_option():
    page, roff = manpage.markdown(main), manpage.roff(main)
    for name, command in main.commands.items():
        assert f"## wolf {name}\n" in page
        assert f".SS wolf {name}" in roff
        assert command.epilog, f"{name} has no examples"
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert f"`{option}" in page
                assert option.replace("-", "\\-") in roff


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_takes_the_manual_without_a_word():
    done = CliRunner().invoke(main, ["manual"])
    run = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=done.output, capture_output=True, text=True)
    assert run.stderr == ""
    assert "Folder for compiled programs" in " ".join(run.stdout.split())
