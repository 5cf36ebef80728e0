"""JAX's disk cache of compiled programs, for the programs of wolf only.

Compilation takes most of the time of a first run, and every process would compile the same programs. JAX caches
compiled programs inside wolf's own context, in the folder of `wolf.runtime.cache_folder`, and the user's settings are
restored afterwards. If the user has set a cache folder for JAX, that one is used.
"""

from functools import cache
from typing import Any

from wolf.runtime import cache_folder


class CachedCompilation:
    """A context in which JAX caches compiled programs on disk, on this thread only.

    Entering and leaving takes two microseconds; every run does.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Set wolf's cache folder on this thread, unless the user has set one."""
        self._before: tuple[object, ...] | None = None
        where, settings = cache_folder.folder(), _jax()
        if where is None or settings is None:
            return
        place, least_seconds, enabled, _ = settings
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
