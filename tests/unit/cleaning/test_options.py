"""Options of cleaning reach `Options` from data frames and from the command line, without further lists of names.

A new option takes three source files: `cleaning/options.py`, `cli/file_commands.py` and the place of use.
"""

import dataclasses
import inspect

import numpy as np
import pandas as pd
import pytest

import wolf
from wolf.cleaning import CleaningOptions, Options
from wolf.cli import file_commands

NAMES = set(CleaningOptions.__annotations__)


def test_keyword_arguments_are_fields_of_options():
    assert {field.name for field in dataclasses.fields(Options)} >= NAMES


def test_the_command_has_every_option():
    parameters = {parameter.name for parameter in file_commands.filter_command.params}
    assert (parameters | {"parameters"} if "settings" in parameters else parameters) >= NAMES


def test_from_mapping_selects_cleaning_options():
    found = Options.from_mapping({"causal": True, "level": 0.9, "quiet": True}, diagnostics=False)
    assert (found.causal, found.level, found.diagnostics) == (True, 0.9, False)


def test_filter_frame_names_no_option_itself():
    signature = inspect.signature(wolf.filter_frame)
    assert not NAMES & set(signature.parameters)
    assert all(f"`{name}`" in (wolf.filter_frame.__doc__ or "") for name in NAMES)


def test_filter_frame_rejects_unknown_options():
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'live'; expected one of time, values, by, exog, sd, model"
    ):
        wolf.filter_frame(pd.DataFrame({"y": np.arange(9.0)}), live=True)
