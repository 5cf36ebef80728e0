"""Arrow record batches of many keys through a bank, from files, Spark, DuckDB or polars."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.interfaces import Filter
from wolf.online.bank import serialization
from wolf.online.bank.bank import Bank
from wolf.online.bank.key_index import EncodedKeys
from wolf.online.bank.step import BankStep
from wolf.statespace import Model

if TYPE_CHECKING:
    import pyarrow

TEXT_TYPES = ("string", "large_string", "string_view")


def filter_batches(
    reader: object,
    model: Model | Bank,
    method: str | Filter | None = None,
    *,
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    step: float = 1.0,
    level: float = 0.95,
) -> "pyarrow.RecordBatchReader":
    """Filter rows of many keys lazily, batch by batch.

    The division into batches does not matter: each key has a filter of its own, which continues from batch to batch.

    Args:
        reader: a `pyarrow.RecordBatchReader`, a table or a frame (anything with `__arrow_c_stream__`), or an iterator
            of record batches.
        model: fixed in time; or a `wolf.Bank`, whose filters continue.
        method: as in `wolf.filter`.
        key: name of the column of keys, text or integers.
        values: name of the column to filter, or names, one for each coordinate; null is missing.
        time: name of the column of times: numbers, or time stamps (in seconds). Without it rows are used in order.
        step: duration of a step of the model, in the unit of the times.
        level: nominal coverage of the intervals.

    Returns:
        A `pyarrow.RecordBatchReader` of the same rows with mean, lower, upper, weight and outlier; null in rows that
        were not used because they are late or repeated.

    Example:
        >>> import pyarrow, wolf
        >>> table = pyarrow.table({"id": ["a", "b", "a"], "v": [1.0, 5.0, None]})
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter_batches(table, model, key="id", values="v")
        >>> out.schema.names, out.read_all().num_rows
        (['id', 'v', 'mean', 'lower', 'upper', 'weight', 'outlier'], 3)
    """
    import pyarrow

    bank = model if isinstance(model, Bank) else Bank(model, method)
    if bank is model and method is not None:
        raise ValueError("a bank has a method already; leave method= out")
    names = (values,) if isinstance(values, str) else tuple(values)
    validation.positive_number("step", step)
    half_width = deviations(validation.confidence_level(level))
    schema, batches = _open(reader)
    check_columns(schema, bank, key, names, time)
    added = name_results(bank.step([], np.empty((0, len(names)))), names, half_width, set(schema.names))
    for title, array in added.items():
        schema = schema.append(pyarrow.field(title, pyarrow.from_numpy_dtype(array.dtype)))

    def run() -> "Iterator[pyarrow.RecordBatch]":
        for batch in batches:
            ys = np.column_stack([_floats(batch.column(name)) for name in names])
            times = None if time is None else read_times(batch.column(time), time) / step
            stepped = bank.step(_keys(batch.column(key), key), ys, times)
            results = name_results(stepped, names, half_width, set(batch.schema.names))
            arrays = [pyarrow.array(array, mask=~stepped.used) for array in results.values()]
            yield pyarrow.record_batch([*batch.columns, *arrays], schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, run())


def name_results(stepped: BankStep, values: Sequence[str], half_width: float, taken: set[str]) -> dict[str, np.ndarray]:
    """Convert the results of a batch to named columns.

    Args:
        stepped: from a bank.
        values: names of the measured coordinates; prefixes of the columns if there are several.
        half_width: of the intervals, in standard deviations.
        taken: names of existing columns; a result of the same name gets the prefix "wolf_".
    """
    results: dict[str, np.ndarray] = {}
    if stepped.signal is not None and stepped.signal_variances is not None:
        half = half_width * np.sqrt(stepped.signal_variances)
        ends = {"mean": stepped.signal, "lower": stepped.signal - half, "upper": stepped.signal + half}
        for j, name in enumerate(values):
            results |= {f"{name}_{kind}" if len(values) > 1 else kind: each[:, j] for kind, each in ends.items()}
    else:
        results |= {f"state_{j}": stepped.mean[:, j] for j in range(stepped.mean.shape[1])}
    for kind, each in (("weight", stepped.weight), ("outlier", stepped.outlier)):
        results |= {kind: each} if each.ndim == 1 else {f"{n}_{kind}": each[:, j] for j, n in enumerate(values)}
    named = {}
    for title, array in results.items():
        while title in taken:
            title = f"wolf_{title}"
        named[title] = array
    return named


def _open(reader: object) -> "tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]":
    """Return the schema and the batches of any Arrow source."""
    import pyarrow

    if isinstance(reader, pyarrow.RecordBatch):
        return reader.schema, [reader]
    if serialization.is_arrow_stream(reader):
        opened = pyarrow.RecordBatchReader.from_stream(reader)
        return opened.schema, opened
    if not isinstance(reader, Iterable) or isinstance(reader, str | bytes | dict):
        raise ValueError(f"reader must give Arrow record batches; got {validation.short_repr(reader)}")
    batches = iter(reader)
    first = next(batches, None)
    if not isinstance(first, pyarrow.RecordBatch):
        raise ValueError(f"reader must give Arrow record batches; got {validation.short_repr(first)} first")
    return first.schema, chain([first], batches)


def check_columns(schema: "pyarrow.Schema", bank: Bank, key: str, names: tuple[str, ...], time: str | None) -> None:
    """Raise a ValueError for columns that are absent or of the wrong type."""
    from pyarrow import types

    for name in [key, *names, *([] if time is None else [time])]:
        if name not in schema.names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(map(repr, schema.names))}")
    if len(names) != bank.model.obs_dim:
        raise ValueError(f"the model measures {bank.model.obs_dim}; values names {len(names)} columns")

    def check_type(name: str, expected: str, *tests: "Callable[[pyarrow.DataType], bool]") -> None:
        found = schema.field(name).type
        found = found.value_type if types.is_dictionary(found) else found
        if not any(test(found) for test in tests):
            raise ValueError(f"{expected}; {name!r} holds {found}")

    numbers = types.is_floating, types.is_integer
    check_type(key, "keys are text or integers", lambda found: str(found) in TEXT_TYPES, types.is_integer)
    for name in names:
        check_type(name, "values are numbers", *numbers, types.is_decimal)
    if time is not None:
        check_type(time, "times are numbers or time stamps", *numbers, types.is_timestamp, types.is_date)


def _floats(column: "pyarrow.Array") -> np.ndarray:
    import pyarrow

    return np.asarray(column.cast(pyarrow.float64()).fill_null(np.nan))


def _keys(column: "pyarrow.Array", name: str) -> np.ndarray | EncodedKeys:
    """Read the keys of rows, text in dictionary encoding, since each distinct name is looked up in Python."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()  # its dictionary may have names of no row
    if column.null_count:
        raise ValueError(f"a row has no key: {name!r} holds a null; fill it, or drop such rows")
    if types.is_integer(column.type):
        return np.asarray(column)
    coded = column.dictionary_encode()
    return EncodedKeys(coded.dictionary.to_pylist(), np.asarray(coded.indices))


def read_times(column: "pyarrow.Array", name: str) -> np.ndarray:
    """Convert a column of numbers or time stamps to numbers, time stamps to seconds since 1970."""
    import pyarrow

    if column.null_count:
        raise ValueError(f"a row has no time: {name!r} holds a null; fill it, or drop such rows")
    if pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type):
        return np.asarray(column.cast(pyarrow.timestamp("ns")).cast(pyarrow.int64())) / 1e9
    return _floats(column)
