"""Disk cache of compiled programs, shared by the processes of a user.

Compilation takes most of the time of a first run, and every process would compile the same programs. JAX can cache
compiled programs on disk; here it does so for the programs of wolf only, inside wolf's own context, and the user's
settings are restored afterwards. If the user has set a cache folder for JAX, that one is used. Files in the folder are
executed, so it must belong to the user and be closed to others.
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
MAX_BYTES = 256 * 2**20  # the least recently used files are deleted first
KEPT_SHARE = 0.75  # share of MAX_BYTES kept when files are deleted, so that not every process has to


class CachedCompilation:
    """A context in which JAX caches compiled programs on disk, on this thread only.

    Entering and leaving takes two microseconds; every run does.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Set wolf's cache folder on this thread, unless the user has set one."""
        self._before: tuple[object, ...] | None = None
        where = folder()
        if where is None:
            return
        place, least_seconds, enabled, _ = _jax()
        if enabled.value and not place.value:
            self._before = place.swap_local(where), least_seconds.swap_local(0.0)

    def __exit__(self, *raised: object) -> None:
        """Restore the settings, and make JAX close the folder if it has opened it."""
        if self._before is not None:
            place, least_seconds, _, keeper = _jax()
            place.set_local(self._before[0])
            least_seconds.set_local(self._before[1])
            if keeper._cache is not None:
                keeper.reset_cache()


@cache
def folder() -> str | None:
    """Return the cache folder, created and trimmed to its size limit; None if caching is off or the folder is unsafe.

    Programs depend on the processor and the version of the compiler; each combination has a subfolder of its own.
    """
    chosen = os.environ.get(ENV_VARIABLE, "")
    if chosen.lower() in OFF or _jax() is None:
        return None
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wolf"
    place = base / f"jax-{jax.__version__}-{_processor()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(base) or not _is_private(place):
            return None
        _evict(base)
    except (OSError, RuntimeError):  # a full disk, no home, a file of that name: no cache
        return None
    return str(place)


def _is_private(path: Path) -> bool:
    """Return whether a folder belongs to the user and others cannot enter it."""
    found = path.stat()
    if os.name != "posix":
        return True
    if found.st_uid != os.getuid():
        return False
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return True


def _evict(base: Path) -> None:
    """Delete the least recently used files above the size limit, those of other versions and processors included."""
    files = []
    for place in os.scandir(base):  # every process does this: a tenth of the time of `Path.rglob`
        if place.name.startswith("jax-") and place.is_dir():
            files += [(entry.path, entry.stat()) for entry in os.scandir(place) if entry.is_file()]
    total = sum(found.st_size for _, found in files)
    if total <= MAX_BYTES:
        return
    for path, found in sorted(files, key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime)):
        with suppress(OSError):  # deleted by another process meanwhile
            os.unlink(path)
        total -= found.st_size
        if total <= KEPT_SHARE * MAX_BYTES:
            return


def _processor() -> str:
    """Return a hash of the processor model: a program compiled for another one may crash the process."""
    description = platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features", "model name")):
                description += line
            elif not line:  # all processors are assumed alike
                break
    return hashlib.sha256(description.encode()).hexdigest()[:12]


@cache
def _jax() -> Any:
    """Return JAX's thread-local settings of the cache, and its module; None if this version of JAX lacks them."""
    try:
        from jax._src import compilation_cache, config

        place, least_seconds = config.compilation_cache_dir, config.persistent_cache_min_compile_time_secs
        known = callable(compilation_cache.reset_cache) and hasattr(compilation_cache, "_cache")  # private: may go
        settings = (place, least_seconds, config.enable_compilation_cache, compilation_cache)
        return settings if known and callable(place.swap_local) else None
    except (ImportError, AttributeError):
        return None
