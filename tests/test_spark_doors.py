"""What `wolf.spark` refuses before Spark is asked for anything; the rest is in tests/spark."""

import sys
from types import SimpleNamespace

import pytest

import wolf
import wolf.spark

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "time": "at", "value": "v", "model": LEVEL}


def frame(streaming):
    return SimpleNamespace(isStreaming=streaming, schema=None, columns=["id", "at", "v"])


def test_without_pyspark_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match=r"wolf-filter\[spark\]"):
        wolf.spark.filter(frame(False), **NAMES)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.1"))
    with pytest.raises(ModuleNotFoundError, match=r"this is PySpark 3\.5\.1"):
        wolf.spark.stream(frame(True), **NAMES)


@pytest.mark.parametrize(
    ("door", "df", "changes", "words"),
    [
        (wolf.spark.filter, [1.0], {}, "df must be a DataFrame of Spark"),
        (wolf.spark.filter, frame(True), {}, "df is a stream; use wolf.spark.stream"),
        (wolf.spark.stream, frame(False), {}, "df is a table; use wolf.spark.filter"),
        (wolf.spark.filter, frame(False), {"value": "w"}, "there is no column 'w'; there are 'id', 'at', 'v'"),
        (wolf.spark.filter, frame(False), {"time": None}, "there is no column None"),
        (wolf.spark.filter, frame(False), {"time": "id"}, "must be different columns"),
        (wolf.spark.filter, frame(False), {"step": 0.0}, "step must be"),
        (wolf.spark.stream, frame(True), {"buckets": 0}, "buckets must be"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch, door, df, changes, words):
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="4.3.0"))
    with pytest.raises(ValueError, match=words):
        door(df, **NAMES | changes)
