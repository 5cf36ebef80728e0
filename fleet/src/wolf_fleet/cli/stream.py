"""Implementation of `wolf stream`: a bank for a named model, and a stream through it."""

import dataclasses
from typing import Any

from wolf.cli.commands import filter
from wolf.models import registry
from wolf.models.priors import diffuse_prior
from wolf.online import Bank
from wolf_fleet.streaming import StreamSummary, stream

DIFFUSE_VARIANCE = 1e12  # of each state of a new key: its first row determines the level, in any unit


def make_bank(model: str, settings: tuple[str, ...], method: str | None, num_values: int) -> Bank:
    """Create an empty bank.

    Args:
        model: name of a model, or a TOML file.
        settings: all its variances, as NAME=NUMBER.
        method: name with options.
        num_values: values per row.
    """
    found, given = registry.parse(model), filter.parse_settings(settings)
    registry.check_parameters(found, given)
    absent = [name for name in found.parameters if name not in found.given | given]
    if absent:
        wanted = " ".join(f"--set {name}=..." for name in absent)
        raise ValueError(
            f"variances are not estimated online: give {wanted} (`wolf filter` on a sample of the rows estimates them)"
        )
    prior = diffuse_prior(found.states(num_values), DIFFUSE_VARIANCE)
    return Bank(found.model(None, prior, num_values, **found.given | given), filter.parse_method(method))


def run(source: str, bank: Bank, out: str, values: tuple[str, ...], **options: Any) -> StreamSummary:
    """Run a stream; options as in `wolf_fleet.stream`."""
    return stream(source, bank, out, values=values, **options)


def facts(summary: StreamSummary) -> dict[str, object]:
    """Return the counts by name."""
    return dataclasses.asdict(summary)
