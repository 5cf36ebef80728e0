"""What `wolf stream` does: make a bank for the model that a person names, and run a stream through it."""

import dataclasses
from typing import Any

from wolf.cli.commands import filter
from wolf.models import registry
from wolf.models.priors import diffuse_prior
from wolf.online import Bank
from wolf_fleet.streaming import Streamed, stream

WIDE = 1e12  # variance of each state of a new key: its first row says where it is, in any unit


def make_bank(model: str, settings: tuple[str, ...], method: str | None, columns: int) -> Bank:
    """Make an empty bank.

    Args:
        model: name of a model, or a file.
        settings: its variances, as NAME=NUMBER; all of them.
        method: name with options.
        columns: number of values in a row.
    """
    found, given = registry.parse(model), filter.parse_settings(settings)
    registry.check_parameters(found, given)
    absent = [name for name in found.parameters if name not in found.given | given]
    if absent:
        wanted = " ".join(f"--set {name}=..." for name in absent)
        raise ValueError(f"a stream cannot be fitted as it comes: give {wanted} (wolf filter on some rows tells them)")
    prior = diffuse_prior(found.states(columns), WIDE)
    return Bank(found.model(None, prior, columns, **found.given | given), filter.parse_method(method))


def run(source: str, bank: Bank, out: str, values: tuple[str, ...], **options: Any) -> Streamed:
    """Run the stream; options as in `wolf_fleet.stream`."""
    return stream(source, bank, out, values=values, **options)


def facts(streamed: Streamed) -> dict[str, Any]:
    """Give the counts by name."""
    return dataclasses.asdict(streamed)
