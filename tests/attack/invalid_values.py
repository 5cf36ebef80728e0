"""Invalid values by kind of argument, and the check that each is refused by a ValueError before anything compiles."""

import re

import jax
import numpy as np
import pandas
import polars
import pyarrow
import pytest

import wolf

COMPILATIONS = []  # of JAX so far: a refusal must add none


def record_compilation(event, *_, **__):
    if "backend_compile" in event:
        COMPILATIONS.append(event)


jax.monitoring.register_event_duration_secs_listener(record_compilation)

NAN, INF = float("nan"), float("inf")
NONE = {"None": None}
ODD = {
    "text": "x",
    "digits": "3",
    "bytes": b"3",
    "texts": ["a", "b"],
    "dict": {"a": 1.0},
    "set": {1.0},
    "generator": (x for x in [1.0]),
    "complex": 1 + 2j,
    "object": object(),
    "objects": np.array([object(), 1.0], dtype=object),
    "date": np.datetime64("2020-01-01"),
    "NaT": np.datetime64("NaT"),
    "class": float,
}
FEW = NONE | {name: ODD[name] for name in ("text", "texts", "dict", "complex", "NaT", "object")}
NOT_A_NUMBER = NONE | ODD | {"nan": NAN, "list": [1.0, 2.0], "empty": []}
POSITIVE = ODD | {
    "zero": 0.0,
    "negative": -1.0,
    "nan": NAN,
    "empty": [],
    "list with zero": [1.0, 0.0],
    "masked": np.ma.masked,
}
NUMBER = NONE | POSITIVE | {"list": [1.0, 2.0], "inf": INF, "bool": True}
VARIANCE = NOT_A_NUMBER | {"negative": -1.0, "inf": INF, "matrix": np.eye(2)}
NOISE = VARIANCE | {"zero": 0.0}
SHARE = NOT_A_NUMBER | {"negative": -0.1, "above": 1.5, "inf": INF}
LEVEL = SHARE | {"zero": 0.0, "one": 1.0, "percent": 95, "bool": True}
WHOLE = NONE | ODD | {"negative": -1, "fraction": 1.5, "float": 3.0, "nan": NAN, "inf": INF, "bool": True}
WHOLE |= {"list": [3], "array": np.array([3, 4]), "huge": 2**70}
COUNT = WHOLE | {"zero": 0}
FLAG = NONE | {name: ODD[name] for name in ("text", "dict", "object")} | {"two": 2, "array": np.array([True, False])}
CHOICE = NONE | ODD | {"number": 3, "array": np.array(["a", "b"]), "bool": True}
FUNCTION = {"text": "x", "number": 3, "dict": {}, "array": np.eye(2)}
KEY = {"text": "0", "fraction": 1.5, "bool": True, "huge": 2**70, "negative": -(2**70), "floats": np.zeros(2)}
KEY |= {"wrong array": np.zeros(3, np.uint32), "list": [0, 1], "complex": 1j, "dict": {}, "NaT": np.datetime64("NaT")}
MODEL = FEW | {"class": wolf.LinearModel, "number": 3, "array": np.eye(2), "gaussian": wolf.Gaussian([0.0], [[1.0]])}
METHOD = {name: ODD[name] for name in ("text", "texts", "dict", "complex", "object")}
METHOD |= {"class": wolf.GaussianFilter, "weight": wolf.IMQ(), "number": 3, "bytes": b"KF", "function": wolf.KF}
RESULT = FEW | {"array": np.zeros((5, 1)), "number": 3}
PRIOR = {name: ODD[name] for name in ("text", "dict", "complex", "object")} | {
    "number": 1.0,
    "mean only": (np.zeros(1),),
}
PRIOR |= {
    "texts": ("a", "b"),
    "wrong size": wolf.Gaussian(np.zeros(7), np.eye(7)),
    "nan": wolf.Gaussian([NAN], [[1.0]]),
}
PRIOR |= {"negative": wolf.Gaussian([0.0], [[-1.0]])}
MATRIX = NONE | ODD | {"number": 1.0, "vector": np.ones(5), "nan": [[NAN]], "inf": [[INF]], "empty": np.zeros((0, 0))}
MATRIX |= {"wide": np.ones((1, 7)), "ragged": [[1.0], [1.0, 2.0]], "four axes": np.ones((1, 1, 1, 1))}
COVARIANCE = MATRIX | {"negative": [[-1.0]]}
SERIES = (
    NONE
    | ODD
    | {
        "0-d": np.array(1.0),
        "empty": [],
        "no rows": np.zeros((0, 1)),
        "no columns": np.zeros((5, 0)),
        "four axes": np.arange(16.0).reshape(2, 2, 4, 1),
        "too many columns": np.arange(35.0).reshape(5, 7),
        "ragged": [[1.0], [1.0, 2.0]],
        "dates": np.array(["2020-01-01"] * 5, "datetime64[D]"),
        "NaT in numbers": [1.0, np.datetime64("NaT"), 2.0],
        "NaT of pandas": [1.0, pandas.NaT, 2.0],
        "spans": np.zeros(5, "timedelta64[s]"),
        "complexes": np.ones(5) * 1j,
        "fields": np.zeros(5, [("a", float)]),
        "digits in a list": ["1.0", "2.0", "3.0"],
        "digits among objects": np.array([1.0, "2.0", 3.0], dtype=object),
        "bytes in an array": np.array([b"1", b"2"]),
        "too large an int": [10**400, 1.0],
        "dicts": [{"a": 1.0}] * 5,
        "pandas dates": pandas.Series(pandas.date_range("2020", periods=5)),
        "pandas text": pandas.Series(["a"] * 5),
        "polars text": polars.Series(["a"] * 5),
        "arrow text": pyarrow.array(["a"] * 5),
    }
)
MAPPING = {name: ODD[name] for name in ("text", "bytes", "texts", "complex", "object")} | {"number": 3}
PATH = NONE | {"number": 3, "array": np.eye(2), "dict": {}, "list": ["a.npz"], "bytes": b"a.npz"}


def without(values, *names):
    """Leave out values that are valid for an argument, or are refused in another way."""
    return {name: value for name, value in values.items() if name not in names}


def make_cases(*rows):
    """Make the parameters of a test from rows of function, argument, invalid values, and the call that passes one."""
    return [pytest.param(argument, values, call, id=f"{name}-{argument}") for name, argument, values, call in rows]


def check_refused(argument, values, call):
    """Check that each value is refused by a plain ValueError that names the argument, before anything compiles."""
    wrong = [f"{kind}: {fault}" for kind, value in values.items() if (fault := _fault(argument, value, call))]
    assert not wrong, "\n".join(wrong)


def _fault(argument, value, call):
    before = len(COMPILATIONS)
    try:
        call(value)
    except Exception as error:
        named = re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", str(error))
        compiled = len(COMPILATIONS) > before
        right = type(error) is ValueError and named and not compiled
        return "" if right else f"{type(error).__name__} ({compiled=}): {error}"
    return "accepted"
