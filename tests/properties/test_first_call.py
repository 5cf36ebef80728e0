"""The first call of a process: what it imports, what it costs, and what is cached for the next process."""

import ast
import gc
import json
import os
import resource
import stat
import subprocess
import sys
from collections import OrderedDict
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest

import wolf
from wolf.numerics.precision import precision
from wolf.runtime import cache_folder, signals
from wolf.runtime.gc_pause import gc_paused

FILTER = "import wolf, numpy as np; m = wolf.models.local_level(level_var=0.1, obs_var=1.0); "
FILTER += "print(wolf.filter(m, np.arange(50.0), backend='xla').means.sum().hex())"


def python(code, **environment):
    """Run a separate program; return its output and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.stderr == ""
    return run.stdout.strip(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command(*words, **environment):
    """Run the command `wolf` in a process that reports its imported modules."""
    code = f"""
import sys
sys.argv = ["wolf", *{words!r}]
sys.stderr = sys.stdout
try:
    from wolf.cli import main
    main()
finally:
    print([name for name in ("jax", "numpy", "scipy", "pyarrow") if name in sys.modules])
"""
    return python(code, **environment)


def test_import_wolf_brings_nothing_but_names():
    code = "import sys, wolf; wolf.__version__; dir(wolf); print([n for n in ('jax', 'numpy') if n in sys.modules])"
    assert python(code)[0] == "[]"


def test_every_name_and_every_module_is_there_when_asked_for():
    for name in wolf.__all__:
        assert getattr(wolf, name) is not None
    code = "import wolf; print(wolf.models.__name__, wolf.numerics.linalg.__name__, wolf.plot is wolf.plots)"
    assert python(code)[0] == "wolf.models wolf.numerics.linalg True"
    with pytest.raises(AttributeError, match="no attribute 'fliter'"):
        wolf.fliter
    with pytest.raises(AttributeError, match="no attribute '_nothing'"):
        wolf._nothing


def test_names_for_python_are_those_for_checkers():
    tree = ast.parse(Path(wolf.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom) and node.module != "wolf":
            for alias in node.names:
                if wolf._MODULES.get(alias.asname or alias.name) == f"{node.module}.{alias.name}":
                    continue
                seen.setdefault(node.module, set()).add(alias.name)
    assert seen == {home: set(names.split()) for home, names in wolf._HOMES.items()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "Usage: wolf"),
        (["--version"], "wolf, version"),
        (["filter", "--help"], "Usage: wolf filter"),
        (["filter", "nowhere.csv"], "there is no file nowhere.csv"),
        (["filter", "nowhere.csv", "--bogus"], "No such option '--bogus'"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_command_answers_before_anything_heavy_is_imported(words, said):
    told, _ = command(*words)
    assert said in told
    assert told.endswith("[]")


def test_completion_brings_nothing_heavy():
    told, _ = command(_WOLF_COMPLETE="bash_complete", COMP_WORDS="wolf fil", COMP_CWORD="1")
    assert told.splitlines() == ["plain,filter", "[]"]
    told, _ = command(_WOLF_COMPLETE="bash_complete", COMP_WORDS="wolf filter --method WoLF-TM", COMP_CWORD="3")
    assert told.splitlines() == ["plain,WoLF-TMD", "[]"]


def test_help_costs_less_than_importing_jax():
    assert command("--help")[1] < python("import jax")[1]  # a fifth of it, on a machine that is not busy


def test_first_filter_of_a_second_process_compiles_nothing_and_has_the_same_bits(tmp_path):
    watch = "import jax; seen = []; jax.monitoring.register_event_listener(lambda event, **_: seen.append(event)); "
    program = watch + FILTER + "; import sys; "
    program += "print([n for n in ('scipy.special', 'scipy.optimize') if n in sys.modules]); "
    program += "print(*(seen.count('/jax/compilation_cache/cache_' + what) for what in ('hits', 'misses')))"
    first, second = (python(program, WOLF_CACHE=str(tmp_path), XLA_FLAGS="")[0].splitlines() for _ in range(2))
    assert first[:2] == second[:2]
    assert first[1] == "[]"
    compiled_first, loaded_second = int(first[2].split()[1]), int(second[2].split()[0])
    assert first[2] == f"0 {compiled_first}"
    assert second[2] == f"{loaded_second} 0"
    assert compiled_first == loaded_second > 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (tmp_path, *tmp_path.glob("jax-*")))


def test_small_file_is_filtered_without_scipy(tmp_path):
    values = np.random.default_rng(0).normal(size=80)  # a level is chosen for them, which is compiled quickly
    (tmp_path / "small.csv").write_text("value\n" + "\n".join(f"{value:.3f}" for value in values))
    told, _ = command("filter", str(tmp_path / "small.csv"), "--quiet")
    assert told.endswith("['jax', 'numpy', 'pyarrow']")


@pytest.mark.parametrize(("word", "code"), [("models", 0), ("nonsense", 2)])
def test_command_runs_exit_handlers(word, code, tmp_path):
    (tmp_path / "wolf").write_text(
        f"import atexit; atexit.register(print, 'done'); from wolf.cli import main; main([{word!r}])"
    )
    run = subprocess.run([sys.executable, tmp_path / "wolf"], capture_output=True, text=True)
    assert run.returncode == code
    assert run.stdout.splitlines()[-1] == "done"
    assert ("local-level" in run.stdout) == (code == 0)


def test_command_waits_for_threads_that_are_at_work(tmp_path):
    lines = ["import threading, time", "from wolf.cli import main", "def work():", "    time.sleep(0.3)"]
    lines += ["    print('worked')", "threading.Thread(target=work).start()", "main(['--version'])"]
    (tmp_path / "wolf").write_text("\n".join(lines))
    run = subprocess.run([sys.executable, tmp_path / "wolf"], capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "worked"


def test_other_programs_keep_their_normal_exit():
    assert signals.exit_process(0) is None


def test_imports_leave_the_collector_as_it_was():
    with pytest.raises(ImportError), gc_paused():
        import_module("wolf.nothing")
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_frozen_objects_stay_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with gc_paused():
            assert gc.isenabled()
        assert gc.get_freeze_count() >= frozen > 0
    finally:
        gc.unfreeze()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache_folder.ENV_VARIABLE, str(tmp_path))
    cache_folder.folder.cache_clear()
    yield tmp_path
    cache_folder.folder.cache_clear()


def test_programs_are_cached_inside_the_context_only(folder):
    settings = dict(jax.config.values)
    jax.jit(lambda x: x - 41)(np.ones(3))
    with precision("float64"):
        jax.jit(lambda x: x + 41)(np.ones(3))
    kept = list(folder.rglob("*-cache"))
    assert kept
    jax.jit(lambda x: x * 41)(np.ones(3))
    assert list(folder.rglob("*-cache")) == kept
    assert dict(jax.config.values) == settings


def test_folder_of_the_user_is_used_instead(folder, tmp_path_factory):
    own = str(tmp_path_factory.mktemp("own"))
    jax.config.update("jax_compilation_cache_dir", own)
    try:
        with precision("float64"):
            assert jax.config.jax_compilation_cache_dir == own
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
    assert not list(folder.rglob("*-cache"))


@pytest.mark.parametrize("word", ["off", "0", "OFF"])
def test_nothing_is_cached_when_switched_off(word, folder, monkeypatch):
    monkeypatch.setenv(cache_folder.ENV_VARIABLE, word)
    assert cache_folder.folder() is None
    with precision("float64"):
        assert jax.config.jax_compilation_cache_dir is None


def not_cached(reason):
    """Expect no folder, and one warning with the reason, however often it is asked for."""
    with pytest.warns(RuntimeWarning, match=f"not cached on disk.*{reason}.*{cache_folder.ENV_VARIABLE}") as caught:
        assert cache_folder.folder() is None is cache_folder.folder()
    assert len(caught) == 1


def test_unusable_folder_disables_the_cache(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv(cache_folder.ENV_VARIABLE, str(folder / "file"))
    not_cached("File exists")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are a matter of POSIX")
def test_folder_of_another_user_is_not_used(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    not_cached("belongs to another user")


@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_folder_that_others_can_write_to_is_not_used_and_keeps_its_mode(mode, folder):
    folder.chmod(mode)
    not_cached("others can write")
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_folder_that_others_can_only_read_is_used_and_keeps_its_mode(folder):
    folder.chmod(0o755)
    place = Path(cache_folder.folder())
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, place)] == [0o755, 0o700]


def test_links_are_not_followed(folder, tmp_path_factory, monkeypatch):
    target = tmp_path_factory.mktemp("target")
    place = Path(cache_folder.folder())
    place.rmdir()
    place.symlink_to(target)
    cache_folder.folder.cache_clear()
    not_cached("is a symbolic link")
    (folder / "link").symlink_to(target)
    monkeypatch.setenv(cache_folder.ENV_VARIABLE, str(folder / "link"))
    cache_folder.folder.cache_clear()
    not_cached("is a symbolic link")
    assert not list(target.iterdir())


def test_cached_steps_hold_no_pickles(folder, monkeypatch):
    """The facts of every kind of step are JSON, and read back as they were."""
    from wolf.native.execute import disk_cache, executable, facts_json

    monkeypatch.setattr(disk_cache, "_folder", lambda: folder)
    monkeypatch.setattr(executable, "_steps", OrderedDict())
    model = wolf.models.local_level(0.1, 1.0)
    before = wolf.Online(model).step(1.0)
    facts = [path for path in folder.iterdir() if path.suffix == ".facts"]
    assert facts
    for path in facts:
        content = cache_folder.read_checked(path)
        json.loads(content)
        assert facts_json.encode(facts_json.decode(content)) == content
    executable._steps.clear()
    monkeypatch.setattr(executable, "trace", lambda signature: pytest.fail("traced again"))
    assert wolf.Online(model).step(1.0).log_likelihood == before.log_likelihood
    forged = b'{"state": {"class": ["wolf.runtime.signals", "unfinished"], "fields": []}}'
    with pytest.raises(TypeError, match="named tuple of wolf"):
        facts_json.decode(forged)


def test_least_recently_used_programs_are_evicted(folder, monkeypatch):
    monkeypatch.setattr(cache_folder, "MAX_BYTES", 1000)
    place = Path(cache_folder.folder())
    for age in range(20):
        path = place / f"{age:02}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    cache_folder.folder.cache_clear()
    cache_folder.folder()
    assert [path.name for path in sorted(place.iterdir())] == [f"{age:02}-cache" for age in range(7)]


def test_filtering_a_file_by_a_known_model_imports_no_scipy(tmp_path):
    (tmp_path / "in.csv").write_text("value\n" + "\n".join(f"{3 * (i % 7) + i / 9:.2f}" for i in range(40)) + "\n")
    code = f"""
import sys
sys.argv = ["wolf", "filter", "--causal", "--model", "local-level", {str(tmp_path / "in.csv")!r}]
from wolf.cli import main
main(standalone_mode=False)
print([name for name in ("scipy.special", "scipy.optimize", "scipy.linalg") if name in sys.modules])
"""
    assert python(code)[0].endswith("[]")
