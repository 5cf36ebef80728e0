"""What both doors to Spark ask of a data frame, and what they add to it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wolf import validation
from wolf.online.bank.arrow_batches import filter_batches
from wolf.online.bank.bank import Bank

MISSING = 'Spark needs PySpark 4: pip install "wolf-filter[spark]", and Java 17 or later'


def need_spark() -> None:
    """Say what to install if PySpark is not there."""
    try:
        import pyspark
    except ImportError as error:
        raise ModuleNotFoundError(MISSING) from error
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise ModuleNotFoundError(f"{MISSING}; this is PySpark {pyspark.__version__}")


def need_protobuf() -> None:
    """Say what to install if what Spark's state needs is not there: `pyspark[sql]` does not bring it."""
    try:
        import google.protobuf
        import pandas
    except ImportError as error:
        raise ModuleNotFoundError(
            f'A stream needs protobuf and pandas: pip install "wolf-filter[spark]" ({error})'
        ) from error
    del google, pandas


def check(df: Any, key: str, time: str, value: str | Sequence[str], streaming: bool) -> tuple[str, ...]:
    """Refuse what is no data frame of the right kind, and columns that are not there; give the names of the values."""
    need_spark()
    if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):
        raise ValueError(f"df must be a DataFrame of Spark; got {validation.told(df)}")
    if bool(df.isStreaming) != streaming:
        right, kind = ("filter", "a table") if streaming else ("stream", "a stream")
        raise ValueError(f"df is {kind}; use wolf_fleet.spark.{right}")
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in (key, time, *names):
        if not isinstance(name, str) or name not in df.columns:
            known = ", ".join(map(repr, df.columns))
            raise ValueError(f"there is no column {validation.told(name)}; there are {known}")
    if len({key, time, *names}) < 2 + len(names):
        raise ValueError(f"key, time and value must be different columns; got {', '.join((key, time, *names))}")
    return names


def result_schema(df: Any, bank: Bank, key: str, time: str, values: tuple[str, ...], level: float) -> Any:
    """Put the columns of the results behind those of a data frame, as a `StructType`.

    What is wrong with a column or with the model is told here, before anything runs.
    """
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

    empty = to_arrow_schema(df.schema, timezone="UTC").empty_table()
    out = filter_batches(empty, bank, key=key, values=values, time=time, level=level).schema
    bank.step([], np.empty((0, len(values))), np.empty(0))  # a model that knows no steps of other lengths is refused
    fields = list(df.schema.fields)
    for field in list(out)[len(fields) :]:
        kind = BooleanType() if pyarrow.types.is_boolean(field.type) else DoubleType()
        fields.append(StructField(field.name, kind, True))
    return StructType(fields)
