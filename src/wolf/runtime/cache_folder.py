"""The folder of the disk caches: where it is, when it is safe to use, its size limit, and its files.

The caches hold compiled code, which runs in the process that reads it. The folder is therefore used only if it belongs
to the user, nobody else can write to it, and neither it nor a folder in it is a symbolic link. Otherwise nothing is
cached, and a warning says why. The mode of a folder that exists is never changed.
"""

import hashlib
import os
import secrets
import stat
import sys
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import jax

from wolf.runtime import processors

ENV_VARIABLE = "WOLF_CACHE"  # "off", or a folder to use
OFF = ("off", "0", "no", "false")
MAX_BYTES = 256 * 2**20  # the least recently used files are deleted first
KEPT_SHARE = 0.75  # share of MAX_BYTES kept when files are deleted, so that not every process has to
HASH_BYTES = 32  # of SHA-256, at the beginning of each file of `write_checked`
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UnsafeFolderError(Exception):
    """The folder must not be used; the message gives the reason."""


@cache
def folder() -> str | None:
    """Return the cache folder, created and trimmed to its size limit; None if caching is off or impossible.

    Programs depend on the processor and the version of the compiler; each combination has a subfolder of its own.
    """
    chosen = os.environ.get(ENV_VARIABLE, "")
    if chosen.lower() in OFF:
        return None
    try:
        base = Path(chosen) if chosen else _user_caches() / "wolf"
        place = base / f"jax-{jax.__version__}-{_processor()}"
        base.parent.mkdir(parents=True, exist_ok=True)
        for each in (base, place):
            each.mkdir(mode=0o700, exist_ok=True)
            _check_private(each)
        _evict(base)
    except (OSError, RuntimeError, UnsafeFolderError) as error:  # a full disk, no home, a file of that name
        warnings.warn(
            f"compiled code is not cached on disk, so each process compiles it again: {error}. Set {ENV_VARIABLE} to a "
            f"folder of your own, or to off",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return str(place)


def _user_caches() -> Path:
    """Return the folder in which programs of this user keep caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    usual = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or usual).expanduser()


def _check_private(path: Path) -> None:
    """Raise an error unless a folder belongs to the user, only the user can write to it, and it is no link."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFolderError(f"{path} is a symbolic link")
    if sys.platform == "win32":  # the mode says nothing of who may write; a user's own folders are private
        if found.st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT:
            raise UnsafeFolderError(f"{path} is a junction")
        return
    if found.st_uid != os.geteuid():
        raise UnsafeFolderError(f"{path} belongs to another user")
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise UnsafeFolderError(f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):o})")


def _evict(base: Path) -> None:
    """Delete the least recently used files above the size limit, those of other versions and processors included."""
    files = []
    for place in os.scandir(base):  # every process does this: a tenth of the time of `Path.rglob`
        if place.name.startswith("jax-") and place.is_dir(follow_symlinks=False):
            entries = [entry for entry in os.scandir(place) if entry.is_file(follow_symlinks=False)]
            files += [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
    total = sum(found.st_size for _, found in files)
    if total <= MAX_BYTES:
        return
    for path, found in sorted(files, key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime)):
        with suppress(OSError):  # deleted by another process meanwhile
            os.unlink(path)
        total -= found.st_size
        if total <= KEPT_SHARE * MAX_BYTES:
            return


def read_checked(path: Path) -> bytes | None:
    """Read a file that begins with the hash of its content; None if it is missing or damaged."""
    with suppress(OSError):
        found = path.read_bytes()
        if hashlib.sha256(found[HASH_BYTES:]).digest() == found[:HASH_BYTES]:
            return found[HASH_BYTES:]
    return None


def write_checked(path: Path, content: bytes) -> None:
    """Write a file with its hash, atomically; a full disk is no reason to fail."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        try:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _processor() -> str:
    """Return a hash of the processor model: a program compiled for another one may crash the process."""
    return hashlib.sha256(processors.model_description().encode()).hexdigest()[:12]
