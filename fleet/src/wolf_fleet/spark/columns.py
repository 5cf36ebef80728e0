"""Validation of Spark data frames, and the schema of results."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wolf import validation
from wolf.online.bank.arrow_batches import filter_batches
from wolf.online.bank.bank import Bank

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

INSTALL = "run pip install './fleet[spark]' in a clone of the repository"
MISSING = f"wolf_fleet.spark needs PySpark 4 and Java 17 or later: {INSTALL}"


def require_spark() -> None:
    """Raise an error with the command to install PySpark if it is missing or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise ModuleNotFoundError(MISSING) from error
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise ModuleNotFoundError(f"{MISSING}; this is PySpark {pyspark.__version__}")


def require_protobuf() -> None:
    """Raise an error if the dependencies of stateful streams are missing; `pyspark[sql]` does not install them."""
    try:
        import google.protobuf
        import pandas
    except ImportError as error:
        raise ModuleNotFoundError(f"a stream needs protobuf and pandas: {INSTALL} ({error})") from error
    del google, pandas


def check(df: "DataFrame", key: str, time: str, value: str | Sequence[str], streaming: bool) -> tuple[str, ...]:
    """Validate a data frame and column names; return the names of the value columns."""
    require_spark()
    if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):  # frames of other libraries have neither
        raise ValueError(f"df must be a Spark DataFrame; got {validation.short_repr(df)}")
    if bool(df.isStreaming) != streaming:
        right, kind = ("filter", "a table") if streaming else ("stream", "a stream")
        raise ValueError(f"df is {kind}; use wolf_fleet.spark.{right}")
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in (key, time, *names):
        if not isinstance(name, str) or name not in df.columns:
            known = ", ".join(map(repr, df.columns))
            raise ValueError(f"there is no column {validation.short_repr(name)}; there are {known}")
    if len({key, time, *names}) < 2 + len(names):
        raise ValueError(f"key, time and value must be different columns; got {', '.join((key, time, *names))}")
    return names


def result_schema(
    df: "DataFrame", bank: Bank, key: str, time: str, values: tuple[str, ...], level: float
) -> "StructType":
    """Return the columns of a data frame followed by the result columns, as a `StructType`.

    Errors of the columns or the model are raised here, before anything runs.
    """
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

    empty = to_arrow_schema(df.schema, timezone="UTC").empty_table()
    out = filter_batches(empty, bank, key=key, values=values, time=time, level=level).schema
    bank.step([], np.empty((0, len(values))), np.empty(0))  # rejects a model without steps of other lengths
    fields = list(df.schema.fields)
    for field in list(out)[len(fields) :]:
        kind = BooleanType() if pyarrow.types.is_boolean(field.type) else DoubleType()
        fields.append(StructField(field.name, kind, True))
    return StructType(fields)
