"""Saved states from elsewhere: damaged, inflated and forged ones are refused before memory is allocated for them."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

import wolf
from wolf.numerics.pytree import to_dict
from wolf.runtime import checkpoints, npz_bytes

MODEL = wolf.models.local_level(1.0, 1.0)
FLIPS = 300
ZEROS = 10**8  # bytes that a file of 100 kB would inflate to
MAX_PEAK_BYTES = 10**7


@pytest.fixture(scope="module")
def bank():
    bank = wolf.Bank(MODEL, "WoLF")
    bank.step(["a", "b", "a"], [1.0, 5.0, 1.2])
    return bank


def saved_bank(bank, path):
    bank.save(path / "bank.npz")
    return (path / "bank.npz").read_bytes()


def saved_online(path):
    online = wolf.Online(MODEL, "WoLF")
    online.step(1.0)
    online.save(path / "online.npz")
    return (path / "online.npz").read_bytes()


def refusals(whole, load, rng):
    """Count the flipped bits that `load` refuses by a ValueError."""
    refused = 0
    for bit in rng.choice(8 * len(whole), FLIPS, replace=8 * len(whole) < FLIPS):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        try:
            load(bytes(flipped))
        except ValueError:
            refused += 1
    return refused


def loader(cls, path):
    def load(content):
        path.write_bytes(content)
        return cls.load(path, MODEL)

    return load


def test_every_flipped_bit_is_refused(bank, tmp_path, rng):
    path = tmp_path / "state.npz"
    states = wolf.filter_many(MODEL, [[1.0], [2.0]], method="WoLF").states.to_bytes()
    kinds = {
        "Bank.dump": (bank.dump("a"), lambda content: bank.restore("c", content)),
        "Bank.save": (saved_bank(bank, tmp_path), loader(wolf.Bank, path)),
        "Online.save": (saved_online(tmp_path), loader(wolf.Online, path)),
        "States.to_bytes": (states, lambda content: wolf.States.from_bytes(content, MODEL)),
    }
    for whole, load in kinds.values():
        load(whole)
    assert {name: refusals(*kind, rng) for name, kind in kinds.items()} == dict.fromkeys(kinds, FLIPS)


def sealed(archive):
    """Append the checksum of an archive as its writer would: whoever forges a file can compute it."""
    buffer = io.BytesIO(archive)
    buffer.seek(-npz_bytes.COMMENT_LENGTH_BYTES, io.SEEK_END)
    buffer.write(npz_bytes.COMMENT_BYTES.to_bytes(npz_bytes.COMMENT_LENGTH_BYTES, "little"))
    buffer.write(npz_bytes._checksum(buffer, buffer.tell()))
    return buffer.getvalue()


def compressed():
    """Zeros that the archive inflates."""
    np.savez_compressed(buffer := io.BytesIO(), header=np.zeros(ZEROS, np.uint8))
    return buffer.getvalue()


def claimed(shape, kind="<f8"):
    """An array whose header claims a shape that its bytes do not have, or a dtype of pickled objects."""
    npy = io.BytesIO()
    np.lib.format.write_array_header_1_0(npy, {"descr": kind, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("header.npy", npy.getvalue() + bytes(16))
    return buffer.getvalue()


def overlapping():
    """Many entries of the directory that point at the same bytes."""
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("header.npy", bytes(10**6))
        archive.filelist *= 1000
    return buffer.getvalue()


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(compressed, id="compressed"),
        pytest.param(overlapping, id="overlapping"),
        *(
            pytest.param(lambda shape=shape: claimed(shape), id=str(shape))
            for shape in ((ZEROS,), (-1, -2), (2**40,) * 2)
        ),
        *(pytest.param(lambda kind=kind: claimed((2,), kind), id=kind) for kind in ("|O", "|V0")),
    ],
)
def test_small_files_do_not_become_large_arrays(forge, tmp_path):
    content = sealed(forge())
    (tmp_path / "bomb.npz").write_bytes(content)
    tracemalloc.start()
    for load in (wolf.Online.load, wolf.Bank.load):
        with pytest.raises(ValueError, match=r"bomb\.npz is not a saved wolf filter"):
            load(tmp_path / "bomb.npz", MODEL)
    with pytest.raises(ValueError, match="data is not a saved wolf filter"):
        wolf.States.from_bytes(content, MODEL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MAX_PEAK_BYTES


def forged(content, **changes):
    """Rewrite a saved filter with other arrays and a valid checksum; None removes an array."""
    arrays = {**npz_bytes.read(io.BytesIO(content)), **changes}
    return bytes(npz_bytes.pack({name: array for name, array in arrays.items() if array is not None}))


def test_forged_arrays_are_refused_by_their_shapes(bank, tmp_path):
    path, whole = tmp_path / "bank.npz", saved_bank(bank, tmp_path)
    numbers = npz_bytes.read(io.BytesIO(whole))["numbers"]
    for changes in ({"numbers": None}, {"numbers": numbers[:, :-1]}, {"numbers": numbers[:1]}, {"times": np.zeros(9)}):
        path.write_bytes(forged(whole, **changes))
        with pytest.raises(ValueError, match="another shape, or is damaged"):
            wolf.Bank.load(path, MODEL)
    for changes in ({"state_0": np.zeros(10**5)}, {"state_0": np.zeros(1, "U3")}, {"state_1": None}):
        path.write_bytes(forged(saved_online(tmp_path), **changes))
        with pytest.raises(ValueError, match="another shape, or is damaged"):
            wolf.Online.load(path, MODEL)


def test_a_described_method_allocates_nothing_before_it_matches(tmp_path):
    """A header may name an ensemble of 2^31 members; only its shapes are traced."""
    path, model = tmp_path / "ensemble.npz", wolf.models.local_level(1.0, 1.0)
    small, large = (wolf.EnsembleFilter(num_members=members) for members in (4, 2**31 - 1))
    online = wolf.Online(model, small, key=0)
    online.save(path)
    content = path.read_bytes()
    header = online._header | {"method": to_dict(large)} | checkpoints.identity(model, large)
    checkpoints.write(path, header, {k: v for k, v in npz_bytes.read(io.BytesIO(content)).items() if k != "header"})
    with pytest.raises(ValueError, match="another shape, or is damaged"):
        wolf.Online.load(path, model)
