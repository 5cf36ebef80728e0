"""Implementation of `wolf stream`: a bank for a named model, and a stream through it."""

import dataclasses
from pathlib import Path
from typing import Any

from wolf.cli.commands import filter
from wolf.online import Bank
from wolf_fleet.service.auth import read_token
from wolf_fleet.streaming import StreamSummary, stream
from wolf_fleet.streaming.key_models import ModelLearner, WarmUp, make_model, read_models


def make_bank(model: str, settings: tuple[str, ...], method: str | None, num_values: int) -> Bank:
    """Create an empty bank of one model.

    Args:
        model: name of a model, or a TOML file.
        settings: all its variances, as NAME=NUMBER.
        method: name with options.
        num_values: values per row.
    """
    return Bank(make_model(model, filter.parse_settings(settings), num_values), filter.parse_method(method))


def make_keyed_bank(
    model: str,
    settings: tuple[str, ...],
    method: str | None,
    num_values: int,
    models: str | None,
    warm_up: int | None,
    group: str | None,
) -> Bank | ModelLearner:
    """Create an empty bank, whose keys may have models of their own, or what learns these.

    Args:
        model: name of a model, or a TOML file.
        settings: all its variances, as NAME=NUMBER.
        method: name with options.
        num_values: values per row.
        models: TOML file with models by patterns of keys; `model` and `settings` are the default.
        warm_up: number of rows from which the model of each key is learned.
        group: regular expression that finds the group of a key, with `warm_up`.
    """
    given = filter.parse_settings(settings)
    if group is not None and warm_up is None:
        raise ValueError("--group needs --warm-up: the keys of a group share what is learned")
    if warm_up is not None:
        if given or models is not None:
            raise ValueError("--warm-up learns the variances: leave out --set and --models")
        return WarmUp(warm_up, model, filter.parse_method(method), group)
    if models is None:
        return make_bank(model, settings, method, num_values)
    table, pattern = read_models(
        Path(models), num_values, model, given, lambda text: filter.parse_method(text or method)
    )
    default = make_model(model, given, num_values) if given else None
    return Bank(default, filter.parse_method(method), models=table, group=pattern)


def run(source: str, bank: Bank | ModelLearner, out: str, values: tuple[str, ...], **options: Any) -> StreamSummary:
    """Run a stream; options as in `wolf_fleet.stream`, but the key of the signature of alerts is in a file."""
    secret = read_token(options.pop("alert_secret_file"))
    return stream(source, bank, out, values=values, alert_secret=secret, **options)


def facts(summary: StreamSummary) -> dict[str, object]:
    """Return the counts by name."""
    return dataclasses.asdict(summary)
