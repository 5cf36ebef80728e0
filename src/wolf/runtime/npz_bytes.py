"""`.npz` bytes with a checksum, whose sizes are verified before memory is allocated for their arrays.

The checksum is the comment of the zip archive, so NumPy can read the file. Arrays are stored as they are: a file never
needs more memory than it has bytes, whatever its headers claim.
"""

import io
import math
import zipfile
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

ZIP = b"PK\x03\x04"  # first bytes of every zip archive that is not empty
DIGEST_BYTES = 16
COMMENT_BYTES = 2 * DIGEST_BYTES  # the checksum in hexadecimal: no byte of it can look like a part of the archive
COMMENT_LENGTH_BYTES = 2  # the last field of an archive without a comment
BLOCK_BYTES = 2**20


def pack(arrays: Mapping[str, npt.ArrayLike]) -> memoryview:
    """Serialize arrays to the bytes of an `.npz` file with a checksum."""
    buffer = io.BytesIO()
    numbers: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(buffer, **numbers)
    buffer.seek(-COMMENT_LENGTH_BYTES, io.SEEK_END)
    buffer.write(COMMENT_BYTES.to_bytes(COMMENT_LENGTH_BYTES, "little"))
    buffer.write(_checksum(buffer, buffer.tell()))
    return buffer.getbuffer()


def read(file: BinaryIO) -> dict[str, np.ndarray]:
    """Read the arrays of `pack`; raise a ValueError for anything else.

    Args:
        file: opened for reading, from its first byte on.
    """
    if file.read(len(ZIP)) != ZIP:
        raise ValueError("it does not begin like an .npz file")
    size = file.seek(0, io.SEEK_END)
    expected = _checksum(file, size - COMMENT_BYTES)
    if file.read() != expected:
        raise ValueError("its checksum does not match its contents; use an older copy")
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > size:
            raise ValueError("its arrays would need more memory than it has bytes")
        return {member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members}


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        if np.lib.format.read_magic(file) != (1, 0):  # of arrays of numbers
            raise ValueError("it contains something other than arrays of numbers")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        content = bytearray(file.read())  # writable, as arrays are
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError("it contains something other than arrays of numbers, or their sizes are wrong")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")


def _checksum(file: BinaryIO, size: int) -> bytes:
    """Hash the first bytes of a file; its position is then after them."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    for start in range(0, size, BLOCK_BYTES):
        digest.update(file.read(min(BLOCK_BYTES, size - start)))
    return digest.hexdigest().encode()
