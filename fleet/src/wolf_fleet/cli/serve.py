"""Implementation of `wolf serve`: a bank for a named model behind `wolf_fleet.serve`."""

from typing import Any

import click

from wolf_fleet.cli import stream
from wolf_fleet.service import auth, server

BYTES_PER_MEGABYTE = 1_000_000


def run(
    model: str,
    settings: tuple[str, ...],
    method: str | None,
    models: str | None,
    warm_up: int | None,
    group: str | None,
    token_file: str | None,
    max_body: float,
    quiet: bool,
    alert_secret_file: str | None,
    **options: Any,
) -> None:
    """Serve until the process is interrupted.

    Args:
        model: as in `stream.make_keyed_bank`.
        settings: likewise.
        method: likewise.
        models: likewise.
        warm_up: likewise.
        group: likewise.
        token_file: file with the token; None for no token.
        max_body: largest request, in megabytes.
        quiet: print errors only.
        alert_secret_file: file with the key of the signature of alerts; None for no signature.
        **options: of `wolf_fleet.serve`.
    """
    token = auth.read_token(token_file)
    auth.check_host(options["host"], token)
    bank = stream.make_keyed_bank(model, settings, method, len(options["values"]), models, warm_up, group)
    server.serve(
        bank,
        options.pop("state"),
        token=token,
        max_body_bytes=round(max_body * BYTES_PER_MEGABYTE),
        alert_secret=auth.read_token(alert_secret_file),
        on_start=None if quiet else _print_address,
        log_level="error" if quiet else "warning",
        **options,
    )


def _print_address(address: str) -> None:
    click.echo(f"Serving at {address} (press Ctrl-C to stop)", err=True)
