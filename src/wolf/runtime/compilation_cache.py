"""Programs that were compiled before: kept in a folder of the user's, for the next process.

Compiling takes most of the time of a first run, and the same program is compiled by every process. JAX can keep what it
compiled; here it does so for our own programs, inside our context alone, and the user's settings are as they were
afterwards. A user who has chosen a folder for JAX keeps to that one. What is in the folder is run as it is, so it
belongs to the user, and nobody else may enter it.
"""

import hashlib
import os
import platform
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax

ENV_VARIABLE = "WOLF_CACHE"  # "off", or a folder to use
OFF = ("off", "0", "no", "false")
MAX_BYTES = 256 * 2**20  # bytes; what was not used for longest goes first
KEPT_SHARE = 0.75  # of them, so that not every process has to clear up


class CachedCompilation:
    """A context in which JAX keeps what it compiles, on this thread only.

    It costs two microseconds, since every run comes by here.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Lay our settings over those of JAX, unless the user has some."""
        self._before: tuple[Any, ...] | None = None
        where = folder()
        if where is None:
            return
        place, least_seconds, enabled, _ = _jax()
        if enabled.value and not place.value:
            self._before = place.swap_local(where), least_seconds.swap_local(0.0)

    def __exit__(self, *raised: Any) -> None:
        """Take them back, and let JAX forget our folder if it has opened it."""
        if self._before is not None:
            place, least_seconds, _, keeper = _jax()
            place.set_local(self._before[0])
            least_seconds.set_local(self._before[1])
            if keeper._cache is not None:
                keeper.reset_cache()


@cache
def folder() -> str | None:
    """Find the folder, make it and clear it up; None where there is none, or it is not safe to run what is in it.

    Programs are made for one kind of processor and one version of the compiler, and each pair has a folder of its own.
    """
    chosen = os.environ.get(ENV_VARIABLE, "")
    if chosen.lower() in OFF or _jax() is None:
        return None
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wolf"
    place = base / f"jax-{jax.__version__}-{_processor()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _private(base) or not _private(place):
            return None
        _clear_up(base)
    except (OSError, RuntimeError):  # a full disk, no home, a file in its place: then without
        return None
    return str(place)


def _private(path: Path) -> bool:
    """Say whether a folder is the user's own and nobody else can write to it."""
    found = path.stat()
    if os.name != "posix":
        return True
    if found.st_uid != os.getuid():
        return False
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return True


def _clear_up(base: Path) -> None:
    """Remove what was not used for longest, once there is too much: other versions and processors as well."""
    files = []
    for place in os.scandir(base):  # every process comes by here: a tenth of what `Path.rglob` takes
        if place.name.startswith("jax-") and place.is_dir():
            files += [(entry.path, entry.stat()) for entry in os.scandir(place) if entry.is_file()]
    total = sum(found.st_size for _, found in files)
    if total <= MAX_BYTES:
        return
    for path, found in sorted(files, key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime)):
        with suppress(OSError):  # another process was quicker
            os.unlink(path)
        total -= found.st_size
        if total <= KEPT_SHARE * MAX_BYTES:
            return


def _processor() -> str:
    """Name a kind of processor: a program made for another one may end the process."""
    told = platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features", "model name")):
                told += line
            elif not line:  # the first one speaks for all
                break
    return hashlib.sha256(told.encode()).hexdigest()[:12]


@cache
def _jax() -> Any:
    """Find JAX's settings, which a thread can have for itself, and what keeps programs; None in a JAX without them."""
    try:
        from jax._src import compilation_cache, config

        place, least_seconds = config.compilation_cache_dir, config.persistent_cache_min_compile_time_secs
        known = callable(compilation_cache.reset_cache) and hasattr(compilation_cache, "_cache")
        settings = (place, least_seconds, config.enable_compilation_cache, compilation_cache)
        return settings if known and callable(place.swap_local) else None
    except (ImportError, AttributeError):
        return None
