"""What `wolf serve` does: a bank, a service around it, and a server in front."""

import socket
from typing import Any

import click

from wolf_fleet.cli import stream

MISSING = "wolf serve needs starlette and uvicorn: pip install 'wolf-filter[serve]'"
GRACE = 1  # seconds that open connections get at the end


def run(model: str, settings: tuple[str, ...], method: str | None, host: str, port: int, **options: Any) -> None:
    """Serve until somebody stops it.

    Args:
        model: as in `streaming.make_bank`.
        settings: likewise.
        method: likewise.
        host: address to listen at.
        port: 0 takes a free one.
        **options: of `wolf_fleet.Service`; `token_file`, `body` in megabytes, `quiet`.
    """
    try:
        import uvicorn

        from wolf_fleet.service import Service, auth
        from wolf_fleet.service.app import make_app
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{MISSING} ({error})") from error
    token = auth.read_token(options.pop("token_file"))
    auth.check_host(host, token)
    body, quiet = round(options.pop("body") * 1e6), options.pop("quiet")
    bank = stream.make_bank(model, settings, method, len(options["values"]))
    service = Service(bank, options.pop("state"), **options)
    app = make_app(service, token=token, body=body)
    level = "error" if quiet else "warning"
    config = uvicorn.Config(app, log_level=level, access_log=False, timeout_graceful_shutdown=GRACE)
    try:
        with _listen(host, port) as listening:
            if not quiet:
                click.echo(f"Serving at {_address(host, listening)} (Ctrl-C ends it)", err=True)
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        service.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None


def _address(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"
